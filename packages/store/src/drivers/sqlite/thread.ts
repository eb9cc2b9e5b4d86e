/**
 * The main thread's side of the writer thread (`writer.ts`). It starts the thread when it is needed
 * first, and again if it has exited, and sends it one batch at a time.
 */
import type { EventEmitter } from 'node:events';
import type { Row, SqlValue, StatementResult } from '../driver.ts';
import { type Commit, faultOf, noRows, type Unit, type UnitOutcome } from './units.ts';
import type { WriterReply, WriterRequest } from './writer.ts';

interface Worker extends Pick<EventEmitter, 'on'> {
  postMessage(request: WriterRequest): void;
}

interface InFlight {
  readonly units: readonly Unit[];
  readonly resolve: (commit: Commit) => void;
}

/** A thread that was started, until it exits. */
interface Started {
  readonly worker: Worker;
  readonly exited: Promise<void>;
  /** The numbers of the SQL texts that it knows. */
  readonly numbers: Map<string, number>;
  isReady: boolean;
}

export class WriterThread {
  readonly #startWorker: () => Worker;
  #started: Started | undefined;
  #inFlight: InFlight | undefined;

  constructor(startWorker: () => Worker) {
    this.#startWorker = startWorker;
  }

  /** Whether a batch would be committed at once. */
  get isReady(): boolean {
    return this.#started?.isReady === true;
  }

  start(): void {
    this.#start();
  }

  /** One at a time. If the thread exits, it is unknown whether the batch is stored. */
  commit(units: readonly Unit[]): Promise<Commit> {
    const { worker, numbers } = this.#start();
    return new Promise((resolve) => {
      this.#inFlight = { units, resolve };
      const texts: string[] = [];
      try {
        const batch = encodeBatch(units, numbers, texts);
        worker.postMessage([texts, batch] satisfies WriterRequest);
      } catch (error) {
        // Too large to be copied, for example. The texts did not arrive either.
        for (const sql of texts) numbers.delete(sql);
        this.#settle({ fault: { code: 0, message: faultOf(error).message } });
      }
    });
  }

  /** Resolves when the thread has closed its connection and exited. */
  async close(): Promise<void> {
    this.#started?.worker.postMessage(null satisfies WriterRequest);
    await this.#started?.exited;
  }

  #start(): Started {
    if (this.#started !== undefined) return this.#started;
    const worker = this.#startWorker();
    const { promise: exited, resolve } = Promise.withResolvers<void>();
    const started = { worker, exited, numbers: new Map<string, number>(), isReady: false };
    worker.on('message', (reply: WriterReply) => {
      if (isAnswer(reply)) this.#settle(decodeReply(reply, this.#inFlight?.units ?? []));
      else if ('fault' in reply) this.#settle(reply);
      else started.isReady = true;
    });
    worker.on('error', (error: Error) => this.#settle({ fault: faultOf(error) }));
    worker.on('exit', () => {
      this.#started = undefined;
      this.#settle({ fault: { code: 0, message: 'The writer thread has exited' } });
      resolve();
    });
    return (this.#started = started);
  }

  #settle(commit: Commit): void {
    const settled = this.#inFlight;
    this.#inFlight = undefined;
    settled?.resolve(commit);
  }
}

/** Adds texts that the thread does not know yet to `numbers` and to `texts`. */
function encodeBatch(
  units: readonly Unit[],
  numbers: Map<string, number>,
  texts: string[],
): SqlValue[] {
  const flat: SqlValue[] = [];
  for (const unit of units) {
    const start = flat.push(0);
    for (const { sql, params, expect } of unit) {
      let number = numbers.get(sql);
      if (number === undefined) {
        number = numbers.size;
        numbers.set(sql, number);
        texts.push(sql);
      }
      flat.push(number, expect ?? -1, params.length);
      for (const param of params) flat.push(param);
    }
    flat[start - 1] = flat.length - start;
  }
  return flat;
}

/** Reads the flat reply: 0 done, 1 unmet, 2 failed. */
function decodeReply(reply: readonly unknown[], units: readonly Unit[]): Commit {
  const tookMs = reply[0] as number;
  let at = 1;
  const outcomes = units.map((unit): UnitOutcome => {
    const outcome = reply[at++];
    if (outcome === 1) return { ok: false, failedAt: reply[at++] as number };
    if (outcome === 2) {
      return { fault: { code: reply[at++] as number, message: reply[at++] as string } };
    }
    const results: StatementResult[] = [];
    for (let index = 0; index < unit.length; index += 1) {
      const result = reply[at++] as number | readonly Row[];
      results.push(
        typeof result === 'number'
          ? { rows: noRows, changes: result }
          : { rows: result, changes: result.length },
      );
    }
    return { ok: true, results };
  });
  return { outcomes, tookMs };
}

function isAnswer(reply: WriterReply): reply is Extract<WriterReply, readonly unknown[]> {
  return Array.isArray(reply);
}
