/**
 * Writable connections to a SQLite file. The main thread and the writer thread have one each, and never
 * write at the same time (`queue.ts`). Imports only Node's own modules at run time, so that the thread
 * starts fast.
 */
import { DatabaseSync } from 'node:sqlite';
import { faultOf, isBusy } from './units.ts';

export interface ConnectionOptions {
  readonly path: string;
  /** How long to wait for another process that writes. */
  readonly busyTimeoutMs: number;
  /** The number of pages in the WAL at which a commit copies them into the database; 0 for never. */
  readonly checkpointPages: number;
}

export function openWritable(options: ConnectionOptions): DatabaseSync {
  const db = new DatabaseSync(options.path, { timeout: options.busyTimeoutMs });
  switchToWal(db, options.busyTimeoutMs);
  db.exec(`
    PRAGMA synchronous = FULL;
    PRAGMA foreign_keys = OFF;
    PRAGMA temp_store = MEMORY;
    PRAGMA wal_autocheckpoint = ${options.checkpointPages};
    PRAGMA journal_size_limit = 67108864;
  `);
  return db;
}

/** Processes that start together race for the switch, for which SQLite does not wait. */
function switchToWal(db: DatabaseSync, timeoutMs: number): void {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    try {
      db.exec('PRAGMA journal_mode = WAL');
      return;
    } catch (error) {
      if (!isBusy(faultOf(error)) || Date.now() > deadline) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
    }
  }
}
