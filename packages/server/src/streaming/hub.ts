/**
 * Publishes stored events to the open streams of this process. It only makes them faster: the journals
 * of all followed runs are compared periodically with what was published, so a missed event is only late.
 */
import { type Publisher, type SystemStore, Ticker } from '@relay/core';
import type { StoredEvent } from '@relay/protocol';

/** An empty list means: read the journal. */
export type Listener = (events: readonly StoredEvent[]) => void;

type ReadLastSeqs = SystemStore['lastSeqs'];

interface FollowedRun {
  listeners: readonly Listener[];
  /** Its listeners were notified of this event, or of a later one. */
  lastSeq: number;
}

const tickMs = 1_000;
const ticksPerRound = 10;

export class Hub implements Publisher {
  readonly #readLastSeqs: ReadLastSeqs;
  readonly #runs = new Map<string, FollowedRun>();
  readonly #ticker = new Ticker<Hub>(tickMs, (_, tick) => void this.#compareSome(tick));
  /** Runs that are still to be compared in this round, and how many per tick. */
  #due: string[] = [];
  #perTick = 0;

  constructor(readLastSeqs: ReadLastSeqs) {
    this.#readLastSeqs = readLastSeqs;
  }

  /** The number of followed runs. */
  get size(): number {
    return this.#runs.size;
  }

  /** Calls every listener even if one throws; the errors are thrown afterwards. */
  publish(runId: string, events: readonly StoredEvent[]): void {
    const run = this.#runs.get(runId);
    if (run === undefined) return;
    run.lastSeq = Math.max(run.lastSeq, events.at(-1)?.seq ?? 0);
    const errors: unknown[] = [];
    for (const listener of run.listeners) {
      try {
        listener(events);
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw new AggregateError(errors, `Listeners of run ${runId} failed`);
  }

  listen(runId: string, listener: Listener): () => void {
    const run = this.#runs.get(runId) ?? { listeners: [], lastSeq: 0 };
    this.#runs.set(runId, run);
    run.listeners = [...run.listeners, listener];
    this.#ticker.add(this);
    return () => {
      run.listeners = run.listeners.filter((each) => each !== listener);
      if (run.listeners.length > 0 || this.#runs.get(runId) !== run) return;
      this.#runs.delete(runId);
      if (this.#runs.size === 0) this.#ticker.delete(this);
    };
  }

  /** Makes all followers read the store: notifications may have been lost. */
  invalidate(): void {
    for (const runId of this.#runs.keys()) this.publish(runId, []);
  }

  /** Some runs per tick: after many missed events, reading all at once would block the event loop. */
  async #compareSome(tick: number): Promise<void> {
    if (tick % ticksPerRound === 0) {
      this.#due = [...this.#runs.keys()];
      this.#perTick = Math.ceil(this.#due.length / ticksPerRound);
    }
    try {
      const some = this.#due.splice(0, this.#perTick);
      if (some.length > 0) this.#notifyOfMissed(await this.#readLastSeqs(some));
    } catch {
      // The next round compares these runs again.
    }
  }

  #notifyOfMissed(lastSeqs: ReadonlyMap<string, number>): void {
    for (const [runId, lastSeq] of lastSeqs) {
      const run = this.#runs.get(runId);
      if (run === undefined || run.lastSeq >= lastSeq) continue;
      run.lastSeq = lastSeq;
      this.publish(runId, []);
    }
  }
}
