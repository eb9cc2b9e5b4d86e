/** The audit trail against an attacker who can write to the database but lacks the key. */
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type AuditEntry, type AuditTrail, systemClock, type SystemStore } from '@relay/core';
import { createMemoryStore, openPostgresStore, openSqliteStore } from '@relay/store';
import { uuidv7 } from 'uuidv7';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { createDatabase } from '../../../../test/support/postgres.ts';
import { HeadSigner } from '../../src/audit/export.ts';
import { AuditSealer } from '../../src/audit/sealer.ts';
import { initialHash, AuditSigner } from '../../src/audit/signer.ts';
import { verifyTrail } from '../../src/audit/verify.ts';

const key = randomBytes(32);
const ids = { next: uuidv7 };
const signer = new AuditSigner(key, ids);
const heads = new HeadSigner(Buffer.alloc(32, 2));
const tenantId = uuidv7();

function entry(n: number): AuditEntry {
  const who = { type: 'key', id: `key-${n % 2}`, name: 'Ada' } as const;
  return { at: 1_000 + n, who, action: 'key.created', what: { keyId: `${n}` }, why: null };
}

function sealerOn(store: SystemStore, by = signer): AuditSealer {
  return new AuditSealer({
    store,
    signer: by,
    heads,
    clock: systemClock,
    log: { warn: () => undefined, error: () => undefined },
  });
}

async function write(store: SystemStore, from: number, count: number): Promise<void> {
  const entries = Array.from({ length: count }, (_, n) => signer.write(tenantId, entry(from + n)));
  await store.tenant(tenantId).audit.add(entries);
  await sealerOn(store).seal(tenantId);
}

describe('an audit trail', () => {
  it('is a chain of hashes that can be verified without a key', async () => {
    const store = createMemoryStore();
    await write(store, 0, 3);
    await write(store, 3, 2);
    let before = initialHash(tenantId);
    const entries = await store.tenant(tenantId).audit.read({ after: 0, limit: 10 });
    expect(entries.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5]);
    for (const { seq, id, text, hash } of entries) {
      const chained = JSON.stringify([before, seq, id, text]);
      expect(createHash('sha256').update(chained).digest('hex')).toBe(hash);
      before = hash;
    }
    expect(await sealerOn(store).head(tenantId)).toMatchObject({ seq: 5, hash: before });
    expect(await sealerOn(store).verify(tenantId)).toEqual({
      ok: true,
      entries: 5,
      head: { seq: 5, hash: before },
    });
  });

  it('without entries is valid', async () => {
    const store = createMemoryStore();
    expect(await sealerOn(store).verify(tenantId)).toMatchObject({ ok: true, entries: 0 });
    expect(await sealerOn(store).head(tenantId)).toEqual({ seq: 0, hash: initialHash(tenantId) });
  });

  it('of a tenant is sealed although the trails of many others cannot be', async () => {
    const store = createMemoryStore();
    const others = Array.from({ length: 150 }, (_, n) => `0-${n}`);
    const unsigned = new AuditSigner(randomBytes(32), ids);
    for (const [n, other] of others.entries()) {
      const by = n % 2 === 0 ? unsigned : signer;
      await store.tenant(other).audit.add([by.write(other, entry(n))]);
    }
    const written = Array.from({ length: 450 }, (_, n) => signer.write(tenantId, entry(n)));
    await store.tenant(tenantId).audit.add(written);
    const tenant = store.tenant.bind(store);
    store.tenant = (id) => {
      const found = tenant(id);
      if (Number(id.split('-')[1]) % 2 === 1 && id.startsWith('0-')) {
        found.audit.unsealed = () => Promise.reject(new Error('Damaged'));
      }
      return found;
    };
    const sealer = sealerOn(store);
    sealer.start();
    onTestFinished(() => sealer.stop());
    await expect.poll(async () => (await sealer.head(tenantId)).seq).toBe(450);
  });

  it('stays one chain when several nodes seal it at once', async () => {
    const store = createMemoryStore();
    const written = Array.from({ length: 700 }, (_, n) => signer.write(tenantId, entry(n)));
    await store.tenant(tenantId).audit.add(written);
    await Promise.all([1, 2, 3, 4].map(() => sealerOn(store).seal(tenantId)));
    expect(await sealerOn(store).verify(tenantId)).toMatchObject({ ok: true, entries: 700 });
  });

  it('stays one chain when nodes on one database write and seal at once', async () => {
    const database = await createDatabase();
    onTestFinished(() => database.drop());
    const nodes = await Promise.all([1, 2, 3].map(() => openPostgresStore({ url: database.url })));
    await Promise.all(
      nodes.map(async (store, node) => {
        for (let n = 0; n < 20; n += 1) await write(store, node * 100 + n, 2);
      }),
    );
    const [store] = nodes;
    await sealerOn(store!).seal(tenantId);
    expect(await sealerOn(store!).verify(tenantId)).toMatchObject({ ok: true, entries: 120 });
    const columns = 'id, tenant_id, at, action, actor, entry, proof';
    const values = `'forged', '${tenantId}', 0, 'key.created', 'x', '{}', ''`;
    for (const [table, forged] of [
      ['audit_entries', `(${columns}, seq, hash) VALUES (${values}, -1, '')`],
      ['audit_entries', `(${columns}, seq, hash) VALUES (${values}, 121, '')`],
      ['audit_unsealed', `(${columns}) VALUES (${values})`],
    ]) {
      await database.sql(`INSERT INTO ${table} ${forged}`);
      expect(await sealerOn(store!).verify(tenantId)).toMatchObject({ ok: false });
      await database.sql(`DELETE FROM ${table} WHERE id = 'forged'`);
    }
    await Promise.all(nodes.map((each) => each.close()));
  });

  it('is sealed in the background', async () => {
    const store = createMemoryStore();
    await store.tenant(tenantId).audit.add([signer.write(tenantId, entry(1))]);
    const sealer = sealerOn(store);
    sealer.start();
    await expect.poll(async () => (await sealer.head(tenantId)).seq).toBe(1);
    await sealer.stop();
  });

  it('does not verify with another key or for another tenant', async () => {
    const store = createMemoryStore();
    await write(store, 0, 2);
    const stranger = sealerOn(store, new AuditSigner(randomBytes(32), ids));
    expect(await stranger.verify(tenantId)).toMatchObject({ ok: false, firstBad: { seq: 1 } });
    const copied = signer.write(uuidv7(), entry(9));
    await store.tenant(tenantId).audit.add([copied]);
    expect(await sealerOn(store).verify(tenantId)).toMatchObject({
      ok: false,
      firstBad: { seq: 3, problem: expect.stringContaining('not written by Relay') },
    });
  });
});

describe('verifying finds', () => {
  let dir: string;
  let store: SystemStore;
  let database: DatabaseSync;

  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), 'relay-audit-'));
    store = await openSqliteStore({ dir });
    database = new DatabaseSync(join(dir, 'relay.db'));
    // Batches of 1..4, 5..7 and 8..10.
    await write(store, 0, 4);
    await write(store, 4, 3);
    await write(store, 7, 3);
  });

  afterEach(async () => {
    database.close();
    await store.close();
    rmSync(dir, { recursive: true, force: true });
  });

  const columns = 'tenant_id, at, action, actor, run_id, entry, proof';
  const copy = `INSERT INTO audit_entries (id, ${columns}, seq, hash) SELECT 'copy', ${columns}`;
  const unsealedCopy = `INSERT INTO audit_unsealed (id, ${columns})
    SELECT 'copy', ${columns} FROM audit_entries`;

  it.each<[string, string, number]>([
    [
      'a changed text',
      `UPDATE audit_entries SET entry = replace(entry, 'Ada', 'Eve') WHERE seq = 6`,
      6,
    ],
    ['a changed action', `UPDATE audit_entries SET action = 'run.started' WHERE seq = 3`, 3],
    ['a changed actor', `UPDATE audit_entries SET actor = 'x' WHERE seq = 3`, 3],
    ['a changed time', `UPDATE audit_entries SET at = 1 WHERE seq = 10`, 10],
    ['a run that is claimed', `UPDATE audit_entries SET run_id = 'x' WHERE seq = 10`, 10],
    ['a changed hash', `UPDATE audit_entries SET hash = 'x' WHERE seq = 5`, 5],
    ['a hash taken away', `UPDATE audit_entries SET hash = '' WHERE seq = 5`, 5],
    ['a changed proof', `UPDATE audit_entries SET proof = 'x' WHERE seq = 5`, 5],
    ['a missing entry', `DELETE FROM audit_entries WHERE seq = 7`, 7],
    ['a missing first entry', `DELETE FROM audit_entries WHERE seq = 1`, 1],
    ['a missing last entry', `DELETE FROM audit_entries WHERE seq = 10`, 10],
    [
      'an entry that waits again',
      `${unsealedCopy} WHERE seq = 4; DELETE FROM audit_entries WHERE seq = 4`,
      4,
    ],
    ['a missing seal', `DELETE FROM audit_seals WHERE first_seq = 5`, 5],
    ['a missing last seal', `DELETE FROM audit_seals WHERE first_seq = 8`, 8],
    ['a changed seal', `UPDATE audit_seals SET at = at + 1 WHERE first_seq = 5`, 5],
    ['a seal of less', `UPDATE audit_seals SET last_seq = 6 WHERE first_seq = 5`, 5],
    ['an entry at the end', `${copy}, 11, hash FROM audit_entries WHERE seq = 10`, 11],
    ['an entry in front of the first', `${copy}, 0, hash FROM audit_entries WHERE seq = 10`, 1],
    ['an entry before all places', `${copy}, -7, hash FROM audit_entries WHERE seq = 10`, 1],
    ['an invalid position', `UPDATE audit_entries SET seq = 6.5 WHERE seq = 7`, 7],
    ['a text that is none', `UPDATE audit_entries SET entry = x'00ff' WHERE seq = 2`, 2],
    ['an unreadable time', `UPDATE audit_entries SET at = 'noon' WHERE seq = 8`, 8],
    ['an unreadable seal', `UPDATE audit_seals SET hash = x'00' WHERE first_seq = 5`, 5],
    ['a seal before all others', `UPDATE audit_seals SET first_seq = -3 WHERE first_seq = 1`, 1],
    ['an entry of another tenant', `UPDATE audit_entries SET tenant_id = 'x' WHERE seq = 9`, 9],
    ['an entry that waits', `${unsealedCopy} WHERE seq = 10`, 11],
  ])('%s', async (_what, sql, seq) => {
    expect(await sealerOn(store).verify(tenantId)).toMatchObject({ ok: true, entries: 10 });
    database.exec(sql);
    const verdict = await sealerOn(store).verify(tenantId);
    expect(verdict).toMatchObject({ ok: false, firstBad: { seq } });
    expect(verdict.entries).toBe(seq - 1);
  });

  it('an unreadable unsealed entry, and seals the others', async () => {
    database.exec(`${unsealedCopy} WHERE seq = 10;
      UPDATE audit_unsealed SET entry = x'00', at = 'noon', run_id = x'01' WHERE id = 'copy'`);
    await write(store, 50, 1);
    expect(await sealerOn(store).verify(tenantId)).toMatchObject({ firstBad: { seq: 12 } });
  });

  it('an entry that is stored again after it was sealed, and seals it once', async () => {
    const replayed = signer.write(tenantId, entry(20));
    const { audit } = store.tenant(tenantId);
    await audit.add([replayed]);
    await sealerOn(store).seal(tenantId);
    await audit.add([replayed, signer.write(tenantId, entry(21))]);
    await sealerOn(store).seal(tenantId);
    expect(await sealerOn(store).verify(tenantId)).toMatchObject({
      ok: false,
      firstBad: { seq: 13, problem: expect.stringContaining('stored again') },
    });
  });

  it('a changed column of an unsealed entry, and seals the others', async () => {
    await store.tenant(tenantId).audit.add([signer.write(tenantId, entry(20))]);
    database.exec(`UPDATE audit_unsealed SET actor = 'x'`);
    await write(store, 50, 1);
    expect(await sealerOn(store).verify(tenantId)).toMatchObject({ firstBad: { seq: 12 } });
  });

  it('two swapped entries', async () => {
    database.exec(`UPDATE audit_entries SET seq = 100 WHERE seq = 5;
      UPDATE audit_entries SET seq = 5 WHERE seq = 6;
      UPDATE audit_entries SET seq = 6 WHERE seq = 100`);
    expect(await sealerOn(store).verify(tenantId)).toMatchObject({ firstBad: { seq: 5 } });
  });

  it('a removed entry with recomputed hashes', async () => {
    const all = await store.tenant(tenantId).audit.read({ after: 0, limit: 100 });
    const left = all.filter(({ seq }) => seq !== 6);
    database.exec('DELETE FROM audit_entries WHERE seq = 6');
    let before = initialHash(tenantId);
    for (const [index, { id, text }] of left.entries()) {
      const seq = index + 1;
      before = createHash('sha256')
        .update(JSON.stringify([before, seq, id, text]))
        .digest('hex');
      database
        .prepare('UPDATE audit_entries SET seq = ?, hash = ? WHERE id = ?')
        .run(seq, before, id);
    }
    database.exec('UPDATE audit_seals SET last_seq = 9 WHERE first_seq = 8');
    expect(await sealerOn(store).verify(tenantId)).toMatchObject({ firstBad: { seq: 6 } });
  });

  it('a truncated end, with a recorded head', async () => {
    const { seq, hash } = await sealerOn(store).head(tenantId);
    expect(await sealerOn(store).verify(tenantId, { seq, hash })).toMatchObject({ ok: true });
    database.exec(
      'DELETE FROM audit_entries WHERE seq > 7; DELETE FROM audit_seals WHERE first_seq = 8',
    );
    expect(await sealerOn(store).verify(tenantId)).toMatchObject({ ok: true, entries: 7 });
    expect(await sealerOn(store).verify(tenantId, { seq, hash })).toMatchObject({
      ok: false,
      firstBad: { seq: 8, problem: expect.stringContaining('ends before') },
    });
    // Written on as if nothing had happened: the head shows it all the same.
    await write(store, 20, 5);
    expect(await sealerOn(store).verify(tenantId)).toMatchObject({ ok: true });
    expect(await sealerOn(store).verify(tenantId, { seq, hash })).toMatchObject({
      firstBad: { seq: 10, problem: expect.stringContaining('does not match') },
    });
  });

  it('a truncated end in the process that sealed it', async () => {
    const sealer = sealerOn(store);
    await store.tenant(tenantId).audit.add([signer.write(tenantId, entry(30))]);
    await sealer.seal(tenantId);
    database.exec(
      'DELETE FROM audit_entries WHERE seq > 7; DELETE FROM audit_seals WHERE first_seq > 7',
    );
    expect(await sealer.verify(tenantId)).toMatchObject({
      ok: false,
      firstBad: { seq: 8, problem: expect.stringContaining('ends before') },
    });
  });

  it('foreign entries before unsealed ones, which are sealed nevertheless', async () => {
    database.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
      INSERT INTO audit_unsealed (id, tenant_id, at, action, actor, entry, proof)
      SELECT 'foreign-' || i, '${tenantId}', 0, 'key.created', 'x', '{}', 'x' FROM n`);
    const errors: string[] = [];
    const log = { warn: () => undefined, error: (message: string) => void errors.push(message) };
    const sealer = new AuditSealer({ store, signer, heads, clock: systemClock, log });
    await store.tenant(tenantId).audit.add([signer.write(tenantId, entry(40))]);
    await sealer.seal(tenantId);
    await sealer.seal(tenantId);
    expect(await sealer.head(tenantId)).toMatchObject({ seq: 11 });
    expect(await sealer.verify(tenantId)).toMatchObject({ ok: false, firstBad: { seq: 12 } });
    expect(errors).toHaveLength(1);
  });

  it('no problem, with one query per page, however small the batches are', async () => {
    for (let n = 0; n < 60; n += 1) await write(store, 200 + n, 1);
    const { audit } = store.tenant(tenantId);
    let reads = 0;
    const counted = {
      read: (range: { after: number; limit: number }) => ((reads += 1), audit.read(range)),
      seals: (range: { after: number; limit: number }) => ((reads += 1), audit.seals(range)),
      unsealed: (limit: number) => audit.unsealed(limit),
    } as AuditTrail;
    const verdict = await verifyTrail({ tenantId, signer, trail: counted });
    expect(verdict).toMatchObject({ ok: true, entries: 70 });
    expect(reads).toBeLessThanOrEqual(4);
  });

  it('no problem while entries are written and sealed', async () => {
    const over = new AbortController();
    const writing = (async () => {
      for (let n = 0; !over.signal.aborted; n += 1) await write(store, 100 + n, 1);
    })();
    for (let n = 0; n < 30; n += 1) {
      expect(await sealerOn(store).verify(tenantId)).toMatchObject({ ok: true });
    }
    over.abort();
    await writing;
  });
});
