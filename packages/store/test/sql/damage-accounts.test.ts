/** That damage is detected in what repetitions and memories depend on, and hides no list. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { SystemStore, TenantStore } from '@relay/core';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { delta, identityIn, newRun, noon, started, step } from '../contract/fixtures.ts';
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

  test('an idempotency key that leads to another run is detected', async () => {
    const idempotency = { key: 'k', fingerprint: 'f', expiresAt: noon + 1 };
    await newRun(tenant, { idempotency });
    tamper(`UPDATE idempotency_keys SET holder_id = 'another'`);
    const creation = { identity: identityIn(tenant), lease: null, events: [], idempotency };
    await expect(tenant.createRun(creation)).rejects.toMatchObject(corrupt);
  });

  test('metadata that was changed is detected', async () => {
    await store.writeMetadata('note', 'value');
    tamper(`UPDATE metadata SET value = '"other"'`);
    await expect(store.readMetadata('note')).rejects.toMatchObject(corrupt);
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
    'a flipped character': `UPDATE events SET json = replace(json, 'first', 'worst')`,
    'no JSON': `UPDATE events SET json = '{'`,
    'an empty row': 'UPDATE events SET json = NULL',
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
      expect((await tenant.listRuns({}, { limit: 9 })).items).toMatchObject([{ opening }]);
      tamper(sql);
      const [listing] = (await tenant.listRuns({}, { limit: 9 })).items;
      expect(listing).toMatchObject({
        id: run.id,
        lastSeq: 2,
        opening: isIntactMemory ? opening : null,
      });
    });
  }
});
