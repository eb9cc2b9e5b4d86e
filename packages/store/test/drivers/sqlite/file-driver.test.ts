import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { driverContract } from '../../contract/driver-contract.ts';
import { openSqliteDriver } from '../../../src/drivers/sqlite/file-driver.ts';

driverContract('SQLite', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'relay-driver-'));
  const driver = await openSqliteDriver({ path: join(dir, 'test.db') });
  return {
    driver,
    dispose: async () => {
      await driver.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
});

describe('a long read of a SQLite file', () => {
  const dir = mkdtempSync(join(tmpdir(), 'relay-long-'));
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  test('runs beside the event loop, and ends with the store', async () => {
    const driver = await openSqliteDriver({ path: join(dir, 'test.db') });
    const endless = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
      SELECT COUNT(*) FROM n`;
    const read = driver.readLong?.(endless, []);
    const failure = expect(read).rejects.toMatchObject({ code: 'storage_failed' });
    // It would never return on this thread.
    await driver.transact([{ sql: 'CREATE TABLE things (id TEXT)', params: [] }]);
    expect(await driver.read('SELECT id FROM things', [])).toEqual([]);
    await driver.close();
    await failure;
    await expect(driver.readLong?.('SELECT 1', [])).rejects.toThrow('The store is closed');
  });
});
