/**
 * The tables, as numbered steps. A released step is never changed; new ones are added. Each is one unit
 * that records itself first, so that of several processes that start together one applies it.
 *
 * During a rolling upgrade nodes of two versions share the tables. So a step only adds tables, indexes
 * and optional columns, or drops an index, and an older Relay keeps working. A step that removes more has
 * a `floor`.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { RelayError } from '@relay/protocol';
import { numberOrNull, text } from '../../codec/values.ts';
import type { Row, SqlDialect, SqlDriver, Statement } from '../../drivers/driver.ts';
import { createClock, plain } from '../statements.ts';
import { memoryTables } from './memories.ts';
import { migrationLock, protectRows } from './row-security.ts';
import { endedRunsIndex, eventsTable, runTables } from './runs.ts';
import { messageTables, sessionTables } from './sessions.ts';
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

/** Leaves space for the new version of a row next to the old one, so that no index changes. */
const spaceForAppends = [
  ...['runs', 'sessions'].map(
    (table) => `ALTER TABLE ${table} SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05)`,
  ),
  // Only the last row of a journal changes.
  'ALTER TABLE events SET (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02)',
];

const tables = [...accountTables, ...runTables, ...sessionTables, ...auditTables, ...systemTables];

/**
 * Tables with small rows that are found by their primary key. SQLite stores these rows in the index of
 * the key, and needs no second tree.
 */
const keyedTables = [
  'keys',
  'credentials',
  'grants',
  'policies',
  'webhooks',
  'conversations',
  'run_labels',
  'idempotency_keys',
  'usage_days',
  'workflow_totals',
  'connections',
  'session_labels',
  'session_commands',
  'message_places',
  'channels',
  'channel_members',
  'audit_unsealed',
  'audit_seals',
  'metadata',
  'nodes',
];

const sqliteTables = tables.map((sql) =>
  keyedTables.some((name) => sql.startsWith(`CREATE TABLE ${name} (`))
    ? `${sql} WITHOUT ROWID`
    : sql,
);

export const migrations: readonly Migration[] = [
  {
    id: 1,
    statements: {
      sqlite: [
        ...sqliteTables,
        eventsTable('BLOB'),
        endedRunsIndex.sqlite,
        ...memoryTables.sqlite,
        ...messageTables.sqlite,
      ],
      postgres: [
        ...tables,
        eventsTable('BYTEA'),
        endedRunsIndex.postgres,
        createClock,
        ...spaceForAppends,
        ...memoryTables.postgres,
        ...messageTables.postgres,
      ],
    },
  },
  { id: 2, statements: ['ALTER TABLE client_calls ADD COLUMN claimed_before BIGINT'] },
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
  const problem = await lastingProblem(driver, steps);
  if (problem !== undefined) throw new RelayError('storage_failed', problem);
  await driver.transact([...oneAtATime[dialect], ...createTables].map(plain));
  const present = await highest(driver, highestSql);
  for (const step of steps) {
    if (step.id > present) await driver.transact(unitOf(step, dialect));
  }
  if (dialect === 'postgres') await protectRows(driver);
}

/** The schema that a database has. */
export interface FoundSchema {
  /** Each column with its table. `required`: an insert without it fails. */
  readonly columns: readonly Row[];
  readonly version: number;
  readonly floor: number;
}

const highestSql = 'SELECT MAX(id) AS highest FROM migrations';
const highestFloorSql = 'SELECT MAX(floor) AS highest FROM migration_floors';

const columnsSql: Readonly<Record<SqlDialect, string>> = {
  sqlite: `SELECT m.name AS table_name, c.name AS column_name,
      (c."notnull" AND c.dflt_value IS NULL) AS required
    FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'`,
  postgres: `SELECT c.relname::text AS table_name, a.attname::text AS column_name,
      (a.attnotnull AND NOT a.atthasdef)::int AS required
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
      AND pg_table_is_visible(c.oid)
      AND c.relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)`,
};

/** Yields the queries that describe a schema, and receives their rows: drivers read in different ways. */
function* schemaQueries(dialect: SqlDialect): Generator<string, FoundSchema, readonly Row[]> {
  const columns = yield columnsSql[dialect];
  const tables = new Set(columns.map((row) => text(row, 'table_name')));
  const [version] = tables.has('migrations') ? yield highestSql : [];
  const [floor] = tables.has('migration_floors') ? yield highestFloorSql : [];
  const number = (row: Row | undefined) =>
    row === undefined ? 0 : (numberOrNull(row, 'highest') ?? 0);
  return { columns, version: number(version), floor: number(floor) };
}

async function readSchema(driver: Pick<SqlDriver, 'dialect' | 'read'>): Promise<FoundSchema> {
  const queries = schemaQueries(driver.dialect);
  for (let next = queries.next(); ;) {
    if (next.done === true) return next.value;
    next = queries.next(await driver.read(next.value, []));
  }
}

/** What keeps this Relay from using the database, without changing it. */
export function findSchemaProblem(
  driver: Pick<SqlDriver, 'dialect' | 'read'>,
): Promise<string | undefined> {
  return lastingProblem(driver, migrations);
}

const rereadMs = 250;

/** While another process applies a step, the schema that is read may be neither the old nor the new. */
async function lastingProblem(
  driver: Pick<SqlDriver, 'dialect' | 'read'>,
  steps: readonly Migration[],
): Promise<string | undefined> {
  const find = async () => schemaProblem(driver.dialect, await readSchema(driver), steps);
  if ((await find()) === undefined) return undefined;
  await sleep(rereadMs);
  return find();
}

/** The same for a SQLite database that is read synchronously. */
export function findSqliteProblem(read: (sql: string) => readonly Row[]): string | undefined {
  const queries = schemaQueries('sqlite');
  for (let next = queries.next(); ; next = queries.next(read(next.value))) {
    if (next.done === true) return schemaProblem('sqlite', next.value, migrations);
  }
}

const otherVersion =
  'It was created by another version of Relay, or it is damaged. Start that version, restore a ' +
  'backup, or let Relay begin with an empty database (another RELAY_DATA_DIR or RELAY_DATABASE_URL)';

function schemaProblem(
  dialect: SqlDialect,
  { columns, version, floor }: FoundSchema,
  steps: readonly Migration[],
): string | undefined {
  const known = steps.at(-1)?.id ?? 0;
  if (floor > known) {
    return `The database has schema version ${version}; this Relay supports up to version ${known}. Upgrade Relay`;
  }
  const found = new Map<string, Map<string, boolean>>();
  for (const row of columns) {
    const table = found.get(text(row, 'table_name')) ?? new Map<string, boolean>();
    found.set(text(row, 'table_name'), table);
    table.set(text(row, 'column_name'), Number(row['required']) === 1);
  }
  const created = tablesOf(
    steps.filter(({ id }) => id <= version),
    dialect,
  );
  for (const [table, expected] of created) {
    const there = found.get(table);
    if (there === undefined) {
      return `The database has schema version ${version}, but no table ${table}. ${otherVersion}`;
    }
    const missing = [...expected].find((column) => !there.has(column));
    if (missing !== undefined) {
      return `The database has schema version ${version}, but its table ${table} has no column ${missing}. ${otherVersion}`;
    }
    const unknown = [...there].find(([column, isRequired]) => isRequired && !expected.has(column));
    if (unknown !== undefined && version <= known) {
      return `The database has schema version ${version}, but its table ${table} requires the column ${unknown[0]}, which this Relay does not know. ${otherVersion}`;
    }
  }
  const taken = [...tablesOf(steps, dialect).keys()].find(
    (table) => found.has(table) && !created.has(table),
  );
  if (taken === undefined) return undefined;
  return `The database has a table ${taken} that this Relay did not create. Give Relay a database or a schema of its own`;
}

/** The columns that steps create, by table. */
function tablesOf(steps: readonly Migration[], dialect: SqlDialect): Map<string, Set<string>> {
  const tables = new Map<string, Set<string>>();
  for (const sql of steps.flatMap((step) => statementsOf(step, dialect))) {
    const [, verb, table = ''] = /^\s*(CREATE|ALTER|DROP) TABLE (\w+)/.exec(sql) ?? [];
    if (verb === 'DROP') tables.delete(table);
    if (verb !== 'CREATE' && verb !== 'ALTER') continue;
    // A name in lower case, followed by its type in upper case.
    const columns = [...sql.matchAll(/(?:[(,]|ADD COLUMN)\s*([a-z]\w*) [A-Z]/g)];
    const known = tables.get(table) ?? [];
    tables.set(table, new Set([...known, ...columns.map(([, name = '']) => name)]));
  }
  return tables;
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
