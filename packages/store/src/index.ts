import { join } from 'node:path';
import type { SystemStore } from '@relay/core';
import { createPrivately, makeFolder } from './drivers/folder-lock.ts';
import type { SqlDriver } from './drivers/driver.ts';
import { openPostgresDriver } from './drivers/postgres.ts';
import { openSqliteDriver } from './drivers/sqlite.ts';
import { countNodes } from './sql/nodes.ts';
import { decodeNote, selectNote } from './sql/notes.ts';
import { migrate } from './sql/migrations.ts';
import { adviceOnRows } from './sql/row-security.ts';
import { createSqlStore } from './sql/store.ts';

export { lockFolder, makeFolder } from './drivers/folder-lock.ts';
export type { FolderLock } from './drivers/folder-lock.ts';
export { checkSqlite, copySqlite, readSqliteNote } from './drivers/sqlite-copy.ts';
export { createMemoryStore } from './memory.ts';

/** The embedded store: one file in the data folder, which only its owner may read. */
export async function openSqliteStore({ dir }: { dir: string }): Promise<SystemStore> {
  makeFolder(dir);
  const path = join(dir, 'relay.db');
  createPrivately(path);
  return migrated(await openSqliteDriver({ path }));
}

/** An index of a large table takes its time, and whoever starts meanwhile waits for it. */
const migrating = { readers: 1, deliveryTimeoutMs: 10 * 60_000, statementTimeoutMs: 60 * 60_000 };

export interface PostgresStoreOptions {
  readonly url: string;
  /** EventBuffer in one line what an operator could make safer. */
  readonly advise?: (line: string) => void;
}

/** The store of several nodes. */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<SystemStore> {
  const { url, advise } = options;
  const patient = await openPostgresDriver({ url, ...migrating });
  try {
    await migrate(patient);
    const advice = advise === undefined ? undefined : await adviceOnRows(patient);
    if (advice !== undefined) advise?.(advice);
  } finally {
    await patient.close();
  }
  return createSqlStore(await openPostgresDriver({ url }));
}

/** Whether the database answers, and a note of it. Nothing is made or changed there. */
export async function lookIntoPostgres(url: string, note: string): Promise<string | undefined> {
  const driver = await openPostgresDriver({ url, readers: 1, writers: 1 });
  try {
    const there = await driver.read(`SELECT to_regclass('notes') IS NOT NULL AS there`, []);
    if (String(there[0]?.['there']) !== 'true') return undefined;
    const { sql, params } = selectNote(note);
    const [row] = await driver.read(sql, params);
    return row === undefined ? undefined : decodeNote(row);
  } finally {
    await driver.close();
  }
}

/** How many nodes say that they are alive, on a database that one of them has used. */
export async function countPostgresNodes(url: string): Promise<number> {
  const driver = await openPostgresDriver({ url, readers: 1, writers: 1 });
  try {
    const { sql, params } = countNodes('postgres', Date.now());
    const [row] = await driver.read(sql, params);
    return Number(row?.['alive'] ?? 0);
  } finally {
    await driver.close();
  }
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
