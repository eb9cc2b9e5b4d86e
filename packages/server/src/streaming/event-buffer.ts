import type { StoredEvent } from '@relay/protocol';
import type { Hub } from './hub.ts';

const maxHeldEvents = 1000;

/** What the hub said about a run and nobody has taken yet. */
export class EventBuffer {
  readonly #hub: Hub;
  readonly #runId: string;
  #batches: (readonly StoredEvent[])[] = [];
  #held = 0;
  /** Something may have been missed: only the store knows. */
  #unsure = false;
  #ring: (() => void) | undefined;
  #stopListening: (() => void) | undefined;

  constructor(hub: Hub, runId: string) {
    this.#hub = hub;
    this.#runId = runId;
  }

  /** From now on, until `leave` or until the signal is aborted. */
  listen(signal: AbortSignal): void {
    if (this.#stopListening !== undefined || signal.aborted) return;
    const stop = this.#hub.listen(this.#runId, (events) => this.#add(events));
    const leave = () => this.leave();
    signal.addEventListener('abort', leave);
    this.#stopListening = () => {
      stop();
      signal.removeEventListener('abort', leave);
    };
  }

  leave(): void {
    this.#stopListening?.();
    this.#wake();
  }

  /** What follows `cursor`, in one row and at most `limit`; or `gap` if only the store knows. */
  take(cursor: number, limit: number): readonly StoredEvent[] | 'gap' {
    if (this.#unsure) {
      this.#unsure = false;
      this.#batches = [];
      this.#held = 0;
      return 'gap';
    }
    const [only] = this.#batches;
    if (this.#batches.length === 1 && only?.[0]?.seq === cursor + 1 && only.length <= limit) {
      this.#batches = [];
      this.#held = 0;
      return only;
    }
    const taken: StoredEvent[] = [];
    let next = cursor + 1;
    while (taken.length < limit) {
      const batch = this.#batches.shift();
      if (batch === undefined) break;
      const fresh = batch[0]?.seq === next ? batch : batch.filter(({ seq }) => seq >= next);
      const [first] = fresh;
      if (first === undefined) continue;
      if (first.seq !== next) {
        this.#unsure = true;
        break;
      }
      const room = limit - taken.length;
      if (fresh.length > room) this.#batches.unshift(fresh.slice(room));
      taken.push(...fresh.slice(0, room));
      next = cursor + 1 + taken.length;
    }
    this.#held = this.#batches.reduce((sum, batch) => sum + batch.length, 0);
    if (taken.length === 0 && this.#unsure) return this.take(cursor, limit);
    return taken;
  }

  /** Resolves when there is something to take. */
  async more(): Promise<void> {
    if (this.#batches.length > 0 || this.#unsure) return;
    await new Promise<void>((resolve) => {
      this.#ring = resolve;
    });
  }

  #add(events: readonly StoredEvent[]): void {
    this.#held += events.length;
    if (events.length === 0 || (this.#held > maxHeldEvents && this.#batches.length > 0)) {
      this.#batches = [];
      this.#held = 0;
      this.#unsure = true;
    }
    if (!this.#unsure) this.#batches.push(events);
    this.#wake();
  }

  #wake(): void {
    this.#ring?.();
    this.#ring = undefined;
  }
}
