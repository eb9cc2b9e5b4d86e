import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { RelayApiError } from '../../src/errors.ts';
import { type Disconnect, framesOf, type FrameSource } from '../../src/streaming/frames.ts';
import { Http } from '../../src/http.ts';
import { FakeServer, FakeStream, options, refusal } from '../support/fake-server.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Reads on in the background and keeps what came. */
class Reader {
  readonly ids: string[] = [];
  readonly disconnects: Disconnect[] = [];
  readonly gone = new AbortController();
  ended: unknown = undefined;

  constructor(server: FakeServer, more: Partial<FrameSource> = {}) {
    const http = new Http({ ...options, fetch: server.fetch });
    const frames = framesOf({
      open: (after, signal) =>
        http.stream('GET', '/s', {
          headers: { 'last-event-id': String(after) },
          signal,
          maxRetries: 0,
        }),
      after: 0,
      signal: this.gone.signal,
      onDisconnect: (disconnect) => this.disconnects.push(disconnect),
      ...more,
    });
    void this.#read(frames).catch((error: unknown) => (this.ended = error));
  }

  async #read(frames: AsyncIterable<{ id: string }>): Promise<void> {
    for await (const { id } of frames) this.ids.push(id);
  }
}

const later = (ms: number) => vi.advanceTimersByTimeAsync(ms);
const lastIds = (server: FakeServer) =>
  server.requests.map(({ headers }) => headers['last-event-id']);

describe('reconnecting stream', () => {
  test('resumes after the last complete frame', async () => {
    const first = new FakeStream().frame(3, {}).frame(5, {}).raw('id: 6\ndata: {"half');
    const second = new FakeStream().frame(6, {}).frame(7, {});
    const server = FakeServer.respondingWith(
      () => first.response,
      () => second.response,
    );
    const reader = new Reader(server);
    await later(0);
    expect(reader.ids).toEqual(['3', '5']);
    first.end();
    await later(300);
    expect(reader.ids).toEqual(['3', '5', '6', '7']);
    expect(lastIds(server)).toEqual(['0', '5']);
    expect(reader.disconnects).toMatchObject([{ attempt: 1, error: { code: 'network_error' } }]);
    reader.gone.abort('bye');
    await later(0);
    expect(reader.ended).toBe('bye');
    expect(second.closed).toBe(true);
  });

  test('resumes after a connection error', async () => {
    const first = new FakeStream().frame(1, {});
    const server = FakeServer.respondingWith(
      () => first.response,
      () => new FakeStream().frame(2, {}).response,
    );
    const reader = new Reader(server);
    await later(0);
    first.break();
    await later(300);
    expect(reader.ids).toEqual(['1', '2']);
    reader.gone.abort('bye');
  });

  test('resumes after 45 seconds of silence', async () => {
    const first = new FakeStream().frame(1, {});
    const server = FakeServer.respondingWith(
      () => first.response,
      () => new FakeStream().frame(2, {}).response,
    );
    const reader = new Reader(server);
    for (let beat = 0; beat < 10; beat += 1) {
      await later(15_000);
      first.raw(': heartbeat\n\n');
    }
    expect(server.requests).toHaveLength(1);
    await later(45_400);
    expect(first.closed).toBe(true);
    expect(reader.ids).toEqual(['1', '2']);
    reader.gone.abort('bye');
  });

  test('backs off until a frame arrives', async () => {
    const server = new FakeServer((_, nth) =>
      nth === 5 ? new FakeStream().frame(1, {}).end().response : new TypeError('fetch failed'),
    );
    const reader = new Reader(server);
    await later(30_000);
    const attempts = reader.disconnects.map(({ attempt }) => attempt);
    expect(attempts.slice(0, 8)).toEqual([1, 2, 3, 4, 5, 1, 2, 3]);
    const [a, , , , e] = reader.disconnects.map(({ delayMs }) => delayMs);
    expect(a).toBeLessThanOrEqual(250);
    expect(e).toBeGreaterThanOrEqual(2000);
    reader.gone.abort('bye');
  });

  test('backs off if the server closes each connection at once', async () => {
    const server = new FakeServer(() => new FakeStream().end().response);
    const reader = new Reader(server);
    await later(10_000);
    expect(server.requests.length).toBeLessThan(10);
    reader.gone.abort('bye');
  });

  test('waits for Retry-After before it reconnects', async () => {
    const server = FakeServer.respondingWith(
      () => refusal(503, 'shutting_down', { 'retry-after': '30' }),
      () => new FakeStream().frame(1, {}).response,
    );
    const reader = new Reader(server);
    await later(29_000);
    expect(server.requests).toHaveLength(1);
    await later(1_100);
    expect(reader.ids).toEqual(['1']);
    reader.gone.abort('bye');
  });
});

describe('stream that cannot be resumed', () => {
  test.each([
    [401, 'unauthorized'],
    [404, 'not_found'],
    [409, 'cursor_past_end'],
  ])('throws the error of a %i', async (status, code) => {
    const server = FakeServer.respondingWith(
      () => new FakeStream().frame(1, {}).end().response,
      () => refusal(status, code),
    );
    const reader = new Reader(server);
    await later(60_000);
    expect(reader.ids).toEqual(['1']);
    expect(reader.ended).toMatchObject({ status, code });
    expect(server.requests).toHaveLength(2);
  });

  test('gives up after reconnectTimeoutMs without contact', async () => {
    const server = FakeServer.respondingWith(() => new TypeError('fetch failed'));
    const reader = new Reader(server, { reconnectTimeoutMs: 60_000 });
    await later(50_000);
    expect(reader.ended).toBeUndefined();
    await later(20_000);
    expect(reader.ended).toMatchObject({ code: 'network_error' });
    expect((reader.ended as RelayApiError).message).toContain('fetch failed');
    const { length } = server.requests;
    await later(120_000);
    expect(server.requests).toHaveLength(length);
  });

  test('counts heartbeats as contact: a quiet stream is resumed after any time', async () => {
    const first = new FakeStream();
    const server = FakeServer.respondingWith(
      () => first.response,
      () => new FakeStream().frame(1, {}).response,
    );
    const reader = new Reader(server, { reconnectTimeoutMs: 60_000 });
    for (let beat = 0; beat < 10; beat += 1) {
      await later(15_000);
      first.raw(': heartbeat\n\n');
    }
    first.end();
    await later(300);
    expect(reader.ended).toBeUndefined();
    expect(reader.ids).toEqual(['1']);
    reader.gone.abort('bye');
  });

  test('gives up on a frame that is too long', async () => {
    const piece = 'x'.repeat(1024 * 1024);
    const server = FakeServer.respondingWith(() => {
      const stream = new FakeStream().raw('data: ');
      for (let n = 0; n < 17; n += 1) stream.raw(piece);
      return stream.response;
    });
    const reader = new Reader(server);
    await later(1000);
    expect(reader.ended).toBeInstanceOf(RangeError);
    expect(server.requests).toHaveLength(1);
  });
});

describe('reader of a stream', () => {
  test('closes the connection and its timers when it stops', async () => {
    const stream = new FakeStream().frame(1, {});
    const server = FakeServer.respondingWith(() => stream.response);
    const http = new Http({ ...options, fetch: server.fetch });
    const open = () => http.stream('GET', '/s', { maxRetries: 0 });
    const signal = new AbortController().signal;
    for await (const _ of framesOf({ open, after: 0, signal })) break;
    expect(stream.closed).toBe(true);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('can stop between two attempts', async () => {
    const server = FakeServer.respondingWith(() => new TypeError('fetch failed'));
    const reader = new Reader(server);
    await later(1000);
    reader.gone.abort('bye');
    await later(0);
    expect(reader.ended).toBe('bye');
    expect(vi.getTimerCount()).toBe(0);
  });

  test('can start with an open response', async () => {
    const first = new FakeStream().frame(1, {});
    const server = FakeServer.respondingWith(() => new FakeStream().frame(2, {}).response);
    const reader = new Reader(server, { first: first.response });
    await later(0);
    expect(reader.ids).toEqual(['1']);
    expect(server.requests).toHaveLength(0);
    first.end();
    await later(300);
    expect(lastIds(server)).toEqual(['1']);
    expect(reader.ids).toEqual(['1', '2']);
    reader.gone.abort('bye');
  });
});
