/** Somebody who can write to the database file, but does not hold the master key, gains nothing. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { hashApiKey, makeApiKey } from '../../../src/secrets/keys.ts';
import { finishedRun, startRun } from '../../support/requests.ts';
import { addKey, bootServer, type TestServer, until } from '../../support/server.ts';

describe('a database that was changed past Relay', () => {
  let server: TestServer;

  beforeEach(async () => {
    const env = { RELAY_PRIVATE_NETWORKS: '127.0.0.0/8', RELAY_PROVIDER_ATTEMPTS: '1' };
    server = await bootServer({ kind: 'sqlite', env });
  });
  afterEach(() => server.stop());

  function tamper(sql: string): void {
    const db = new DatabaseSync(join(server.config.dataDir, 'relay.db'));
    db.exec(sql);
    db.close();
  }

  it('lets no key in that was inserted, widened or revived, and reports it', async () => {
    const { keyId, apiKey } = await addKey(server.store, { scopes: ['read'] });
    const own = makeApiKey();
    tamper(`CREATE TABLE forged AS SELECT * FROM keys WHERE id <> '${keyId}';
      UPDATE forged SET id = 'mine', hash = '${hashApiKey(own)}';
      INSERT INTO keys SELECT * FROM forged;
      UPDATE keys SET scopes = '["read","runs","approve","admin"]' WHERE id = '${keyId}'`);
    const status = async (key: string) => (await server.request('/v1/keys', { key })).status;
    expect([await status(own), await status(apiKey)]).toEqual([401, 401]);

    const revoked = await addKey(server.store, {});
    await server.store.tenant(server.tenantId).revokeKey(revoked.keyId, 1);
    tamper(`UPDATE keys SET revoked_at = NULL WHERE id = '${revoked.keyId}'`);
    expect(await status(revoked.apiKey)).toBe(401);

    expect(server.logged.join()).toContain('A row was changed in the database');
    const metrics = await (await server.request('/metrics')).text();
    expect(metrics).toMatch(/relay_damaged_rows_total\{[^}]*table="keys"[^}]*\} 3/);
  });

  it('sends no credential to a base URL that was changed', async () => {
    const received: string[] = [];
    const thief = createServer((request, response) => {
      received.push(request.headers.authorization ?? '');
      response.writeHead(500).end();
    });
    await new Promise<void>((resolve) => thief.listen(0, '127.0.0.1', resolve));
    const { port } = thief.address() as AddressInfo;
    const body = { apiKey: 'sk-canary-0123456789', baseUrl: `http://127.0.0.1:${port}/v1` };
    const run = () =>
      server.request('/v1/runs', { body: { model: 'openai:gpt-x', input: 'hello' } });
    await server.request('/v1/credentials/openai', { method: 'PUT', body });
    await (await run()).text();
    await until(() => received.length > 0, 'the request to the right address');
    received.length = 0;

    const other = { ...body, baseUrl: 'http://127.0.0.1:9/v1' };
    await server.request('/v1/credentials/openai', { method: 'PUT', body: other });
    tamper(`UPDATE credentials SET base_url = '${JSON.stringify(body.baseUrl)}'`);
    const response = await run();
    expect(await response.text()).toContain('journal_corrupt');
    expect(received).toEqual([]);
    thief.close();
  });

  it('stops the calls of a tenant whose policy was removed', async () => {
    const deny = [{ tool: 'calculator' }];
    const policy = { version: 0, allow: [], deny, ask: [] };
    await server.request('/v1/policy', { method: 'PUT', body: policy });
    tamper('DELETE FROM policies');
    const call = {
      input: 'calculate 2*3',
      tools: [{ name: 'calculator', kind: 'builtin' }],
    };
    const { runId } = await startRun(server, call);
    const failed = await until(async () => {
      const run = await server.json(`/v1/runs/${runId}`);
      return run['status'] === 'failed' && run;
    }, 'the run to fail');
    expect(failed['error']).toMatchObject({ code: 'journal_corrupt' });
    const again = { ...policy, version: 1, deny: [] };
    await server.request('/v1/policy', { method: 'PUT', body: again });
    const { frames } = await finishedRun(server, call);
    expect(frames.at(-1)?.data).toMatchObject({ status: 'completed' });
  });

  it('starts no run for a tenant whose settings or pause were changed', async () => {
    const { store, tenantId } = server;
    await store.tenant(tenantId).updateTenant({ settings: { budgets: {} } });
    tamper(`UPDATE tenants SET settings = '{"workspace":"/"}' WHERE id = '${tenantId}'`);
    const response = await server.request('/v1/runs', { body: { model: 'demo', input: 'x' } });
    expect(response.status).toBe(500);
    expect(await response.json()).toMatchObject({ code: 'journal_corrupt' });
  });
});
