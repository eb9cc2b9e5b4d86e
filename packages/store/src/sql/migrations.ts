/**
 * The tables, as numbered steps. A step that has been released is never changed; a new one is added.
 * Each is one unit that begins by recording itself, so that of two processes that start together one
 * applies it and the other finds it done.
 */
import { RelayError } from '@relay/protocol';
import type { SqlDialect, SqlDriver } from '../drivers/driver.ts';
import { approvalTables } from './approval-tables.ts';
import { firstTables } from './first-tables.ts';
import { integerOrNull } from './stored.ts';

export interface Migration {
  readonly id: number;
  readonly statements: readonly string[] | Readonly<Record<SqlDialect, readonly string[]>>;
}

export const migrations: readonly Migration[] = [
  { id: 1, statements: firstTables },
  { id: 2, statements: approvalTables },
];

export async function migrate(
  driver: SqlDriver,
  steps: readonly Migration[] = migrations,
): Promise<void> {
  await driver.transact([
    statement('CREATE TABLE IF NOT EXISTS migrations (id BIGINT NOT NULL PRIMARY KEY)'),
  ]);
  const present = await newest(driver);
  const known = steps.at(-1)?.id ?? 0;
  if (present > known) {
    throw new RelayError(
      'storage_failed',
      `The database was written by a newer Relay (its tables are at ${present}, this one knows ${known})`,
    );
  }
  for (const step of steps) {
    if (step.id <= present) continue;
    await driver.transact([
      {
        sql: 'INSERT INTO migrations (id) VALUES (?) ON CONFLICT DO NOTHING',
        params: [step.id],
        expect: 1,
      },
      ...statementsOf(step, driver.dialect).map(statement),
    ]);
  }
}

function statementsOf({ statements }: Migration, dialect: SqlDialect): readonly string[] {
  return 'sqlite' in statements ? statements[dialect] : statements;
}

async function newest(driver: SqlDriver): Promise<number> {
  const [row] = await driver.read('SELECT MAX(id) AS newest FROM migrations', []);
  return row === undefined ? 0 : (integerOrNull(row, 'newest') ?? 0);
}

function statement(sql: string) {
  return { sql, params: [] };
}
