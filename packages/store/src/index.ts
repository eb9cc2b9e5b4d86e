import { join } from 'node:path';
import type { SystemStore } from '@relay/core';
import { createPrivately, makeFolder } from './drivers/folder-lock.ts';
import { openSqliteDriver } from './drivers/sqlite.ts';
import { migrate } from './sql/migrations.ts';
import { createSqlStore } from './sql/store.ts';

export { lockFolder } from './drivers/folder-lock.ts';
export type { FolderLock } from './drivers/folder-lock.ts';
export { createMemoryStore } from './memory.ts';

/** The embedded store: one file in the data folder, which only its owner may read. */
export async function openSqliteStore({ dir }: { dir: string }): Promise<SystemStore> {
  makeFolder(dir);
  const path = join(dir, 'relay.db');
  createPrivately(path);
  const driver = await openSqliteDriver({ path });
  try {
    await migrate(driver);
  } catch (error) {
    await driver.close();
    throw error;
  }
  return createSqlStore(driver);
}
