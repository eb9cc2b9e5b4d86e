import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createClient } from '../src/client.ts';
import { FakeServer, FakeStream, json, options, refusal } from './support/fake-server.ts';
import { tool, type ToolContext } from '../src/tool.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const later = (ms: number) => vi.advanceTimersByTimeAsync(ms);
const post = '/v1/runs/run-1/tool-results/call_1';
const claim = `${post}/claim`;
const call = { type: 'tool_call', id: 'call_1', name: 'get_user', input: { id: 'u_1' } };
const resolved = { type: 'tool_result', id: 'call_1', output: 'x' };
const done = { type: 'done', status: 'completed', output: '', usage: {} };

/** A server with one run that is going on, and a client that has a function for it. */
class Scene {
  stream = new FakeStream({ 'x-run-id': 'run-1' });
  claims: (() => Response | Error)[] = [];
  posts: (() => Response | Error)[] = [];
  readonly calls: { input: unknown; context: ToolContext }[] = [];
  run: (input: unknown, context: ToolContext) => unknown = () => ({ name: 'Ada' });

  readonly server = new FakeServer(({ path }) => {
    if (path === claim) return (this.claims.shift() ?? (() => json(200, { claimId: 'c' })))();
    if (path === post) return (this.posts.shift() ?? (() => json(200, { ok: true })))();
    return this.stream.response;
  });
  readonly client = createClient({ ...options, fetch: this.server.fetch });
  readonly getUser = tool({
    name: 'get_user',
    schema: { type: 'object' },
    run: (input, context) => {
      this.calls.push({ input, context });
      return this.run(input, context);
    },
  });

  /** Follows the run in the background. */
  follow(more: { signal?: AbortSignal } = {}) {
    const run = this.client.runs.stream('run-1', { tools: [this.getUser], ...more });
    const result = run.result().catch((error: unknown) => error);
    return { run, result };
  }

  asked(path: string): unknown[] {
    return this.server.asked.filter((each) => each.path === path).map(({ body }) => body);
  }
}

let scene: Scene;
beforeEach(() => {
  scene = new Scene();
});

describe('a call of one’s own function', () => {
  test('is claimed, run with what it was called with, and its result is posted', async () => {
    scene.follow();
    scene.stream.frame(7, call);
    await later(1);
    expect(scene.calls).toMatchObject([
      {
        input: { id: 'u_1' },
        context: { runId: 'run-1', toolCallId: 'call_1', idempotencyKey: 'run-1:call_1' },
      },
    ]);
    expect(scene.asked(post)).toEqual([{ output: { name: 'Ada' } }]);
    const [{ claimId }] = scene.asked(claim) as [{ claimId: string }];
    expect(claimId).toMatch(/^[0-9a-f-]{36}$/);
    expect(scene.server.lines.slice(1)).toEqual([`POST ${claim}`, `POST ${post}`]);
  });

  test('is declared when the run is started with it', async () => {
    const { runs } = scene.client;
    await runs.create({
      input: 'Hi',
      tools: [{ name: 'calculator', kind: 'builtin' }, scene.getUser],
    });
    expect(scene.server.asked[0]?.body).toEqual({
      input: 'Hi',
      tools: [
        { name: 'calculator', kind: 'builtin' },
        { name: 'get_user', kind: 'function', inputSchema: { type: 'object' } },
      ],
    });
  });

  test('does not wait for a loop that is busy', async () => {
    const run = scene.client.runs.stream('run-1', { tools: [scene.getUser] });
    const events = run[Symbol.asyncIterator]();
    const first = events.next();
    scene.stream.frame(1, { type: 'token', text: 'a' }).frame(2, call);
    await first;
    await later(1);
    expect(scene.asked(post)).toHaveLength(1);
    await events.return();
  });

  test('of another’s function is left alone', async () => {
    scene.follow();
    scene.stream.frame(7, { ...call, name: 'calculator' });
    await later(1000);
    expect(scene.server.asked).toHaveLength(1);
  });

  test('that brings nothing brings null', async () => {
    scene.run = () => undefined;
    scene.follow();
    scene.stream.frame(7, call);
    await later(1);
    expect(scene.asked(post)).toEqual([{ output: null }]);
  });

  test.each([
    ['throws', () => Promise.reject(new Error('No such user')), 'No such user'],
    ['throws no error', () => Promise.reject('nope' as unknown as Error), 'nope'],
    ['brings what is no JSON', () => () => 1, 'The result is not JSON'],
    ['brings a number beyond JSON', () => 1n, 'Do not know how to serialize a BigInt'],
  ])('that %s is posted as failed', async (_, run, output) => {
    scene.run = run;
    scene.follow();
    scene.stream.frame(7, call);
    await later(1);
    expect(scene.asked(post)).toEqual([{ output, isError: true }]);
  });
});

describe('a call that was made before', () => {
  test('and has its result already is not even claimed', async () => {
    scene.stream.frame(7, call).frame(9, resolved);
    scene.follow();
    await later(1000);
    expect(scene.server.asked).toHaveLength(1);
  });

  test('and waits no more by the server’s word is not run', async () => {
    scene.claims = [() => refusal(404, 'not_found')];
    scene.stream.frame(7, call);
    scene.follow();
    await later(1000);
    expect(scene.calls).toEqual([]);
    expect(scene.asked(claim)).toHaveLength(1);
  });

  test('and still waits is finished, though it lies before what is asked for', async () => {
    scene.stream.frame(7, call);
    const run = scene.client.runs.stream('run-1', { after: 20, tools: [scene.getUser] });
    const seen: number[] = [];
    const reading = (async () => {
      for await (const { seq } of run) seen.push(seq);
    })();
    await later(1);
    expect(scene.asked(post)).toHaveLength(1);
    scene.stream.frame(21, { ...resolved }).frame(22, done);
    await reading;
    expect(seen).toEqual([21, 22]);
  });

  test('is run once, although it is heard again after a disconnect and by a second handle', async () => {
    let finish: (result: unknown) => void = () => {};
    scene.run = () => new Promise((resolve) => (finish = resolve));
    scene.follow();
    scene.stream.frame(7, call);
    await later(1);
    scene.stream.end();
    scene.stream = new FakeStream().frame(7, call);
    await later(500);
    scene.stream = new FakeStream().frame(7, call);
    scene.follow();
    await later(500);
    expect(scene.calls).toHaveLength(1);
    finish('Ada');
    await later(1);
    expect(scene.asked(post)).toEqual([{ output: 'Ada' }]);
  });
});

describe('a claim', () => {
  test('is renewed, by its own id, for as long as the function runs', async () => {
    let finish: (result: unknown) => void = () => {};
    scene.run = () => new Promise((resolve) => (finish = resolve));
    scene.follow();
    scene.stream.frame(7, call);
    await later(35_000);
    scene.stream.raw(': heartbeat\n\n');
    expect(scene.asked(claim)).toHaveLength(4);
    expect(new Set(scene.asked(claim).map((body) => JSON.stringify(body))).size).toBe(1);
    finish(1);
    await later(35_000);
    expect(scene.asked(claim)).toHaveLength(4);
  });

  test('that another client has is waited for, in case that client dies', async () => {
    scene.claims = Array.from({ length: 5 }, () => () => refusal(409, 'call_claimed'));
    scene.follow();
    scene.stream.frame(7, call);
    await later(10_000);
    expect(scene.calls).toEqual([]);
    await later(30_000);
    expect(scene.calls).toHaveLength(1);
    expect(scene.asked(post)).toHaveLength(1);
  });

  test('is no longer asked for when the other client has brought the result', async () => {
    scene.claims = Array.from({ length: 99 }, () => () => refusal(409, 'call_claimed'));
    scene.follow();
    scene.stream.frame(7, call);
    await later(10_000);
    scene.stream.frame(9, resolved);
    await later(1);
    const asked = scene.asked(claim).length;
    await later(30_000);
    expect(scene.asked(claim)).toHaveLength(asked);
    expect(scene.calls).toEqual([]);
  });

  test('is asked for until the server is there', async () => {
    scene.claims = [() => new TypeError('fetch failed'), () => refusal(503, 'shutting_down')];
    scene.follow();
    scene.stream.frame(7, call);
    await later(5_000);
    expect(scene.calls).toHaveLength(1);
  });

  test('that is lost aborts the function; a failure is then left to the other client', async () => {
    scene.run = (_, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error));
      });
    scene.claims = [() => json(200, { claimId: 'c' }), () => refusal(409, 'call_claimed')];
    scene.follow();
    scene.stream.frame(7, call);
    await later(11_000);
    expect(scene.calls[0]?.context.signal.aborted).toBe(true);
    await later(1000);
    expect(scene.asked(post)).toEqual([]);
  });

  test('that is lost loses no result: what happened is posted', async () => {
    scene.run = (_, { signal }) =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => resolve('paid'));
      });
    scene.claims = [() => json(200, { claimId: 'c' }), () => refusal(409, 'call_claimed')];
    scene.follow();
    scene.stream.frame(7, call);
    await later(11_000);
    expect(scene.asked(post)).toEqual([{ output: 'paid' }]);
  });
});

describe('a function that runs', () => {
  const forever = () => new Promise(() => {});

  test.each([
    ['its call has a result', resolved],
    ['its run is over', done],
  ])('is aborted when %s', async (_, event) => {
    scene.run = forever;
    scene.follow();
    scene.stream.frame(7, call);
    await later(1);
    expect(scene.calls[0]?.context.signal.aborted).toBe(false);
    scene.stream.frame(9, event);
    await later(1);
    expect(scene.calls[0]?.context.signal.aborted).toBe(true);
  });

  test('is aborted when the server says that its call is over', async () => {
    scene.run = forever;
    scene.claims = [() => json(200, { claimId: 'c' }), () => refusal(404, 'not_found')];
    scene.follow();
    scene.stream.frame(7, call);
    await later(11_000);
    expect(scene.calls[0]?.context.signal.aborted).toBe(true);
  });

  test('posts nothing for a run that is over', async () => {
    let finish: (result: unknown) => void = () => {};
    scene.run = () => new Promise((resolve) => (finish = resolve));
    const { result } = scene.follow();
    scene.stream.frame(7, call);
    await later(1);
    scene.stream.frame(9, done);
    await result;
    finish('late');
    await later(1000);
    expect(scene.asked(post)).toEqual([]);
  });

  test('goes on and brings its result when the loop was left', async () => {
    let finish: (result: unknown) => void = () => {};
    scene.run = () => new Promise((resolve) => (finish = resolve));
    const run = scene.client.runs.stream('run-1', { tools: [scene.getUser] });
    scene.stream.frame(7, call).frame(8, { type: 'token', text: 'a' });
    for await (const { type } of run) if (type === 'token') break;
    await later(1);
    expect(scene.calls[0]?.context.signal.aborted).toBe(false);
    finish('Ada');
    await later(1);
    expect(scene.asked(post)).toEqual([{ output: 'Ada' }]);
  });

  test('is aborted with whoever follows the run, and leaves its call to others', async () => {
    scene.run = (_, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error));
      });
    const gone = new AbortController();
    scene.follow({ signal: gone.signal });
    scene.stream.frame(7, call);
    await later(1);
    gone.abort(new Error('closing down'));
    await later(60_000);
    expect(scene.calls[0]?.context.signal.reason).toMatchObject({ message: 'closing down' });
    expect(scene.asked(post)).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('a result', () => {
  test('is brought until the server has it', async () => {
    scene.posts = [
      () => new TypeError('fetch failed'),
      () => refusal(503, 'shutting_down'),
      () => refusal(429, 'rate_limited'),
      () => refusal(503, 'storage_failed'),
    ];
    scene.follow();
    scene.stream.frame(7, call);
    await later(20_000);
    expect(scene.asked(post)).toEqual(
      Array.from({ length: 5 }, () => ({ output: { name: 'Ada' } })),
    );
    expect(scene.calls).toHaveLength(1);
  });

  test.each([
    [404, 'not_found'],
    [409, 'tool_result_conflict'],
    [401, 'unauthorized'],
  ])('is brought no more after a %i', async (status, code) => {
    scene.posts = [() => refusal(status, code)];
    scene.follow();
    scene.stream.frame(7, call);
    await later(20_000);
    expect(scene.asked(post)).toHaveLength(1);
  });

  test('that is too large becomes a failure that says so', async () => {
    scene.posts = [() => refusal(413, 'payload_too_large')];
    scene.follow();
    scene.stream.frame(7, call);
    await later(1);
    expect(scene.asked(post).at(-1)).toEqual({
      output: 'The result is too large to be sent',
      isError: true,
    });
    expect(scene.asked(post)).toHaveLength(2);
  });

  test('is not brought for ever once nobody follows', async () => {
    scene.posts = Array.from({ length: 99 }, () => () => new TypeError('fetch failed'));
    const gone = new AbortController();
    scene.follow({ signal: gone.signal });
    scene.stream.frame(7, call);
    await later(1);
    gone.abort(new Error('closing down'));
    await later(60_000);
    expect(scene.asked(post).length).toBeLessThan(8);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('is not brought long after its time', async () => {
    scene.posts = Array.from({ length: 999 }, () => () => new TypeError('fetch failed'));
    scene.follow();
    scene.stream.frame(7, { ...call, resultBy: new Date(Date.now() + 30_000).toISOString() });
    await later(100_000);
    const asked = scene.asked(post).length;
    await later(600_000);
    expect(scene.asked(post)).toHaveLength(asked);
  });
});
