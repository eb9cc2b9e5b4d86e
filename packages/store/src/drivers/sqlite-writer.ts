/**
 * The thread that writes. It owns the only connection that changes the database, so that waiting for
 * the disk never holds up the event loop. It imports nothing of ours: it starts from this one file.
 *
 * One message in is one batch; one message out is its answer, sent after the COMMIT and never before
 * (E1). A batch is `BEGIN IMMEDIATE`, each unit inside its own SAVEPOINT, `COMMIT`.
 *
 * - An expectation that is not met undoes its unit alone.
 * - A statement that is itself at fault (a constraint, a bad parameter) undoes and fails its unit alone.
 * - Anything else (disk full, damage, a lock that is not given up) fails the whole batch, which is
 *   rolled back. The next batch starts afresh.
 *
 * A batch is a flat array, which is the cheapest thing to send. Per unit: its length, then per
 * statement: the number of its text, the expected count or -1, the number of parameters, these.
 * The answer is flat as well: `reply` below says how.
 */
import { DatabaseSync } from 'node:sqlite';
import type { StatementSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import type { Row, SqlValue } from './driver.ts';

export interface WriterOptions {
  readonly path: string;
  readonly busyTimeoutMs: number;
}

/** SQL texts that the writer has not seen yet, and the batch; `null` asks it to finish. */
export type WriterRequest = readonly [texts: readonly string[], batch: readonly SqlValue[]] | null;

/** Per unit: `DONE`, then per statement its rows or its changes; or `UNMET`, place; or `FAILED`, … */
export type WriterReply =
  | { readonly ready: true }
  | { readonly fault: readonly [code: number, message: string] }
  | readonly (number | string | readonly Row[])[];

const DONE = 0;
const UNMET = 1;
const FAILED = 2;

/** NOMEM, READONLY, IOERR, CORRUPT, FULL, … : not the fault of the statement that met it. */
const faultsOfTheDatabase = new Set([5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 26]);

interface Prepared {
  readonly statement: StatementSync;
  readonly returnsRows: boolean;
}

type Answer = (number | string | readonly Row[])[];

function openDatabase(options: WriterOptions): DatabaseSync {
  const db = new DatabaseSync(options.path, { timeout: options.busyTimeoutMs });
  // Processes that start together race for the switch to WAL, for which SQLite does not wait.
  const deadline = Date.now() + options.busyTimeoutMs;
  for (;;) {
    try {
      db.exec('PRAGMA journal_mode = WAL');
      break;
    } catch (error) {
      if ((errorCode(error) & 0xff) !== 5 || Date.now() > deadline) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
    }
  }
  db.exec(`
    PRAGMA synchronous = FULL;
    PRAGMA foreign_keys = OFF;
    PRAGMA temp_store = MEMORY;
    PRAGMA wal_autocheckpoint = 2000;
    PRAGMA journal_size_limit = 67108864;
  `);
  return db;
}

function serve(db: DatabaseSync, reply: (answer: WriterReply) => void) {
  const texts: string[] = [];
  const prepared: (Prepared | undefined)[] = [];
  const begin = db.prepare('BEGIN IMMEDIATE');
  const commit = db.prepare('COMMIT');
  const savepoint = db.prepare('SAVEPOINT unit');
  const undo = db.prepare('ROLLBACK TO unit');
  const release = db.prepare('RELEASE unit');

  /** Prepared when it is first run, because a unit may create what its next statement uses. */
  function prepare(number: number): Prepared {
    const statement = db.prepare(texts[number] ?? '');
    return (prepared[number] = { statement, returnsRows: statement.columns().length > 0 });
  }

  /** Runs one unit; returns the place of an expectation that was not met, or -1. */
  function runUnit(unit: readonly SqlValue[], answer: Answer): number {
    for (let at = 0, place = 0; at < unit.length; place += 1) {
      const number = unit[at] as number;
      const expected = unit[at + 1] as number;
      const end = at + 3 + (unit[at + 2] as number);
      const { statement, returnsRows } = prepared[number] ?? prepare(number);
      const params = unit.slice(at + 3, end);
      let changes: number;
      if (returnsRows) {
        const rows = statement.all(...params) as Row[];
        changes = rows.length;
        answer.push(rows);
      } else {
        changes = statement.run(...params).changes as number;
        answer.push(changes);
      }
      if (expected >= 0 && changes !== expected) return place;
      at = end;
    }
    return -1;
  }

  function applyUnit(unit: readonly SqlValue[], answer: Answer): void {
    const start = answer.length;
    savepoint.run();
    answer.push(DONE);
    try {
      const unmet = runUnit(unit, answer);
      if (unmet >= 0) {
        answer.length = start;
        answer.push(UNMET, unmet);
        undo.run();
      }
    } catch (error) {
      const code = errorCode(error);
      if (!db.isTransaction || faultsOfTheDatabase.has(code & 0xff)) throw error;
      answer.length = start;
      answer.push(FAILED, code, errorMessage(error));
      undo.run();
    }
    release.run();
  }

  function applyBatch(batch: readonly SqlValue[]): Answer {
    const answer: Answer = [];
    begin.run();
    for (let at = 0; at < batch.length;) {
      const end = at + 1 + (batch[at] as number);
      applyUnit(batch.slice(at + 1, end), answer);
      at = end;
    }
    commit.run();
    return answer;
  }

  return function onRequest(request: WriterRequest): void {
    if (request === null) {
      finish(db);
      return;
    }
    texts.push(...request[0]);
    try {
      reply(applyBatch(request[1]));
    } catch (error) {
      rollBack(db);
      reply({ fault: [errorCode(error), errorMessage(error)] });
    }
  };
}

function rollBack(db: DatabaseSync): void {
  try {
    if (db.isTransaction) db.exec('ROLLBACK');
  } catch {
    // The next BEGIN says so, if the connection is really beyond use.
  }
}

function finish(db: DatabaseSync): void {
  try {
    db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  } catch {
    // Another process reads or writes, or the disk is full: the WAL is kept and nothing is lost.
  }
  db.close();
  parentPort?.close();
}

function errorCode(error: unknown): number {
  const code = (error as { errcode?: unknown }).errcode;
  return typeof code === 'number' ? code : 0;
}

function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

if (parentPort !== null) {
  const port = parentPort;
  try {
    port.on(
      'message',
      serve(openDatabase(workerData as WriterOptions), (answer) => port.postMessage(answer)),
    );
    port.postMessage({ ready: true } satisfies WriterReply);
  } catch (error) {
    port.postMessage({ fault: [errorCode(error), errorMessage(error)] } satisfies WriterReply);
    port.close();
  }
}
