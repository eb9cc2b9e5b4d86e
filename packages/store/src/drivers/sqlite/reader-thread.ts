/**
 * The main thread's side of the thread of long reads (`reader.ts`), which is started when it is needed
 * first, and again if it has exited.
 */
import type { Worker } from 'node:worker_threads';
import { RelayError } from '@relay/protocol';
import type { Row, SqlValue } from '../driver.ts';
import { toRelayError } from './errors.ts';
import type { ReaderReply, ReaderRequest } from './reader.ts';
import { faultOf, type SqliteFault } from './units.ts';

export class ReaderThread {
  readonly #startWorker: () => Worker;
  readonly #path: string;
  #worker: Worker | undefined;
  /** The requests without a reply: replies come in their order. */
  #waiting: PromiseWithResolvers<readonly Row[]>[] = [];
  #isClosed = false;

  constructor(startWorker: () => Worker, path: string) {
    this.#startWorker = startWorker;
    this.#path = path;
  }

  async read(sql: string, params: readonly SqlValue[]): Promise<readonly Row[]> {
    if (this.#isClosed) throw new RelayError('storage_failed', 'The store is closed');
    const reply = Promise.withResolvers<readonly Row[]>();
    const worker = (this.#worker ??= this.#start());
    this.#waiting.push(reply);
    worker.postMessage([sql, params] satisfies ReaderRequest);
    return reply.promise;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#worker?.terminate();
  }

  #start(): Worker {
    const worker = this.#startWorker();
    worker.on('message', (reply: ReaderReply) => {
      const next = this.#waiting.shift();
      if ('rows' in reply) next?.resolve(reply.rows);
      else next?.reject(toRelayError(reply.fault, this.#path));
    });
    worker.on('error', (error) => this.#fail(faultOf(error)));
    worker.on('exit', () => {
      this.#worker = undefined;
      this.#fail({ code: 0, message: 'The thread of long reads has exited' });
    });
    return worker;
  }

  #fail(fault: SqliteFault): void {
    const failed = this.#waiting;
    this.#waiting = [];
    for (const { reject } of failed) reject(toRelayError(fault, this.#path));
  }
}
