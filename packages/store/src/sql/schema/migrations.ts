/**
 * The tables, as numbered steps. A released step is never changed; new ones are added. Each is one unit
 * that records itself first, so that of several processes that start together one applies it.
 *
 * During a rolling upgrade nodes of two versions share the tables. So a step only adds tables, indexes
 * and optional columns, or drops an index, and an older Relay keeps working. A step that removes more has
 * a `floor`.
 */
import { RelayError } from '@relay/protocol';
import { numberOrNull } from '../../codec/values.ts';
import type { SqlDialect, SqlDriver, Statement } from '../../drivers/driver.ts';
import { createClock, plain } from '../statements.ts';
import { memoryTables } from './memories.ts';
import { migrationLock, protectRows } from './row-security.ts';
import { runTables } from './runs.ts';
import { accountTables, auditTables } from './tenants.ts';

export interface Migration {
  readonly id: number;
  readonly statements: readonly string[] | Readonly<Record<SqlDialect, readonly string[]>>;
  /** A Relay that does not know this step cannot use the tables any more. */
  readonly floor?: number;
}

/** What belongs to no tenant. */
const systemTables: readonly string[] = [
  `CREATE TABLE metadata (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL,
    checksum BIGINT NOT NULL
  )`,
  `CREATE TABLE probes (id BIGINT NOT NULL PRIMARY KEY, count BIGINT NOT NULL)`,
  `CREATE TABLE nodes (
    id TEXT NOT NULL PRIMARY KEY,
    alive_until BIGINT NOT NULL
  )`,
];

/** Leaves space for the new version of a run's row next to the old one, so that no index changes. */
const spaceForAppends =
  'ALTER TABLE runs SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05)';

const tables = [...accountTables, ...runTables, ...auditTables, ...systemTables];

export const migrations: readonly Migration[] = [
  {
    id: 1,
    statements: {
      sqlite: [...tables, ...memoryTables.sqlite],
      postgres: [...tables, createClock, spaceForAppends, ...memoryTables.postgres],
    },
  },
];

const createTables = [
  'CREATE TABLE IF NOT EXISTS migrations (id BIGINT NOT NULL PRIMARY KEY)',
  'CREATE TABLE IF NOT EXISTS migration_floors (id BIGINT NOT NULL PRIMARY KEY, floor BIGINT NOT NULL)',
];

export async function migrate(
  driver: SqlDriver,
  steps: readonly Migration[] = migrations,
): Promise<void> {
  const { dialect } = driver;
  await driver.transact([...oneAtATime[dialect], ...createTables].map(plain));
  const present = await highest(driver, 'SELECT MAX(id) AS highest FROM migrations');
  const floor = await highest(driver, 'SELECT MAX(floor) AS highest FROM migration_floors');
  const known = steps.at(-1)?.id ?? 0;
  if (floor > known) {
    throw new RelayError(
      'storage_failed',
      `The database has schema version ${present}; this Relay supports up to version ${known}. Upgrade Relay`,
    );
  }
  for (const step of steps) {
    if (step.id > present) await driver.transact(unitOf(step, dialect));
  }
  if (dialect === 'postgres') await protectRows(driver);
}

/** What `migrate` executes on an empty database, except for recording the steps. */
export function schemaStatements(dialect: SqlDialect): string[] {
  return [...createTables, ...migrations.flatMap((step) => statementsOf(step, dialect))];
}

/** On PostgreSQL a second process waits: of two that create the same table one would fail. */
const oneAtATime: Readonly<Record<SqlDialect, readonly string[]>> = {
  sqlite: [],
  postgres: [migrationLock],
};

function unitOf(step: Migration, dialect: SqlDialect): Statement[] {
  const { id, floor } = step;
  const record = 'INSERT INTO migrations (id) VALUES (?) ON CONFLICT DO NOTHING';
  const recordFloor = 'INSERT INTO migration_floors (id, floor) VALUES (?, ?)';
  return [
    ...oneAtATime[dialect].map(plain),
    { sql: record, params: [id], expect: 1 },
    ...(floor === undefined ? [] : [{ sql: recordFloor, params: [id, floor] }]),
    ...statementsOf(step, dialect).map(plain),
  ];
}

/** Text is compared byte by byte, as on SQLite, whatever the locale of the database. */
function statementsOf({ statements }: Migration, dialect: SqlDialect): readonly string[] {
  const written = 'sqlite' in statements ? statements[dialect] : statements;
  if (dialect === 'sqlite') return written;
  return written.map((sql) =>
    /^\s*(?:CREATE|ALTER) TABLE/i.test(sql)
      ? sql.replaceAll(/\bTEXT\b(?! COLLATE)/g, 'TEXT COLLATE "C"')
      : sql,
  );
}

async function highest(driver: SqlDriver, sql: string): Promise<number> {
  const [row] = await driver.read(sql, []);
  return row === undefined ? 0 : (numberOrNull(row, 'highest') ?? 0);
}
