import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createClient } from '../../src/client.ts';
import { FakeServer, FakeStream, json, options, refusal } from '../support/fake-server.ts';
import { type ClientTool, defineTool, type ToolContext } from '../../src/tools/tool.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const later = (ms: number) => vi.advanceTimersByTimeAsync(ms);
const post = '/v1/runs/run-1/tool-results/call_1';
const claim = `${post}/claim`;
const call = { type: 'tool_call', id: 'call_1', name: 'get_user', input: { id: 'u_1' } };
const resolved = { type: 'tool_result', id: 'call_1', output: 'x' };
const done = { type: 'done', status: 'completed', output: '', usage: {} };

/** A server with one running run, and a client with a function for it. */
class Fixture {
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
  readonly getUser = defineTool({
    name: 'get_user',
    schema: { type: 'object' },
    idempotent: true,
    execute: (input, context) => {
      this.calls.push({ input, context });
      return this.run(input, context);
    },
  });

  /** Follows the run in the background. */
  follow(more: { signal?: AbortSignal; tools?: ClientTool[] } = {}) {
    const run = this.client.runs.stream('run-1', { tools: [this.getUser], ...more });
    const result = run.result().catch((error: unknown) => error);
    return { run, result };
  }

  bodiesOf(path: string): unknown[] {
    return this.server.requests.filter((each) => each.path === path).map(({ body }) => body);
  }
}

let fixture: Fixture;
beforeEach(() => {
  fixture = new Fixture();
});

describe('a call that another client had claimed', () => {
  const claimedBefore = () => json(200, { claimId: 'c', claimedBefore: true });

  test('runs again if its tool is idempotent', async () => {
    fixture.claims = [claimedBefore];
    fixture.follow();
    fixture.stream.frame(7, call);
    await later(1);
    expect(fixture.bodiesOf(post)).toEqual([{ output: { name: 'Ada' } }]);
  });

  test('fails and does not run otherwise', async () => {
    fixture.claims = [claimedBefore];
    fixture.follow({ tools: [{ ...fixture.getUser, idempotent: false }] });
    fixture.stream.frame(7, call);
    await later(1);
    expect(fixture.calls).toEqual([]);
    const output = expect.stringContaining('The outcome is unknown') as string;
    expect(fixture.bodiesOf(post)).toEqual([{ output, isError: true }]);
  });

  test('is claimed with the same id after a lost response', async () => {
    fixture.claims = [() => new Error('Lost'), () => json(200, { claimedBefore: false })];
    fixture.follow({ tools: [{ ...fixture.getUser, idempotent: false }] });
    fixture.stream.frame(7, call);
    await later(5_000);
    const [first, second] = fixture.bodiesOf(claim);
    expect(second).toEqual(first);
    expect(fixture.bodiesOf(post)).toEqual([{ output: { name: 'Ada' } }]);
  });
});

describe('function tool call', () => {
  test('posts the text for the model as context', async () => {
    fixture.run = () => ({ context: 'Ada', result: { name: 'Ada' } });
    fixture.follow();
    fixture.stream.frame(7, call);
    await later(1);
    expect(fixture.bodiesOf(post)).toEqual([{ output: { name: 'Ada' }, context: 'Ada' }]);
  });

  test('is claimed, run with its input, and its result is posted', async () => {
    fixture.follow();
    fixture.stream.frame(7, call);
    await later(1);
    expect(fixture.calls).toMatchObject([
      {
        input: { id: 'u_1' },
        context: { runId: 'run-1', toolCallId: 'call_1', idempotencyKey: 'run-1:call_1' },
      },
    ]);
    expect(fixture.bodiesOf(post)).toEqual([{ output: { name: 'Ada' } }]);
    const [{ claimId }] = fixture.bodiesOf(claim) as [{ claimId: string }];
    expect(claimId).toMatch(/^[0-9a-f-]{36}$/);
    expect(fixture.server.lines.slice(1)).toEqual([`POST ${claim}`, `POST ${post}`]);
  });

  test('is declared in the request that starts the run', async () => {
    const { runs } = fixture.client;
    await runs.create({
      input: 'Hi',
      tools: [{ name: 'calculator', kind: 'builtin' }, fixture.getUser],
    });
    expect(fixture.server.requests[0]?.body).toEqual({
      input: 'Hi',
      tools: [
        { name: 'calculator', kind: 'builtin' },
        { name: 'get_user', kind: 'function', inputSchema: { type: 'object' } },
      ],
    });
  });

  test('does not wait for a busy loop', async () => {
    const run = fixture.client.runs.stream('run-1', { tools: [fixture.getUser] });
    const events = run[Symbol.asyncIterator]();
    const first = events.next();
    fixture.stream.frame(1, { type: 'token', text: 'a' }).frame(2, call);
    await first;
    await later(1);
    expect(fixture.bodiesOf(post)).toHaveLength(1);
    await events.return();
  });

  test('of an unknown function is ignored', async () => {
    fixture.follow();
    fixture.stream.frame(7, { ...call, name: 'calculator' });
    await later(1000);
    expect(fixture.server.requests).toHaveLength(1);
  });

  test('posts null for undefined', async () => {
    fixture.run = () => undefined;
    fixture.follow();
    fixture.stream.frame(7, call);
    await later(1);
    expect(fixture.bodiesOf(post)).toEqual([{ output: null }]);
  });

  test.each([
    ['throws', () => Promise.reject(new Error('No such user')), 'No such user'],
    [
      'throws a value that is not an Error',
      () => Promise.reject('nope' as unknown as Error),
      'nope',
    ],
    ['returns a value that is not JSON', () => () => 1, 'The result is not JSON'],
    ['returns a BigInt', () => 1n, 'Do not know how to serialize a BigInt'],
  ])('that %s is posted as an error', async (_, run, output) => {
    fixture.run = run;
    fixture.follow();
    fixture.stream.frame(7, call);
    await later(1);
    expect(fixture.bodiesOf(post)).toEqual([{ output, isError: true }]);
  });
});

describe('earlier function tool call', () => {
  test('is not claimed if it has a result', async () => {
    fixture.stream.frame(7, call).frame(9, resolved);
    fixture.follow();
    await later(1000);
    expect(fixture.server.requests).toHaveLength(1);
  });

  test('is not run if the server no longer knows it', async () => {
    fixture.claims = [() => refusal(404, 'not_found')];
    fixture.stream.frame(7, call);
    fixture.follow();
    await later(1000);
    expect(fixture.calls).toEqual([]);
    expect(fixture.bodiesOf(claim)).toHaveLength(1);
  });

  test('is run if it is open, also before `after`', async () => {
    fixture.stream.frame(7, call);
    const run = fixture.client.runs.stream('run-1', { after: 20, tools: [fixture.getUser] });
    const seen: number[] = [];
    const reading = (async () => {
      for await (const { seq } of run) seen.push(seq);
    })();
    await later(1);
    expect(fixture.bodiesOf(post)).toHaveLength(1);
    fixture.stream.frame(21, { ...resolved }).frame(22, done);
    await reading;
    expect(seen).toEqual([21, 22]);
  });

  test('is run once, although it is received again after a disconnect and by a second handle', async () => {
    let finish: (result: unknown) => void = () => {};
    fixture.run = () => new Promise((resolve) => (finish = resolve));
    fixture.follow();
    fixture.stream.frame(7, call);
    await later(1);
    fixture.stream.end();
    fixture.stream = new FakeStream().frame(7, call);
    await later(500);
    fixture.stream = new FakeStream().frame(7, call);
    fixture.follow();
    await later(500);
    expect(fixture.calls).toHaveLength(1);
    finish('Ada');
    await later(1);
    expect(fixture.bodiesOf(post)).toEqual([{ output: 'Ada' }]);
  });
});

describe('claim', () => {
  test('is renewed with its id while the function runs', async () => {
    let finish: (result: unknown) => void = () => {};
    fixture.run = () => new Promise((resolve) => (finish = resolve));
    fixture.follow();
    fixture.stream.frame(7, call);
    await later(35_000);
    fixture.stream.raw(': heartbeat\n\n');
    expect(fixture.bodiesOf(claim)).toHaveLength(4);
    expect(new Set(fixture.bodiesOf(claim).map((body) => JSON.stringify(body))).size).toBe(1);
    finish(1);
    await later(35_000);
    expect(fixture.bodiesOf(claim)).toHaveLength(4);
  });

  test('is requested again while another client holds it', async () => {
    fixture.claims = Array.from({ length: 5 }, () => () => refusal(409, 'call_claimed'));
    fixture.follow();
    fixture.stream.frame(7, call);
    await later(10_000);
    expect(fixture.calls).toEqual([]);
    await later(30_000);
    expect(fixture.calls).toHaveLength(1);
    expect(fixture.bodiesOf(post)).toHaveLength(1);
  });

  test('is no longer requested once the call has a result', async () => {
    fixture.claims = Array.from({ length: 99 }, () => () => refusal(409, 'call_claimed'));
    fixture.follow();
    fixture.stream.frame(7, call);
    await later(10_000);
    fixture.stream.frame(9, resolved);
    await later(1);
    const asked = fixture.bodiesOf(claim).length;
    await later(30_000);
    expect(fixture.bodiesOf(claim)).toHaveLength(asked);
    expect(fixture.calls).toEqual([]);
  });

  test('is requested until the server is available', async () => {
    fixture.claims = [() => new TypeError('fetch failed'), () => refusal(503, 'shutting_down')];
    fixture.follow();
    fixture.stream.frame(7, call);
    await later(5_000);
    expect(fixture.calls).toHaveLength(1);
  });

  test('that is lost aborts the function, and its error is not posted', async () => {
    fixture.run = (_, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error));
      });
    fixture.claims = [() => json(200, { claimId: 'c' }), () => refusal(409, 'call_claimed')];
    fixture.follow();
    fixture.stream.frame(7, call);
    await later(11_000);
    expect(fixture.calls[0]?.context.signal.aborted).toBe(true);
    await later(1000);
    expect(fixture.bodiesOf(post)).toEqual([]);
  });

  test('that is lost still posts the result of the function', async () => {
    fixture.run = (_, { signal }) =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => resolve('paid'));
      });
    fixture.claims = [() => json(200, { claimId: 'c' }), () => refusal(409, 'call_claimed')];
    fixture.follow();
    fixture.stream.frame(7, call);
    await later(11_000);
    expect(fixture.bodiesOf(post)).toEqual([{ output: 'paid' }]);
  });
});

describe('running function', () => {
  const forever = () => new Promise(() => {});

  test.each([
    ['its call has a result', resolved],
    ['its run is over', done],
  ])('is aborted when %s', async (_, event) => {
    fixture.run = forever;
    fixture.follow();
    fixture.stream.frame(7, call);
    await later(1);
    expect(fixture.calls[0]?.context.signal.aborted).toBe(false);
    fixture.stream.frame(9, event);
    await later(1);
    expect(fixture.calls[0]?.context.signal.aborted).toBe(true);
  });

  test('is aborted when the server no longer knows the call', async () => {
    fixture.run = forever;
    fixture.claims = [() => json(200, { claimId: 'c' }), () => refusal(404, 'not_found')];
    fixture.follow();
    fixture.stream.frame(7, call);
    await later(11_000);
    expect(fixture.calls[0]?.context.signal.aborted).toBe(true);
  });

  test('posts nothing for an ended run', async () => {
    let finish: (result: unknown) => void = () => {};
    fixture.run = () => new Promise((resolve) => (finish = resolve));
    const { result } = fixture.follow();
    fixture.stream.frame(7, call);
    await later(1);
    fixture.stream.frame(9, done);
    await result;
    finish('late');
    await later(1000);
    expect(fixture.bodiesOf(post)).toEqual([]);
  });

  test('continues and posts its result after the loop was left', async () => {
    let finish: (result: unknown) => void = () => {};
    fixture.run = () => new Promise((resolve) => (finish = resolve));
    const run = fixture.client.runs.stream('run-1', { tools: [fixture.getUser] });
    fixture.stream.frame(7, call).frame(8, { type: 'token', text: 'a' });
    for await (const { type } of run) if (type === 'token') break;
    await later(1);
    expect(fixture.calls[0]?.context.signal.aborted).toBe(false);
    finish('Ada');
    await later(1);
    expect(fixture.bodiesOf(post)).toEqual([{ output: 'Ada' }]);
  });

  test('is aborted by the signal of the handle, and its error is not posted', async () => {
    fixture.run = (_, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error));
      });
    const gone = new AbortController();
    fixture.follow({ signal: gone.signal });
    fixture.stream.frame(7, call);
    await later(1);
    gone.abort(new Error('closing down'));
    await later(60_000);
    expect(fixture.calls[0]?.context.signal.reason).toMatchObject({ message: 'closing down' });
    expect(fixture.bodiesOf(post)).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('result of a function', () => {
  test('is posted until the server accepts it', async () => {
    fixture.posts = [
      () => new TypeError('fetch failed'),
      () => refusal(503, 'shutting_down'),
      () => refusal(429, 'rate_limited'),
      () => refusal(503, 'storage_failed'),
    ];
    fixture.follow();
    fixture.stream.frame(7, call);
    await later(20_000);
    expect(fixture.bodiesOf(post)).toEqual(
      Array.from({ length: 5 }, () => ({ output: { name: 'Ada' } })),
    );
    expect(fixture.calls).toHaveLength(1);
  });

  test.each([
    [404, 'not_found'],
    [409, 'tool_result_conflict'],
    [401, 'unauthorized'],
  ])('is not posted again after a %i', async (status, code) => {
    fixture.posts = [() => refusal(status, code)];
    fixture.follow();
    fixture.stream.frame(7, call);
    await later(20_000);
    expect(fixture.bodiesOf(post)).toHaveLength(1);
  });

  test('is replaced by an error if it is too large', async () => {
    fixture.posts = [() => refusal(413, 'payload_too_large')];
    fixture.follow();
    fixture.stream.frame(7, call);
    await later(1);
    expect(fixture.bodiesOf(post).at(-1)).toEqual({
      output: 'The result is too large to post',
      isError: true,
    });
    expect(fixture.bodiesOf(post)).toHaveLength(2);
  });

  test('is posted a few more times after the reader has stopped', async () => {
    fixture.posts = Array.from({ length: 99 }, () => () => new TypeError('fetch failed'));
    const gone = new AbortController();
    fixture.follow({ signal: gone.signal });
    fixture.stream.frame(7, call);
    await later(1);
    gone.abort(new Error('closing down'));
    // A request may end only after the time has passed.
    for (let waits = 0; waits === 0 || (waits < 5 && vi.getTimerCount() > 0); waits += 1) {
      await later(60_000);
    }
    expect(fixture.bodiesOf(post).length).toBeLessThan(8);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('is not posted long after its deadline', async () => {
    fixture.posts = Array.from({ length: 999 }, () => () => new TypeError('fetch failed'));
    fixture.follow();
    fixture.stream.frame(7, { ...call, resultBy: new Date(Date.now() + 30_000).toISOString() });
    await later(100_000);
    const asked = fixture.bodiesOf(post).length;
    await later(600_000);
    expect(fixture.bodiesOf(post)).toHaveLength(asked);
  });
});
