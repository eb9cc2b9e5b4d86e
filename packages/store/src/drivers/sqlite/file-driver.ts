/**
 * A SQLite file as a driver. Writes go through a queue that groups them (`queue.ts`) and commits them on
 * this thread or on the writer thread (`writer.ts`); reads run on this thread, on a read-only connection,
 * except for long ones, which have a thread of their own (`reader.ts`). With a WAL readers and writers do not wait for each other, and a read that starts after a commit
 * resolved sees it.
 */
import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import { RelayError } from '@relay/protocol';
import type { Row, SqlDriver, SqlValue, Statement, UnitResult } from '../driver.ts';
import { toRelayError } from './errors.ts';
import { openWritable } from './connection.ts';
import { WriteQueue } from './queue.ts';
import { ReaderThread } from './reader-thread.ts';
import { WriterThread } from './thread.ts';
import { BatchRunner, faultOf, PreparedStatements } from './units.ts';
import type { WriterOptions } from './writer.ts';

const largeRead = 64;
/** 64 MB: a checkpoint blocks the event loop, so this thread makes one only if the writer thread cannot. */
const checkpointPages = 16_000;

export interface SqliteDriver extends SqlDriver {
  readonly stats: WriteQueue['stats'];
}

export interface SqliteOptions {
  readonly path: string;
  /** How long to wait for another process that writes. */
  readonly busyTimeoutMs?: number;
}

export async function openSqliteDriver(options: SqliteOptions): Promise<SqliteDriver> {
  const { path, busyTimeoutMs = 5_000 } = options;
  try {
    return new Sqlite({ path, busyTimeoutMs });
  } catch (error) {
    throw toRelayError(faultOf(error), path);
  }
}

class Sqlite implements SqliteDriver {
  readonly dialect = 'sqlite';
  readonly #path: string;
  readonly #queue: WriteQueue;
  readonly #thread: WriterThread;
  readonly #longReads: ReaderThread;
  readonly #writer: DatabaseSync;
  readonly #reader: DatabaseSync;
  readonly #statements: PreparedStatements;
  #closed: Promise<void> | undefined;

  constructor(options: WriterOptions) {
    const { path, busyTimeoutMs } = options;
    this.#path = path;
    this.#writer = openWritable({ path, busyTimeoutMs, checkpointPages });
    // The thread waits for locks.
    this.#writer.exec('PRAGMA busy_timeout = 0');
    this.#reader = new DatabaseSync(path, { readOnly: true, timeout: busyTimeoutMs });
    this.#statements = new PreparedStatements(this.#reader);
    this.#thread = new WriterThread(() => startThread('writer', options));
    this.#longReads = new ReaderThread(() => startThread('reader', options), path);
    this.#queue = new WriteQueue({
      path,
      here: new BatchRunner(this.#writer),
      thread: this.#thread,
    });
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

  readLong(sql: string, params: readonly SqlValue[]): Promise<readonly Row[]> {
    return this.#longReads.read(sql, params);
  }

  transact(unit: readonly Statement[]): Promise<UnitResult> {
    return this.#queue.submit(unit);
  }

  close(): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  async #close(): Promise<void> {
    if (this.#reader.isOpen) this.#reader.close();
    await this.#longReads.close();
    await this.#queue.close();
    await this.#thread.close();
    try {
      this.#writer.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    } catch {
      // Another process uses the file, or the disk is full: the WAL is kept, and nothing is lost.
    }
    this.#writer.close();
  }
}

/** A thread does not inherit the cache of compiled code, without which it starts twice as slowly. */
function threadEnvironment(): NodeJS.ProcessEnv {
  const cache = getCompileCacheDir();
  return cache === undefined ? process.env : { ...process.env, NODE_COMPILE_CACHE: dirname(cache) };
}

function startThread(name: 'writer' | 'reader', options: WriterOptions): Worker {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  return new Worker(new URL(`./${name}.${extension}`, import.meta.url), {
    workerData: options,
    // Flags of the process concern its own script.
    execArgv: [],
    env: threadEnvironment(),
  });
}
