/** `/v1/feed`. */
import type { StoredEvent } from '@relay/protocol';
import { afterEach, describe, expect, it } from 'vitest';
import { Feed, type FeedEvent } from '../../../src/streaming/feed.ts';
import { addKey, bootServer, type TestServer } from '../../support/server.ts';
import { finishedRun, startRun, untilStatus } from '../../support/requests.ts';
import { addSession, sendMessage } from '../../support/sessions.ts';

let server: TestServer;
afterEach(() => server.stop());

interface Listening {
  readonly received: FeedEvent[];
  leave(): void;
}

/** Follows the feed until it is closed. */
async function listen(key: string): Promise<Listening> {
  const connection = new AbortController();
  const response = await server.request('/v1/feed', { key, signal: connection.signal });
  expect(response.headers.get('content-type')).toContain('text/event-stream');
  const received: FeedEvent[] = [];
  const connected = Promise.withResolvers<void>();
  void (async () => {
    let rest = '';
    for await (const bytes of response.body ?? []) {
      rest += Buffer.from(bytes).toString();
      const frames = rest.split('\n\n');
      rest = frames.pop() ?? '';
      for (const frame of frames) {
        const hint = JSON.parse(frame.replace(/^data: /, '')) as FeedEvent & { kind: string };
        if ((hint.kind as string) === 'connected') connected.resolve();
        else received.push(hint);
      }
    }
  })().catch(() => undefined);
  await connected.promise;
  return { received, leave: () => connection.abort() };
}

async function until(test: () => boolean): Promise<void> {
  const deadline = Date.now() + 5_000;
  while (!test()) {
    if (Date.now() > deadline) throw new Error('Timed out');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

describe('the feed', () => {
  it('names sessions, messages and their deliveries, to the tenant only', async () => {
    server = await bootServer();
    const stranger = await addKey(server.store, { tenant: 'stranger' });
    const mine = await listen(server.apiKey);
    const theirs = await listen(stranger.apiKey);
    const sessionId = await addSession(server, { handle: 'ada' });
    const session = { kind: 'session', id: sessionId };
    const seen = () => mine.received.filter(({ kind }) => kind !== 'session');
    const { id, deliveries } = await sendMessage(server, { to: '@ada', text: 'Hello' });
    const delivery = { kind: 'delivery', id: deliveries[0]?.id, sessionId };
    await until(() => mine.received.some((hint) => hint.kind === 'delivery'));
    expect(seen()).toEqual([{ kind: 'message', id, channels: [] }, delivery]);
    expect(mine.received).toContainEqual(session);
    mine.received.length = 0;
    await server.request(`/v1/messages/${id}`, { method: 'PATCH', body: { text: 'Bye' } });
    await until(() => seen().length > 0);
    expect(seen()).toEqual([{ kind: 'message', id }]);
    mine.received.length = 0;
    await server.request(`/v1/messages/${id}`, { method: 'DELETE' });
    await until(() => mine.received.some((hint) => hint.kind === 'message'));
    expect(seen()).toEqual([delivery, { kind: 'message', id }]);
    expect(theirs.received).toEqual([]);
    mine.leave();
    theirs.leave();
  });

  it('names the channels of a message, and a delivery whose receipt has arrived', async () => {
    server = await bootServer();
    const sessionId = await addSession(server, { handle: 'ada', isStreaming: true });
    await server.request('/v1/channels/ops', { method: 'PUT' });
    await server.request('/v1/channels/ops/members/ada', { method: 'PUT' });
    const mine = await listen(server.apiKey);
    const { id, deliveries } = await sendMessage(server, { to: '#ops', text: 'Hello' });
    await until(() => mine.received.some((hint) => hint.kind === 'delivery'));
    expect(mine.received).toContainEqual({ kind: 'message', id, channels: ['ops'] });
    mine.received.length = 0;
    const deliveryId = deliveries[0]?.id ?? '';
    const { store } = server;
    const [session, delivery] = await Promise.all([
      store.tenant(server.tenantId).sessions.read(sessionId),
      store.tenant(server.tenantId).messages.readDelivery(deliveryId),
    ]);
    const from = [delivery?.status ?? 'accepted'];
    await store.tenant(server.tenantId).sessions.change({
      changes: [
        {
          sessionId,
          at: Date.now(),
          ifVersion: session?.version ?? 0,
          events: [],
          deliveries: [{ id: deliveryId, from, to: 'delivered' }],
        },
      ],
    });
    await until(() => mine.received.some((hint) => hint.kind === 'delivery'));
    expect(mine.received).toContainEqual({ kind: 'delivery', id: deliveryId, sessionId });
    mine.leave();
  });

  it('sends hints about changes to the tenant only', async () => {
    server = await bootServer();
    const stranger = await addKey(server.store, { tenant: 'stranger' });
    const mine = await listen(server.apiKey);
    const theirs = await listen(stranger.apiKey);
    const asked = await startRun(server, { input: 'notify me' });
    const relay = await asked.reader.until('approval_requested');
    const id = String(relay.data['id']);
    await until(() => mine.received.some((hint) => hint.kind === 'approval' && hint.id === id));
    expect(mine.received).toContainEqual({ kind: 'run', id: asked.runId });
    await untilStatus(server, asked.runId, 'waiting');
    mine.received.length = 0;
    await server.request(`/v1/approvals/${id}`, { body: { approved: false } });
    await untilStatus(server, asked.runId, 'completed');
    await until(() => mine.received.some((hint) => hint.kind === 'approval' && hint.id === id));
    await until(() => mine.received.some((hint) => hint.kind === 'run' && hint.id === asked.runId));
    expect(theirs.received).toEqual([]);
    mine.leave();
    theirs.leave();
    await asked.reader.disconnect();
  });

  it('sends no content', async () => {
    server = await bootServer();
    const mine = await listen(server.apiKey);
    const { runId } = await finishedRun(server, { input: 'say 50' });
    await until(() => mine.received.length > 0);
    for (const hint of mine.received) expect(hint).toEqual({ kind: 'run', id: runId });
    expect(mine.received.length).toBeLessThan(10);
    mine.leave();
  });

  it('releases its readers when they disconnect', async () => {
    server = await bootServer();
    for (let n = 0; n < 20; n += 1) (await listen(server.apiKey)).leave();
    await until(() => server.relay.feed.size === 0);
  });
});

describe('a slow feed reader', () => {
  it('receives one hint per run or approval, and `all` on overflow', async () => {
    server = await bootServer();
    const feed = new Feed();
    const connection = new AbortController();
    const reader = feed.read('t', connection.signal)[Symbol.asyncIterator]();
    const placed: StoredEvent = {
      type: 'run.resumed',
      progress: { partialOutput: '', toolsInvoked: [] },
      seq: 1,
      at: '2026-01-01T00:00:00.000Z',
    };
    for (let n = 0; n < 3; n += 1) feed.publish('t', 'run-1', [placed]);
    expect((await reader.next()).value).toEqual([{ kind: 'run', id: 'run-1' }]);
    for (let n = 0; n < 5_000; n += 1) feed.publish('t', `run-${n}`, [placed]);
    expect((await reader.next()).value).toEqual([{ kind: 'all' }]);
    const waiting = reader.next();
    connection.abort();
    expect((await waiting).done).toBe(true);
    expect(feed.size).toBe(0);
  });

  it('receives one hint for many deliveries of a session, and each for the few of another', async () => {
    server = await bootServer();
    const feed = new Feed();
    const connection = new AbortController();
    const reader = feed.read('t', connection.signal)[Symbol.asyncIterator]();
    for (let n = 0; n < 500; n += 1) {
      feed.add('t', { kind: 'delivery', id: `d-${n}`, sessionId: 'busy' });
    }
    for (const id of ['one', 'other', 'one']) {
      feed.add('t', { kind: 'delivery', id, sessionId: 'quiet' });
    }
    expect((await reader.next()).value).toEqual([
      { kind: 'delivery', sessionId: 'busy' },
      { kind: 'delivery', id: 'one', sessionId: 'quiet' },
      { kind: 'delivery', id: 'other', sessionId: 'quiet' },
    ]);
    feed.add('t', { kind: 'delivery', id: 'd-1', sessionId: 'busy' });
    expect((await reader.next()).value).toEqual([
      { kind: 'delivery', id: 'd-1', sessionId: 'busy' },
    ]);
    connection.abort();
  });
});
