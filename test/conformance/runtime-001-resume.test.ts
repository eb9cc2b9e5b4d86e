/** 001: POST /api/chat/resume, and the persisted state that it reads. */
import { randomUUID } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { resumeSerializedAgentRun } from '@relay/core';
import { createScriptedModel, finish, ManualClock, text } from '@relay/core/testing';
import { createMemoryStore } from '@relay/store';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { FrameReader } from '../support/frames.ts';
import { ask, bootKernel, untilStatus } from '../support/kernel.ts';
import { TestServer } from '../support/server.ts';
import {
  askFor,
  decide,
  note,
  post,
  resume,
  RunRow,
  say,
  statusOf,
  typesOf,
} from './runtime-client.ts';
import { after, calls, says, type Scripted, startScripted } from './scripted.ts';
import { verifies } from './verifies.ts';

const server = new TestServer();
let scripted: Scripted;
beforeAll(async () => {
  await server.start();
  scripted = await startScripted();
});
afterAll(async () => {
  await server.dispose();
  await scripted.dispose();
});

interface Envelope {
  readonly version: number;
  readonly serializedRunState: string;
  readonly checkpoint: { readonly kind: string };
}

function envelopeOf(of: TestServer, runId: string): Envelope {
  return JSON.parse(new RunRow(of, runId).read().state ?? 'null') as Envelope;
}

/** The whole run in the words of /api/chat, with the place of each event. */
async function framesOf(runId: string) {
  const path = `/v1/runs/${runId}/stream?dialect=runtime&follow=false`;
  return new FrameReader(await server.request(path)).rest();
}

/** As the store sums up what it writes. */
function rewrite(runId: string, envelope: object): void {
  const state = JSON.stringify(envelope);
  new RunRow(server, runId).change(
    'serialized_state = ?, state_checksum = ?',
    state,
    crc32(`${runId}\n${state}`),
  );
}

describe('POST /api/chat/resume', () => {
  test('resumes a run that kill -9 interrupted, and streams the rest', async () => {
    verifies(
      '001:resume:endpoint',
      '001:resume:body',
      '001:resume:response',
      '001:resume-flow:client-call',
      '001:resume-flow:response-status',
      '001:resume-flow:response-events',
    );
    const { runId, reader } = await say(server, 'slow 1500');
    await reader.until('text_delta');
    await server.kill();
    await reader.rest().catch(() => undefined);
    const { serializedRunState } = envelopeOf(server, runId);
    const { seq } = JSON.parse(serializedRunState) as { seq: number };
    await server.start();
    const { status, body, events } = await resume(server, runId);
    expect(status).toBe(200);
    expect(Object.keys(body).toSorted()).toEqual(['events', 'ok', 'runId', 'status']);
    expect(body).toMatchObject({ ok: true, runId, status: 'succeeded' });
    // The answer that was cut short is void, and a whole one follows.
    expect(typesOf(events)).toContain('text_reset');
    expect(events.at(-1)).toMatchObject({ type: 'done', runId, status: 'succeeded' });
    const since = (await framesOf(runId)).filter(({ id }) => (id ?? 0) > seq);
    expect(events).toEqual(since.map(({ data }) => data));
  });

  test('says at once that a run waits, also after a restart', async () => {
    verifies('001:resume-flow:response-status');
    const { runId, asked, reader } = await askFor(server, note('still waiting'));
    await server.kill();
    await reader.close().catch(() => undefined);
    await server.start();
    const { body, events } = await resume(server, runId);
    expect(body).toMatchObject({ ok: true, runId, status: 'waiting' });
    expect(typesOf(events)).not.toContain('done');
    const decision = { runId, toolCallId: asked['toolCallId'], action: 'reject' };
    expect((await decide(server, decision)).events.at(-1)).toMatchObject({ type: 'done' });
    expect((await resume(server, runId)).body).toEqual({
      ok: true,
      runId,
      status: 'succeeded',
      events: [],
    });
  });

  test('is 400 without runId', async () => {
    verifies('001:resume:body-required');
    for (const body of [{}, { runId: null }, { runId: '' }, [], { run: randomUUID() }]) {
      const response = await post(server, '/api/chat/resume', { body });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({
        error: 'runId is required',
        details: [{ path: 'runId', message: 'Required' }],
      });
    }
  });

  test('is 404 for a run that does not exist', async () => {
    verifies('001:resume-flow:loads-by-run-and-org');
    const { status, body } = await resume(server, randomUUID());
    expect(status).toBe(404);
    expect(body).toMatchObject({ error: expect.any(String) });
  });

  test('drives runs by resumeSerializedAgentRun, a function for programs too', async () => {
    verifies('001:resume-flow:function');
    const store = createMemoryStore();
    const model = createScriptedModel([[text('Resumed.'), finish()]]);
    // Its clock stands still, so that it finds no run by looking around.
    const kernel = await bootKernel({ store, model, clock: new ManualClock() });
    onTestFinished(() => kernel.stop());
    const gone = await bootKernel({ store, model });
    await gone.stop();
    const run = await ask(gone);
    const ref = { tenantId: run.tenantId, runId: run.id };
    expect((await store.tenant(run.tenantId).readRun(run.id))?.status).toBe('queued');
    const resumed = await resumeSerializedAgentRun(kernel.control, ref);
    expect(resumed).toMatchObject({ run: { id: run.id }, after: 0 });
    await untilStatus(kernel, run.id, 'completed');
    expect(model.requests).toHaveLength(1);
    const elsewhere = { ...ref, tenantId: randomUUID() };
    expect(await resumeSerializedAgentRun(kernel.control, elsewhere)).toBeUndefined();
  });
});

describe('the checkpoint', () => {
  test('is read from runs.serialized_state, and from the pending approval without one', async () => {
    verifies('001:resume-flow:primary-state', '001:resume-flow:legacy-fallback');
    const { runId, asked, reader } = await askFor(server, note('an older row'));
    const whole = await framesOf(runId);
    const { serializedRunState } = envelopeOf(server, runId);
    const { seq } = JSON.parse(serializedRunState) as { seq: number };
    expect(seq).toBeGreaterThan(whole[0]?.id ?? 0);
    const since = (place: number) =>
      whole.filter(({ id }) => (id ?? 0) > place).map(({ data }) => data);
    const primary = await resume(server, runId);
    expect(primary.events).toEqual(since(seq));
    new RunRow(server, runId).change('serialized_state = NULL, state_checksum = NULL');
    const fallback = await resume(server, runId);
    expect(fallback.body).toMatchObject({ ok: true, runId, status: 'waiting' });
    expect(fallback.events).toEqual(since(0));
    expect(fallback.events.length).toBeGreaterThan(primary.events.length);
    // Such a run is decided and goes on like any other, also after a restart.
    await server.kill();
    await reader.close().catch(() => undefined);
    await server.start();
    const decision = { runId, toolCallId: asked['toolCallId'], action: 'approve' };
    const { events } = await decide(server, decision);
    expect(events.at(-1)).toMatchObject({ type: 'done', status: 'succeeded' });
    expect(server.notes.filter((each) => each.text === 'an older row')).toHaveLength(1);
    expect(envelopeOf(server, runId).checkpoint.kind).toBe('final_result');
  });

  test('is what a resume begins from: another position, other events', async () => {
    verifies('001:resume-flow:primary-state');
    const { runId, reader } = await say(server, 'calculate 6*7');
    await reader.rest();
    const whole = await framesOf(runId);
    const envelope = envelopeOf(server, runId);
    const state = JSON.parse(envelope.serializedRunState) as object;
    for (const { id } of whole) {
      const serializedRunState = JSON.stringify({ ...state, seq: id });
      rewrite(runId, { ...envelope, serializedRunState });
      const { body, events } = await resume(server, runId);
      expect(body).toMatchObject({ ok: true, status: 'succeeded' });
      expect(events).toEqual(
        whole.filter((frame) => (frame.id ?? 0) > (id ?? 0)).map(({ data }) => data),
      );
    }
  });

  test('that is missing altogether is an explicit error', async () => {
    verifies('001:failure:resume-without-checkpoint');
    const ended = await say(server, 'say 1');
    await ended.reader.rest();
    const waiting = await askFor(server, note('no state'));
    for (const { runId } of [ended, waiting]) {
      const missing = 'serialized_state = NULL, state_checksum = NULL, output_json = NULL';
      new RunRow(server, runId).change(missing);
      const { status, body } = await resume(server, runId);
      expect(status).toBe(409);
      expect(body).toEqual({
        error: `The run ${runId} has no checkpoint to resume from`,
        code: 'checkpoint_missing',
      });
    }
    expect(await statusOf(server, waiting.runId)).toBe('waiting');
  });

  test('of another version, or damaged, is a clear error and nothing runs', async () => {
    verifies('001:failure:resume-without-checkpoint');
    const { runId } = await askFor(server, note('of the future'));
    const envelope = envelopeOf(server, runId);
    rewrite(runId, { ...envelope, version: 2 });
    expect(await resume(server, runId)).toMatchObject({
      status: 500,
      body: {
        error: 'The checkpoint has version 2; this server reads version 1',
        code: 'journal_corrupt',
      },
    });
    new RunRow(server, runId).change('serialized_state = ?', JSON.stringify(envelope));
    const damaged = await resume(server, runId);
    expect(damaged).toMatchObject({ status: 500, body: { code: 'journal_corrupt' } });
    expect(damaged.body['error']).toContain('does not match its checksum');
    expect(server.notes.filter((each) => each.text === 'of the future')).toEqual([]);
    expect((await server.request('/health')).status).toBe(200);
  });

  test('of kind resume_request is written when a run starts, and when it is resumed', async () => {
    verifies('001:checkpoint:kind-resume-request');
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const call = { id: 'call_1', name: 'send_note', input: { to: 'ann', text: 'resumed' } };
    scripted.play(
      after(gates[0]?.promise ?? Promise.resolve(), calls(call)),
      after(gates[1]?.promise ?? Promise.resolve(), says('Never mind.')),
    );
    const { runId, reader } = await say(scripted.server, 'Begin', {
      body: { model: 'gpt-4o-mini' },
    });
    const kind = () => envelopeOf(scripted.server, runId).checkpoint.kind;
    await expect.poll(() => scripted.asked().length).toBe(1);
    expect(kind()).toBe('resume_request');
    gates[0]?.resolve();
    await reader.until('tool_approval_requested');
    await expect.poll(() => statusOf(scripted.server, runId)).toBe('waiting');
    expect(kind()).toBe('approval_pending');
    const decision = { runId, toolCallId: 'call_1', action: 'reject' };
    const deciding = decide(scripted.server, decision);
    await expect.poll(() => scripted.asked().length).toBe(2);
    // The model is asked while that is still being stored.
    await expect.poll(kind).toBe('resume_request');
    gates[1]?.resolve();
    expect((await deciding).events.at(-1)).toMatchObject({ type: 'done' });
    expect(kind()).toBe('final_result');
    await reader.rest();
  });

  test('contains the text of the agent so far', async () => {
    verifies('001:checkpoint:partial-output-note');
    const noteIn = (runId: string) =>
      (envelopeOf(server, runId).checkpoint as { note?: string }).note;
    const talking = await askFor(server, `use nothing {}\n${note('with words')}`);
    expect(noteIn(talking.runId)).toBe('I have no tool named nothing.');
    const silent = await askFor(server, note('without words'));
    expect(noteIn(silent.runId)).toBeUndefined();
    const decision = { runId: talking.runId, toolCallId: 'call_1', action: 'reject' };
    await decide(server, decision);
    expect(envelopeOf(server, talking.runId).checkpoint.kind).toBe('final_result');
    expect(noteIn(talking.runId)).toBeUndefined();
  });
});
