/**
 * A writer: units wait here and go over in batches, as on SQLite (`sqlite/queue.ts`). A node has a few
 * of them; all units of one run go by the same.
 *
 *   idle ──submit──▶ gathering ──end of this turn of the event loop──▶ committing
 *   committing ──answered, units wait──▶ committing (they are the next batch)
 *   committing ──answered, nothing waits──▶ idle
 *
 * - At most one transaction is open. There is no timer: what arrives while it commits is the next one.
 * - Units of one run are applied in the order of their submission, and so are those of none.
 * - No two transactions, of whatever nodes, wait for each other in a circle. Those that share a commit
 *   touch the rows of one run each, that run's first, and go in the order of their runs; all others
 *   have a commit of their own. Should it happen all the same, PostgreSQL undoes one of them, and its
 *   units are tried again one by one.
 * - As long as COMMIT was not sent, nothing can be stored: what failed until then for reasons that
 *   pass (a lost connection, a deadlock with another node, a lock) is tried again for a while. From
 *   then on nothing is ever repeated: a COMMIT without an answer rejects as not known to be stored.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { RelayError } from '@relay/protocol';
import type { Statement, UnitOf, UnitResult } from '../driver.ts';
import { apply, type BoundUnit, isStored, type UnitOutcome } from './batch.ts';
import type { Binding } from './bounds.ts';
import { isCollision, isLostConnection, toRelayError, unknownOutcome } from './errors.ts';
import type { PostgresSession } from './session.ts';

export interface WriterOptions {
  readonly connect: () => Promise<PostgresSession>;
  readonly maxUnits: number;
  /** How long a batch is tried again before it is given up. */
  readonly retryForMs: number;
}

/** Bounds what is sent at once, in characters. */
const maxSize = 8 * 1024 * 1024;
const firstPauseMs = 5;
const longestPauseMs = 250;

interface Waiting extends BoundUnit {
  readonly run: string;
  readonly alone: boolean;
  readonly since: number;
  readonly resolve: (result: UnitResult) => void;
  readonly reject: (error: Error) => void;
}

type Attempt =
  | { readonly kind: 'over'; readonly outcomes: readonly UnitOutcome[] }
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

  submit(unit: readonly Statement[], of?: UnitOf, binding?: Binding): Promise<UnitResult> {
    if (this.#closed) {
      return Promise.reject(new RelayError('storage_failed', 'The store is closed'));
    }
    return new Promise((resolve, reject) => {
      const { run = '', alone = of === undefined } = of ?? {};
      const since = performance.now();
      this.#waiting.push({ unit, binding, run, alone, since, resolve, reject });
      this.#work ??= this.#commitAll();
    });
  }

  /** Takes no more units, and lets the waiting ones commit. */
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

  /** The first one, and all that may share its commit without overtaking a unit of their run. */
  #next(): readonly Waiting[] {
    const [first, ...others] = this.#waiting;
    if (first === undefined || first.alone) {
      this.#waiting = others;
      return first === undefined ? [] : [first];
    }
    const batch = [first];
    const left: Waiting[] = [];
    const passed = new Set<string>();
    let size = sizeOf(first);
    for (const waiting of others) {
      const fits = batch.length < this.#options.maxUnits && size < maxSize;
      if (fits && !waiting.alone && !passed.has(waiting.run)) {
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
      if (attempt.kind === 'over') return this.#settle(batch, attempt.outcomes);
      const { error } = attempt;
      const mayPass = isCollision(error) || isLostConnection(error);
      if (attempt.kind === 'unknown' || !mayPass || performance.now() > deadline) {
        const fault = attempt.kind === 'unknown' ? unknownOutcome(error) : toRelayError(error);
        for (const { reject } of batch) reject(fault);
        if (attempt.kind === 'undone' && isLostConnection(error)) this.#giveUp(fault);
        return;
      }
      // Others back off as well: not all of them by the same time.
      await sleep(pause * (0.5 + Math.random()));
      if (isCollision(error) && batch.length > 1) {
        for (const waiting of batch) await this.#commit([waiting]);
        return;
      }
    }
  }

  /** The database does not answer: units that have waited as long fail too. */
  #giveUp(fault: RelayError): void {
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
        return { kind: 'over', outcomes };
      }
    } catch (error) {
      await this.#abandon(session, error);
      return { kind: 'undone', error };
    }
    try {
      const { command } = await session.command('COMMIT');
      if (command !== 'COMMIT') throw new Error(`COMMIT was answered by ${command}`);
      return { kind: 'over', outcomes };
    } catch (error) {
      session.destroy();
      return { kind: 'unknown', error };
    }
  }

  async #connected(): Promise<PostgresSession> {
    if (this.#session?.usable !== true) this.#session = await this.#options.connect();
    return this.#session;
  }

  /** Leaves the transaction, or the connection with it. */
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
