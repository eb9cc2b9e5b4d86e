import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { RelayApiError } from '../src/errors.ts';
import { Http, type HttpOptions, pathOf, type RequestOptions, uuid } from '../src/http.ts';
import { FakeServer, FakeStream, json, options, refusal } from './support/fake-server.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function http(server: FakeServer, more: Partial<HttpOptions> = {}): Http {
  return new Http({ ...options, fetch: server.fetch, ...more });
}

/** The outcome, with all timers advanced. */
async function outcome<Value>(asking: Promise<Value>): Promise<Value | RelayApiError> {
  const settled = asking.catch((error: unknown) => error as RelayApiError);
  await vi.advanceTimersByTimeAsync(10 * 60_000);
  return settled;
}

describe('HTTP request', () => {
  test('sends the key, the headers and the body', async () => {
    const server = FakeServer.respondingWith(() => json(200, { ok: true }));
    const client = http(server, { baseUrl: 'http://relay.test/', headers: { 'x-tag': 'a' } });
    await client.json('PUT', '/v1/tenant', { body: { paused: true } });
    expect(server.requests[0]).toMatchObject({
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

  test('sends no authorization and no content-type without a key and a body', async () => {
    const server = FakeServer.respondingWith(() => json(200, {}));
    await http(server, { apiKey: undefined }).json('POST', '/v1/runs/1/cancel');
    expect(server.requests[0]?.headers).toEqual({});
  });

  test('keeps the path of the base URL, and omits undefined query parameters', async () => {
    const server = FakeServer.respondingWith(() => json(200, {}));
    const query = { a: 1, b: undefined, c: 'x&y', d: false };
    await http(server, { baseUrl: 'http://relay.test/ai//' }).json('GET', '/health', { query });
    expect(server.requests[0]).toMatchObject({
      path: '/ai/health',
      query: { a: '1', c: 'x&y', d: 'false' },
    });
  });

  test('resolves to undefined without a body', async () => {
    const server = FakeServer.respondingWith(() => new Response(null, { status: 204 }));
    expect(await http(server).json('DELETE', '/v1/keys/1')).toBeUndefined();
  });

  test('fails with unexpected_response if the response is not JSON', async () => {
    const server = FakeServer.respondingWith(() => new Response('<html>'));
    expect(await outcome(http(server).json('GET', '/health'))).toMatchObject({
      code: 'unexpected_response',
      status: 200,
    });
    expect(server.requests).toHaveLength(1);
  });

  test('fails with unexpected_response if the response is not an event stream', async () => {
    const server = FakeServer.respondingWith(() => new Response('<html>'));
    expect(await outcome(http(server).stream('GET', '/v1/feed'))).toMatchObject({
      code: 'unexpected_response',
      retryable: false,
    });
  });
});

describe('HTTP request that fails', () => {
  const network = () => new TypeError('fetch failed');
  type Answer = () => Response | Error;
  const post = { method: 'POST' as const };
  const repeatable = { ...post, repeatable: true };

  test.each<
    readonly [
      string,
      RequestOptions & { method: 'GET' | 'POST' | 'PUT' | 'DELETE' },
      Answer,
      number,
    ]
  >([
    ['GET: connection refused', { method: 'GET' }, network, 4],
    ['PUT: connection refused', { method: 'PUT' }, network, 4],
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
    ['POST: connection refused', post, network, 1],
    ['POST: shutting down', post, () => refusal(503, 'shutting_down'), 1],
    ['POST: turned away', post, () => refusal(429, 'rate_limited'), 4],
    ['POST: a budget used up', post, () => refusal(429, 'budget_exceeded'), 1],
    ['repeatable POST: connection refused', repeatable, network, 4],
    ['POST that may be repeated: storage', repeatable, () => refusal(503, 'storage_failed'), 4],
    ['POST that may be repeated: conflict', repeatable, () => refusal(409, 'approval_conflict'), 1],
    [
      'POST that made a failed run',
      repeatable,
      () => refusal(502, 'provider_failed', { 'x-run-id': 'run-1' }),
      1,
    ],
  ])('%s', async (_, { method, ...requestOptions }, answer, times) => {
    const server = FakeServer.respondingWith(answer);
    const error = await outcome(
      http(server, { unreachableTimeoutMs: 0 }).json(method, '/x', {
        body: { n: 1 },
        ...requestOptions,
      }),
    );
    expect(error).toBeInstanceOf(RelayApiError);
    expect(server.requests).toHaveLength(times);
    // Every repetition is the same to the letter.
    for (const request of server.requests)
      expect(request).toMatchObject({ body: { n: 1 }, path: '/x' });
  });

  test('succeeds when the server is available again', async () => {
    const server = FakeServer.respondingWith(
      network,
      () => refusal(503, 'shutting_down'),
      () => json(200, 7),
    );
    expect(await outcome(http(server).json('GET', '/x'))).toBe(7);
  });

  test('is retried up to maxRetries times', async () => {
    const server = FakeServer.respondingWith(() => refusal(503, 'storage_failed'));
    await outcome(http(server, { maxRetries: 0 }).json('GET', '/x'));
    expect(server.requests).toHaveLength(1);
    await outcome(http(server, { maxRetries: 5 }).json('GET', '/x'));
    expect(server.requests).toHaveLength(7);
  });

  test('is retried for ten seconds while the server cannot be reached, as during a restart', async () => {
    const server = FakeServer.respondingWith(network);
    const asking = http(server).json('GET', '/x');
    await vi.advanceTimersByTimeAsync(8_500);
    server.answer(() => json(200, 'back'));
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await asking).toBe('back');
    server.answer(network);
    const failing = http(server).json('GET', '/x');
    const failed = expect(failing).rejects.toThrow('fetch failed');
    await vi.advanceTimersByTimeAsync(10_000);
    await failed;
  });

  test('that was not sent is retried, whatever it does', async () => {
    const refused = () => new TypeError('fetch failed', { cause: { code: 'ECONNREFUSED' } });
    const server = FakeServer.respondingWith(refused, () => json(200, 'made'));
    expect(await outcome(http(server).json('POST', '/v1/keys'))).toBe('made');
  });

  test('waits for Retry-After', async () => {
    const server = FakeServer.respondingWith(
      () => refusal(429, 'rate_limited', { 'retry-after': '20' }),
      () => json(200, 'in'),
    );
    const asking = http(server).json('GET', '/x');
    await vi.advanceTimersByTimeAsync(19_900);
    expect(server.requests).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(200);
    expect(await asking).toBe('in');
  });

  test('fails at once if Retry-After is too long', async () => {
    const server = FakeServer.respondingWith(() =>
      refusal(429, 'rate_limited', { 'retry-after': '7200' }),
    );
    const error = await http(server)
      .json('GET', '/x')
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'rate_limited', retryAfterMs: 7_200_000 });
    expect(server.requests).toHaveLength(1);
  });

  test('has a cause', async () => {
    const error = await outcome(
      http(FakeServer.respondingWith(network), { maxRetries: 0 }).json('GET', '/x'),
    );
    expect(error).toMatchObject({ code: 'network_error', status: 0, retryable: true });
    expect((error as RelayApiError).cause).toBeInstanceOf(TypeError);
    expect((error as RelayApiError).message).toBe('GET http://relay.test/x failed: fetch failed');
  });

  test('rejects a body that is not JSON without sending it', async () => {
    const server = FakeServer.respondingWith(() => json(200, {}));
    const body: Record<string, unknown> = {};
    body['self'] = body;
    await expect(http(server).json('POST', '/x', { body })).rejects.toThrow(/circular/);
    expect(server.requests).toHaveLength(0);
  });
});

describe('HTTP request timeout', () => {
  const never = () => new Promise<Response>(() => {});

  test('aborts a request without a response', async () => {
    const server = FakeServer.respondingWith(never);
    const client = http(server, { timeoutMs: 1000, maxRetries: 1 });
    expect(await outcome(client.json('GET', '/x'))).toMatchObject({
      code: 'network_error',
      message: expect.stringContaining('no response within 1000 ms') as string,
    });
    expect(server.requests).toHaveLength(2);
  });

  test('does not apply to a stream that has started', async () => {
    const stream = new FakeStream();
    const server = FakeServer.respondingWith(() => stream.response);
    await http(server, { timeoutMs: 1000 }).stream('GET', '/v1/feed');
    await vi.advanceTimersByTimeAsync(5000);
    expect(server.requests[0]?.signal.aborted).toBe(false);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('rejects with the reason of the caller’s signal', async () => {
    const gone = new AbortController();
    const server = FakeServer.respondingWith(never);
    const asking = http(server).json('GET', '/x', { signal: gone.signal });
    gone.abort(new Error('changed my mind'));
    await expect(asking).rejects.toThrow('changed my mind');
    expect(server.requests).toHaveLength(1);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('stops waiting for a retry when the caller’s signal is aborted', async () => {
    const gone = new AbortController();
    const server = FakeServer.respondingWith(() => new TypeError('fetch failed'));
    const asking = http(server).json('GET', '/x', { signal: gone.signal });
    const ended = expect(asking).rejects.toThrow('changed my mind');
    await vi.advanceTimersByTimeAsync(10);
    gone.abort(new Error('changed my mind'));
    await ended;
    expect(server.requests).toHaveLength(1);
  });
});

describe('pathOf', () => {
  test('encodes its parts', () => {
    expect(pathOf`/v1/runs/${'a/b?c#d'}/tool-results/${'call 1'}`).toBe(
      '/v1/runs/a%2Fb%3Fc%23d/tool-results/call%201',
    );
  });

  test.each(['', '.', '..'])('rejects %j, which would change the path', (id) => {
    expect(() => pathOf`/v1/runs/${id}`).toThrow(/is not an id/);
  });
});

const form = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe('uuid', () => {
  test('creates a version 4 UUID', () => {
    expect(uuid()).toMatch(form);
  });

  test('creates a UUID without crypto.randomUUID, as on an insecure origin', () => {
    const { crypto } = globalThis;
    vi.stubGlobal('crypto', {
      getRandomValues: (bytes: Uint8Array<ArrayBuffer>) => crypto.getRandomValues(bytes),
    });
    const ids = Array.from({ length: 100 }, uuid);
    for (const id of ids) expect(id).toMatch(form);
    expect(new Set(ids).size).toBe(100);
  });
});
