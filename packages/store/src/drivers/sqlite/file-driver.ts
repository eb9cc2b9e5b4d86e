/**
 * A SQLite file as a driver. Writes go through a queue that groups them (`queue.ts`) to one thread
 * (`writer.ts`); reads run on this thread, on a read-only connection. With a WAL neither waits for the
 * other, and a read that starts after a commit resolved sees it.
 */
import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import { RelayError } from '@relay/protocol';
import type { Row, SqlDriver, SqlValue, Statement, UnitResult } from '../driver.ts';
import { toRelayError } from './errors.ts';
import { WriteQueue } from './queue.ts';
import { faultOf, PreparedStatements } from './units.ts';
import type { WriterOptions, WriterReply } from './writer.ts';

const largeRead = 64;

export interface SqliteDriver extends SqlDriver {
  readonly stats: { readonly units: number; readonly commits: number };
}

export interface SqliteOptions {
  readonly path: string;
  /** How long to wait for another process that writes. */
  readonly busyTimeoutMs?: number;
}

export async function openSqliteDriver(options: SqliteOptions): Promise<SqliteDriver> {
  const { path, busyTimeoutMs = 5_000 } = options;
  const worker = await startWriter({ path, busyTimeoutMs });
  const queue = new WriteQueue(worker, path);
  try {
    return new Sqlite(queue, { path, busyTimeoutMs });
  } catch (error) {
    await queue.close();
    throw toRelayError(faultOf(error), path);
  }
}

class Sqlite implements SqliteDriver {
  readonly dialect = 'sqlite';
  readonly #queue: WriteQueue;
  readonly #path: string;
  readonly #reader: DatabaseSync;
  readonly #statements: PreparedStatements;

  constructor(queue: WriteQueue, options: WriterOptions) {
    this.#queue = queue;
    this.#path = options.path;
    this.#reader = new DatabaseSync(options.path, {
      readOnly: true,
      timeout: options.busyTimeoutMs,
    });
    this.#statements = new PreparedStatements(this.#reader);
  }

  get stats() {
    return this.#queue.stats;
  }

  async read(sql: string, params: readonly SqlValue[]): Promise<readonly Row[]> {
    if (!this.#reader.isOpen) throw new RelayError('storage_failed', 'The store is closed');
    try {
      const rows = this.#statements.all(sql, params);
      // Other work runs between the pages of a long read.
      if (rows.length > largeRead) await new Promise((resolve) => setImmediate(resolve));
      return rows;
    } catch (error) {
      throw toRelayError(faultOf(error), this.#path);
    }
  }

  transact(unit: readonly Statement[]): Promise<UnitResult> {
    return this.#queue.submit(unit);
  }

  async close(): Promise<void> {
    // First, so that the writer closes the last connection and can remove the WAL.
    if (this.#reader.isOpen) this.#reader.close();
    await this.#queue.close();
  }
}

/** A thread does not inherit the cache of compiled code, without which it starts twice as slowly. */
function writerEnvironment(): NodeJS.ProcessEnv {
  const cache = getCompileCacheDir();
  return cache === undefined ? process.env : { ...process.env, NODE_COMPILE_CACHE: dirname(cache) };
}

function startWriter(options: WriterOptions): Promise<Worker> {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const worker = new Worker(new URL(`./writer.${extension}`, import.meta.url), {
    workerData: options,
    // Flags of the process concern its own script.
    execArgv: [],
    env: writerEnvironment(),
  });
  return new Promise((resolve, reject) => {
    const failed = (error: unknown) => reject(toRelayError(faultOf(error), options.path));
    worker.once('error', failed);
    worker.once('exit', failed);
    worker.once('message', (reply: WriterReply) => {
      worker.off('error', failed);
      worker.off('exit', failed);
      if ('fault' in reply) {
        reject(toRelayError(reply.fault, options.path));
      } else {
        resolve(worker);
      }
    });
  });
}
