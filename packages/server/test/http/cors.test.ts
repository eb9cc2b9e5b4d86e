/** CORS: pages of allowed origins, and of others. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bootServer, type TestServer } from '../support/server.ts';

const page = 'https://app.example.com';
const stranger = 'https://evil.example.com';
const body = { model: 'demo', input: 'say 2' };

let server: TestServer;
beforeAll(async () => {
  server = await bootServer({ env: { RELAY_ALLOWED_ORIGINS: `${page}, http://localhost:5173` } });
});
afterAll(() => server.stop());

function namesIn(response: Response): string[] {
  return [...response.headers.keys()].filter((name) => name.startsWith('access-control'));
}

function ask(origin: string, path = '/v1/runs') {
  const headers = { origin, 'access-control-request-method': 'POST' };
  return server.request(path, { method: 'OPTIONS', key: null, headers });
}

describe('a page of an allowed origin', () => {
  it('receives the allowed methods and headers in a preflight', async () => {
    const response = await ask(page);
    expect(response.status).toBe(204);
    expect(response.headers.get('access-control-allow-origin')).toBe(page);
    expect(response.headers.get('access-control-allow-methods')?.split(', ').toSorted()).toEqual([
      'GET',
      'POST',
    ]);
    const sendable = response.headers.get('access-control-allow-headers')?.split(', ') ?? [];
    for (const name of ['authorization', 'content-type', 'idempotency-key', 'last-event-id']) {
      expect(sendable).toContain(name);
    }
    expect(response.headers.get('vary')).toBe('Origin');
  });

  it('can read streams, responses, errors and x-run-id', async () => {
    const run = await server.request('/v1/runs', { body, headers: { origin: page } });
    expect(run.status).toBe(200);
    expect(run.headers.get('access-control-allow-origin')).toBe(page);
    expect(run.headers.get('access-control-expose-headers')).toContain('x-run-id');
    await run.text();
    for (const [path, key] of [
      ['/v1/runs', server.apiKey],
      ['/v1/runs', 'wrong'],
      ['/nowhere', server.apiKey],
    ] as const) {
      const response = await server.request(path, { key, headers: { origin: page } });
      expect(response.headers.get('access-control-allow-origin'), path).toBe(page);
    }
  });

  it('requires a key, and credentials are not allowed', async () => {
    const response = await server.request('/v1/runs', { key: null, headers: { origin: page } });
    expect(response.status).toBe(401);
    expect(response.headers.has('access-control-allow-credentials')).toBe(false);
  });
});

describe('a page of another origin', () => {
  it.each([stranger, 'null', `${page}.evil.example`, 'http://app.example.com', `${page}:8443`])(
    'receives no CORS headers: %s',
    async (origin) => {
      const asked = await ask(origin);
      expect(asked.status).toBe(405);
      expect(namesIn(asked)).toEqual([]);
      const called = await server.request('/v1/runs', { headers: { origin } });
      expect(called.status).toBe(403);
      expect(namesIn(called)).toEqual([]);
    },
  );
});

it('no CORS headers are sent without allowed origins', async () => {
  const plain = await bootServer();
  try {
    const headers = { origin: page, 'access-control-request-method': 'POST' };
    const asked = await plain.request('/v1/runs', { method: 'OPTIONS', key: null, headers });
    expect([asked.status, namesIn(asked)]).toEqual([405, []]);
    expect((await plain.request('/health')).headers.has('vary')).toBe(false);
  } finally {
    await plain.stop();
  }
});
