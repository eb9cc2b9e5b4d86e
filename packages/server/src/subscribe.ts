/**
 * Following a run from any place in its journal: first what is stored, then what is being stored,
 * without a gap or a repeat.
 *
 * The journal is the truth and the hub is a hint. A follower that falls behind the hub forgets what
 * it was told and reads on from the store, so it holds a bounded amount, however slow its reader.
 */
import type { TenantStore } from '@relay/core';
import type { StoredEvent } from '@relay/protocol';
import type { Hub } from './hub.ts';

export interface Followed {
  readonly store: TenantStore;
  readonly hub: Hub;
  readonly runId: string;
}

export interface FollowOptions {
  readonly after: number;
  /** false: end at the journal's present end. */
  readonly follow: boolean;
  readonly signal: AbortSignal;
}

const pageSize = 1000;
const maxHeldBatches = 256;

/** Yields batches in order; returns after `run.ended`, or as soon as the signal is aborted. */
export async function* followRun(
  followed: Followed,
  options: FollowOptions,
): AsyncGenerator<readonly StoredEvent[], void> {
  const { store, hub, runId } = followed;
  const { follow, signal } = options;
  const told = new Told();
  const stopListening = follow ? hub.listen(runId, (events) => told.add(events)) : undefined;
  const stopWaiting = () => told.ring();
  signal.addEventListener('abort', stopWaiting);
  let cursor = options.after;
  let behind = true;
  try {
    while (!signal.aborted) {
      const batch = behind
        ? await store.readEvents(runId, { after: cursor, limit: pageSize })
        : told.take(cursor);
      if (batch === 'gap') {
        behind = true;
        continue;
      }
      const last = batch.at(-1);
      if (last !== undefined) {
        cursor = last.seq;
        yield batch;
        if (last.type === 'run.ended') return;
      }
      // We listened before we read: whatever was stored since, the hub has told or will tell.
      if (behind && batch.length === pageSize) continue;
      if (!follow) return;
      if (last === undefined && !behind) await told.more();
      behind = false;
    }
  } finally {
    stopListening?.();
    signal.removeEventListener('abort', stopWaiting);
  }
}

/** What the hub said and nobody has taken yet. */
class Told {
  #batches: (readonly StoredEvent[])[] = [];
  #overflowed = false;
  #ring: (() => void) | undefined;

  add(events: readonly StoredEvent[]): void {
    if (this.#batches.length >= maxHeldBatches) {
      this.#batches = [];
      this.#overflowed = true;
    }
    if (!this.#overflowed) this.#batches.push(events);
    this.ring();
  }

  /** Everything after `cursor`, or `gap` if something in between was missed. */
  take(cursor: number): readonly StoredEvent[] | 'gap' {
    if (this.#overflowed) {
      this.#overflowed = false;
      return 'gap';
    }
    const batches = this.#batches;
    this.#batches = [];
    const [only] = batches;
    const all = batches.length === 1 && only !== undefined ? only : batches.flat();
    const next = all.findIndex((event) => event.seq > cursor);
    if (next === -1) return [];
    const fresh = next === 0 ? all : all.slice(next);
    return fresh[0]?.seq === cursor + 1 ? fresh : 'gap';
  }

  async more(): Promise<void> {
    if (this.#batches.length > 0 || this.#overflowed) return;
    await new Promise<void>((resolve) => {
      this.#ring = resolve;
    });
  }

  ring(): void {
    this.#ring?.();
    this.#ring = undefined;
  }
}
