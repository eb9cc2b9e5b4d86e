/**
 * PostgreSQL behind the driver port. A few connections write, in groups (`writer.ts`), and a
 * few others read. A read that starts after a commit was answered sees it. Statements of a tenant see
 * the rows of that tenant alone (`bounds.ts`).
 */
import { crc32 } from 'node:zlib';
import { RelayError } from '@relay/protocol';
import type {
  Row,
  SqlAccess,
  SqlDriver,
  SqlValue,
  Statement,
  UnitOf,
  UnitResult,
} from '../driver.ts';
import { type Binding, findBounds, type TenantBounds } from './bounds.ts';
import { messageOf, toRelayError } from './errors.ts';
import { PostgresHints } from './hints.ts';
import { PostgresReaders } from './readers.ts';
import { PostgresSession } from './session.ts';
import { PostgresWriter } from './writer.ts';

export interface PostgresDriver extends SqlDriver {
  tenant(tenantId: string): SqlAccess;
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
  readonly retryForMs?: number;
  /** How long a statement may take that writes. */
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
        // A node that is stopped in the middle must not keep its locks from the others.
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
      return await findBounds(session);
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
  return new Postgres({ lanes, readers: pool, hints, findBounds: asSystem });
}

interface Parts {
  readonly lanes: readonly PostgresWriter[];
  readonly readers: PostgresReaders;
  readonly hints: PostgresHints;
  readonly findBounds: () => Promise<TenantBounds>;
}

class Postgres implements PostgresDriver {
  readonly dialect = 'postgres';
  readonly #parts: Parts;
  readonly hints: PostgresHints;
  #bounds: TenantBounds | undefined;
  #finding: Promise<TenantBounds> | undefined;

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

  transact(unit: readonly Statement[], of?: UnitOf): Promise<UnitResult> {
    return this.#laneOf(of).submit(unit, of);
  }

  tenant(tenantId: string): SqlAccess {
    const { dialect, hints } = this;
    // Without a detour when the bounds are known: units of a run go in the order of their submission.
    const within = <Value>(use: (binding: Binding) => Promise<Value>): Promise<Value> =>
      this.#bounds === undefined
        ? this.#findBounds().then((bounds) => use({ tenantId, bounds }))
        : use({ tenantId, bounds: this.#bounds });
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

  #laneOf(of: UnitOf | undefined): PostgresWriter {
    const { lanes } = this.#parts;
    const lane = lanes[of === undefined ? 0 : crc32(of.run) % lanes.length];
    if (lane === undefined) throw new RelayError('internal', 'There is no connection to write by');
    return lane;
  }

  /** Found when they are first needed: the role may be made after the driver was opened. */
  #findBounds(): Promise<TenantBounds> {
    this.#finding ??= this.#parts
      .findBounds()
      .then((bounds) => (this.#bounds = bounds))
      .catch((error: unknown) => {
        throw toRelayError(error);
      })
      .finally(() => (this.#finding = undefined));
    return this.#finding;
  }
}

/** Where it is, without who we are there. */
function nameOf(url: string): string {
  const address = URL.canParse(url) ? new URL(url) : undefined;
  return address === undefined ? 'The database' : `The database ${address.host}${address.pathname}`;
}
