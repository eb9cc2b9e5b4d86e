/** Rotation and last use of keys, and the audit entries of keys that were refused. */
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { createMemoryStore } from '@relay/store';
import { uuidv7 } from 'uuidv7';
import { describe, expect, it, onTestFinished } from 'vitest';
import { makeApiKey } from '../../../src/secrets/keys.ts';
import { startChat, startRun } from '../../support/requests.ts';
import {
  addKey,
  type BootOptions,
  bootServer,
  type TestServer,
  until,
} from '../../support/server.ts';

async function boot(options: BootOptions = {}): Promise<TestServer> {
  const server = await bootServer(options);
  onTestFinished(() => server.stop());
  return server;
}

type Json = Readonly<Record<string, unknown>>;

async function entriesOf(server: TestServer, action: string) {
  const { entries } = await server.json(`/v1/audit?action=${action}`);
  return entries as readonly { what: Json; who: Json }[];
}

interface Key extends Json {
  readonly id: string;
  readonly apiKey: string;
  readonly expiresAt?: string;
}

async function rotate(server: TestServer, id: string, body: Json = {}, key?: string) {
  const options = { body, ...(key === undefined ? {} : { key }) };
  const response = await server.request(`/v1/keys/${id}/rotate`, options);
  return { status: response.status, body: (await response.json()) as Key };
}

async function keyOf(server: TestServer, keyId: string): Promise<Json> {
  const { keys } = (await server.json('/v1/keys')) as { keys: Json[] };
  return keys.find(({ id }) => id === keyId) ?? {};
}

const statusWith = async (server: TestServer, key: string) =>
  (await server.request('/models', { key })).status;

describe('a rotated key', () => {
  it('has the same rights, and the old one works for a day by default', async () => {
    const server = await boot();
    const limits = { scopes: ['runs'], groups: ['release'], expiresAt: Date.now() + 1e9 };
    const { keyId, apiKey: old } = await addKey(server.store, limits);
    const before = Date.now();
    const { status, body: fresh } = await rotate(server, keyId);
    expect(status).toBe(201);
    expect(fresh).toMatchObject({ scopes: ['runs'], groups: ['release'], replaces: keyId });
    expect(fresh.id).not.toBe(keyId);
    const current = await server.json('/v1/keys/current', { key: fresh.apiKey });
    const { apiKey: _, ...shown } = fresh;
    // A key reads its own rights with those that they include.
    expect(current).toMatchObject({ ...shown, scopes: ['runs', 'read'], role: 'operator' });
    expect(Date.parse(fresh.expiresAt ?? '')).toBe(limits.expiresAt);
    for (const key of [old, fresh.apiKey]) expect(await statusWith(server, key)).toBe(200);
    const replaced = await keyOf(server, keyId);
    expect(replaced).toMatchObject({ replacedBy: fresh.id });
    const ends = Date.parse(String(replaced['expiresAt']));
    expect(ends).toBeGreaterThanOrEqual(before + 86_400_000);
    expect(ends).toBeLessThanOrEqual(Date.now() + 86_400_000);
    const what = { keyId, newKeyId: fresh.id, scopes: ['runs'], oldExpiresAt: ends };
    await expect.poll(() => entriesOf(server, 'key.rotated')).toMatchObject([{ what }]);
    expect(JSON.stringify(await entriesOf(server, 'key.rotated'))).not.toContain(fresh.apiKey);
  });

  it('ends the old one and its streams at once without an overlap', async () => {
    const server = await boot();
    const { keyId, apiKey: old } = await addKey(server.store, { scopes: ['runs', 'approve'] });
    const { runId, reader } = await startRun(server, { input: 'slow 60000' }, { key: old });
    await reader.until('token');
    const chat = await startChat(server, 'notify wait', { key: old });
    await chat.reader.until('relay');
    const { body: fresh } = await rotate(server, keyId, { overlapSeconds: 0 });
    await Promise.all([reader.rest(), chat.reader.rest()]);
    expect(reader.types).not.toContain('done');
    expect(await statusWith(server, old)).toBe(401);
    expect(await statusWith(server, fresh.apiKey)).toBe(200);
    // The run is the person's, who continues it with the new key.
    const canceled = { key: fresh.apiKey, method: 'POST' };
    expect((await server.request(`/v1/runs/${runId}/cancel`, canceled)).status).toBeLessThan(300);
  });

  it('ends the streams of the old one when the overlap is over', async () => {
    const server = await boot();
    const { keyId, apiKey: old } = await addKey(server.store, { scopes: ['runs'] });
    const { runId, reader } = await startRun(server, { input: 'slow 60000' }, { key: old });
    await reader.until('token');
    await rotate(server, keyId, { overlapSeconds: 1 });
    await reader.rest();
    expect(reader.types).not.toContain('done');
    expect(await statusWith(server, old)).toBe(401);
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
  });

  it('lives longer than the old one only if the caller says so', async () => {
    const server = await boot();
    const { keyId } = await addKey(server.store, { expiresAt: Date.now() + 60_000 });
    const past = await rotate(server, keyId, { expiresAt: '2020-01-01T00:00:00.000Z' });
    expect([past.status, past.body['code']]).toEqual([400, 'invalid_request']);
    const expiresAt = new Date(Date.now() + 1e10).toISOString();
    expect((await rotate(server, keyId, { expiresAt })).body).toMatchObject({ expiresAt });
    // The old one does not live longer for it.
    const { expiresAt: ends } = await keyOf(server, keyId);
    expect(Date.parse(String(ends))).toBeLessThan(Date.now() + 60_001);
  });

  it('keeps the owner of its conversations, with or without a named owner', async () => {
    const server = await boot();
    for (const owner of ['ada', undefined]) {
      const options = { scopes: ['runs'], ...(owner === undefined ? {} : { owner }) };
      const { keyId, apiKey: old } = await addKey(server.store, options);
      const conversationId = uuidv7();
      const first = await startRun(server, { input: 'say 1', conversationId }, { key: old });
      await first.reader.rest();
      const { body } = await rotate(server, keyId, { overlapSeconds: 0 });
      expect(body).toMatchObject({ owner: owner ?? keyId });
      const again = { input: 'say 2', conversationId };
      await (await startRun(server, again, { key: body.apiKey })).reader.rest();
      const { body: third } = await rotate(server, body.id, { overlapSeconds: 0 });
      await (await startRun(server, again, { key: third.apiKey })).reader.rest();
    }
  });

  it('has the budget of the old one', async () => {
    const server = await boot();
    const { keyId, apiKey: old } = await addKey(server.store, { scopes: ['runs'] });
    const budget = { concurrentRuns: 1, period: 'day' };
    const budgets = { keys: { [keyId]: budget } };
    await server.json('/v1/tenant', { method: 'PUT', body: { budgets } });
    const { body: fresh } = await rotate(server, keyId);
    const tenant = await server.json('/v1/tenant');
    expect(tenant['budgets']).toMatchObject({ keys: { [keyId]: budget, [fresh.id]: budget } });
    expect(await statusWith(server, old)).toBe(200);
  });

  it('decides what rules of the policy reserve for the old one, during the overlap and after', async () => {
    const server = await boot();
    const ada = await addKey(server.store, { scopes: ['approve'] });
    const eve = await addKey(server.store, { scopes: ['approve'] });
    const approvers = [{ tool: 'send_note', keys: [ada.keyId] }];
    await server.json('/v1/policy', { method: 'PUT', body: { version: 0, approvers } });
    const decideWith = async (key: string) => {
      const { reader } = await startRun(server, { input: 'notify ada' });
      const { data } = await reader.until('approval_requested');
      await reader.disconnect();
      const body = { approved: true };
      return (await server.request(`/v1/approvals/${String(data['id'])}`, { key, body })).status;
    };
    const { body: second } = await rotate(server, ada.keyId);
    expect(await decideWith(ada.apiKey)).toBe(200);
    expect(await decideWith(second.apiKey)).toBe(200);
    const { body: third } = await rotate(server, second.id, { overlapSeconds: 0 });
    expect(await decideWith(third.apiKey)).toBe(200);
    expect(await decideWith(second.apiKey)).toBe(401);
    expect(await decideWith(eve.apiKey)).toBe(403);
    // A changed policy names the key that is valid now.
    await server.request(`/v1/keys/${ada.keyId}`, { method: 'DELETE' });
    const stale = await server.json('/v1/policy', {
      method: 'PUT',
      body: { version: 1, approvers },
    });
    expect(stale['error']).toContain('If it was rotated, name the key that replaces it');
    const named = { version: 1, approvers: [{ tool: 'send_note', keys: [third.id] }] };
    await server.json('/v1/policy', { method: 'PUT', body: named });
    expect(await decideWith(third.apiKey)).toBe(200);
  });

  it('counts as the same voter as the old one', async () => {
    const server = await boot();
    const ada = await addKey(server.store, { scopes: ['approve'] });
    const approvers = [{ tool: 'send_note', quorum: 2 }];
    await server.json('/v1/policy', { method: 'PUT', body: { version: 0, approvers } });
    const { reader } = await startRun(server, { input: 'notify both' });
    const { data } = await reader.until('approval_requested');
    await reader.disconnect();
    const { body: fresh } = await rotate(server, ada.keyId);
    for (const key of [ada.apiKey, fresh.apiKey]) {
      const options = { key, body: { approved: true } };
      const vote = await server.json(`/v1/approvals/${String(data['id'])}`, options);
      expect(vote).toMatchObject({ status: 'pending', quorum: 2 });
      expect(vote['votes']).toHaveLength(1);
    }
  });
});

describe('a key cannot be rotated', () => {
  const admin = ['read', 'runs', 'worker', 'admin'];

  it.each([['approve'], ['read', 'approve'], [...admin, 'approve']].map((scopes) => [scopes]))(
    'to get the scopes %j by an administrator who lacks one of them',
    async (scopes) => {
      const server = await boot();
      const { keyId, apiKey: old } = await addKey(server.store, { scopes });
      const { apiKey: key, keyId: own } = await addKey(server.store, { scopes: admin });
      const refused = await rotate(server, keyId, {}, key);
      expect([refused.status, refused.body['code']]).toEqual([403, 'scope_not_held']);
      expect(refused.body).not.toHaveProperty('apiKey');
      const created = await server.request('/v1/keys', { key, body: { name: 'x', scopes } });
      expect(created.status).toBe(403);
      // Nothing has happened to the key, and nothing to its lifetime.
      expect(await keyOf(server, keyId)).not.toHaveProperty('expiresAt');
      expect(await statusWith(server, old)).toBe(200);
      // Their own key, and weaker ones, they may.
      expect((await rotate(server, own, {}, key)).status).toBe(201);
    },
  );

  it.each(['approver', 'operator', 'viewer'])('by a key with the role %s', async (role) => {
    const server = await boot();
    const made = await server.json('/v1/keys', { body: { name: role, role } });
    const refused = await rotate(server, String(made['id']), {}, String(made['apiKey']));
    expect([refused.status, refused.body['code']]).toEqual([403, 'scope_required']);
  });

  it('if it is revoked, has expired, was rotated already, or is not of the tenant', async () => {
    const server = await boot();
    const revoked = await addKey(server.store, { revokedAt: 1 });
    const expired = await addKey(server.store, { expiresAt: 1 });
    const old = await addKey(server.store, {});
    const { body: fresh } = await rotate(server, old.keyId);
    const stranger = await addKey(server.store, { tenant: 'stranger' });
    const before = (await server.json('/v1/keys'))['keys'] as unknown[];
    const answers: [string, number, string][] = [
      [revoked.keyId, 409, 'The key is revoked and cannot be rotated: create a new one'],
      [expired.keyId, 409, 'The key has expired and cannot be rotated: create a new one'],
      [
        old.keyId,
        409,
        `The key was rotated already: rotate the key ${fresh.id}, which replaces it`,
      ],
      [stranger.keyId, 404, 'No such key'],
      [uuidv7(), 404, 'No such key'],
    ];
    for (const [id, status, message] of answers) {
      const refused = await rotate(server, id);
      expect([refused.status, refused.body['error']]).toEqual([
        status,
        expect.stringContaining(message),
      ]);
    }
    expect((await server.json('/v1/keys'))['keys']).toHaveLength(before.length);
    const settled = await Promise.all(Array.from({ length: 8 }, () => rotate(server, fresh.id)));
    const count = (wanted: number) => settled.filter(({ status }) => status === wanted).length;
    expect([count(201), count(409)]).toEqual([1, 7]);
  });
});

describe('the last use of a key', () => {
  it('is shown in the list after a restart', async () => {
    const store = createMemoryStore();
    onTestFinished(() => store.close());
    const first = await bootServer({ store });
    const { keyId, apiKey: key } = await addKey(store, { scopes: ['runs'] });
    const before = Date.now();
    expect(await statusWith(first, key)).toBe(200);
    // It is not written with the request.
    expect(await keyOf(first, keyId)).not.toHaveProperty('lastUsedAt');
    await first.stop();
    const second = await boot({ store });
    const used = Date.parse(String((await keyOf(second, keyId))['lastUsedAt']));
    expect(used).toBeGreaterThanOrEqual(before);
    expect(used).toBeLessThanOrEqual(Date.now());
    const { keyId: unused } = await addKey(store, {});
    expect(await keyOf(second, unused)).not.toHaveProperty('lastUsedAt');
  });

  it('is not that of a refused request', async () => {
    const store = createMemoryStore();
    onTestFinished(() => store.close());
    const first = await bootServer({ store });
    const { keyId, apiKey: key } = await addKey(store, { expiresAt: 1 });
    expect(await statusWith(first, key)).toBe(401);
    await first.stop();
    const second = await boot({ store });
    expect(await keyOf(second, keyId)).not.toHaveProperty('lastUsedAt');
  });
});

describe('a refused key', () => {
  const lenient = { file: { rateLimit: { failuresPerMinute: 100_000 } } };

  it.each([
    ['expired', { expiresAt: 1 }],
    ['revoked', { revokedAt: 1 }],
  ])('that is %s has one entry, however often it is tried', async (reason, options) => {
    const server = await boot(lenient);
    const { keyId, apiKey: key } = await addKey(server.store, { owner: 'ada', ...options });
    for (let n = 0; n < 30; n += 1) expect(await statusWith(server, key)).toBe(401);
    const entry = { who: { id: keyId, owner: 'ada' }, what: { keyId, reason, count: 1 } };
    await expect.poll(() => entriesOf(server, 'key.refused')).toMatchObject([entry]);
  });

  it('whose row was changed in the database has one entry, which repeats nothing of the row', async () => {
    const server = await boot({ ...lenient, kind: 'sqlite' });
    const { keyId, apiKey: key } = await addKey(server.store, { scopes: ['runs'] });
    const database = new DatabaseSync(join(server.config.dataDir, 'relay.db'));
    database
      .prepare(`UPDATE keys SET scopes = '["admin","approve"]', name = '"root"' WHERE id = ?`)
      .run(keyId);
    database.close();
    for (let n = 0; n < 30; n += 1) expect(await statusWith(server, key)).toBe(401);
    await expect
      .poll(() => entriesOf(server, 'key.refused'))
      .toEqual([
        expect.objectContaining({
          who: { type: 'key', id: keyId, name: keyId },
          what: { keyId, reason: 'damaged', count: 1 },
        }),
      ]);
  });

  it('that is unknown has no entry, and is counted by a metric of the node', async () => {
    const secret = 'a-secret-of-16-or-more';
    const server = await boot({ ...lenient, env: { RELAY_INTERNAL_SECRET: secret } });
    const metrics = async (authorization: string) =>
      (await server.request('/metrics', { headers: { authorization } })).text();
    for (let n = 0; n < 5; n += 1) expect(await statusWith(server, makeApiKey())).toBe(401);
    expect(await statusWith(server, 'guessed')).toBe(401);
    expect((await server.request('/v1/runs', { key: null })).status).toBe(401);
    expect(await metrics(`Internal ${secret}`)).toContain('\nrelay_unknown_keys_total 6\n');
    expect(await metrics(`Bearer ${server.apiKey}`)).not.toContain('relay_unknown_keys_total');
    await server.json('/v1/keys', { body: { name: 'later', role: 'viewer' } });
    await until(
      async () => (await entriesOf(server, 'key.created')).length === 1,
      'a later entry to be sealed',
    );
    expect(await entriesOf(server, 'key.refused')).toEqual([]);
  });
});
