/**
 * Following a run from any place in its journal: first what is stored, then what is being stored,
 * without a gap or a repeat.
 *
 * The journal is the truth and the hub is a hint. A follower that falls behind the hub forgets what
 * it was told and reads on from the store, so it holds a bounded amount, however slow its reader; and
 * now and then it looks into the store unasked, so that a word of the hub that was lost costs time
 * and nothing else.
 */
import type { TenantStore } from '@relay/core';
import type { StoredEvent } from '@relay/protocol';
import type { Hub } from './hub.ts';
import { EventBuffer } from './event-buffer.ts';

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
  /** The run is not created yet: the hub will tell everything, and the store need not be asked. */
  readonly isNew?: boolean;
}

const pageSize = 250;

type Batches = AsyncGenerator<readonly StoredEvent[], void>;

/** Yields batches in order; returns after `run.ended`, or as soon as the signal is aborted. */
export function followRun(followed: Followed, options: FollowOptions): Batches {
  const told = new EventBuffer(followed.hub, followed.runId);
  // Of a new run nothing may be missed, not even what happens before the first batch is asked for.
  if (options.isNew === true) told.listen(options.signal);
  return batchesOf(followed, options, told);
}

async function* batchesOf(followed: Followed, options: FollowOptions, told: EventBuffer): Batches {
  const { store, runId } = followed;
  const { after, follow, signal } = options;
  let cursor = after;
  let behind = options.isNew !== true;
  if (follow) told.listen(signal);
  try {
    while (!signal.aborted) {
      const batch = behind
        ? await store.readEvents(runId, { after: cursor, limit: pageSize })
        : told.take(cursor, pageSize);
      if (batch === 'gap') {
        behind = true;
        continue;
      }
      const last = batch.at(-1);
      if (last !== undefined) {
        cursor = last.seq;
        yield batch;
        if (last.type === 'run.ended') return;
      } else if (behind && (await isOver(followed, cursor))) {
        return;
      }
      // We listened before we read: whatever was stored since, the hub has told or will tell.
      if (behind && batch.length === pageSize) continue;
      if (!follow) return;
      if (last === undefined && !behind) await told.more();
      behind = false;
    }
  } finally {
    told.leave();
  }
}

/** Whether the event at this place is the last one there will ever be. */
async function isOver({ store, runId }: Followed, seq: number): Promise<boolean> {
  if (seq === 0) return false;
  const [event] = await store.readEvents(runId, { after: seq - 1, limit: 1 });
  return event?.type === 'run.ended';
}
