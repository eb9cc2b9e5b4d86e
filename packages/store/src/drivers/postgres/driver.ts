/**
 * PostgreSQL as a driver. A few connections write, in groups (`writer.ts`), and a few others read. A
 * read that starts after a commit resolved sees it. Statements of a tenant see only its rows
 * (`tenant-isolation.ts`).
 */
import { crc32 } from 'node:zlib';
import { RelayError } from '@relay/protocol';
import type {
  Row,
  SqlAccess,
  SqlDriver,
  SqlValue,
  Statement,
  UnitScope,
  UnitResult,
} from '../driver.ts';
import { type Binding, readTenantIsolation, type TenantIsolation } from './tenant-isolation.ts';
import { messageOf, toRelayError } from './errors.ts';
import { PostgresHints } from './hints.ts';
import { PostgresReaders } from './readers.ts';
import { PostgresSession } from './session.ts';
import { PostgresWriter } from './writer.ts';

export interface PostgresDriver extends SqlDriver {
  tenant(tenantId: string): SqlAccess;
  readonly stats: { readonly units: number; readonly commits: number };
}

export interface PostgresOptions {
  readonly url: string;
  readonly writers?: number;
  readonly readers?: number;
  /** Units per commit. More than 64 subtransactions slow down other transactions. */
  readonly maxUnits?: number;
  /** How long lost connections and lock conflicts are retried. */
  readonly retryForMs?: number;
  /** For statements that write. */
  readonly statementTimeoutMs?: number;
}

const connectTimeoutMs = 5_000;

export async function openPostgresDriver(options: PostgresOptions): Promise<PostgresDriver> {
  const { url, writers = 2, readers = 4, maxUnits = 60, retryForMs = 5_000 } = options;
  const { statementTimeoutMs = 15_000 } = options;
  const writing = { url, connectTimeoutMs, statementTimeoutMs, lockTimeoutMs: 5_000 };
  const reading = { url, connectTimeoutMs, statementTimeoutMs: 30_000 };
  const lanes = Array.from(
    { length: writers },
    () =>
      new PostgresWriter({
        // A node that is suspended must not keep its locks.
        connect: () => PostgresSession.open({ ...writing, idleInTransactionMs: 2_000 }),
        maxUnits,
        retryForMs,
      }),
  );
  const pool = new PostgresReaders({
    connect: () => PostgresSession.open(reading),
    count: readers,
    retryForMs,
  });
  const asSystem = async () => {
    const session = await PostgresSession.open(reading);
    try {
      return await readTenantIsolation(session);
    } finally {
      await session.end();
    }
  };
  try {
    const session = await PostgresSession.open(reading);
    await session.end();
  } catch (error) {
    throw new RelayError('storage_failed', `${nameOf(url)} cannot be used: ${messageOf(error)}`, {
      cause: error,
    });
  }
  const hints = new PostgresHints(() => PostgresSession.open({ ...reading, name: 'relay hints' }));
  return new Postgres({ lanes, readers: pool, hints, readTenantIsolation: asSystem });
}

interface Parts {
  readonly lanes: readonly PostgresWriter[];
  readonly readers: PostgresReaders;
  readonly hints: PostgresHints;
  readonly readTenantIsolation: () => Promise<TenantIsolation>;
}

class Postgres implements PostgresDriver {
  readonly dialect = 'postgres';
  readonly #parts: Parts;
  readonly hints: PostgresHints;
  #isolation: TenantIsolation | undefined;
  #finding: Promise<TenantIsolation> | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.hints = parts.hints;
  }

  get stats() {
    let units = 0;
    let commits = 0;
    for (const { stats } of this.#parts.lanes) {
      units += stats.units;
      commits += stats.commits;
    }
    return { units, commits };
  }

  read(sql: string, params: readonly SqlValue[]): Promise<readonly Row[]> {
    return this.#parts.readers.read(sql, params);
  }

  transact(unit: readonly Statement[], of?: UnitScope): Promise<UnitResult> {
    return this.#laneOf(of).submit(unit, of);
  }

  tenant(tenantId: string): SqlAccess {
    const { dialect, hints } = this;
    // Synchronous once the isolation is known, so that units keep the order of submission.
    const within = <Value>(use: (binding: Binding) => Promise<Value>): Promise<Value> =>
      this.#isolation === undefined
        ? this.#readIsolation().then((isolation) => use({ tenantId, isolation }))
        : use({ tenantId, isolation: this.#isolation });
    return {
      dialect,
      hints,
      read: (sql, params) => within((binding) => this.#parts.readers.read(sql, params, binding)),
      transact: (unit, of) => within((binding) => this.#laneOf(of).submit(unit, of, binding)),
    };
  }

  async close(): Promise<void> {
    const { lanes, readers } = this.#parts;
    await Promise.all([...lanes.map((lane) => lane.close()), readers.close()]);
    await this.hints.close();
  }

  #laneOf(of: UnitScope | undefined): PostgresWriter {
    const { lanes } = this.#parts;
    const lane = lanes[of === undefined ? 0 : crc32(of.run) % lanes.length];
    if (lane === undefined) throw new RelayError('internal', 'The driver has no writers');
    return lane;
  }

  /** Found at first use: the role may be created after the driver was opened. */
  #readIsolation(): Promise<TenantIsolation> {
    this.#finding ??= this.#parts
      .readTenantIsolation()
      .then((isolation) => (this.#isolation = isolation))
      .catch((error: unknown) => {
        throw toRelayError(error);
      })
      .finally(() => (this.#finding = undefined));
    return this.#finding;
  }
}

/** Host and database, without credentials. */
export function nameOf(url: string): string {
  const address = URL.canParse(url) ? new URL(url) : undefined;
  return address === undefined ? 'The database' : `The database ${address.host}${address.pathname}`;
}
