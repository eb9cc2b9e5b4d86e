/** 003 over HTTP: keys and tenants. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { crc32 } from 'node:zlib';
import { type Route, routes } from '@relay/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FrameReader } from '../support/frames.ts';
import { LocalServer } from '../support/server.ts';
import { verifies } from './verifies.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const server = new LocalServer();
beforeAll(() => server.start());
afterAll(() => server.dispose());

const tools = [{ name: 'send_note', kind: 'builtin' }];
const guarded = Object.values<Route>(routes).filter(({ path }) => path.startsWith('/v1/'));
const ofOneTenant = guarded.filter(({ path }) => /^\/v1\/(runs|approvals)\/:id/.test(path));

/** A run of the first tenant that waits for a person, and the approval that it waits for. */
async function waitingRun(): Promise<{ runId: string; approvalId: string }> {
  const response = await server.request('/v1/runs', {
    body: { model: 'demo', input: 'notify my own people', tools },
  });
  const runId = response.headers.get('x-run-id') ?? '';
  const reader = new FrameReader(response);
  const approval = await reader.until('approval_requested');
  await reader.close();
  await expect.poll(async () => (await ownRun(runId)).status).toBe('waiting');
  return { runId, approvalId: String(approval.data['id']) };
}

async function ownRun(runId: string): Promise<{ status: string; conversationId: string }> {
  const response = await server.request(`/v1/runs/${runId}`);
  return (await response.json()) as { status: string; conversationId: string };
}

/** A request that the owner's key could make, with another authorization or none. */
async function knock(
  route: Route,
  ids: { runId: string; approvalId: string },
  headers: Record<string, string>,
): Promise<Response> {
  const id = route.path.startsWith('/v1/approvals') ? ids.approvalId : ids.runId;
  return server.request(route.path.replace(/:\w+/g, id), {
    method: route.method,
    keyless: true,
    headers,
    ...(route.body === undefined ? {} : { body: bodyOf(route) }),
  });
}

function bodyOf(route: Route): object {
  switch (route) {
    case routes.startRun:
      return { model: 'demo', input: 'say 1' };
    case routes.messageRun:
      return { text: 'hello' };
    case routes.postToolResult:
      return { output: 1 };
    case routes.decideApproval:
      return { approved: true };
    default:
      return {};
  }
}

async function bootstrap(tenant: string): Promise<{ tenantId: string; apiKey: string }> {
  const args = ['run', '-s', 'bootstrap', '--', '--tenant', tenant, '--json'];
  const env = { ...process.env, RELAY_DATA_DIR: server.dataDir };
  const { stdout } = await promisify(execFile)('npm', args, { cwd: root, env });
  return JSON.parse(stdout) as { tenantId: string; apiKey: string };
}

/** How much the model read in a run of its own. */
async function tokensRead(apiKey: string, more: object): Promise<number> {
  const response = await server.request('/v1/runs', {
    keyless: true,
    headers: bearer(apiKey),
    body: { model: 'demo', input: 'say 1', ...more },
  });
  return Number(/"input_tokens":(\d+)/.exec(await response.text())?.[1]);
}

function bearer(apiKey: string): Record<string, string> {
  return { authorization: `Bearer ${apiKey}` };
}

/** A key with a valid format and checksum that was never issued. */
function inventedKey(): string {
  const text = `relay_live_${randomBytes(32).toString('hex')}`;
  return `${text}${crc32(text).toString(16).padStart(8, '0')}`;
}

function mistypedKey(): string {
  return server.apiKey.slice(0, -1) + (server.apiKey.endsWith('0') ? '1' : '0');
}

describe('the routes below /v1', () => {
  test.each([
    ['none', {}],
    ['an empty one', { authorization: '' }],
    ['no key', { authorization: 'Bearer' }],
    ['another scheme', { authorization: 'Basic cmVsYXk6cmVsYXk=' }],
    ['a key that is not ours', bearer('sk-not-a-relay-key')],
    ['a key that was never issued', bearer(inventedKey())],
  ] satisfies [string, Record<string, string>][])(
    'all refuse a request whose bearer token is %s',
    async (_, headers) => {
      verifies('003:auth:v1-bearer');
      const ids = await waitingRun();
      expect(guarded.length).toBeGreaterThanOrEqual(7);
      for (const route of guarded) {
        const response = await knock(route, ids, headers);
        expect([route.method, route.path, response.status]).toEqual([
          route.method,
          route.path,
          401,
        ]);
        expect(await response.json()).toMatchObject({ error: expect.any(String) });
      }
      // Nothing was decided or canceled by those who had no key.
      expect((await ownRun(ids.runId)).status).toBe('waiting');
      expect(server.notes).toEqual([]);
    },
  );

  test('POST /v1/runs is 401 for a missing token, and starts nothing', async () => {
    verifies('003:runs-error:missing-token');
    const body = { model: 'demo', input: 'say 1' };
    const response = await server.request('/v1/runs', { keyless: true, body });
    expect(response.status).toBe(401);
    expect(response.headers.get('x-run-id')).toBeNull();
    expect(await response.json()).toMatchObject({ error: expect.any(String) });
  });

  test('POST /v1/runs is 401 for an invalid token, and starts nothing', async () => {
    verifies('003:runs-error:invalid-token');
    const body = { model: 'demo', input: 'say 1' };
    const wrong = ['nonsense', 'relay_live_', inventedKey(), mistypedKey()];
    for (const token of [...wrong, server.apiKey.toUpperCase()]) {
      const headers = bearer(token);
      const response = await server.request('/v1/runs', { keyless: true, body, headers });
      expect(response.status).toBe(401);
      expect(response.headers.get('x-run-id')).toBeNull();
      expect(await response.json()).toMatchObject({ error: expect.any(String) });
    }
  });
});

describe('a tenant’s key', () => {
  test('starts with relay_live_ and authenticates as a bearer token', async () => {
    verifies('003:auth:header', '003:auth:key-prefix');
    const { apiKey } = await bootstrap('prefix');
    for (const key of [server.apiKey, apiKey]) {
      expect(key).toMatch(/^relay_live_\w+$/);
      const response = await server.request('/v1/runs', {
        keyless: true,
        headers: { authorization: `Bearer ${key}` },
        body: { model: 'demo', input: 'say 1' },
      });
      expect(response.status).toBe(200);
      await response.text();
    }
  });

  test('comes from the bootstrap script and works at once, beside the running server', async () => {
    verifies('003:auth:bootstrap-key');
    const { apiKey, tenantId } = await bootstrap('acme');
    expect(tenantId).toMatch(/^[0-9a-f-]{36}$/);
    const response = await server.request('/v1/runs', {
      keyless: true,
      headers: bearer(apiKey),
      body: { model: 'demo', input: 'say 3' },
    });
    expect(response.status).toBe(200);
    const runId = response.headers.get('x-run-id') ?? '';
    expect(await response.text()).toContain('"type":"done"');
    const headers = bearer(apiKey);
    const run = await server.request(`/v1/runs/${runId}`, { keyless: true, headers });
    expect(await run.json()).toMatchObject({ id: runId, status: 'completed' });
  });

  test('decides the tenant: another tenant finds none of its runs, events, streams or approvals', async () => {
    verifies('003:auth:key-selects-tenant', '003:runs-get:other-tenant');
    const ids = await waitingRun();
    const { apiKey } = await bootstrap('globex');
    const unknown = { runId: '01963a5c-7893-7abc-8ef0-123456789abc', approvalId: ids.runId };
    expect(ofOneTenant.map(({ path }) => path)).toContain('/v1/runs/:id/fork');
    for (const route of ofOneTenant) {
      const response = await knock(route, ids, bearer(apiKey));
      expect([route.path, response.status]).toEqual([route.path, 404]);
      // The response is the same as for a resource that does not exist.
      const nothing = await knock(route, unknown, bearer(apiKey));
      expect(await response.json()).toEqual(await nothing.json());
    }
    const { status, conversationId } = await ownRun(ids.runId);
    expect(status).toBe('waiting');
    expect(server.notes).toEqual([]);

    // Nor does its conversation go on under another key: the model reads as much as in a new one.
    await server.request(`/v1/runs/${ids.runId}/cancel`, { method: 'POST' });
    await expect.poll(async () => (await ownRun(ids.runId)).status).toBe('canceled');
    const fresh = await tokensRead(apiKey, {});
    expect(await tokensRead(apiKey, { conversationId })).toBe(fresh);
    expect(await tokensRead(server.apiKey, { conversationId })).toBeGreaterThan(fresh);
  });
});
