/**
 * Groups units into batches, as on SQLite (`sqlite/queue.ts`). A node has a few writers; all units of a
 * run use the same one.
 *
 *   idle ──submit──▶ gathering ──end of this turn of the event loop──▶ committing
 *   committing ──reply, units wait──▶ committing (they are the next batch)
 *   committing ──reply, nothing waits──▶ idle
 *
 * - At most one transaction is open. There is no timer: units that arrive meanwhile are the next batch.
 * - Units of one run are applied in the order of submission, and so are units without a run.
 * - Transactions, also of different nodes, do not deadlock: units that share a commit change the rows of
 *   one run each, the run's own row first, in the order of their runs; all others commit alone. If
 *   PostgreSQL detects a deadlock all the same, the units of the batch are retried one by one.
 * - Before COMMIT is sent, transient failures (a lost connection, a deadlock, a lock timeout) are retried
 *   for a while. After that nothing is repeated: a COMMIT without a reply rejects as outcome unknown.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { RelayError } from '@relay/protocol';
import type { Statement, UnitScope, UnitResult } from '../driver.ts';
import { apply, type BoundUnit, isStored, type UnitOutcome } from './batch.ts';
import type { Binding } from './tenant-isolation.ts';
import { isCollision, isLostConnection, toRelayError, unknownOutcome } from './errors.ts';
import type { PostgresSession } from './session.ts';

export interface WriterOptions {
  readonly connect: () => Promise<PostgresSession>;
  readonly maxUnits: number;
  readonly retryForMs: number;
}

/** Of a batch, in characters. */
const maxSize = 8 * 1024 * 1024;
const firstPauseMs = 5;
const longestPauseMs = 250;

interface Waiting extends BoundUnit {
  readonly run: string;
  readonly exclusive: boolean;
  readonly since: number;
  readonly resolve: (result: UnitResult) => void;
  readonly reject: (error: Error) => void;
}

type Attempt =
  | { readonly kind: 'done'; readonly outcomes: readonly UnitOutcome[] }
  /** Nothing was stored. */
  | { readonly kind: 'undone'; readonly error: unknown }
  /** Something may have been stored. */
  | { readonly kind: 'unknown'; readonly error: unknown };

export class PostgresWriter {
  readonly stats = { units: 0, commits: 0 };
  readonly #options: WriterOptions;
  #session: PostgresSession | undefined;
  #waiting: Waiting[] = [];
  #work: Promise<void> | undefined;
  #closed = false;

  constructor(options: WriterOptions) {
    this.#options = options;
  }

  submit(unit: readonly Statement[], of?: UnitScope, binding?: Binding): Promise<UnitResult> {
    if (this.#closed) {
      return Promise.reject(new RelayError('storage_failed', 'The store is closed'));
    }
    return new Promise((resolve, reject) => {
      const { run = '', exclusive = of === undefined } = of ?? {};
      const since = performance.now();
      this.#waiting.push({ unit, binding, run, exclusive, since, resolve, reject });
      this.#work ??= this.#commitAll();
    });
  }

  /** Accepts no more units and commits the waiting ones. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#work;
    await this.#session?.end();
  }

  /** Never rejects. */
  async #commitAll(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#waiting.length > 0) await this.#commit(this.#next());
    this.#work = undefined;
  }

  /** The first unit, and all that may share its commit without overtaking a unit of their run. */
  #next(): readonly Waiting[] {
    const [first, ...others] = this.#waiting;
    if (first === undefined || first.exclusive) {
      this.#waiting = others;
      return first === undefined ? [] : [first];
    }
    const batch = [first];
    const left: Waiting[] = [];
    const passed = new Set<string>();
    let size = sizeOf(first);
    for (const waiting of others) {
      const fits = batch.length < this.#options.maxUnits && size < maxSize;
      if (fits && !waiting.exclusive && !passed.has(waiting.run)) {
        batch.push(waiting);
        size += sizeOf(waiting);
      } else {
        left.push(waiting);
        passed.add(waiting.run);
      }
    }
    this.#waiting = left;
    return batch.toSorted((one, other) => (one.run < other.run ? -1 : one.run > other.run ? 1 : 0));
  }

  async #commit(batch: readonly Waiting[]): Promise<void> {
    const deadline = Math.min(...batch.map(({ since }) => since)) + this.#options.retryForMs;
    for (let pause = firstPauseMs; ; pause = Math.min(2 * pause, longestPauseMs)) {
      const attempt = await this.#attempt(batch);
      if (attempt.kind === 'done') return this.#settle(batch, attempt.outcomes);
      const { error } = attempt;
      const mayPass = isCollision(error) || isLostConnection(error);
      if (attempt.kind === 'unknown' || !mayPass || performance.now() > deadline) {
        const fault = attempt.kind === 'unknown' ? unknownOutcome(error) : toRelayError(error);
        for (const { reject } of batch) reject(fault);
        if (attempt.kind === 'undone' && isLostConnection(error)) this.#rejectOverdue(fault);
        return;
      }
      // Jitter, because other nodes back off too.
      await sleep(pause * (0.5 + Math.random()));
      if (isCollision(error) && batch.length > 1) {
        for (const waiting of batch) await this.#commit([waiting]);
        return;
      }
    }
  }

  /** The database does not respond: units that have waited as long fail too. */
  #rejectOverdue(fault: RelayError): void {
    const limit = performance.now() - this.#options.retryForMs;
    const isOverdue = ({ since }: Waiting) => since < limit;
    for (const { reject } of this.#waiting.filter(isOverdue)) reject(fault);
    this.#waiting = this.#waiting.filter((waiting) => !isOverdue(waiting));
  }

  async #attempt(batch: readonly Waiting[]): Promise<Attempt> {
    let session: PostgresSession;
    let outcomes: UnitOutcome[];
    try {
      session = await this.#connected();
    } catch (error) {
      return { kind: 'undone', error };
    }
    try {
      outcomes = await apply(session, batch);
      if (!outcomes.some(isStored)) {
        await session.command('ROLLBACK');
        return { kind: 'done', outcomes };
      }
    } catch (error) {
      await this.#abandon(session, error);
      return { kind: 'undone', error };
    }
    try {
      const { command } = await session.command('COMMIT');
      if (command !== 'COMMIT') throw new Error(`The reply to COMMIT is ${command}`);
      return { kind: 'done', outcomes };
    } catch (error) {
      session.destroy();
      return { kind: 'unknown', error };
    }
  }

  async #connected(): Promise<PostgresSession> {
    if (this.#session?.usable !== true) this.#session = await this.#options.connect();
    return this.#session;
  }

  /** Rolls back, or closes the connection. */
  async #abandon(session: PostgresSession, error: unknown): Promise<void> {
    try {
      if (isLostConnection(error)) session.destroy();
      else await session.command('ROLLBACK');
    } catch {
      session.destroy();
    }
  }

  #settle(batch: readonly Waiting[], outcomes: readonly UnitOutcome[]): void {
    this.stats.commits += 1;
    this.stats.units += batch.length;
    for (const [index, { resolve, reject }] of batch.entries()) {
      const outcome = outcomes[index];
      if (outcome !== undefined && 'ok' in outcome) resolve(outcome);
      else reject(toRelayError(outcome?.error));
    }
  }
}

function sizeOf({ unit }: Waiting): number {
  let size = 0;
  for (const { params } of unit) {
    for (const param of params) if (typeof param === 'string') size += param.length;
  }
  return size;
}
