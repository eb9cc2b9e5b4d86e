/**
 * Tells the open streams of this process what was stored. It is a matter of speed only: a stream
 * that misses something here reads it from the journal, to which it is sent now and then.
 */
import { type Publisher, Ticker } from '@relay/core';
import type { StoredEvent } from '@relay/protocol';

/** No events at all means: have a look yourself. */
export type Listener = (events: readonly StoredEvent[]) => void;

const lookYourselfMs = 10_000;
const ticks = 100;

export class Hub implements Publisher {
  readonly #listeners = new Map<string, Set<Listener>>();
  readonly #followed = new Ticker<string>(lookYourselfMs / ticks, (runIds, tick) =>
    this.#sendSome(runIds, tick),
  );
  /** Runs that are still to be sent in this round, and how many at a time. */
  #due: string[] = [];
  #share = 0;

  /** Runs that are followed. */
  get size(): number {
    return this.#listeners.size;
  }

  /** One listener that throws keeps the events from no other; the error is thrown afterwards. */
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
    if (errors.length > 0) throw new AggregateError(errors, 'Listeners of a run failed');
  }

  listen(runId: string, listener: Listener): () => void {
    const listeners = this.#listeners.get(runId) ?? new Set();
    this.#listeners.set(runId, listeners);
    listeners.add(listener);
    this.#followed.add(runId);
    return () => {
      listeners.delete(listener);
      if (listeners.size > 0 || this.#listeners.get(runId) !== listeners) return;
      this.#listeners.delete(runId);
      this.#followed.delete(runId);
    };
  }

  /** All followers read the store again: notifications may have been lost. */
  invalidate(): void {
    for (const runId of this.#listeners.keys()) this.publish(runId, []);
  }

  /** Each one in its turn, a few at a time: all at once would hold everything else up. */
  #sendSome(runIds: ReadonlySet<string>, tick: number): void {
    if (tick % ticks === 0) {
      this.#due = [...runIds];
      this.#share = Math.ceil(this.#due.length / ticks);
    }
    for (const runId of this.#due.splice(0, this.#share)) this.publish(runId, []);
  }
}
