/** The access log and request ids. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { createMemoryStore } from '@relay/store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createLog } from '../../src/observability/log.ts';
import { bootServer, type TestServer, until } from '../support/server.ts';
import { finishedRun, startRun } from '../support/requests.ts';

interface Line extends Record<string, unknown> {
  readonly level: string;
  readonly msg: string;
}

let server: TestServer;
let text: string;

const lines = () =>
  text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Line);
const line = (wanted: Partial<Line>) =>
  until(
    () =>
      lines().find((each) => Object.entries(wanted).every(([key, value]) => each[key] === value)),
    JSON.stringify(wanted),
  );

async function boot(options: Parameters<typeof bootServer>[0] = {}): Promise<void> {
  text = '';
  const log = createLog({ level: 'debug', write: (more) => (text += more) });
  server = await bootServer({ ...options, log });
}

beforeEach(() => boot());
afterEach(() => server.stop());

describe('a request', () => {
  it('is logged in one line with its route, caller, status and duration', async () => {
    const { runId } = await finishedRun(server, { input: 'say 1' });
    expect(await line({ msg: 'request', route: '/v1/runs' })).toEqual({
      time: expect.any(String),
      level: 'info',
      msg: 'request',
      requestId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      method: 'POST',
      route: '/v1/runs',
      status: 200,
      ms: expect.any(Number),
      tenantId: server.tenantId,
      caller: expect.any(String),
      runId,
    });
  });

  it('is logged with its route, not its URL', async () => {
    await server.request('/v1/runs/swordfish/stream?after=swordfish&key=swordfish');
    await server.request('/swordfish?swordfish');
    await server.request('/%swordfish');
    await line({ msg: 'request', route: '/v1/runs/:id/stream', status: 404 });
    await line({ msg: 'request', route: null, status: 404 });
    await line({ msg: 'request', status: 400 });
    expect(text).not.toContain('swordfish');
  });

  it('is logged without its body and headers', async () => {
    await server.request('/v1/runs', {
      body: { model: 'swordfish', input: 'swordfish' },
      headers: { 'x-custom': 'swordfish' },
    });
    await server.request('/v1/keys', { body: { name: 'swordfish', scopes: ['runs'] } });
    await line({ route: '/v1/runs', status: 400 });
    await line({ route: '/v1/keys', status: 201 });
    expect(text).not.toContain('swordfish');
    expect(text).not.toContain('relay_live_');
  });

  it('is logged as aborted if its client disconnects', async () => {
    const leaving = new AbortController();
    await startRun(server, { input: 'notify me' }, { signal: leaving.signal });
    leaving.abort();
    expect(await line({ route: '/v1/runs', aborted: true })).toMatchObject({ status: 200 });
  });

  it('of a health probe is logged at debug level', async () => {
    await server.request('/health');
    expect(await line({ route: '/health' })).toMatchObject({ level: 'debug', status: 200 });
  });

  it('that cannot be parsed is logged, unlike a client that disconnects', async () => {
    const { hostname, port } = new URL(server.url);
    const idle = connect(Number(port), hostname);
    idle.write('GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n');
    await once(idle, 'data');
    idle.resetAndDestroy();
    connect(Number(port), hostname).end('nonsense\r\n\r\n');
    await line({ msg: 'A request could not be parsed', code: 'HPE_INVALID_METHOD' });
    expect(text).not.toContain('ECONNRESET');
  });
});

describe('the id of a request', () => {
  const idFor = async (given: string, path = '/health') => {
    const response = await server.request(path, { headers: { 'x-request-id': given } });
    await response.text();
    return response.headers.get('x-request-id');
  };

  it.each(['req-42', 'a.b:c~d/e@f+g=h_i', 'x'.repeat(128)])(
    'is the caller’s own if it is well-formed: %s',
    async (given) => {
      expect(await idFor(given)).toBe(given);
      expect(await idFor(given, '/v1/runs')).toBe(given);
      expect(await idFor(given, '/nowhere')).toBe(given);
      expect(await line({ requestId: given, route: '/health' })).toBeDefined();
    },
  );

  it.each(['', 'x'.repeat(129), 'a b', '<script>', 'a;b', 'ü', '"'])(
    'is a new one instead of %j',
    async (given) => {
      expect(await idFor(given)).toMatch(/^[0-9a-f]{8}-[0-9a-f-]{27}$/);
    },
  );

  it('is sent with every response, also with streams and errors', async () => {
    const stream = await server.request('/v1/runs', { body: { model: 'demo', input: 'say 1' } });
    await stream.text();
    expect(stream.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
    const refused = await server.request('/v1/runs', { key: null });
    expect(refused.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
    const unroutable = await server.request('/%zz');
    expect(unroutable.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
  });

  it('is the correlation id of the run by default', async () => {
    const response = await server.request('/api/chat', { body: { model: 'demo', message: 'hi' } });
    const shown = await response.text();
    expect(shown).toContain(`"correlationId":"${response.headers.get('x-request-id')}"`);
  });
});

describe('an internal error', () => {
  it('is logged with its stack, which the caller does not see', async () => {
    await server.stop();
    const store = createMemoryStore();
    store.stats = () => Promise.reject(new Error('the cellar: sk-abcdefghijklmnopqrstuvwx'));
    await boot({ store });
    const response = await server.request('/metrics');
    const body = await response.text();
    expect(response.status).toBe(500);
    expect(body).toBe(
      '{"error":"Internal server error; the server log has the details under x-request-id","code":"internal"}',
    );
    const logged = await line({ msg: 'A request failed' });
    expect(logged).toMatchObject({
      level: 'error',
      requestId: response.headers.get('x-request-id'),
      route: '/metrics',
      code: 'internal',
      error: { message: 'the cellar: [redacted]' },
    });
    expect((logged['error'] as { stack: string }).stack).toContain('logs.test.ts');
  });
});

it('the log hides a credential as soon as it is received', async () => {
  const apiKey = 'nothing.in.here.looks.like.one';
  const response = await server.request('/v1/credentials/mine', {
    method: 'PUT',
    body: { apiKey, baseUrl: 'https://models.example/v1' },
  });
  expect(response.status).toBe(200);
  server.relay.control.engine.log.warn(`The provider says: ${apiKey}`);
  expect(text).toContain('The provider says: [redacted]');
});
