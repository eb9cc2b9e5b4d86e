/** `/api/chat/resume`. */
import { randomUUID } from 'node:crypto';
import type { RunRecord, SystemStore, TenantStore } from '@relay/core';
import { createMemoryStore } from '@relay/store';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { typesOf } from '../../support/frames.ts';
import { addKey, bootServer, type TestServer, until } from '../../support/server.ts';
import {
  decideCall,
  eventsOf,
  resumeRun,
  startApiChat,
  startRun,
  statusOf,
  untilStatus,
} from '../../support/requests.ts';

const missing = '01963a5c-7891-7abc-8ef0-123456789abc';

describe('/api/chat/resume', () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await bootServer();
  });

  afterAll(async () => {
    await server.stop();
  });

  async function waiting(text: string) {
    const talk = await startApiChat(server, `notify ${text}`);
    await untilStatus(server, talk.runId, 'waiting');
    const body = { runId: talk.runId, toolCallId: 'call_1', action: 'reject' };
    return { ...talk, decide: () => decideCall(server, body) };
  }

  /** The seq of the checkpoint of a run, and the last seq of its journal. */
  async function placesOf(runId: string) {
    const { checkpoint, lastSeq } = (await server.json(`/v1/runs/${runId}`)) as {
      checkpoint: { serializedRunState: string };
      lastSeq: number;
    };
    const { seq } = JSON.parse(checkpoint.serializedRunState) as { seq: number };
    return { seq, lastSeq };
  }

  it('answers at once for a waiting run, with the events since its checkpoint', async () => {
    const { runId, reader, decide } = await waiting('resumed');
    const { code, body, events } = await resumeRun(server, runId);
    expect(code).toBe(200);
    expect(Object.keys(body).toSorted()).toEqual(['events', 'ok', 'runId', 'status']);
    expect(body).toMatchObject({ ok: true, runId, status: 'waiting' });
    const { seq } = await placesOf(runId);
    const { data: asked } = await reader.until('tool_approval_requested');
    const { data: progress, id } = await reader.until('agent_progress');
    expect(progress).toMatchObject({ status: 'waiting' });
    expect(events).toEqual([asked, ...(Number(id) > seq ? [progress] : [])]);
    // It changed nothing, and can be repeated.
    expect(await resumeRun(server, runId)).toEqual({ code, body, events });
    expect(await statusOf(server, runId)).toBe('waiting');
    await decide();
    await reader.rest();
  });

  it.each([
    ['say 2', 'succeeded'],
    ['fail 400', 'failed'],
  ])('answers at once for an ended run: %s', async (message, status) => {
    const { runId, reader } = await startApiChat(server, message);
    await reader.rest();
    const { seq, lastSeq } = await placesOf(runId);
    expect(seq).toBe(lastSeq);
    expect((await resumeRun(server, runId)).body).toEqual({ ok: true, runId, status, events: [] });
  });

  it('answers at once for a run that was canceled', async () => {
    const { runId, reader } = await waiting('canceled');
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    await reader.rest();
    const { body } = await resumeRun(server, runId);
    expect(body).toEqual({ ok: true, runId, status: 'canceled', events: [] });
  });

  it('follows an active run from its checkpoint to its end', async () => {
    const { runId, reader } = await startApiChat(server, 'slow 1000');
    await reader.until('text_delta');
    const { seq } = await placesOf(runId);
    const { body, events } = await resumeRun(server, runId);
    expect(body).toMatchObject({ ok: true, runId, status: 'succeeded' });
    const frames = await reader.rest();
    expect(events).toEqual(frames.filter(({ id }) => Number(id) > seq).map(({ data }) => data));
    expect(events.at(-1)).toMatchObject({ type: 'done', status: 'succeeded' });
    expect(typesOf((await eventsOf(server, runId)).events)).not.toContain('turn.discarded');
  });

  it('follows an active run until it waits for a person', async () => {
    const slow = { tools: ['agent', 'send_note'].map((name) => ({ name, kind: 'builtin' })) };
    const input = 'use agent {"prompt":"slow 800"}\nuse send_note {"to":"a","text":"b"}';
    const { runId, reader } = await startRun(server, { ...slow, input });
    await reader.until('approval_requested');
    expect(await statusOf(server, runId)).toBe('running');
    const { body, events } = await resumeRun(server, runId);
    expect(body['status']).toBe('waiting');
    expect(events.at(-1)).toMatchObject({ type: 'agent_progress', status: 'waiting' });
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    await reader.rest();
  });

  it('waits for a queued run, and returns all its events', async () => {
    const narrow = await bootServer({ env: { RELAY_MAX_ACTIVE_RUNS: '1' } });
    onTestFinished(() => narrow.stop());
    const first = await startApiChat(narrow, 'slow 60000');
    await first.reader.until('text_delta');
    const second = await startApiChat(narrow, 'say 3');
    expect(await statusOf(narrow, second.runId)).toBe('queued');
    let answered = false;
    const resuming = resumeRun(narrow, second.runId).finally(() => {
      answered = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(answered).toBe(false);
    await narrow.request(`/v1/runs/${first.runId}/cancel`, { method: 'POST' });
    const { body, events } = await resuming;
    expect(body).toMatchObject({ runId: second.runId, status: 'succeeded' });
    expect(events).toEqual((await second.reader.rest()).map(({ data }) => data));
    await first.reader.rest();
  });

  it('can be called concurrently, and the run is driven once', async () => {
    const { runId, reader } = await startApiChat(server, 'slow 800');
    await reader.until('text_delta');
    const results = await Promise.all(Array.from({ length: 10 }, () => resumeRun(server, runId)));
    for (const { body } of results) expect(body).toMatchObject({ status: 'succeeded' });
    for (const { events } of results) expect(events).toEqual(results[0]?.events);
    const { events } = await eventsOf(server, runId);
    expect(events.filter(({ type }) => type === 'turn.started')).toHaveLength(1);
    await reader.rest();
  });

  it('answers 404 for an unknown run and for one of another tenant', async () => {
    const { runId, reader, decide } = await waiting('mine alone');
    const stranger = await addKey(server.store, { tenant: 'stranger' });
    const nobodys = await resumeRun(server, missing);
    expect(nobodys.code).toBe(404);
    expect(await resumeRun(server, runId, { key: stranger.apiKey })).toEqual(nobodys);
    await decide();
    await reader.rest();
  });

  it.each<[string, unknown, string]>([
    ['nothing', {}, 'runId'],
    ['a runId of null', { runId: null }, 'runId'],
    ['an empty runId', { runId: '' }, 'runId'],
    ['a runId that is no id', { runId: 'mine' }, 'runId'],
    ['a runId that is no text', { runId: 7 }, 'runId'],
    ['a list', { runId: [missing] }, 'runId'],
    ['an unknown field', { runId: missing, force: true }, 'force'],
  ])('refuses %s with 400 and the field’s path', async (_what, body, path) => {
    const response = await server.request('/api/chat/resume', { body });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      code: 'invalid_request',
      details: [{ path }],
    });
  });

  it('needs the scope runs', async () => {
    const { apiKey: key } = await addKey(server.store, { scopes: ['approve', 'admin'] });
    expect((await resumeRun(server, missing, { key })).code).toBe(403);
  });
});

/** A store whose runs read back differently than they were written. */
function rewritten(
  inner: SystemStore,
  change: (run: RunRecord) => Partial<RunRecord>,
): SystemStore {
  const tenant = (of: TenantStore): TenantStore =>
    new Proxy(of, {
      get(target, name) {
        if (name !== 'readRun') return bound(target, name);
        return async (runId: string) => {
          const run = await target.readRun(runId);
          return run === undefined ? undefined : { ...run, ...change(run) };
        };
      },
    });
  return new Proxy(inner, {
    get: (target, name) =>
      name === 'tenant' ? (id: string) => tenant(target.tenant(id)) : bound(target, name),
  });
}

function bound(target: object, name: PropertyKey): unknown {
  const value: unknown = Reflect.get(target, name);
  return typeof value === 'function' ? (value.bind(target) as unknown) : value;
}

describe('a run with a damaged checkpoint', () => {
  /** Runs of such a server read back as they are until `harm` is called. */
  async function harmed(change: (run: RunRecord) => Partial<RunRecord>) {
    let harmful = false;
    const store = rewritten(createMemoryStore(), (run) => (harmful ? change(run) : {}));
    const server = await bootServer({ store });
    onTestFinished(() => server.stop());
    return {
      server,
      harm: () => {
        harmful = true;
      },
    };
  }

  it('cannot be resumed without a checkpoint: 409', async () => {
    const { server, harm } = await harmed(() => ({ checkpoint: null }));
    const { runId, reader } = await startApiChat(server, 'say 1');
    await reader.rest();
    harm();
    const { code, body } = await resumeRun(server, runId);
    expect(code).toBe(409);
    expect(body).toEqual({
      error: `The run ${runId} has no checkpoint to resume from`,
      code: 'checkpoint_missing',
    });
  });

  it.each([
    ['nothing', null],
    ['damaged', '{"pendingApproval":'],
    ['no object', '"pendingApproval"'],
    ['a pending approval of null', '{"pendingApproval":null}'],
    ['a pending approval without a call', '{"pendingApproval":{}}'],
  ])('cannot be resumed from an output that is %s: 409', async (_what, outputJson) => {
    const { server, harm } = await harmed(() => ({ checkpoint: null, outputJson }));
    const { runId, reader } = await startApiChat(server, 'notify somebody');
    await untilStatus(server, runId, 'waiting');
    harm();
    expect(await resumeRun(server, runId)).toMatchObject({
      code: 409,
      body: { code: 'checkpoint_missing' },
    });
    const decision = { runId, toolCallId: 'call_1', action: 'reject' };
    expect(await decideCall(server, decision)).toMatchObject({
      code: 500,
      body: { code: 'approval_state_missing' },
    });
    // The approval is stored, and can be decided by its own id.
    const { approvals } = (await server.json(`/v1/approvals?runId=${runId}`)) as {
      approvals: { id: string }[];
    };
    const body = { approved: false };
    await server.request(`/v1/approvals/${approvals[0]?.id}`, { body });
    await reader.rest();
  });

  it('is resumed from its beginning if its output names a pending approval', async () => {
    const { server, harm } = await harmed(() => ({ checkpoint: null }));
    const { runId, reader } = await startApiChat(server, 'notify somebody');
    await untilStatus(server, runId, 'waiting');
    harm();
    const { code, body, events } = await resumeRun(server, runId);
    expect(code).toBe(200);
    expect(body).toMatchObject({ ok: true, runId, status: 'waiting' });
    expect(typesOf(events)).toEqual([
      'agent_progress',
      'tool_approval_requested',
      'agent_progress',
    ]);
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    await reader.rest();
  });

  const state = (fields: object) => JSON.stringify(fields);
  const envelope = (run: RunRecord, serializedRunState: string, version = 1) =>
    JSON.stringify({
      ...(JSON.parse(run.checkpoint ?? '{}') as object),
      version,
      serializedRunState,
    });

  it.each<[string, (run: RunRecord) => string, RegExp]>([
    [
      'of another version',
      (run) => envelope(run, '{}', 2),
      /version 2; this server reads version 1/,
    ],
    ['no JSON', () => '{"version":1', /not JSON/],
    ['no envelope', () => '{"version":1}', /malformed/],
    ['null', () => 'null', /version undefined/],
    ['of a state that is no JSON', (run) => envelope(run, 'x'), /malformed/],
    ['of a state that is no object', (run) => envelope(run, '7'), /malformed/],
    ['without a place', (run) => envelope(run, state({ runId: run.id })), /malformed/],
    [
      'of a position before the start',
      (run) => envelope(run, state({ runId: run.id, seq: -1 })),
      /malformed/,
    ],
    ['of half a place', (run) => envelope(run, state({ runId: run.id, seq: 1.5 })), /malformed/],
    [
      'of a position past the end',
      (run) => envelope(run, state({ runId: run.id, seq: run.lastSeq + 1 })),
      /malformed/,
    ],
    [
      'of another run',
      (run) => envelope(run, state({ runId: randomUUID(), seq: run.lastSeq })),
      /malformed/,
    ],
  ])('is answered with an error if it is %s', async (_what, checkpointOf, message) => {
    const { server, harm } = await harmed((run) => ({ checkpoint: checkpointOf(run) }));
    const { runId, reader } = await startApiChat(server, 'say 1');
    await reader.rest();
    harm();
    const { code, body } = await resumeRun(server, runId);
    expect(code).toBe(500);
    expect(body).toEqual({ code: 'journal_corrupt', error: expect.stringMatching(message) });
    await until(async () => (await server.request('/health')).ok, 'the server');
  });

  it('is not decided by an approval of another run that its output names', async () => {
    let named: string | undefined;
    const { server, harm } = await harmed(({ outputJson }) => ({
      outputJson: (outputJson ?? '').replace(
        /"approvalId":"[^"]+"/g,
        `"approvalId":"${named ?? ''}"`,
      ),
    }));
    const [one, two] = [
      await startApiChat(server, 'notify one'),
      await startApiChat(server, 'notify two'),
    ];
    await untilStatus(server, one.runId, 'waiting');
    await untilStatus(server, two.runId, 'waiting');
    const { approvals } = (await server.json(`/v1/approvals?runId=${two.runId}`)) as {
      approvals: { id: string }[];
    };
    named = approvals[0]?.id;
    harm();
    const body = { runId: one.runId, toolCallId: 'call_1', action: 'approve' };
    expect(await decideCall(server, body)).toMatchObject({
      code: 500,
      body: { code: 'approval_state_missing' },
    });
    expect(server.notes()).toEqual([]);
    for (const { runId } of [one, two]) {
      expect(await statusOf(server, runId)).toBe('waiting');
      await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    }
    await Promise.all([one.reader.rest(), two.reader.rest()]);
  });
});
