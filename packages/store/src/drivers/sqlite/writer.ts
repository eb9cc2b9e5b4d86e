/**
 * The thread that writes. It owns the only writable connection, so that waiting for the disk never
 * blocks the event loop.
 *
 * Each message is a batch, and its reply is sent after the COMMIT, never before (E1). A batch is `BEGIN
 * IMMEDIATE`, its units (`units.ts`), `COMMIT`. A fault of the database (disk full, damage, a lock) fails
 * the whole batch, which is rolled back.
 *
 * A batch is a flat array, which is the cheapest to send. Per unit: its length; per statement: the number
 * of its text, the expected count or -1, the number of parameters, the parameters. The reply is flat too
 * (`WriterReply`).
 */
import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import type { Row, SqlValue, Statement } from '../driver.ts';
import { faultOf, rollBack, type SqliteFault, UnitRunner } from './units.ts';

export interface WriterOptions {
  readonly path: string;
  readonly busyTimeoutMs: number;
}

/** SQL texts that the writer has not seen yet, and the batch; `null` asks it to finish. */
export type WriterRequest = readonly [texts: readonly string[], batch: readonly SqlValue[]] | null;

/**
 * Per unit: `DONE`, then per statement its rows or its changes; or `CONFLICT` and the statement's
 * position; or `FAILED`, SQLite's code and message.
 */
export type WriterReply =
  | { readonly ready: true }
  | { readonly fault: SqliteFault }
  | readonly (number | string | readonly Row[])[];

const DONE = 0;
const CONFLICT = 1;
const FAILED = 2;

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
      if ((faultOf(error).code & 0xff) !== 5 || Date.now() > deadline) throw error;
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
  const units = new UnitRunner(db);
  const begin = db.prepare('BEGIN IMMEDIATE');
  const commit = db.prepare('COMMIT');

  function runUnit(unit: readonly Statement[], answer: Answer): void {
    const outcome = units.run(unit);
    if ('fault' in outcome) {
      answer.push(FAILED, outcome.fault.code, outcome.fault.message);
    } else if (outcome.ok) {
      answer.push(DONE);
      for (const { rows, changes } of outcome.results)
        answer.push(rows.length > 0 ? rows : changes);
    } else {
      answer.push(CONFLICT, outcome.failedAt);
    }
  }

  function runBatch(batch: readonly SqlValue[]): Answer {
    const answer: Answer = [];
    begin.run();
    for (let at = 0; at < batch.length;) {
      const unit: Statement[] = [];
      const unitEnd = at + 1 + (batch[at] as number);
      for (at += 1; at < unitEnd;) {
        const sql = texts[batch[at] as number] ?? '';
        const expect = batch[at + 1] as number;
        const end = at + 3 + (batch[at + 2] as number);
        const params = batch.slice(at + 3, end);
        unit.push(expect < 0 ? { sql, params } : { sql, params, expect });
        at = end;
      }
      runUnit(unit, answer);
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
      reply(runBatch(request[1]));
    } catch (error) {
      rollBack(db);
      reply({ fault: faultOf(error) });
    }
  };
}

function finish(db: DatabaseSync): void {
  try {
    db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  } catch {
    // Another process uses the file, or the disk is full: the WAL is kept, and nothing is lost.
  }
  db.close();
  parentPort?.close();
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
    port.postMessage({ fault: faultOf(error) } satisfies WriterReply);
    port.close();
  }
}
