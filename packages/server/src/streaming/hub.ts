/**
 * Tells the open streams of this process what was stored. It is a matter of speed only: a stream
 * that misses something here reads it from the journal, to which it is sent now and then.
 */
import type { Publisher } from '@relay/core';
import type { StoredEvent } from '@relay/protocol';

/** No events at all means: have a look yourself. */
export type Listener = (events: readonly StoredEvent[]) => void;

const lookYourselfMs = 10_000;
const ticks = 100;

export class Hub implements Publisher {
  readonly #listeners = new Map<string, Set<Listener>>();
  #timer: NodeJS.Timeout | undefined;
  /** Who is still to be sent in this round, and how many at a time. */
  #due: string[] = [];
  #share = 0;
  #tick = 0;

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
    this.#timer ??= setInterval(() => this.#sendSome(), lookYourselfMs / ticks).unref();
    return () => {
      listeners.delete(listener);
      if (listeners.size > 0 || this.#listeners.get(runId) !== listeners) return;
      this.#listeners.delete(runId);
      if (this.#listeners.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
      this.#tick = 0;
    };
  }

  /** Everybody had better look: words may have been lost. */
  invalidate(): void {
    for (const runId of this.#listeners.keys()) this.publish(runId, []);
  }

  /** Each one in its turn, a few at a time: all at once would hold everything else up. */
  #sendSome(): void {
    this.#tick += 1;
    if (this.#tick === ticks) {
      this.#tick = 0;
      this.#due = [...this.#listeners.keys()];
      this.#share = Math.ceil(this.#due.length / ticks);
    }
    for (const runId of this.#due.splice(0, this.#share)) this.publish(runId, []);
  }
}
