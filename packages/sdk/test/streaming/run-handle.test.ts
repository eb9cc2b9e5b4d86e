import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createClient } from '../../src/client.ts';
import { RelayApiError } from '../../src/errors.ts';
import {
  collect,
  done,
  FakeServer,
  FakeStream,
  json,
  options,
  streamOf,
} from '../support/fake-server.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const later = (ms: number) => vi.advanceTimersByTimeAsync(ms);
const token = (text: string) => ({ type: 'token', text });

function clientOf(...answers: readonly (() => Response | Error)[]) {
  const server = FakeServer.respondingWith(...answers);
  return { server, runs: createClient({ ...options, fetch: server.fetch }).runs };
}

const lastIds = (server: FakeServer) =>
  server.requests.map(({ headers }) => headers['last-event-id']);

describe('RunHandle of a run that ended before `after`', () => {
  const nothing = () => new Response(null, { status: 204 });
  const ended = {
    id: 'run-1',
    status: 'completed',
    output: 'Hello',
    agent: 'assistant',
    usage: { input_tokens: 1, output_tokens: 2, reasoning_tokens: 3 },
  };
  const usage = { inputTokens: 1, outputTokens: 2, reasoningTokens: 3 };
  const result = { id: 'run-1', status: 'completed', output: 'Hello', agent: 'assistant', usage };

  test('yields no events, and sends no second request', async () => {
    const { server, runs } = clientOf(nothing);
    const run = runs.stream('run-1', { after: 9 });
    expect(await collect(run)).toEqual([]);
    expect(await collect(run)).toEqual([]);
    expect(server.lines).toEqual(['GET /v1/runs/run-1/stream']);
  });

  test('reads the result from the run', async () => {
    const { server, runs } = clientOf(nothing, () => json(200, ended));
    const run = runs.stream('run-1', { after: 9 });
    expect(await run.result()).toEqual(result);
    expect(await run.text()).toBe('Hello');
    expect(server.lines).toEqual(['GET /v1/runs/run-1/stream', 'GET /v1/runs/run-1']);
  });

  test('reads a long output from the run if `done` has only its beginning', async () => {
    const beginning = { ...done(), output: 'Hel', outputTruncated: true };
    const { server, runs } = clientOf(
      () => streamOf([1, token('Hello')], [2, beginning]),
      () => json(200, ended),
    );
    const run = runs.stream('run-1');
    expect((await run.result()).output).toBe('Hello');
    expect(await run.text()).toBe('Hello');
    expect(server.lines).toEqual(['GET /v1/runs/run-1/stream', 'GET /v1/runs/run-1']);
  });

  test('reads the result also if its watchers received the last event', async () => {
    const { runs } = clientOf(
      () => streamOf([9, done()]),
      () => json(200, ended),
    );
    const run = runs.stream('run-1', { after: 9, onApproval: () => undefined });
    expect(await run.result()).toEqual(result);
  });
});

describe('RunHandle of a new run', () => {
  test('reads the response of the start request', async () => {
    const { server, runs } = clientOf(() =>
      streamOf([4, token('Hel')], [5, token('lo')], [9, done()]),
    );
    const run = await runs.create({ model: 'demo', input: 'Hi' });
    expect(run).toMatchObject({ id: 'run-1', replayed: false, lastSeq: 0, textSoFar: '' });
    expect(await collect(run)).toEqual([
      { seq: 4, ...token('Hel') },
      { seq: 5, ...token('lo') },
      { seq: 9, ...done(), usage: { inputTokens: 1, outputTokens: 2 } },
    ]);
    expect(run).toMatchObject({ lastSeq: 9, textSoFar: 'Hello' });
    expect(server.lines).toEqual(['POST /v1/runs']);
  });

  test('returns the result with and without iteration', async () => {
    const { runs } = clientOf(() => streamOf([1, done('42')]));
    const result = {
      id: 'run-1',
      status: 'completed',
      output: '42',
      usage: { inputTokens: 1, outputTokens: 2 },
    };
    const unread = await runs.create({ input: 'Hi' });
    expect(await unread.result()).toEqual(result);
    expect(await unread.text()).toBe('42');
    const read = await clientOf(() => streamOf([1, done('42')])).runs.create({ input: 'Hi' });
    await collect(read);
    expect(await read.result()).toEqual(result);
    // What was handed out is not handed out again.
    expect(await collect(read)).toEqual([]);
  });

  test('reports a replayed run', async () => {
    const { runs } = clientOf(() => {
      const headers = { 'x-run-id': 'run-1', 'idempotent-replayed': 'true' };
      return new FakeStream(headers).frame(1, done()).response;
    });
    expect((await runs.create({ input: 'Hi' }, { idempotencyKey: 'k' })).replayed).toBe(true);
  });

  test('rejects a response without a run id', async () => {
    const { runs } = clientOf(() => new FakeStream().response);
    await expect(runs.create({ input: 'Hi' })).rejects.toMatchObject({
      code: 'unexpected_response',
    });
  });
});

describe('idempotency key of a start', () => {
  test('is the same for every attempt, and different for another run', async () => {
    const { server, runs } = clientOf(
      () => new TypeError('fetch failed'),
      () => json(503, { error: 'Later', code: 'shutting_down' }),
      () => streamOf([1, done()]),
    );
    const starting = runs.create({ input: 'Hi' });
    await later(5000);
    await starting;
    await runs.create({ input: 'Hi' });
    const keys = server.requests.map(({ headers }) => headers['idempotency-key']);
    expect(keys).toHaveLength(4);
    expect(new Set(keys.slice(0, 3)).size).toBe(1);
    expect(keys[3]).not.toBe(keys[0]);
    expect(keys[0]).toMatch(/^[0-9a-f-]{36}$/);
  });

  test('can be set by the caller', async () => {
    const { server, runs } = clientOf(() => streamOf([1, done()]));
    await runs.create({ input: 'Hi' }, { idempotencyKey: 'order-17' });
    expect(server.requests[0]?.headers['idempotency-key']).toBe('order-17');
    expect(server.requests[0]?.body).toEqual({ input: 'Hi' });
  });
});

describe('reset event', () => {
  test('is yielded, and removes discarded tokens from textSoFar', async () => {
    const { runs } = clientOf(() =>
      streamOf(
        [3, token('Kept. ')],
        [5, token('Void')],
        [6, token(' void')],
        [7, { type: 'reset', after: 4 }],
        [8, token('Anew.')],
        [9, done('Anew.')],
      ),
    );
    const run = await runs.create({ input: 'Hi' });
    const texts: string[] = [];
    for await (const event of run) texts.push(`${event.type}: ${run.textSoFar}`);
    expect(texts).toEqual([
      'token: Kept. ',
      'token: Kept. Void',
      'token: Kept. Void void',
      'reset: Kept. ',
      'token: Kept. Anew.',
      'done: Kept. Anew.',
    ]);
  });
});

describe('RunHandle after a disconnect', () => {
  test('resumes without gaps or duplicates', async () => {
    const { server, runs } = clientOf(
      () => streamOf([1, token('a')], [2, token('b')]),
      () => new TypeError('fetch failed'),
      // A server never sends this, but it must be harmless.
      () => streamOf([2, token('b')], [3, token('c')]),
      () => streamOf([4, done('abc')]),
    );
    const run = await runs.create({ input: 'Hi' });
    const reading = collect(run);
    await later(20_000);
    expect((await reading).map(({ seq }) => seq)).toEqual([1, 2, 3, 4]);
    expect(run.textSoFar).toBe('abc');
    expect(lastIds(server)).toEqual([undefined, '2', '2', '3']);
    expect(server.lines.slice(1)).toEqual(Array(3).fill('GET /v1/runs/run-1/stream'));
  });

  test('calls onDisconnect, and onReconnect after it', async () => {
    const { runs } = clientOf(
      () => streamOf([1, token('a')]),
      () => new TypeError('fetch failed'),
      () => streamOf([2, done()]),
    );
    const calls: string[] = [];
    const run = await runs.create(
      { input: 'Hi' },
      {
        onDisconnect: ({ attempt }) => calls.push(`disconnect ${attempt}`),
        onReconnect: () => calls.push('reconnect'),
      },
    );
    const result = run.result();
    await later(5_000);
    await result;
    expect(calls).toEqual(['disconnect 1', 'disconnect 2', 'reconnect']);
  });
});

describe('leaving the loop', () => {
  test('closes the connection without canceling the run, and can be continued', async () => {
    const first = new FakeStream({ 'x-run-id': 'run-1' })
      .frame(1, token('a'))
      .frame(2, token('b'))
      .frame(3, token('c'));
    const { server, runs } = clientOf(
      () => first.response,
      () => streamOf([2, token('b')], [3, token('c')], [4, done('abc')]),
    );
    const run = await runs.create({ input: 'Hi' });
    for await (const _ of run) break;
    expect(first.closed).toBe(true);
    expect(run.lastSeq).toBe(1);
    expect(await run.text()).toBe('abc');
    expect(run.textSoFar).toBe('abc');
    // Behind what was handed out, not behind what had been read ahead.
    expect(lastIds(server)).toEqual([undefined, '1']);
    expect(server.lines).toEqual(['POST /v1/runs', 'GET /v1/runs/run-1/stream']);
  });

  test('lets a pending result() continue reading', async () => {
    const first = new FakeStream({ 'x-run-id': 'run-1' }).frame(1, token('a'));
    const { runs } = clientOf(
      () => first.response,
      () => streamOf([2, done('a')]),
    );
    const run = await runs.create({ input: 'Hi' });
    const events = run[Symbol.asyncIterator]();
    await events.next();
    const result = run.result();
    await events.return();
    expect((await result).output).toBe('a');
  });

  test('is required before a second reader can start', async () => {
    const { runs } = clientOf(
      () => new FakeStream({ 'x-run-id': 'run-1' }).frame(1, token('a')).response,
    );
    const run = await runs.create({ input: 'Hi' });
    const one = run[Symbol.asyncIterator]();
    await one.next();
    await expect(run[Symbol.asyncIterator]().next()).rejects.toThrow(/runs\.stream\(id\)/);
    await one.return();
  });
});

describe('detach', () => {
  test('closes the connection, and the handle can be read later', async () => {
    const first = new FakeStream({ 'x-run-id': 'run-1' }).frame(1, token('a'));
    const { server, runs } = clientOf(
      () => first.response,
      () => streamOf([1, token('a')], [2, done('a')]),
    );
    const run = await runs.create({ input: 'Hi' });
    await run.detach();
    expect(first.closed).toBe(true);
    expect(server.requests).toHaveLength(1);
    expect(await run.text()).toBe('a');
    expect(lastIds(server)).toEqual([undefined, '0']);
  });
});

describe('signal of a handle', () => {
  test('stops reading with its reason, and does not cancel the run', async () => {
    const stream = new FakeStream({ 'x-run-id': 'run-1' }).frame(1, token('a'));
    const { server, runs } = clientOf(() => stream.response);
    const gone = new AbortController();
    const run = await runs.create({ input: 'Hi' }, { signal: gone.signal });
    const reading = collect(run);
    const ended = expect(reading).rejects.toThrow('closing down');
    await later(0);
    gone.abort(new Error('closing down'));
    await ended;
    expect(stream.closed).toBe(true);
    expect(server.lines).toEqual(['POST /v1/runs']);
    await expect(run.result()).rejects.toThrow('closing down');
  });
});

describe('RunHandle of a failed run', () => {
  const failed = { type: 'done', status: 'failed', output: '', usage: done().usage };
  const error = {
    type: 'error',
    error: 'The provider failed',
    code: 'provider_failed',
    retryable: true,
  };

  test('has a result with the error', async () => {
    const { runs } = clientOf(() => streamOf([1, error], [2, failed]));
    expect(await (await runs.create({ input: 'Hi' })).result()).toMatchObject({
      status: 'failed',
      error: { message: 'The provider failed', code: 'provider_failed', retryable: true },
    });
  });

  test('throws from text()', async () => {
    const { runs } = clientOf(() => streamOf([1, error], [2, failed]));
    const thrown = await (await runs.create({ input: 'Hi' })).text().catch((each: unknown) => each);
    expect(thrown).toBeInstanceOf(RelayApiError);
    expect(thrown).toMatchObject({
      code: 'provider_failed',
      message: 'The provider failed',
      retryable: true,
      runId: 'run-1',
    });
  });

  test('throws run_canceled for a canceled run', async () => {
    const { runs } = clientOf(() => streamOf([2, { ...failed, status: 'canceled' }]));
    const run = await runs.create({ input: 'Hi' });
    await expect(run.text()).rejects.toMatchObject({ code: 'run_canceled' });
    expect(await run.result()).toMatchObject({ status: 'canceled' });
  });
});

describe('RunHandle of an existing run', () => {
  test('reads from the start or after a seq, on demand', async () => {
    const { server, runs } = clientOf(() => streamOf([5, token('b')], [6, done()]));
    const run = runs.stream('run-1', { after: 4 });
    await later(0);
    expect(server.requests).toHaveLength(0);
    expect((await collect(run)).map(({ seq }) => seq)).toEqual([5, 6]);
    await runs.stream('run-1').result();
    expect(lastIds(server)).toEqual(['4', '0']);
  });

  test('cancels the run', async () => {
    const { server, runs } = clientOf(() => json(202, { id: 'run-1', status: 'canceled' }));
    expect(await runs.stream('run-1').cancel()).toMatchObject({ status: 'canceled' });
    expect(server.lines).toEqual(['POST /v1/runs/run-1/cancel']);
  });
});

test('sendMessage starts a run that is followed like any other', async () => {
  const server = FakeServer.respondingWith(
    () => streamOf([1, { type: 'run_started', status: 'running' }]),
    () => streamOf([4, { type: 'token', text: 'Hello' }], [9, done('Hello')]),
  );
  const { runs } = createClient({ ...options, fetch: server.fetch });
  const run = await runs.sendMessage(
    { message: 'Hi', conversationId: 'c1' },
    { idempotencyKey: 'k' },
  );
  expect(run.id).toBe('run-1');
  expect(await run.text()).toBe('Hello');
  expect(server.lines).toEqual(['POST /api/chat', 'GET /v1/runs/run-1/stream']);
  expect(server.requests[0]?.headers['idempotency-key']).toBe('k');
});
