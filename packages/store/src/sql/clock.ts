/**
 * Which time counts for leases. Several nodes share a database, and their clocks differ: there its
 * clock counts, not a node's. A file has one node, whose clock counts.
 *
 * `relay_now` is a function in the database that takes the caller's time and returns the database's own.
 */
import type { SqlDialect } from '../drivers/driver.ts';

export const nowSql: Readonly<Record<SqlDialect, string>> = {
  sqlite: '?',
  postgres: 'relay_now(?)',
};

export const createClock = `CREATE FUNCTION relay_now(believed BIGINT) RETURNS BIGINT
  LANGUAGE sql VOLATILE
  AS 'SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)'`;
