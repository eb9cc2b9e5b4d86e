import { join } from 'node:path';
import type { DamagedRow, SystemStore } from '@relay/core';
import { defined, RelayError } from '@relay/protocol';
import { type RowAuthenticator, RowSigner } from './codec/signed-table.ts';
import { findDamagedRows } from './sql/signed-tables.ts';
import { createOwnerOnlyFile, makeFolder } from './drivers/sqlite/folder-lock.ts';
import { openSqliteDriver } from './drivers/sqlite/file-driver.ts';
import { buildImage, openMemoryDriver } from './drivers/sqlite/memory-driver.ts';
import { readOne } from './sql/statements.ts';
import { countNodes, decodeMetadata, selectMetadata } from './sql/system.ts';
import { findSchemaProblem, migrate, schemaStatements } from './sql/schema/migrations.ts';
import { adviceOnRows } from './sql/schema/row-security.ts';
import { createSqlStore } from './store.ts';

export { isFolderInUse, lockFolder, makeFolder } from './drivers/sqlite/folder-lock.ts';
export type { FolderLock } from './drivers/sqlite/folder-lock.ts';
export type { RowAuthenticator } from './codec/signed-table.ts';
export {
  checkSqlite,
  copySqlite,
  findDamagedSqliteRows,
  readSqliteMetadata,
} from './drivers/sqlite/copy.ts';

interface StoreOptions {
  /** Signs the rows that decide who may do what. Default: a checksum, which resists no attacker. */
  readonly rows?: RowAuthenticator;
}

export interface SqliteStoreOptions extends StoreOptions {
  readonly dir: string;
}

/** The embedded store: one file in the data folder, which only its owner may read. */
export async function openSqliteStore({ dir, rows }: SqliteStoreOptions): Promise<SystemStore> {
  makeFolder(dir);
  const path = join(dir, 'relay.db');
  createOwnerOnlyFile(path);
  const name = `The database ${path}`;
  const driver = await openSqliteDriver({ path }).catch((error: unknown) => {
    throw unusable(name, error, sqliteAdvice);
  });
  try {
    await migrate(driver);
  } catch (error) {
    await driver.close();
    throw unusable(name, error, sqliteAdvice);
  }
  return createSqlStore(driver, defined({ rows }));
}

let memoryImage: Uint8Array | undefined;

/** A store without a disk, for tests and for programs that need no durability. */
export function createMemoryStore(options: StoreOptions = {}): SystemStore {
  memoryImage ??= buildImage(schemaStatements('sqlite'));
  return createSqlStore(openMemoryDriver(memoryImage), options);
}

/** Loaded only if it is used: the `pg` package is large. */
const postgresDriver = () => import('./drivers/postgres/driver.ts');

/** Building an index of a large table takes long, and other starting nodes wait for it. */
const migrationOptions = { readers: 1, retryForMs: 10 * 60_000, statementTimeoutMs: 60 * 60_000 };

export interface PostgresStoreOptions extends StoreOptions {
  readonly url: string;
  /** Receives one line if an operator could make the database safer. */
  readonly advise?: (line: string) => void;
}

/** The store of several nodes. */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<SystemStore> {
  const { url, advise, rows } = options;
  const { nameOf, openPostgresDriver } = await postgresDriver();
  const migrator = await openPostgresDriver({ url, ...migrationOptions });
  try {
    await migrate(migrator).catch((error: unknown) => {
      throw unusable(nameOf(url), error, postgresAdvice);
    });
    const advice = advise === undefined ? undefined : await adviceOnRows(migrator);
    if (advice !== undefined) advise?.(advice);
  } finally {
    await migrator.close();
  }
  return createSqlStore(await openPostgresDriver({ url }), defined({ rows }));
}

/** Checks that the database answers, and reads a metadata entry. Nothing is created or changed. */
export async function readPostgresMetadata(url: string, name: string): Promise<string | undefined> {
  const { openPostgresDriver } = await postgresDriver();
  const driver = await openPostgresDriver({ url, readers: 1, writers: 1 });
  try {
    const problem = await findSchemaProblem(driver);
    if (problem !== undefined) throw new RelayError('storage_failed', problem);
    const there = await driver.read(`SELECT to_regclass('metadata') IS NOT NULL AS there`, []);
    if (String(there[0]?.['there']) !== 'true') return undefined;
    return await readOne(driver, selectMetadata(name), decodeMetadata);
  } finally {
    await driver.close();
  }
}

/** Rows that decide who may do what, and are not as Relay wrote them. Nothing is changed. */
export async function findDamagedPostgresRows(
  url: string,
  rows: RowAuthenticator,
): Promise<DamagedRow[]> {
  const { openPostgresDriver } = await postgresDriver();
  const driver = await openPostgresDriver({ url, readers: 1, writers: 1 });
  try {
    return await findDamagedRows(driver, new RowSigner(rows));
  } finally {
    await driver.close();
  }
}

/** How many nodes are alive, on a database that one of them has used. */
export async function countPostgresNodes(url: string): Promise<number> {
  const { openPostgresDriver } = await postgresDriver();
  const driver = await openPostgresDriver({ url, readers: 1, writers: 1 });
  try {
    const statement = countNodes('postgres', Date.now());
    return (await readOne(driver, statement, (row) => Number(row['alive']))) ?? 0;
  } finally {
    await driver.close();
  }
}

const sqliteAdvice =
  'Check that this user may write the folder and its files; if the file is damaged, restore a backup';
const postgresAdvice =
  'Check the rights of the role: it must own the schema, or have CREATE and USAGE on it and own its tables';

/** One line that names the database, what was found and what to do. */
function unusable(name: string, error: unknown, advice: string): RelayError {
  const { code, cause } = error instanceof RelayError ? error : new RelayError('internal', '');
  const message = error instanceof Error ? error.message : String(error);
  const why = cause instanceof Error ? `${cause.message}. ${advice}` : message;
  return new RelayError(code, `${name} cannot be used: ${why}`, { cause: error });
}
