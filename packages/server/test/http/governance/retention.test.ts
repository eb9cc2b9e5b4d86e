/** Retention: a run stays listed after its journal is pruned. */
import { afterEach, describe, expect, it } from 'vitest';
import { bootServer, type TestServer } from '../../support/server.ts';

let server: TestServer;
afterEach(() => server.stop());

async function endedRun(conversationId?: string): Promise<string> {
  const body = { model: 'demo', input: 'say 3', ...(conversationId ? { conversationId } : {}) };
  const response = await server.request('/v1/runs', { body });
  await response.text();
  return response.headers.get('x-run-id') ?? '';
}

async function forget(): Promise<void> {
  while ((await server.store.pruneRuns(Date.now(), 100)) > 0);
}

describe('a run with a pruned journal', () => {
  it('answers 410 for its events and streams, before a stream begins', async () => {
    server = await bootServer();
    const id = await endedRun();
    await forget();
    const paths = ['events', 'events?after=3', 'stream', 'stream?after=2&follow=false'];
    for (const path of [...paths, 'stream?dialect=chat']) {
      const response = await server.request(`/v1/runs/${id}/${path}`);
      expect([path, response.status]).toEqual([path, 410]);
      expect(await response.json()).toMatchObject({ code: 'journal_pruned' });
    }
    const stream = await server.request(`/v1/runs/${id}/stream`, {
      headers: { 'last-event-id': '2' },
    });
    expect(stream.status).toBe(410);
    const fork = await server.request(`/v1/runs/${id}/fork`, { body: { input: 'And?' } });
    expect(fork.status).toBe(410);
  });

  it('is still listed, with its usage and without its content', async () => {
    server = await bootServer();
    const id = await endedRun();
    const before = await server.json(`/v1/runs/${id}`);
    await forget();
    const after = await server.json(`/v1/runs/${id}`);
    expect(after).toMatchObject({ id, status: 'completed', usage: before['usage'], input: null });
    expect(after['output'] ?? null).toBeNull();
    const { runs } = (await server.json('/v1/runs')) as { runs: { id: string }[] };
    expect(runs.map((run) => run.id)).toEqual([id]);
  });

  it('does not prevent its conversation from continuing', async () => {
    server = await bootServer();
    const first = await server.json(`/v1/runs/${await endedRun()}`);
    await forget();
    const next = await server.json(`/v1/runs/${await endedRun(String(first['conversationId']))}`);
    expect(next).toMatchObject({ status: 'completed', conversationId: first['conversationId'] });
  });
});

describe('a session with a pruned journal', () => {
  it('is read from the first event that is kept, and answers 410 before it', async () => {
    server = await bootServer();
    const attached = await server.request('/v1/sessions/attach', {
      body: {
        handle: 'old',
        identity: { name: 'Old', kind: 'program' },
        capabilities: {
          messaging: { receive: true },
          delivery: { modes: ['on-idle'], queue: true },
          events: { emits: ['log'] },
          lifecycle: { release: true },
        },
      },
    });
    const { session, token } = (await attached.json()) as {
      session: { id: string };
      token: string;
    };
    const path = `/v1/sessions/${session.id}`;
    const report = async (message: string) => {
      const body = { type: 'log', level: 'info', message };
      expect((await server.request(`${path}/events`, { key: token, body })).status).toBe(200);
    };
    await report('old');
    const before = Date.now();
    const { prunedSeq: none, lastSeq } = (await server.store
      .tenant(server.tenantId)
      .sessions.read(session.id)) ?? { prunedSeq: -1, lastSeq: -1 };
    expect(none).toBe(0);
    while ((await server.store.sessions.prune(before, 100)) > 0);
    await report('new');
    for (const tail of ['events?after=0', `stream?after=${lastSeq - 1}`]) {
      const response = await server.request(`${path}/${tail}`);
      expect(response.status).toBe(410);
      expect(await response.json()).toMatchObject({
        code: 'journal_pruned',
        error: expect.stringContaining(`after=${lastSeq}`) as string,
      });
    }
    const kept = [{ type: 'log', message: 'new', seq: lastSeq + 1 }];
    for (const tail of ['events', `events?after=${lastSeq}`]) {
      const { events } = (await (await server.request(`${path}/${tail}`)).json()) as {
        events: unknown[];
      };
      expect(events).toMatchObject(kept);
    }
    const stream = await server.request(`${path}/stream?follow=false`);
    expect(await stream.text()).toContain(`id: ${lastSeq + 1}\n`);
    expect(await (await server.request(path)).json()).toMatchObject({
      status: 'idle',
      lastSeq: lastSeq + 1,
    });
  });
});
