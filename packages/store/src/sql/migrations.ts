/**
 * The tables, as numbered steps. A step that has been released is never changed; a new one is added.
 * Each is one unit that begins by recording itself, so that of several processes that start together
 * one applies it and the others find it done.
 *
 * During a rolling upgrade, nodes of two versions work on the same tables. So a step adds (a table, an
 * index, a column that may be left out) or takes an index away, and an older Relay that meets it goes
 * on, and may start. A step that takes more away says from which step on a Relay must know the tables:
 * its `floor`.
 */
import { RelayError } from '@relay/protocol';
import type { SqlDialect, SqlDriver, Statement } from '../drivers/driver.ts';
import { approvalTables } from './approval-tables.ts';
import { auditIndexes, auditTables } from './audit-tables.ts';
import { clientCallTables } from './client-calls.ts';
import { createClock } from './clock.ts';
import { deliveryIndexes } from './delivery-queue.ts';
import { firstTables } from './first-tables.ts';
import { memoryTables } from './memory-tables.ts';
import { retentionTables } from './retention.ts';
import { createNodes } from './nodes.ts';
import { policyTables } from './policies.ts';
import { protectRows } from './row-security.ts';
import { findMemories } from './row-security-tables.ts';
import { integerOrNull } from './stored.ts';
import { vectorBacklog, vectorTables } from './vector-tables.ts';
import { webhookTables } from './webhooks.ts';

export interface Migration {
  readonly id: number;
  readonly statements: readonly string[] | Readonly<Record<SqlDialect, readonly string[]>>;
  /** Approvals whose last step is below this one cannot work with the tables any more. */
  readonly floor?: number;
}

/** Each append rewrites its run's row: beside the old one, where no index has to follow. */
const roomForAppends =
  'ALTER TABLE runs SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05)';

export const migrations: readonly Migration[] = [
  { id: 1, statements: firstTables },
  {
    id: 2,
    statements: { sqlite: [createNodes], postgres: [createNodes, createClock, roomForAppends] },
  },
  { id: 3, statements: clientCallTables },
  { id: 4, statements: ['ALTER TABLE runs ADD COLUMN usage_details TEXT'] },
  { id: 5, statements: memoryTables },
  { id: 6, statements: approvalTables },
  { id: 7, statements: ['ALTER TABLE approvals ADD COLUMN resolved_paths TEXT'] },
  { id: 8, statements: auditTables },
  { id: 9, statements: policyTables },
  { id: 10, statements: retentionTables },
  { id: 11, statements: webhookTables },
  { id: 12, statements: auditIndexes },
  { id: 13, statements: deliveryIndexes },
  { id: 14, statements: vectorTables },
  { id: 15, statements: { sqlite: [], postgres: [findMemories] } },
  { id: 16, statements: vectorBacklog },
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
  await driver.transact([...oneAtATime[dialect], ...createTables].map(statement));
  const present = await highest(driver, 'SELECT MAX(id) AS highest FROM migrations');
  const floor = await highest(driver, 'SELECT MAX(floor) AS highest FROM migration_floors');
  const known = steps.at(-1)?.id ?? 0;
  if (floor > known) {
    throw new RelayError(
      'storage_failed',
      `The database was written by a newer Relay (its tables are at ${present}, this one knows ${known})`,
    );
  }
  for (const step of steps) {
    if (step.id > present) await driver.transact(unitOf(step, dialect));
  }
  if (dialect === 'postgres') await protectRows(driver);
}

/** Whoever comes second waits. PostgreSQL lets two make the same table, and fails one of them. */
const oneAtATime: Readonly<Record<SqlDialect, readonly string[]>> = {
  sqlite: [],
  postgres: [`SELECT pg_advisory_xact_lock(hashtext('relay migrations'))`],
};

function unitOf(step: Migration, dialect: SqlDialect): Statement[] {
  const { id, floor } = step;
  const record = 'INSERT INTO migrations (id) VALUES (?) ON CONFLICT DO NOTHING';
  const recordFloor = 'INSERT INTO migration_floors (id, floor) VALUES (?, ?)';
  return [
    ...oneAtATime[dialect].map(statement),
    { sql: record, params: [id], expect: 1 },
    ...(floor === undefined ? [] : [{ sql: recordFloor, params: [id, floor] }]),
    ...statementsOf(step, dialect).map(statement),
  ];
}

/** Text is compared byte by byte, as on SQLite, whatever the language of the database. */
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
  return row === undefined ? 0 : (integerOrNull(row, 'highest') ?? 0);
}

function statement(sql: string): Statement {
  return { sql, params: [] };
}
