/**
 * The connections that read. A read goes to the least busy one and can be repeated safely. A connection
 * keeps the role and the setting of the tenant that it last served.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { RelayError } from '@relay/protocol';
import type { Row, SqlValue } from '../driver.ts';
import { type Binding, switchTenantSql } from './tenant-isolation.ts';
import { isLostConnection, toRelayError } from './errors.ts';
import type { PostgresSession } from './session.ts';

export interface ReadersOptions {
  readonly connect: () => Promise<PostgresSession>;
  readonly count: number;
  readonly retryForMs: number;
}

const pauseMs = 50;

interface Reader {
  readonly session: PostgresSession;
  binding: Binding | undefined;
  /** Resolves when the tenant is set. Rows are used only after that. */
  tenantSet: Promise<unknown>;
}

export class PostgresReaders {
  readonly #options: ReadersOptions;
  readonly #all: (Reader | undefined)[];
  readonly #connecting = new Map<number, Promise<Reader>>();
  readonly #reading = new Set<Promise<unknown>>();
  #closed = false;

  constructor(options: ReadersOptions) {
    this.#options = options;
    this.#all = Array.from({ length: options.count });
  }

  read(sql: string, params: readonly SqlValue[], of?: Binding): Promise<readonly Row[]> {
    if (this.#closed) {
      return Promise.reject(new RelayError('storage_failed', 'The store is closed'));
    }
    const rows = this.#read(sql, params, of);
    this.#reading.add(rows);
    const over = () => this.#reading.delete(rows);
    rows.then(over, over);
    return rows;
  }

  /** Closes after the outstanding reads. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled([...this.#reading, ...this.#connecting.values()]);
    await Promise.all(this.#all.flatMap((reader) => reader?.session.end() ?? []));
  }

  async #read(
    sql: string,
    params: readonly SqlValue[],
    of: Binding | undefined,
  ): Promise<readonly Row[]> {
    const deadline = performance.now() + this.#options.retryForMs;
    for (;;) {
      let reader: Reader | undefined;
      try {
        reader = await this.#leastBusy(of);
        bind(reader, of);
        const [answer] = await Promise.all([reader.session.query(sql, params), reader.tenantSet]);
        return answer.rows;
      } catch (error) {
        if (isLostConnection(error)) reader?.session.destroy();
        if (!isLostConnection(error) || performance.now() > deadline) throw toRelayError(error);
        await sleep(pauseMs * (0.5 + Math.random()));
      }
    }
  }

  #leastBusy(of: Binding | undefined): Promise<Reader> | Reader {
    let best: Reader | undefined;
    let free: number | undefined;
    const load = (reader: Reader) =>
      reader.session.waiting + (reader.binding?.tenantId === of?.tenantId ? 0 : 0.5);
    for (const [index, reader] of this.#all.entries()) {
      if (reader?.session.usable !== true) free ??= index;
      else if (best === undefined || load(reader) < load(best)) best = reader;
    }
    // Another connection is opened only when all open ones are busy.
    if (best !== undefined && (best.session.waiting === 0 || free === undefined)) return best;
    const opening = free === undefined ? undefined : this.#open(free);
    if (best === undefined) return opening ?? Promise.reject(new Error('There is no connection'));
    opening?.catch(() => undefined);
    return best;
  }

  #open(index: number): Promise<Reader> {
    const connecting = this.#connecting.get(index);
    if (connecting !== undefined) return connecting;
    const opening = this.#options
      .connect()
      .then((session) => {
        const reader: Reader = { session, binding: undefined, tenantSet: Promise.resolve() };
        this.#all[index] = reader;
        return reader;
      })
      .finally(() => this.#connecting.delete(index));
    this.#connecting.set(index, opening);
    return opening;
  }
}

/** Statements that are sent after it see only the rows of this tenant, or fail. */
function bind(reader: Reader, of: Binding | undefined): void {
  const text = switchTenantSql(reader.binding, of, 'SESSION');
  if (text === '') return;
  reader.binding = of;
  reader.tenantSet = reader.session.command(text);
  reader.tenantSet.catch(() => reader.session.destroy());
}
