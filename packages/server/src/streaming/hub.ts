/**
 * Publishes stored events to the open streams of this process. It only makes them faster: every
 * listener is asked to read the journal periodically, so a missed event is only late.
 */
import { type Publisher, Ticker } from '@relay/core';
import type { StoredEvent } from '@relay/protocol';

/** An empty list means: read the journal. */
export type Listener = (events: readonly StoredEvent[]) => void;

const rereadMs = 10_000;
const ticksPerRound = 100;

export class Hub implements Publisher {
  readonly #listeners = new Map<string, Set<Listener>>();
  readonly #runIds = new Ticker<string>(rereadMs / ticksPerRound, (runIds, tick) =>
    this.#refreshSome(runIds, tick),
  );
  /** Runs that are still to be refreshed in this round, and how many per tick. */
  #due: string[] = [];
  #perTick = 0;

  /** The number of followed runs. */
  get size(): number {
    return this.#listeners.size;
  }

  /** Calls every listener even if one throws; the errors are thrown afterwards. */
  publish(runId: string, events: readonly StoredEvent[]): void {
    const listeners = this.#listeners.get(runId);
    if (listeners === undefined) return;
    const errors: unknown[] = [];
    for (const listener of listeners) {
      try {
        listener(events);
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw new AggregateError(errors, `Listeners of run ${runId} failed`);
  }

  listen(runId: string, listener: Listener): () => void {
    const listeners = this.#listeners.get(runId) ?? new Set();
    this.#listeners.set(runId, listeners);
    listeners.add(listener);
    this.#runIds.add(runId);
    return () => {
      listeners.delete(listener);
      if (listeners.size > 0 || this.#listeners.get(runId) !== listeners) return;
      this.#listeners.delete(runId);
      this.#runIds.delete(runId);
    };
  }

  /** Makes all followers read the store: notifications may have been lost. */
  invalidate(): void {
    for (const runId of this.#listeners.keys()) this.publish(runId, []);
  }

  /** A few runs per tick: refreshing all at once would block the event loop. */
  #refreshSome(runIds: ReadonlySet<string>, tick: number): void {
    if (tick % ticksPerRound === 0) {
      this.#due = [...runIds];
      this.#perTick = Math.ceil(this.#due.length / ticksPerRound);
    }
    for (const runId of this.#due.splice(0, this.#perTick)) this.publish(runId, []);
  }
}
