/** Rotation and last use of keys, and the audit entries of what was refused to them. */
import { describe, expect, it, onTestFinished } from 'vitest';
import { addKey, bootServer, type TestServer } from '../support/server.ts';

async function boot(): Promise<TestServer> {
  const server = await bootServer();
  onTestFinished(() => server.stop());
  return server;
}

async function entriesOf(server: TestServer, action: string) {
  const { entries } = await server.json(`/v1/audit?action=${action}`);
  return entries as readonly { what: Record<string, unknown> }[];
}

describe('a key', () => {
  it('is replaced by one with the same rights, and expires after the overlap', async () => {
    const server = await boot();
    const { keyId, apiKey: old } = await addKey(server.store, { scopes: ['runs'] });
    const rotated = await server.request(`/v1/keys/${keyId}/rotate`, { body: {} });
    expect(rotated.status).toBe(201);
    const { apiKey: fresh } = (await rotated.json()) as { apiKey: string };
    for (const key of [old, fresh]) {
      expect((await server.request('/models', { key })).status).toBe(200);
    }
    const now = await server.request(`/v1/keys/${keyId}/rotate`, { body: { overlapSeconds: 0 } });
    expect(now.status).toBe(201);
    expect((await server.request('/models', { key: old })).status).toBe(401);
    expect((await server.request('/models', { key: fresh })).status).toBe(200);
    expect(await entriesOf(server, 'key.rotated')).toHaveLength(2);
  });

  it('is not rotated by a caller who lacks one of its scopes', async () => {
    const server = await boot();
    const { keyId } = await addKey(server.store, { scopes: ['approve'] });
    const { apiKey: key } = await addKey(server.store, { scopes: ['admin'] });
    const refused = await server.request(`/v1/keys/${keyId}/rotate`, { key, body: {} });
    expect(refused.status).toBe(403);
    expect(await refused.json()).toMatchObject({ code: 'scope_not_held' });
  });

  it('that is expired or revoked is audited once, however often it is tried', async () => {
    const server = await boot();
    const { keyId, apiKey: key } = await addKey(server.store, { expiresAt: 1 });
    for (let n = 0; n < 5; n += 1) await server.request('/models', { key });
    await expect
      .poll(() => entriesOf(server, 'key.refused'))
      .toMatchObject([{ what: { keyId, reason: 'expired', count: 1 } }]);
  });

  it('that may not decide leaves an entry of the refused decision', async () => {
    const server = await boot();
    const { apiKey: key } = await addKey(server.store, { scopes: ['runs'] });
    const body = { tool: 'send_note', scope: 'tenant' };
    expect((await server.request('/v1/grants', { key, body })).status).toBe(403);
    await expect
      .poll(() => entriesOf(server, 'decision.refused'))
      .toMatchObject([{ what: { route: 'POST /v1/grants', code: 'scope_required' } }]);
  });
});
