/**
 * Tells the open streams of this process what was stored. It is a matter of speed only: a stream
 * that misses something here reads it from the journal.
 */
import type { Publisher } from '@relay/core';
import type { StoredEvent } from '@relay/protocol';

export type Listener = (events: readonly StoredEvent[]) => void;

export class Hub implements Publisher {
  readonly #listeners = new Map<string, Set<Listener>>();

  /** Runs that somebody follows. */
  get size(): number {
    return this.#listeners.size;
  }

  publish(runId: string, events: readonly StoredEvent[]): void {
    const listeners = this.#listeners.get(runId);
    if (listeners === undefined) return;
    for (const listener of listeners) listener(events);
  }

  listen(runId: string, listener: Listener): () => void {
    const listeners = this.#listeners.get(runId) ?? new Set();
    this.#listeners.set(runId, listeners);
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#listeners.get(runId) === listeners) {
        this.#listeners.delete(runId);
      }
    };
  }
}
