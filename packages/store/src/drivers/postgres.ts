/**
 * PostgreSQL behind the driver port. A few connections write, in groups (`postgres-writer.ts`), and a
 * few others read. A read that starts after a commit was answered sees it.
 */
import { crc32 } from 'node:zlib';
import { RelayError } from '@relay/protocol';
import type { Row, SqlDriver, SqlValue, Statement, UnitOf, UnitResult } from './driver.ts';
import { messageOf } from './postgres-errors.ts';
import { PostgresHints } from './postgres-hints.ts';
import { PostgresReaders } from './postgres-readers.ts';
import { PostgresSession } from './postgres-session.ts';
import { PostgresWriter } from './postgres-writer.ts';

export interface PostgresDriver extends SqlDriver {
  /** How many units were stored so far, and in how many commits. */
  readonly stats: { readonly units: number; readonly commits: number };
}

export interface PostgresOptions {
  readonly url: string;
  /** Connections that write. */
  readonly writers?: number;
  /** Connections that read. */
  readonly readers?: number;
  /** Units in a commit, at most. Above 64, other transactions pay for reading among them. */
  readonly maxUnits?: number;
  /** How long a database that does not answer, or a lock, is asked for again. */
  readonly patienceMs?: number;
  /** How long a statement may take that writes. */
  readonly statementTimeoutMs?: number;
}

const connectTimeoutMs = 5_000;

export async function openPostgresDriver(options: PostgresOptions): Promise<PostgresDriver> {
  const { url, writers = 2, readers = 4, maxUnits = 60, patienceMs = 5_000 } = options;
  const { statementTimeoutMs = 15_000 } = options;
  const writing = { url, connectTimeoutMs, statementTimeoutMs, lockTimeoutMs: 5_000 };
  const reading = { url, connectTimeoutMs, statementTimeoutMs: 30_000 };
  const lanes = Array.from(
    { length: writers },
    () =>
      new PostgresWriter({
        // A node that is stopped in the middle must not keep its locks from the others.
        connect: () => PostgresSession.open({ ...writing, idleInTransactionMs: 2_000 }),
        maxUnits,
        patienceMs,
      }),
  );
  const pool = new PostgresReaders({
    connect: () => PostgresSession.open(reading),
    count: readers,
    patienceMs,
  });
  try {
    const session = await PostgresSession.open(reading);
    await session.end();
  } catch (error) {
    throw new RelayError('storage_failed', `${nameOf(url)} cannot be used: ${messageOf(error)}`, {
      cause: error,
    });
  }
  const hints = new PostgresHints(() => PostgresSession.open({ ...reading, name: 'relay hints' }));
  return new Postgres(lanes, pool, hints);
}

class Postgres implements PostgresDriver {
  readonly dialect = 'postgres';
  readonly #lanes: readonly PostgresWriter[];
  readonly #readers: PostgresReaders;

  readonly hints: PostgresHints;

  constructor(lanes: readonly PostgresWriter[], readers: PostgresReaders, hints: PostgresHints) {
    this.#lanes = lanes;
    this.hints = hints;
    this.#readers = readers;
  }

  get stats() {
    let units = 0;
    let commits = 0;
    for (const { stats } of this.#lanes) {
      units += stats.units;
      commits += stats.commits;
    }
    return { units, commits };
  }

  read(sql: string, params: readonly SqlValue[]): Promise<readonly Row[]> {
    return this.#readers.read(sql, params);
  }

  transact(unit: readonly Statement[], of?: UnitOf): Promise<UnitResult> {
    const place = of === undefined ? 0 : crc32(of.run) % this.#lanes.length;
    const lane = this.#lanes[place];
    if (lane === undefined) throw new RelayError('internal', 'There is no connection to write by');
    return lane.submit(unit, of);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#lanes.map((lane) => lane.close()), this.#readers.close()]);
    await this.hints.close();
  }
}

/** Where it is, without who we are there. */
function nameOf(url: string): string {
  const place = URL.canParse(url) ? new URL(url) : undefined;
  return place === undefined ? 'The database' : `The database ${place.host}${place.pathname}`;
}
