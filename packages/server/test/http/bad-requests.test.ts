/** Invalid methods, paths, queries and content types. */
import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { type Route, routes } from '@relay/protocol';
import { createMemoryStore } from '@relay/store';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bootServer, type TestServer } from '../support/server.ts';
import { errorOf, finishedRun } from '../support/requests.ts';

const id = '01963a5c-7891-7abc-8ef0-123456789abc';
const table: readonly Route[] = Object.values(routes);
const paths = [...new Set(table.map(({ path }) => path))];
const pathOf = (path: string) => path.replaceAll(/:\w+/g, id);
const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;

describe('a query', () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await bootServer();
  });

  afterAll(async () => {
    await server.stop();
  });

  it.each(['after', 'limit'])('refuses a malformed %s of the events', async (name) => {
    const { runId } = await finishedRun(server, { input: 'say 1' });
    for (const value of [
      '',
      '-1',
      '1.5',
      'x',
      '1e3',
      '0x1',
      '%20',
      '9'.repeat(16),
      'null',
      '%00',
    ]) {
      const response = await server.request(`/v1/runs/${runId}/events?${name}=${value}`);
      expect(response.status, value).toBe(400);
      expect(await response.json()).toMatchObject({ details: [{ path: name }] });
    }
    const twice = await server.request(`/v1/runs/${runId}/events?${name}=1&${name}=2`);
    expect(twice.status).toBe(400);
  });

  it.each(['limit=0', 'limit=5001', 'cursor=1', 'dialect=chat', 'aftr=1'])(
    'refuses the events with ?%s',
    async (query) => {
      const { runId } = await finishedRun(server, { input: 'say 1' });
      expect((await server.request(`/v1/runs/${runId}/events?${query}`)).status).toBe(400);
    },
  );

  it.each([
    'dialect=latin',
    'dialect=',
    'dialect=constructor',
    'follow=no',
    'follow=',
    'after=x',
    'limit=5',
    'api_key=x',
  ])('refuses a stream with ?%s', async (query) => {
    const { runId } = await finishedRun(server, { input: 'say 1' });
    const response = await server.request(`/v1/runs/${runId}/stream?${query}`);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ code: 'invalid_request' });
  });
});

describe('a request', () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await bootServer({ env: { RELAY_INTERNAL_SECRET: 'a-secret-of-16-or-more' } });
  });

  afterAll(async () => {
    await server.stop();
  });

  const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;

  it('by another method is answered with 405 and Allow', async () => {
    for (const path of paths) {
      const known: string[] = table
        .filter((route) => route.path === path)
        .flatMap(({ method, auth }) => (auth === 'public' ? [method, 'HEAD'] : [method]));
      // It is also a page.
      if (path === '/console/login') known.push('GET', 'HEAD');
      const method = methods.find((each) => !known.includes(each)) ?? 'PATCH';
      const response = await server.request(pathOf(path), { method });
      expect(response.status, `${method} ${path}`).toBe(405);
      expect(response.headers.get('allow'), path).toBe(known.join(', '));
      expect(await errorOf(response)).toMatchObject({ code: 'method_not_allowed' });
    }
  });

  it('by HEAD or OPTIONS is not answered with 404 where a route exists', async () => {
    for (const path of paths) {
      // A page, for callers that accept HTML.
      if (path === '/console/login') continue;
      for (const method of ['HEAD', 'OPTIONS']) {
        const response = await server.request(pathOf(path), { method });
        expect(response.status, `${method} ${path}`).not.toBe(404);
      }
    }
  });

  it.each(['/nope', '/v1', '/v1/nope', '/health/', '/internal/runs', '/HEALTH'])(
    'to %s is answered with 404, with or without a key',
    async (path) => {
      for (const key of [null, server.apiKey]) {
        const response = await server.request(path, { key });
        expect(response.status).toBe(404);
        expect(await response.json()).toEqual({
          error: expect.any(String),
          code: 'not_found',
        });
      }
    },
  );

  it.each(['1', 'undefined', `${id}0`, 'x'.repeat(99), '%00', '%2e%2e', "'%20or%201=1--"])(
    'about the run %s is answered with 404',
    async (wrongId) => {
      for (const tail of ['', '/events', '/stream']) {
        const response = await server.request(`/v1/runs/${wrongId}${tail}`);
        expect(response.status).toBe(404);
        expect(await response.json()).toMatchObject({ code: 'not_found' });
      }
      const cancel = await server.request(`/v1/runs/${wrongId}/cancel`, { method: 'POST' });
      expect(cancel.status).toBe(404);
    },
  );

  it('with a malformed id is answered like one with an unknown id', async () => {
    const missing = await (await server.request(`/v1/runs/${id}`)).text();
    expect(await (await server.request('/v1/runs/not-an-id')).text()).toBe(missing);
  });

  it.each([
    [`/v1/runs/${id}`, 'No such run'],
    ['/v1/runs/nonsense/stream', 'No such run'],
    [`/v1/approvals/${id}`, 'No such approval'],
    ['/v1/approvals/nonsense', 'No such approval'],
    ['/v1/nope', 'No such path'],
  ])('to %s names the missing resource', async (path, error) => {
    const response = await server.request(path);
    expect(response.status).toBe(404);
    expect(await response.json()).toEqual({ error, code: 'not_found' });
  });

  it.each([
    ['an id that is too long', `/v1/runs/${'x'.repeat(500)}`, 404],
    ['an id that is far too long', `/v1/runs/${'x'.repeat(4000)}`, 404],
    ['a URL that is no URL', '/v1/runs/%zz', 400],
    ['a URL that is no UTF-8', '/v1/runs/%ff', 400],
  ])('is answered with an error body for %s', async (_what, path, status) => {
    const response = await server.request(path);
    const body = (await response.json()) as Record<string, unknown>;
    expect(Object.keys(body)).toEqual(['error', 'code']);
    expect(body['code']).toMatch(/^[a-z_]+$/);
    expect(response.status).toBe(status);
  });

  // Decision links accept the form of their page.
  const posts = table
    .filter(({ method, auth }) => method === 'POST' && auth !== 'link')
    .map(({ path }) => path);

  async function expectUnsupported(path: string, type: string): Promise<void> {
    const response = await server.request(pathOf(path), {
      body: '{"model":"demo"}',
      headers: { 'content-type': type },
    });
    expect(response.status, `${path} ${type}`).toBe(415);
    expect(await errorOf(response)).toEqual({
      error: 'The body must be application/json',
      code: 'unsupported_media_type',
    });
  }

  it('by POST must be JSON on every route', async () => {
    for (const path of posts) await expectUnsupported(path, 'text/plain');
  });

  it.each([
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/xml',
    'application/jsonx',
    'application/vnd.api+json',
    'x',
  ])('must be JSON, and %s is not', (type) => expectUnsupported('/v1/runs', type));

  it('may name a charset with its content type', async () => {
    const response = await server.request('/v1/runs', {
      body: { model: 'demo', input: 'say 1' },
      headers: { 'content-type': 'Application/JSON; charset=utf-8' },
    });
    expect(response.status).toBe(200);
    await response.text();
  });

  const withBody = table
    .filter(({ body }) => body !== undefined)
    .map(({ method, path, bodyLimit = 1024 * 1024 }) => [method, path, bodyLimit] as const);

  it('may be larger than 1 MB on routes with attachments', () => {
    const large = withBody.filter(([, , limit]) => limit > 1024 * 1024);
    expect(large).toEqual(
      expect.arrayContaining([
        ['POST', '/chat', 10 * 1024 * 1024],
        ['POST', '/v1/runs', 10 * 1024 * 1024],
      ]),
    );
  });

  const fill = (size: number) => `{"x":"${'a'.repeat(size - 8)}"}`;

  it('may not exceed the limit of its route', async () => {
    for (const [method, path, limit] of withBody) {
      const tooLarge = await server.request(pathOf(path), { method, body: fill(limit + 1) });
      expect(tooLarge.status, `${method} ${path}`).toBe(413);
      expect(await errorOf(tooLarge)).toMatchObject({ code: 'payload_too_large' });
    }
  });

  it('may be as large as the limit of its route', async () => {
    // One route for each limit.
    const byLimit = new Map(withBody.map((each) => [each[2], each]));
    for (const [method, path, limit] of byLimit.values()) {
      const fits = await server.request(pathOf(path), { method, body: fill(limit) });
      expect(fits.status, `${method} ${path}`).toBe(400);
      await fits.text();
    }
  });

  it('may not exceed the limit in chunks', async () => {
    const answer = await new Promise<number | undefined>((resolve, reject) => {
      const sending = httpRequest(`${server.url}/v1/keys`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${server.apiKey}`,
          'content-type': 'application/json',
          'transfer-encoding': 'chunked',
        },
      });
      sending.on('response', (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      sending.on('error', reject);
      sending.write('{"x":"');
      for (let n = 0; n < 33; n += 1) sending.write('a'.repeat(32 * 1024));
      sending.end('"}');
    });
    expect(answer).toBe(413);
  });

  it('that is not HTTP does not affect other connections', async () => {
    const { hostname, port } = new URL(server.url);
    const socket = connect(Number(port), hostname);
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.on('error', () => undefined).resume();
    socket.write('\x16\x03\x01\x02\0hello\r\n\r\n');
    await closed;
    expect((await server.request('/health')).status).toBe(200);
  });
});

describe('an internal failure', () => {
  it('is answered with a 500 without internals, and is logged', async () => {
    const store = createMemoryStore();
    const server = await bootServer({ store });
    store.ping = () => Promise.reject(new Error('hunter2 at /home/relay'));
    const response = await server.request('/ready');
    expect(response.status).toBe(500);
    expect(await response.json()).toEqual({
      error: 'Internal server error; the server log has the details under x-request-id',
      code: 'internal',
    });
    await server.stop();
    expect(server.logged.join()).toContain('hunter2');
  });
});

describe('ambiguous JSON', () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await bootServer();
  });

  afterAll(async () => {
    await server.stop();
  });

  const contextOf = (context: string) =>
    `{"model":"demo","messages":[{"role":"user","content":"say 1"}],"context":{"x":${context}}}`;

  it.each([
    ['nested deeper than 64', contextOf(nested(65))],
    ['nested deeper than the stack', contextOf(nested(100_000))],
    ['an integer that no number holds', contextOf('12345678901234567890')],
    ['a number beyond all numbers', contextOf('1e400')],
    [
      'a key given twice',
      '{"model":"demo","messages":[{"role":"user","content":"a","content":"say 1"}]}',
    ],
  ])('is refused: %s', async (_what, body) => {
    const response = await server.request('/chat', { body });
    await response.text();
    expect(response.status).toBe(400);
  });

  it('is accepted if it is exact', async () => {
    const response = await server.request('/chat', { body: contextOf(nested(32)) });
    expect(response.status).toBe(200);
    await response.text();
  });
});
