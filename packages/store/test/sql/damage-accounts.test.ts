/** That damage is detected in what secrets, rights and repetitions depend on, and hides no list. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { SystemStore, TenantStore } from '@relay/core';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { newCredential } from '../contract/tenants/credentials.ts';
import { delta, identityIn, newRun, noon, started, step } from '../contract/fixtures.ts';
import { newGrant } from '../contract/tenants/grants.ts';
import { newKey } from '../contract/tenants/keys.ts';
import { newMemory } from '../contract/memories/memories.ts';
import { openSqliteStore } from '../../src/index.ts';

describe('damage to accounts', () => {
  let dir: string;
  let store: SystemStore;
  let tenant: TenantStore;
  let other: TenantStore;

  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), 'relay-accounts-'));
    store = await openSqliteStore({ dir });
    for (const id of ['one', 'two']) await store.ensureTenant({ id, name: id, at: noon });
    tenant = store.tenant('one');
    other = store.tenant('two');
  });
  afterEach(async () => {
    await store.close();
    rmSync(dir, { recursive: true, force: true });
  });

  /** As another program would, past all our checks. */
  function tamper(sql: string): void {
    const db = new DatabaseSync(join(dir, 'relay.db'));
    db.exec(sql);
    db.close();
  }

  const corrupt = { code: 'journal_corrupt' };

  const swap = (columns: string, where: string) =>
    `UPDATE credentials SET (${columns}) =
      (SELECT ${columns} FROM credentials c WHERE c.id = 'b') WHERE ${where}`;

  const swaps: Record<string, string> = {
    'the secret of another tenant': swap('sealed', `id = 'a'`),
    'the secret of another tenant with its checksum': swap('sealed, checksum', `id = 'a'`),
    'the address of another': swap('base_url', `id = 'a'`),
    'no address at all': `UPDATE credentials SET base_url = NULL WHERE id = 'a'`,
    'another provider': `UPDATE credentials SET provider = '"google"' WHERE id = 'a'`,
    'another tenant': `UPDATE credentials SET tenant_id = 'two' WHERE id = 'a'`,
    'another id': `UPDATE credentials SET id = 'c' WHERE id = 'a'`,
    'a flipped character': `UPDATE credentials SET sealed = '"sealed O"' WHERE id = 'a'`,
  };
  for (const [name, sql] of Object.entries(swaps)) {
    test(`a credential with ${name} is detected`, async () => {
      const a = newCredential({ id: 'a', sealed: 'sealed 0', baseUrl: 'https://a.example' });
      const b = newCredential({ id: 'b', baseUrl: 'https://b.example', provider: 'anthropic' });
      await tenant.putCredential(a);
      await other.putCredential(b);
      tamper(sql);
      const owner = name === 'another tenant' ? other : tenant;
      const provider = name === 'another provider' ? 'google' : 'openai';
      await expect(owner.readCredential(provider)).rejects.toMatchObject(corrupt);
      await expect(owner.listCredentials()).rejects.toMatchObject(corrupt);
      await expect(store.sealedCredentials({ limit: 9 })).rejects.toMatchObject(corrupt);
      const { tenantId } = owner;
      const id = name === 'another id' ? 'c' : 'a';
      const resealed = store.resealCredential({ tenantId, id, from: 'sealed 0', to: 'anew' });
      await expect(resealed).rejects.toMatchObject(corrupt);
      await owner.putCredential(newCredential({ provider }));
      expect(await owner.readCredential(provider)).toBeDefined();
    });
  }

  test('a key that was given more rights, a longer life or another tenant is detected', async () => {
    await store.addKey(newKey({ id: 'k', tenantId: 'one', scopes: ['runs'] }), 'hash');
    for (const change of [
      `scopes = '["runs","admin"]'`,
      `expires_at = 9`,
      `tenant_id = 'two'`,
      `hash = 'other'`,
    ]) {
      const [column = ''] = change.split(' ');
      tamper(`CREATE TABLE kept AS SELECT * FROM keys; UPDATE keys SET ${change}`);
      const hash = column === 'hash' ? 'other' : 'hash';
      const owner = column === 'tenant_id' ? other : tenant;
      await expect(store.findKey(hash)).rejects.toThrow('Key k is damaged');
      await expect(owner.readKey('k')).rejects.toMatchObject(corrupt);
      await expect(owner.listKeys({ limit: 9 })).rejects.toMatchObject(corrupt);
      tamper('DELETE FROM keys; INSERT INTO keys SELECT * FROM kept; DROP TABLE kept');
      expect(await store.findKey('hash')).toBeDefined();
    }
  });

  test('a grant that was given a longer life, more uses or another reach is detected', async () => {
    const bounds = { expiresAt: noon + 1, uses: 2 };
    await tenant.addGrant(newGrant(tenant, { id: 'g', params: { to: 'a*' }, ...bounds }));
    for (const change of [
      'expires_at = NULL',
      `expires_at = ${noon + 2}`,
      'expires_at = NULL, uses = NULL, uses_left = NULL',
      'uses = 3',
      'uses_left = 3',
      'uses_left = NULL',
      `params = '{"to":"*"}'`,
      `tool = '"bash"'`,
    ]) {
      tamper(`CREATE TABLE kept AS SELECT * FROM grants; UPDATE grants SET ${change}`);
      const scope = { runId: '', conversationId: '', owner: 'ada', now: noon };
      await expect(tenant.readGrant('g'), change).rejects.toMatchObject(corrupt);
      await expect(tenant.readGrants(scope), change).rejects.toMatchObject(corrupt);
      tamper('DELETE FROM grants; INSERT INTO grants SELECT * FROM kept; DROP TABLE kept');
      expect(await tenant.readGrant('g')).toMatchObject(bounds);
    }
  });

  test('an idempotency key that leads to another run is detected', async () => {
    const idempotency = { key: 'k', fingerprint: 'f', expiresAt: noon + 1 };
    await newRun(tenant, { idempotency });
    tamper(`UPDATE idempotency_keys SET run_id = 'another'`);
    const creation = { identity: identityIn(tenant), lease: null, events: [], idempotency };
    await expect(tenant.createRun(creation)).rejects.toMatchObject(corrupt);
  });

  test('settings and metadata that were changed are detected', async () => {
    await tenant.updateTenant({ settings: { maxRuns: 1 } });
    await store.writeMetadata('note', 'value');
    tamper(`UPDATE tenants SET settings = '{"maxRuns":9}' WHERE id = 'one'`);
    tamper(`UPDATE metadata SET value = '"other"'`);
    await expect(tenant.readTenant()).rejects.toThrow('Tenant one is damaged');
    await expect(store.readMetadata('note')).rejects.toMatchObject(corrupt);
    expect((await other.readTenant()).settings).toEqual({});
  });

  test('a memory that was changed is detected in a list, and not recalled', async () => {
    await tenant.addMemory(newMemory({ id: 'm1', text: 'green tea' }));
    const sound = await tenant.addMemory(newMemory({ id: 'm2', text: 'black tea' }));
    const here = { namespace: sound.namespace, now: noon };
    for (const change of [`text = '"evil tea"'`, `source = 'run'`, `run_id = 'another'`]) {
      tamper(`CREATE TABLE kept AS SELECT * FROM memories; UPDATE memories SET ${change}
        WHERE id = 'm1'`);
      await expect(tenant.listMemories(here, { limit: 9 })).rejects.toThrow('Memory m1 is damaged');
      const found = await tenant.searchMemories({ ...here, query: 'tea', limit: 9 });
      expect(found.map(({ id }) => id)).toEqual(['m2']);
      tamper(`UPDATE memories SET (text, source, run_id) =
        (SELECT text, source, run_id FROM kept WHERE id = 'm1') WHERE id = 'm1'; DROP TABLE kept`);
    }
    expect(await tenant.listMemories(here, { limit: 9 })).toHaveLength(2);
    tamper(`UPDATE memories SET tenant_id = 'two' WHERE id = 'm1'`);
    expect(await tenant.listMemories(here, { limit: 9 })).toEqual([sound]);
    await expect(other.listMemories(here, { limit: 9 })).rejects.toMatchObject(corrupt);
    expect(await other.searchMemories({ ...here, query: 'tea', limit: 9 })).toEqual([]);
    expect(await other.clearMemories(sound.namespace, 9)).toBe(1);
  });

  const wrongs: Record<string, string> = {
    'a flipped character': `UPDATE events SET payload = replace(payload, 'first', 'worst')`,
    'no JSON': `UPDATE events SET payload = '{'`,
    'another time': 'UPDATE events SET at = at + 1',
    'a missing first row': 'DELETE FROM events WHERE first_seq = 1',
    'no rows': 'DELETE FROM events',
    'a checkpoint that does not match': `UPDATE runs SET serialized_state = 'x'`,
  };
  for (const [name, sql] of Object.entries(wrongs)) {
    test(`a run with ${name} is still listed`, async () => {
      const opening = { type: 'run.created', note: 'first' } as unknown as typeof started;
      const run = await newRun(tenant, { events: [opening], progress: { checkpoint: 'c' } });
      await tenant.append(step(run, { events: [delta('a')] }));
      const isIntactMemory = name.startsWith('a checkpoint');
      expect(await tenant.listRuns({}, { limit: 9 })).toMatchObject([{ opening }]);
      tamper(sql);
      const [listing] = await tenant.listRuns({}, { limit: 9 });
      expect(listing).toMatchObject({
        id: run.id,
        lastSeq: 2,
        opening: isIntactMemory ? opening : null,
      });
    });
  }
});
