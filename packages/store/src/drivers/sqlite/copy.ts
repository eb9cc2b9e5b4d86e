/** Copies and read-only inspection of an embedded store, also while a server uses it. */
import { chmodSync, closeSync, fsyncSync, openSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { RelayError } from '@relay/protocol';
import type { DamagedRow } from '@relay/core';
import { type RowAuthenticator, RowSigner } from '../../codec/signed-table.ts';
import { findDamagedRows } from '../../sql/signed-tables.ts';
import { findSqliteProblem } from '../../sql/schema/migrations.ts';
import { decodeMetadata, selectMetadata } from '../../sql/system.ts';
import type { Row, SqlValue } from '../driver.ts';

const busyTimeoutMs = 10_000;

/**
 * A consistent copy, flushed to disk. It is read in a single transaction: an incremental backup would
 * restart with every commit of the server.
 */
export function copySqlite(path: string, target: string): void {
  withDatabase(path, (db) => {
    db.prepare('VACUUM INTO ?').run(target);
  });
  chmodSync(target, 0o600);
  const file = openSync(target, 'r+');
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

/** Throws if the file is damaged or no store. */
export function checkSqlite(path: string): void {
  withDatabase(path, (db) => {
    const found = db.prepare('PRAGMA quick_check(1)').get() as { quick_check?: string } | undefined;
    if (found?.quick_check !== 'ok') {
      throw new RelayError('journal_corrupt', `${path} is damaged: ${found?.quick_check}`);
    }
    const problem = findSqliteProblem((sql) => db.prepare(sql).all());
    if (problem !== undefined) throw new RelayError('storage_failed', `${path}: ${problem}`);
    db.prepare('SELECT count(*) FROM metadata').get();
  });
}

/** A metadata entry of a store that may be in use. */
export function readSqliteMetadata(path: string, name: string): string | undefined {
  return withDatabase(path, (db) => {
    const { sql, params } = selectMetadata(name);
    const row = db.prepare(sql).get(...params) as Row | undefined;
    return row === undefined ? undefined : decodeMetadata(row);
  });
}

/** Rows that decide who may do what, and are not as Relay wrote them. */
export async function findDamagedSqliteRows(
  path: string,
  rows: RowAuthenticator,
): Promise<DamagedRow[]> {
  const read = async (sql: string, params: readonly SqlValue[]) =>
    withDatabase(path, (db) => db.prepare(sql).all(...params));
  return findDamagedRows({ read }, new RowSigner(rows));
}

function withDatabase<Value>(path: string, use: (db: DatabaseSync) => Value): Value {
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path, { readOnly: true, timeout: busyTimeoutMs });
    return use(db);
  } catch (cause) {
    if (cause instanceof RelayError) throw cause;
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new RelayError('storage_failed', `${path} cannot be read: ${why}`, { cause });
  } finally {
    db?.close();
  }
}
