import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { driverContract } from '../contract/index.ts';
import { openSqliteDriver } from '../../src/drivers/sqlite.ts';

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
