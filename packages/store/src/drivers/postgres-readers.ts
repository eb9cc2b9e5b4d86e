/** The connections that read. A read goes to the one that has the least to do; repeating it is safe. */
import { setTimeout as sleep } from 'node:timers/promises';
import { RelayError } from '@relay/protocol';
import type { Row, SqlValue } from './driver.ts';
import { isLostConnection, toRelayError } from './postgres-errors.ts';
import type { PostgresSession } from './postgres-session.ts';

export interface ReadersOptions {
  readonly connect: () => Promise<PostgresSession>;
  readonly count: number;
  readonly patienceMs: number;
}

const pauseMs = 50;

export class PostgresReaders {
  readonly #options: ReadersOptions;
  readonly #sessions: (PostgresSession | undefined)[];
  readonly #connecting = new Map<number, Promise<PostgresSession>>();
  readonly #reading = new Set<Promise<unknown>>();
  #closed = false;

  constructor(options: ReadersOptions) {
    this.#options = options;
    this.#sessions = Array.from({ length: options.count });
  }

  read(sql: string, params: readonly SqlValue[]): Promise<readonly Row[]> {
    if (this.#closed) {
      return Promise.reject(new RelayError('storage_failed', 'The store is closed'));
    }
    const rows = this.#read(sql, params);
    this.#reading.add(rows);
    const over = () => this.#reading.delete(rows);
    rows.then(over, over);
    return rows;
  }

  /** Lets what was asked be answered. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled([...this.#reading, ...this.#connecting.values()]);
    await Promise.all(this.#sessions.flatMap((session) => session?.end() ?? []));
  }

  async #read(sql: string, params: readonly SqlValue[]): Promise<readonly Row[]> {
    const deadline = performance.now() + this.#options.patienceMs;
    for (;;) {
      let session: PostgresSession | undefined;
      try {
        session = await this.#leastBusy();
        return (await session.query(sql, params)).rows;
      } catch (error) {
        if (isLostConnection(error)) session?.destroy();
        if (!isLostConnection(error) || performance.now() > deadline) throw toRelayError(error);
        await sleep(pauseMs * (0.5 + Math.random()));
      }
    }
  }

  #leastBusy(): Promise<PostgresSession> | PostgresSession {
    let best: PostgresSession | undefined;
    let free: number | undefined;
    for (const [place, session] of this.#sessions.entries()) {
      if (session?.usable !== true) free ??= place;
      else if (best === undefined || session.waiting < best.waiting) best = session;
    }
    // A second connection is opened when the first one is busy, and not before.
    if (best !== undefined && (best.waiting === 0 || free === undefined)) return best;
    const opening = free === undefined ? undefined : this.#open(free);
    if (best === undefined) return opening ?? Promise.reject(new Error('There is no connection'));
    opening?.catch(() => undefined);
    return best;
  }

  #open(place: number): Promise<PostgresSession> {
    const connecting = this.#connecting.get(place);
    if (connecting !== undefined) return connecting;
    const opening = this.#options
      .connect()
      .then((session) => (this.#sessions[place] = session))
      .finally(() => this.#connecting.delete(place));
    this.#connecting.set(place, opening);
    return opening;
  }
}
