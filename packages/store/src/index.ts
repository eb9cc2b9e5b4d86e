import { join } from 'node:path';
import type { SystemStore } from '@relay/core';
import { createPrivately, makeFolder } from './drivers/folder-lock.ts';
import type { SqlDriver } from './drivers/driver.ts';
import { openPostgresDriver } from './drivers/postgres.ts';
import { openSqliteDriver } from './drivers/sqlite.ts';
import { migrate } from './sql/migrations.ts';
import { createSqlStore } from './sql/store.ts';

export { lockFolder, makeFolder } from './drivers/folder-lock.ts';
export type { FolderLock } from './drivers/folder-lock.ts';
export { createMemoryStore } from './memory.ts';

/** The embedded store: one file in the data folder, which only its owner may read. */
export async function openSqliteStore({ dir }: { dir: string }): Promise<SystemStore> {
  makeFolder(dir);
  const path = join(dir, 'relay.db');
  createPrivately(path);
  return migrated(await openSqliteDriver({ path }));
}

/** An index of a large table takes its time, and whoever starts meanwhile waits for it. */
const migrating = { readers: 1, patienceMs: 10 * 60_000, statementTimeoutMs: 60 * 60_000 };

/** The store of several nodes. */
export async function openPostgresStore({ url }: { url: string }): Promise<SystemStore> {
  const patient = await openPostgresDriver({ url, ...migrating });
  try {
    await migrate(patient);
  } finally {
    await patient.close();
  }
  return createSqlStore(await openPostgresDriver({ url }));
}

async function migrated(driver: SqlDriver): Promise<SystemStore> {
  try {
    await migrate(driver);
  } catch (error) {
    await driver.close();
    throw error;
  }
  return createSqlStore(driver);
}
