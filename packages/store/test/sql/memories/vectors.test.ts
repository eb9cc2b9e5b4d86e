/** What searches by meaning read, and what they leave in memory. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { newMemory } from '../../contract/memories/memories.ts';
import type { SqlDriver } from '../../../src/drivers/driver.ts';
import { openSqliteDriver } from '../../../src/drivers/sqlite/file-driver.ts';
import { SignBitCache } from '../../../src/search/sign-bit-cache.ts';
import { migrate } from '../../../src/sql/schema/migrations.ts';
import { createSqlStore } from '../../../src/store.ts';

const model = 'test:a';
const vector = Float32Array.of(1, 0);

let folder: string;
let driver: SqlDriver;
let signs: SignBitCache;
let largest: number;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'relay-vectors-'));
  const inner = await openSqliteDriver({ path: join(folder, 'relay.db') });
  await migrate(inner);
  largest = 0;
  signs = new SignBitCache();
  driver = {
    dialect: inner.dialect,
    transact: (unit) => inner.transact(unit),
    close: () => inner.close(),
    async read(sql, params) {
      const rows = await inner.read(sql, params);
      largest = Math.max(largest, rows.length);
      return rows;
    },
  };
});
afterEach(async () => {
  await driver.close();
  rmSync(folder, { recursive: true, force: true });
});

async function fill(tenantId: string, namespace: string, count = 1): Promise<void> {
  const tenant = createSqlStore(driver, { signs }).tenant(tenantId);
  const memories = Array.from({ length: count }, () => newMemory({ namespace, createdAt: 1 }));
  await Promise.all(memories.map((memory) => tenant.addMemory(memory)));
  // All in the same moment: their revisions are often equal.
  await Promise.all(
    memories.map(({ id: memoryId }) => tenant.vectors.put({ memoryId, model, vector, at: 1 })),
  );
}

function near(tenantId: string, namespace: string) {
  const search = { namespace, model, vector, limit: 10, floor: 0, now: 1 };
  return createSqlStore(driver, { signs }).tenant(tenantId).vectors.nearest(search);
}

test('the signs of a large namespace are read in pages, and none is left out', async () => {
  await fill('t', 'n', 4_500);
  expect(await near('t', 'n')).toHaveLength(10);
  expect(largest).toBeLessThanOrEqual(2_000);
  const cached = signs.bytes;
  expect(cached).toBeGreaterThan(4_500 * 160);
  // Up to date: nothing of it is read again.
  largest = 0;
  await near('t', 'n');
  expect(largest).toBeLessThanOrEqual(256);
  expect(signs.bytes).toBe(cached);
});

test('a cleared namespace leaves the cache, and others stay', async () => {
  const places = [
    ['t', 'n'],
    ['t', 'n","x'],
    ['t', 'nn'],
    ['u', 'n'],
  ] as const;
  for (const [tenantId, namespace] of places) await fill(tenantId, namespace);
  for (const [tenantId, namespace] of places) await near(tenantId, namespace);
  const all = signs.bytes;
  await createSqlStore(driver, { signs }).tenant('t').clearMemories('n', 100);
  const left = signs.bytes;
  expect(left).toBeLessThan(all);
  expect(left).toBeGreaterThan(all / 2);
  // Cleared by another node: at the next question here.
  for (const [tenantId, namespace] of places.slice(1)) {
    await createSqlStore(driver).tenant(tenantId).clearMemories(namespace, 100);
    expect(
      await createSqlStore(driver, { signs }).tenant(tenantId).vectors.has({ namespace, model }),
    ).toBe(false);
  }
  expect(signs.bytes).toBe(0);
});
