/**
 * Groups units into batches and commits each of them on this thread or on the writer thread.
 *
 *   idle ──submit──▶ gathering ──end of this turn of the event loop──▶ committing
 *   committing ──done, nothing waits──▶ idle, or closed if closing
 *   committing ──done here, units wait──▶ gathering
 *   committing ──done on the thread, units wait──▶ committing (they are the next batch, on the thread)
 *   idle ──close──▶ closed
 *
 * - At most one batch is in flight, so the connections of the two threads never compete. There is no
 *   timer: the first batch is what one turn of the event loop submits, and what arrives while a batch is
 *   on the thread is the next one.
 * - Waking the thread costs more than a commit on a fast disk. So a batch is committed here if it is
 *   small, commits were fast lately, and the queue is not busy (no units waited for the batch before).
 *   Whatever can take long is left to the thread: large batches, slow disks, locks of other processes
 *   and checkpoints, which only the thread's connection makes. So one batch in a while goes there.
 *   Until the thread has started, which happens when it is needed first, batches are committed here.
 * - Units are applied in the order of submission.
 * - Each unit settles exactly once, after the commit (E1): with its own result, or with the fault of its
 *   batch.
 * - `close` accepts no more units and commits the waiting ones.
 */
import { RelayError } from '@relay/protocol';
import type { Statement, UnitResult } from '../driver.ts';
import { toRelayError } from './errors.ts';
import type { WriterThread } from './thread.ts';
import { type BatchRunner, type Commit, faultOf, isBusy, type Unit } from './units.ts';

/** Of a batch. */
interface Limits {
  readonly units: number;
  /** Of the parameters, in characters. */
  readonly size: number;
}

const largest: Limits = { units: 1_000, size: 1024 * 1024 };
const largestHere: Limits = { units: 16, size: 64 * 1024 };

/** If commits take longer on average, they are made on the thread. */
const slowMs = 1;
/** What a failed commit counts as, and a longer one: the average soon forgets it. */
const longestMs = 8 * slowMs;
/** How much the last commit counts. */
const newestShare = 0.2;
/** After as many units here, a batch is committed on the thread, which then makes a checkpoint. */
const unitsPerCheckpoint = 200;

interface Waiting {
  readonly unit: Unit;
  readonly resolve: (result: UnitResult) => void;
  readonly reject: (error: Error) => void;
}

interface Batch extends Limits {
  readonly waiting: readonly Waiting[];
}

type State = 'idle' | 'gathering' | 'committing' | 'closed';

export interface WriteQueueOptions {
  readonly path: string;
  /** On a connection of this thread that does not wait for locks. */
  readonly here: Pick<BatchRunner, 'run'>;
  readonly thread: Pick<WriterThread, 'isReady' | 'start' | 'commit'>;
}

export class WriteQueue {
  readonly stats = { units: 0, commits: 0, commitsOnThread: 0 };
  readonly #options: WriteQueueOptions;
  readonly #closed = Promise.withResolvers<void>();
  #state: State = 'idle';
  #closing = false;
  #waiting: Waiting[] = [];
  #isBusy = false;
  #averageMs = 0;
  #unitsSinceThread = 0;

  constructor(options: WriteQueueOptions) {
    this.#options = options;
  }

  submit(unit: readonly Statement[]): Promise<UnitResult> {
    if (this.#closing) {
      return Promise.reject(new RelayError('storage_failed', 'The store is closed'));
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ unit, resolve, reject });
      if (this.#state === 'idle') this.#move('gathering');
    });
  }

  /** Resolves when all units are settled. */
  close(): Promise<void> {
    this.#closing = true;
    if (this.#state === 'idle') this.#move('closed');
    return this.#closed.promise;
  }

  /** The only place where the state changes. */
  #move(to: State): void {
    this.#state = to;
    switch (to) {
      case 'idle':
        return;
      case 'gathering':
        setImmediate(() => this.#move('committing'));
        return;
      case 'committing':
        this.#commit(this.#take());
        return;
      case 'closed':
        this.#closed.resolve();
    }
  }

  #commit(batch: Batch): void {
    const units = batch.waiting.map(({ unit }) => unit);
    const done = this.#isForHere(batch) ? this.#commitHere(units) : undefined;
    // Nothing is stored if another process holds the lock. The thread waits for it.
    if (done !== undefined && !('fault' in done && isBusy(done.fault))) {
      this.#unitsSinceThread += batch.units;
      this.#finish(batch, done, 'gathering');
      return;
    }
    this.#unitsSinceThread = 0;
    this.stats.commitsOnThread += 1;
    void this.#options.thread.commit(units).then((commit) => {
      // The next batch is sent before callers continue, so that both threads have work.
      this.#finish(batch, commit, 'committing');
    });
  }

  #isForHere({ units, size }: Batch): boolean {
    const { thread } = this.#options;
    const isFast = this.#averageMs < slowMs && !this.#isBusy;
    const isSmall = units <= largestHere.units && size <= largestHere.size;
    if (isFast && isSmall && this.#unitsSinceThread < unitsPerCheckpoint) return true;
    thread.start();
    return !thread.isReady;
  }

  #commitHere(units: readonly Unit[]): Commit {
    try {
      return this.#options.here.run(units);
    } catch (error) {
      return { fault: faultOf(error) };
    }
  }

  #finish({ waiting }: Batch, commit: Commit, next: 'gathering' | 'committing'): void {
    const tookMs = 'fault' in commit ? longestMs : Math.min(commit.tookMs, longestMs);
    this.#averageMs += newestShare * (tookMs - this.#averageMs);
    this.#isBusy = this.#waiting.length > 0;
    this.#move(this.#isBusy ? next : this.#closing ? 'closed' : 'idle');
    const { path } = this.#options;
    if ('fault' in commit) {
      const error = toRelayError(commit.fault, path);
      for (const { reject } of waiting) reject(error);
      return;
    }
    this.stats.commits += 1;
    this.stats.units += waiting.length;
    for (const [index, { resolve, reject }] of waiting.entries()) {
      const outcome = commit.outcomes[index];
      if (outcome === undefined) reject(new RelayError('internal', 'A unit has no outcome'));
      else if ('fault' in outcome) reject(toRelayError(outcome.fault, path));
      else resolve(outcome);
    }
  }

  #take(): Batch {
    let size = 0;
    let units = 0;
    for (const { unit } of this.#waiting) {
      if (units === largest.units || (units > 0 && size > largest.size)) break;
      for (const { params } of unit) {
        for (const param of params) if (typeof param === 'string') size += param.length;
      }
      units += 1;
    }
    return { waiting: this.#waiting.splice(0, units), units, size };
  }
}
