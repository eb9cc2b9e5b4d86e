import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createClient } from '../src/client.ts';
import { RelayApiError } from '../src/errors.ts';
import {
  collect,
  done,
  FakeServer,
  FakeStream,
  json,
  options,
  said,
} from './support/fake-server.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const later = (ms: number) => vi.advanceTimersByTimeAsync(ms);
const token = (text: string) => ({ type: 'token', text });

function clientOf(...answers: readonly (() => Response | Error)[]) {
  const server = FakeServer.saying(...answers);
  return { server, runs: createClient({ ...options, fetch: server.fetch }).runs };
}

const lastIds = (server: FakeServer) => server.asked.map(({ headers }) => headers['last-event-id']);

describe('a run that was started', () => {
  test('is read from the very answer that started it', async () => {
    const { server, runs } = clientOf(() => said([4, token('Hel')], [5, token('lo')], [9, done()]));
    const run = await runs.create({ model: 'demo', input: 'Hi' });
    expect(run).toMatchObject({ id: 'run-1', replayed: false, lastSeq: 0, textSoFar: '' });
    expect(await collect(run)).toEqual([
      { seq: 4, ...token('Hel') },
      { seq: 5, ...token('lo') },
      { seq: 9, ...done() },
    ]);
    expect(run).toMatchObject({ lastSeq: 9, textSoFar: 'Hello' });
    expect(server.lines).toEqual(['POST /v1/runs']);
  });

  test('has its result, whether the loop was run before or not', async () => {
    const { runs } = clientOf(() => said([1, done('42')]));
    const result = {
      id: 'run-1',
      status: 'completed',
      output: '42',
      usage: { input_tokens: 1, output_tokens: 2 },
    };
    const unread = await runs.create({ input: 'Hi' });
    expect(await unread.result()).toEqual(result);
    expect(await unread.text()).toBe('42');
    const read = await clientOf(() => said([1, done('42')])).runs.create({ input: 'Hi' });
    await collect(read);
    expect(await read.result()).toEqual(result);
    // What was handed out is not handed out again.
    expect(await collect(read)).toEqual([]);
  });

  test('says whether it had been started before', async () => {
    const { runs } = clientOf(() => {
      const headers = { 'x-run-id': 'run-1', 'idempotent-replayed': 'true' };
      return new FakeStream(headers).frame(1, done()).response;
    });
    expect((await runs.create({ input: 'Hi' }, { idempotencyKey: 'k' })).replayed).toBe(true);
  });

  test('must have a name', async () => {
    const { runs } = clientOf(() => new FakeStream().response);
    await expect(runs.create({ input: 'Hi' })).rejects.toMatchObject({ code: 'unexpected_answer' });
  });
});

describe('the key of a start', () => {
  test('is the same for every attempt, and another one for another run', async () => {
    const { server, runs } = clientOf(
      () => new TypeError('fetch failed'),
      () => json(503, { error: 'Later', code: 'shutting_down' }),
      () => said([1, done()]),
    );
    const starting = runs.create({ input: 'Hi' });
    await later(5000);
    await starting;
    await runs.create({ input: 'Hi' });
    const keys = server.asked.map(({ headers }) => headers['idempotency-key']);
    expect(keys).toHaveLength(4);
    expect(new Set(keys.slice(0, 3)).size).toBe(1);
    expect(keys[3]).not.toBe(keys[0]);
    expect(keys[0]).toMatch(/^[0-9a-f-]{36}$/);
  });

  test('may be the caller’s own', async () => {
    const { server, runs } = clientOf(() => said([1, done()]));
    await runs.create({ input: 'Hi' }, { idempotencyKey: 'order-17' });
    expect(server.asked[0]?.headers['idempotency-key']).toBe('order-17');
    expect(server.asked[0]?.body).toEqual({ input: 'Hi' });
  });
});

describe('a reset', () => {
  test('is told, and takes back what was said in vain', async () => {
    const { runs } = clientOf(() =>
      said(
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

describe('a run that is cut off from its reader', () => {
  test('goes on without gap or repeat', async () => {
    const { server, runs } = clientOf(
      () => said([1, token('a')], [2, token('b')]),
      () => new TypeError('fetch failed'),
      // Nobody does that, but it would do no harm.
      () => said([2, token('b')], [3, token('c')]),
      () => said([4, done('abc')]),
    );
    const run = await runs.create({ input: 'Hi' });
    const reading = collect(run);
    await later(20_000);
    expect((await reading).map(({ seq }) => seq)).toEqual([1, 2, 3, 4]);
    expect(run.textSoFar).toBe('abc');
    expect(lastIds(server)).toEqual([undefined, '2', '2', '3']);
    expect(server.lines.slice(1)).toEqual(Array(3).fill('GET /v1/runs/run-1/stream'));
  });

  test('tells whoever wants to know', async () => {
    const { runs } = clientOf(
      () => said([1, token('a')]),
      () => said([2, done()]),
    );
    const onDisconnect = vi.fn();
    const run = await runs.create({ input: 'Hi' }, { onDisconnect });
    const result = run.result();
    await later(1000);
    await result;
    expect(onDisconnect).toHaveBeenCalledOnce();
  });
});

describe('leaving the loop', () => {
  test('closes the connection and cancels nothing; reading goes on from there', async () => {
    const first = new FakeStream({ 'x-run-id': 'run-1' })
      .frame(1, token('a'))
      .frame(2, token('b'))
      .frame(3, token('c'));
    const { server, runs } = clientOf(
      () => first.response,
      () => said([2, token('b')], [3, token('c')], [4, done('abc')]),
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

  test('lets a result that waits for it read on by itself', async () => {
    const first = new FakeStream({ 'x-run-id': 'run-1' }).frame(1, token('a'));
    const { runs } = clientOf(
      () => first.response,
      () => said([2, done('a')]),
    );
    const run = await runs.create({ input: 'Hi' });
    const events = run[Symbol.asyncIterator]();
    await events.next();
    const result = run.result();
    await events.return();
    expect((await result).output).toBe('a');
  });

  test('is not needed by two at once: one handle has one reader', async () => {
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

describe('a run that is only to be started', () => {
  test('can be let go of, and read later all the same', async () => {
    const first = new FakeStream({ 'x-run-id': 'run-1' }).frame(1, token('a'));
    const { server, runs } = clientOf(
      () => first.response,
      () => said([1, token('a')], [2, done('a')]),
    );
    const run = await runs.create({ input: 'Hi' });
    await run.detach();
    expect(first.closed).toBe(true);
    expect(server.asked).toHaveLength(1);
    expect(await run.text()).toBe('a');
    expect(lastIds(server)).toEqual([undefined, '0']);
  });
});

describe('a signal', () => {
  test('stops the following with its reason, and cancels nothing', async () => {
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

describe('a run that went wrong', () => {
  const failed = { type: 'done', status: 'failed', output: '', usage: done().usage };
  const error = {
    type: 'error',
    error: 'The provider failed',
    code: 'provider_failed',
    retryable: true,
  };

  test('has a result that says why', async () => {
    const { runs } = clientOf(() => said([1, error], [2, failed]));
    expect(await (await runs.create({ input: 'Hi' })).result()).toMatchObject({
      status: 'failed',
      error: { message: 'The provider failed', code: 'provider_failed', retryable: true },
    });
  });

  test('has no text: that throws', async () => {
    const { runs } = clientOf(() => said([1, error], [2, failed]));
    const thrown = await (await runs.create({ input: 'Hi' })).text().catch((each: unknown) => each);
    expect(thrown).toBeInstanceOf(RelayApiError);
    expect(thrown).toMatchObject({
      code: 'provider_failed',
      message: 'The provider failed',
      retryable: true,
      runId: 'run-1',
    });
  });

  test('was perhaps canceled', async () => {
    const { runs } = clientOf(() => said([2, { ...failed, status: 'canceled' }]));
    const run = await runs.create({ input: 'Hi' });
    await expect(run.text()).rejects.toMatchObject({ code: 'run_canceled' });
    expect(await run.result()).toMatchObject({ status: 'canceled' });
  });
});

describe('a run that is there already', () => {
  test('is followed from its beginning or from any place, when somebody reads', async () => {
    const { server, runs } = clientOf(() => said([5, token('b')], [6, done()]));
    const run = runs.stream('run-1', { after: 4 });
    await later(0);
    expect(server.asked).toHaveLength(0);
    expect((await collect(run)).map(({ seq }) => seq)).toEqual([5, 6]);
    await runs.stream('run-1').result();
    expect(lastIds(server)).toEqual(['4', '0']);
  });

  test('can be canceled by its handle', async () => {
    const { server, runs } = clientOf(() => json(202, { id: 'run-1', status: 'canceled' }));
    expect(await runs.stream('run-1').cancel()).toMatchObject({ status: 'canceled' });
    expect(server.lines).toEqual(['POST /v1/runs/run-1/cancel']);
  });
});
