import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { RelayApiError } from '../src/errors.ts';
import { at, Http, type HttpOptions, type Wish } from '../src/http.ts';
import { FakeServer, FakeStream, json, options, refusal } from './support/fake-server.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function http(server: FakeServer, more: Partial<HttpOptions> = {}): Http {
  return new Http({ ...options, fetch: server.fetch, ...more });
}

/** What comes of it, however long the waits are. */
async function outcome<Value>(asking: Promise<Value>): Promise<Value | RelayApiError> {
  const settled = asking.catch((error: unknown) => error as RelayApiError);
  await vi.advanceTimersByTimeAsync(10 * 60_000);
  return settled;
}

describe('a request', () => {
  test('carries the key, the headers and the body', async () => {
    const server = FakeServer.saying(() => json(200, { ok: true }));
    const client = http(server, { baseUrl: 'http://relay.test/', headers: { 'x-tag': 'a' } });
    await client.json('PUT', '/v1/tenant', { body: { paused: true } });
    expect(server.asked[0]).toMatchObject({
      method: 'PUT',
      path: '/v1/tenant',
      body: { paused: true },
      headers: {
        authorization: 'Bearer relay_live_test',
        'content-type': 'application/json',
        'x-tag': 'a',
      },
    });
  });

  test('without a key or a body says neither', async () => {
    const server = FakeServer.saying(() => json(200, {}));
    await http(server, { apiKey: undefined }).json('POST', '/v1/runs/1/cancel');
    expect(server.asked[0]?.headers).toEqual({});
  });

  test('goes below the path of the server, and leaves out what is undefined', async () => {
    const server = FakeServer.saying(() => json(200, {}));
    const query = { a: 1, b: undefined, c: 'x&y', d: false };
    await http(server, { baseUrl: 'http://relay.test/ai//' }).json('GET', '/health', { query });
    expect(server.asked[0]).toMatchObject({
      path: '/ai/health',
      query: { a: '1', c: 'x&y', d: 'false' },
    });
  });

  test('has no answer where there is no body', async () => {
    const server = FakeServer.saying(() => new Response(null, { status: 204 }));
    expect(await http(server).json('DELETE', '/v1/keys/1')).toBeUndefined();
  });

  test('fails by its own error if the answer is not JSON', async () => {
    const server = FakeServer.saying(() => new Response('<html>'));
    expect(await outcome(http(server).json('GET', '/health'))).toMatchObject({
      code: 'unexpected_answer',
      status: 200,
    });
    expect(server.asked).toHaveLength(1);
  });

  test('fails if a page comes in the place of a stream', async () => {
    const server = FakeServer.saying(() => new Response('<html>'));
    expect(await outcome(http(server).stream('GET', '/v1/feed'))).toMatchObject({
      code: 'unexpected_answer',
      retryable: false,
    });
  });
});

describe('a request that fails', () => {
  const network = () => new TypeError('fetch failed');
  type Answer = () => Response | Error;
  const post = { method: 'POST' as const };
  const repeatable = { ...post, repeatable: true };

  test.each<
    readonly [string, Wish & { method: 'GET' | 'POST' | 'PUT' | 'DELETE' }, Answer, number]
  >([
    ['GET: nobody there', { method: 'GET' }, network, 4],
    ['PUT: nobody there', { method: 'PUT' }, network, 4],
    [
      'DELETE: shutting down',
      { method: 'DELETE' as const },
      () => refusal(503, 'shutting_down'),
      4,
    ],
    ['GET: a proxy’s 502', { method: 'GET' }, () => new Response('', { status: 502 }), 4],
    ['GET: a proxy’s 504', { method: 'GET' }, () => new Response('', { status: 504 }), 4],
    ['GET: not found', { method: 'GET' }, () => refusal(404, 'not_found'), 1],
    ['GET: a fault', { method: 'GET' }, () => refusal(500, 'internal'), 1],
    ['POST: nobody there', post, network, 1],
    ['POST: shutting down', post, () => refusal(503, 'shutting_down'), 1],
    ['POST: turned away', post, () => refusal(429, 'rate_limited'), 4],
    ['POST: a budget used up', post, () => refusal(429, 'budget_exceeded'), 1],
    ['POST that may be repeated: nobody there', repeatable, network, 4],
    ['POST that may be repeated: storage', repeatable, () => refusal(503, 'storage_failed'), 4],
    ['POST that may be repeated: conflict', repeatable, () => refusal(409, 'approval_conflict'), 1],
    [
      'POST that made a failed run',
      repeatable,
      () => refusal(502, 'provider_failed', { 'x-run-id': 'run-1' }),
      1,
    ],
  ])('%s', async (_, { method, ...wish }, answer, times) => {
    const server = FakeServer.saying(answer);
    const error = await outcome(http(server).json(method, '/x', { body: { n: 1 }, ...wish }));
    expect(error).toBeInstanceOf(RelayApiError);
    expect(server.asked).toHaveLength(times);
    // Every repetition is the same to the letter.
    for (const asked of server.asked) expect(asked).toMatchObject({ body: { n: 1 }, path: '/x' });
  });

  test('succeeds when the server is back', async () => {
    const server = FakeServer.saying(
      network,
      () => refusal(503, 'shutting_down'),
      () => json(200, 7),
    );
    expect(await outcome(http(server).json('GET', '/x'))).toBe(7);
  });

  test('is repeated as often as one likes, or never', async () => {
    const server = FakeServer.saying(network);
    await outcome(http(server, { maxRetries: 0 }).json('GET', '/x'));
    expect(server.asked).toHaveLength(1);
    await outcome(http(server, { maxRetries: 5 }).json('GET', '/x'));
    expect(server.asked).toHaveLength(7);
  });

  test('waits as long as the server asks for', async () => {
    const server = FakeServer.saying(
      () => refusal(429, 'rate_limited', { 'retry-after': '20' }),
      () => json(200, 'in'),
    );
    const asking = http(server).json('GET', '/x');
    await vi.advanceTimersByTimeAsync(19_900);
    expect(server.asked).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(200);
    expect(await asking).toBe('in');
  });

  test('does not wait for hours: the caller is told instead', async () => {
    const server = FakeServer.saying(() => refusal(429, 'rate_limited', { 'retry-after': '7200' }));
    const error = await http(server)
      .json('GET', '/x')
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'rate_limited', retryAfterMs: 7_200_000 });
    expect(server.asked).toHaveLength(1);
  });

  test('keeps what went wrong as its cause', async () => {
    const error = await outcome(
      http(FakeServer.saying(network), { maxRetries: 0 }).json('GET', '/x'),
    );
    expect(error).toMatchObject({ code: 'network_error', status: 0, retryable: true });
    expect((error as RelayApiError).cause).toBeInstanceOf(TypeError);
    expect((error as RelayApiError).message).toBe('GET http://relay.test/x failed: fetch failed');
  });

  test('says what it could not say as JSON, and asks nobody', async () => {
    const server = FakeServer.saying(() => json(200, {}));
    const body: Record<string, unknown> = {};
    body['self'] = body;
    await expect(http(server).json('POST', '/x', { body })).rejects.toThrow(/circular/);
    expect(server.asked).toHaveLength(0);
  });
});

describe('time', () => {
  const never = () => new Promise<Response>(() => {});

  test('is up when no answer begins', async () => {
    const server = FakeServer.saying(never);
    const client = http(server, { timeoutMs: 1000, maxRetries: 1 });
    expect(await outcome(client.json('GET', '/x'))).toMatchObject({
      code: 'network_error',
      message: expect.stringContaining('no answer within 1000 ms') as string,
    });
    expect(server.asked).toHaveLength(2);
  });

  test('does not run out for a stream that has begun', async () => {
    const stream = new FakeStream();
    const server = FakeServer.saying(() => stream.response);
    await http(server, { timeoutMs: 1000 }).stream('GET', '/v1/feed');
    await vi.advanceTimersByTimeAsync(5000);
    expect(server.asked[0]?.signal.aborted).toBe(false);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('is the caller’s to end, with the caller’s reason', async () => {
    const gone = new AbortController();
    const server = FakeServer.saying(never);
    const asking = http(server).json('GET', '/x', { signal: gone.signal });
    gone.abort(new Error('changed my mind'));
    await expect(asking).rejects.toThrow('changed my mind');
    expect(server.asked).toHaveLength(1);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('between two attempts is the caller’s to end too', async () => {
    const gone = new AbortController();
    const server = FakeServer.saying(() => new TypeError('fetch failed'));
    const asking = http(server).json('GET', '/x', { signal: gone.signal });
    const ended = expect(asking).rejects.toThrow('changed my mind');
    await vi.advanceTimersByTimeAsync(10);
    gone.abort(new Error('changed my mind'));
    await ended;
    expect(server.asked).toHaveLength(1);
  });
});

describe('a path', () => {
  test('holds its parts, whatever is in them', () => {
    expect(at`/v1/runs/${'a/b?c#d'}/tool-results/${'call 1'}`).toBe(
      '/v1/runs/a%2Fb%3Fc%23d/tool-results/call%201',
    );
  });

  test.each(['', '.', '..'])('cannot be made of %j, which would lead elsewhere', (id) => {
    expect(() => at`/v1/runs/${id}`).toThrow(/is no id/);
  });
});
