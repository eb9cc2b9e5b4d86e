/**
 * The main thread's side of the writer, which groups units into batches.
 *
 *   idle ──submit──▶ gathering ──end of this turn of the event loop──▶ committing
 *   committing ──reply, nothing waits──▶ idle
 *   committing ──reply, units wait────▶ committing (they are the next batch)
 *   idle ──close──▶ finishing             committing ──reply, nothing waits, closed──▶ finishing
 *   any state ──the writer exited──▶ stopped
 *
 * - At most one batch is in flight. There is no timer: the first batch is what one turn of the event
 *   loop submits, and what arrives while it commits is the next batch.
 * - Units are applied in the order of submission.
 * - Each unit settles exactly once: with its own result, with the fault of its batch, or when the writer
 *   stops.
 * - `close` accepts no more units, commits the waiting ones, and then lets the writer finish.
 */
import type { EventEmitter } from 'node:events';
import { RelayError } from '@relay/protocol';
import type { Row, SqlValue, Statement, StatementResult, UnitResult } from '../driver.ts';
import { toRelayError } from './errors.ts';
import { faultOf } from './units.ts';
import type { WriterReply, WriterRequest } from './writer.ts';

const MAX_UNITS = 1_000;
/** Of a batch, in characters. */
const MAX_SIZE = 1024 * 1024;

interface Waiting {
  readonly unit: readonly Statement[];
  readonly resolve: (result: UnitResult) => void;
  readonly reject: (error: Error) => void;
}

interface Writer extends Pick<EventEmitter, 'on' | 'once'> {
  postMessage(request: WriterRequest): void;
}

type State = 'idle' | 'gathering' | 'committing' | 'finishing' | 'stopped';

const noRows: readonly Row[] = Object.freeze([]);

export class WriteQueue {
  readonly stats = { units: 0, commits: 0 };
  readonly #worker: Writer;
  readonly #path: string;
  readonly #numbers = new Map<string, number>();
  #state: State = 'idle';
  #closing = false;
  #waiting: Waiting[] = [];
  #sent: Waiting[] = [];
  readonly #ended: Promise<void>;

  /** The worker must be ready. */
  constructor(worker: Writer, path: string) {
    this.#worker = worker;
    this.#path = path;
    this.#ended = new Promise((resolve) => {
      worker.once('exit', () => {
        this.#move('stopped');
        resolve();
      });
    });
    worker.on('error', (cause: Error) => this.#move('stopped', cause));
    worker.on('message', (reply: WriterReply) => this.#answered(reply));
  }

  submit(unit: readonly Statement[]): Promise<UnitResult> {
    if (this.#closing || this.#state === 'stopped') return Promise.reject(notOpen());
    return new Promise((resolve, reject) => {
      this.#waiting.push({ unit, resolve, reject });
      if (this.#state === 'idle') this.#move('gathering');
    });
  }

  close(): Promise<void> {
    this.#closing = true;
    if (this.#state === 'idle') this.#move('finishing');
    return this.#ended;
  }

  /** The only place where the state changes. */
  #move(to: State, cause?: unknown): void {
    if (this.#state === 'stopped') return;
    this.#state = to;
    switch (to) {
      case 'idle':
        return;
      case 'gathering':
        setImmediate(() => this.#move('committing'));
        return;
      case 'committing':
        this.#send();
        return;
      case 'finishing':
        this.#worker.postMessage(null satisfies WriterRequest);
        return;
      case 'stopped':
        for (const { reject } of [...this.#sent, ...this.#waiting]) reject(notOpen(cause));
        this.#sent = [];
        this.#waiting = [];
    }
  }

  #answered(reply: WriterReply): void {
    const batch = this.#sent;
    this.#sent = [];
    // The next batch is sent before callers continue, so that both threads have work.
    this.#move(this.#waiting.length > 0 ? 'committing' : this.#closing ? 'finishing' : 'idle');
    if (isAnswer(reply)) {
      this.stats.commits += 1;
      this.stats.units += batch.length;
      settle(batch, reply, this.#path);
    } else if ('fault' in reply) {
      const error = toRelayError(reply.fault, this.#path);
      for (const { reject } of batch) reject(error);
    }
  }

  #send(): void {
    const texts: string[] = [];
    const flat: SqlValue[] = [];
    let size = 0;
    let count = 0;
    for (const { unit } of this.#waiting) {
      if (count === MAX_UNITS || (count > 0 && size > MAX_SIZE)) break;
      const start = flat.push(0);
      for (const { sql, params, expect } of unit) {
        flat.push(this.#numberOf(sql, texts), expect ?? -1, params.length);
        for (const param of params) {
          flat.push(param);
          if (typeof param === 'string') size += param.length;
        }
      }
      flat[start - 1] = flat.length - start;
      count += 1;
    }
    this.#sent = this.#waiting.splice(0, count);
    try {
      this.#worker.postMessage([texts, flat] satisfies WriterRequest);
    } catch (error) {
      // Too large to be copied, for example. The texts did not arrive either.
      for (const sql of texts) this.#numbers.delete(sql);
      const { message } = faultOf(error);
      setImmediate(() => this.#answered({ fault: { code: 0, message } }));
    }
  }

  #numberOf(sql: string, texts: string[]): number {
    let number = this.#numbers.get(sql);
    if (number === undefined) {
      number = this.#numbers.size;
      this.#numbers.set(sql, number);
      texts.push(sql);
    }
    return number;
  }
}

/** Reads the flat reply of the writer: 0 done, 1 unmet, 2 failed. */
function settle(batch: readonly Waiting[], answer: readonly unknown[], path: string): void {
  let at = 0;
  for (const { unit, resolve, reject } of batch) {
    const outcome = answer[at++];
    if (outcome === 0) {
      const results: StatementResult[] = [];
      for (let index = 0; index < unit.length; index += 1) {
        const result = answer[at++] as number | readonly Row[];
        results.push(
          typeof result === 'number'
            ? { rows: noRows, changes: result }
            : { rows: result, changes: result.length },
        );
      }
      resolve({ ok: true, results });
    } else if (outcome === 1) {
      resolve({ ok: false, failedAt: answer[at++] as number });
    } else {
      const fault = { code: answer[at++] as number, message: answer[at++] as string };
      reject(toRelayError(fault, path));
    }
  }
}

function isAnswer(reply: WriterReply): reply is Extract<WriterReply, readonly unknown[]> {
  return Array.isArray(reply);
}

function notOpen(cause?: unknown): RelayError {
  const message =
    cause === undefined ? 'The store is closed' : 'The database writer thread has exited';
  return new RelayError('storage_failed', message, { cause });
}
