/** What the SQL modules share: reading rows, placeholders, and differences between databases. */
import type { Row, SqlAccess, SqlDialect, Statement, UnitResult } from '../drivers/driver.ts';

export async function readAll<Value>(
  database: SqlAccess,
  { sql, params }: Statement,
  decode: (row: Row) => Value,
): Promise<Value[]> {
  return (await database.read(sql, params)).map((row) => decode(row));
}

export async function readOne<Value>(
  database: SqlAccess,
  { sql, params }: Statement,
  decode: (row: Row) => Value,
): Promise<Value | undefined> {
  const [row] = await database.read(sql, params);
  return row === undefined ? undefined : decode(row);
}

/** A read that takes long. */
export function readLong(database: SqlAccess, { sql, params }: Statement): Promise<readonly Row[]> {
  return database.readLong?.(sql, params) ?? database.read(sql, params);
}

/** The rows that a unit has changed. */
export function changesIn(result: UnitResult): number {
  return result.ok ? result.results.reduce((sum, { changes }) => sum + changes, 0) : 0;
}

/** A statement without parameters. */
export function plain(sql: string): Statement {
  return { sql, params: [] };
}

export function placeholders(count: number): string {
  return Array<string>(count).fill('?').join(', ');
}

export function insertInto(table: string, columns: readonly string[]): string {
  return `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${placeholders(columns.length)})`;
}

export function byDialect<Value>(
  write: (dialect: SqlDialect) => Value,
): Readonly<Record<SqlDialect, Value>> {
  return { sqlite: write('sqlite'), postgres: write('postgres') };
}

/**
 * The time that counts for leases. Nodes that share a database have different clocks, so the clock of
 * the database counts: `relay_now` ignores the caller's time, which it takes as its parameter. A file
 * has one node, whose own clock counts.
 */
export const nowSql: Readonly<Record<SqlDialect, string>> = {
  sqlite: '?',
  postgres: 'relay_now(?)',
};

export const createClock = `CREATE FUNCTION relay_now(client_time BIGINT) RETURNS BIGINT
  LANGUAGE sql VOLATILE
  AS 'SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)'`;
