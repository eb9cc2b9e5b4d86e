/**
 * The writer thread. Waiting for the disk, or for another process, does not block the event loop here.
 * Its connection is the one that checkpoints.
 *
 * Each message is a batch (`units.ts`), and its reply is sent after the COMMIT, never before (E1).
 *
 * A batch is a flat array, which is the cheapest to send. Per unit: its length; per statement: the number
 * of its text, the expected count or -1, the number of parameters, the parameters. The reply is flat too
 * (`WriterReply`).
 */
import { parentPort, workerData } from 'node:worker_threads';
import type { DatabaseSync } from 'node:sqlite';
import type { Row, SqlValue, Statement } from '../driver.ts';
import { openWritable } from './connection.ts';
import { BatchRunner, faultOf, type SqliteFault } from './units.ts';

export interface WriterOptions {
  readonly path: string;
  readonly busyTimeoutMs: number;
}

/** SQL texts that the writer has not seen yet, and the batch; `null` asks it to finish. */
export type WriterRequest = readonly [texts: readonly string[], batch: readonly SqlValue[]] | null;

/**
 * How long the commit took, in milliseconds, and then per unit: `DONE`, then per statement its rows or
 * its changes; or `CONFLICT` and the statement's position; or `FAILED`, SQLite's code and message.
 */
export type WriterReply =
  | { readonly ready: true }
  | { readonly fault: SqliteFault }
  | readonly (number | string | readonly Row[])[];

const DONE = 0;
const CONFLICT = 1;
const FAILED = 2;

/** 8 MB. */
const checkpointPages = 2000;

function serve(db: DatabaseSync, reply: (answer: WriterReply) => void) {
  const texts: string[] = [];
  const batches = new BatchRunner(db);
  return function onRequest(request: WriterRequest): void {
    if (request === null) {
      db.close();
      parentPort?.close();
      return;
    }
    texts.push(...request[0]);
    try {
      reply(encodeReply(batches.run(decodeBatch(request[1], texts))));
    } catch (error) {
      reply({ fault: faultOf(error) });
    }
  };
}

function decodeBatch(batch: readonly SqlValue[], texts: readonly string[]): Statement[][] {
  const units: Statement[][] = [];
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
    units.push(unit);
  }
  return units;
}

function encodeReply({ outcomes, tookMs }: ReturnType<BatchRunner['run']>): WriterReply {
  const reply: (number | string | readonly Row[])[] = [tookMs];
  for (const outcome of outcomes) {
    if ('fault' in outcome) {
      reply.push(FAILED, outcome.fault.code, outcome.fault.message);
    } else if (outcome.ok) {
      reply.push(DONE);
      for (const { rows, changes } of outcome.results) reply.push(rows.length > 0 ? rows : changes);
    } else {
      reply.push(CONFLICT, outcome.failedAt);
    }
  }
  return reply;
}

if (parentPort !== null) {
  const port = parentPort;
  try {
    const db = openWritable({ ...(workerData as WriterOptions), checkpointPages });
    port.on(
      'message',
      serve(db, (answer) => port.postMessage(answer)),
    );
    port.postMessage({ ready: true } satisfies WriterReply);
  } catch (error) {
    port.postMessage({ fault: faultOf(error) } satisfies WriterReply);
    port.close();
  }
}
