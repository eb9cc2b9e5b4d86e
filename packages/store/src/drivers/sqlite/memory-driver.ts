/**
 * SQLite in memory as a driver, on the calling thread and on one connection. Each call completes before
 * it returns its promise.
 */
import { DatabaseSync } from 'node:sqlite';
import { RelayError } from '@relay/protocol';
import type { SqlDriver } from '../driver.ts';
import { toRelayError } from './errors.ts';
import { BatchRunner, faultOf, PreparedStatements, type UnitOutcome } from './units.ts';

const path = ':memory:';

/** With an `image` (of `buildImage`), the database starts as a copy of it. */
export function openMemoryDriver(image?: Uint8Array): SqlDriver {
  const db = new DatabaseSync(path);
  if (image !== undefined) db.deserialize(image);
  const statements = new PreparedStatements(db);
  const batches = new BatchRunner(db, statements);
  return {
    dialect: 'sqlite',
    async read(sql, params) {
      try {
        return statements.all(sql, params);
      } catch (error) {
        throw toRelayError(faultOf(error), path);
      }
    },
    async transact(unit) {
      let outcome: UnitOutcome | undefined;
      try {
        [outcome] = batches.run([unit]).outcomes;
      } catch (error) {
        throw toRelayError(faultOf(error), path);
      }
      if (outcome === undefined) throw new RelayError('internal', 'A unit has no outcome');
      if ('fault' in outcome) throw toRelayError(outcome.fault, path);
      return outcome;
    },
    async close() {
      if (db.isOpen) db.close();
    },
  };
}

/** The bytes of a database in which these statements were executed. */
export function buildImage(statements: readonly string[]): Uint8Array {
  const db = new DatabaseSync(path);
  // The default of 4 KiB would make each of many small databases three times as large.
  db.exec('PRAGMA page_size = 1024');
  for (const sql of statements) db.exec(sql);
  const image = db.serialize();
  db.close();
  return image;
}
