/**
 * Publishes stored events to the open streams of this process. It only makes them faster: the journals
 * of all followed runs are compared periodically with what their followers have, so a missed event is only
 * late.
 */
import { type Publisher, type SystemStore, Ticker } from '@relay/core';
import type { StoredEvent } from '@relay/protocol';

export interface Follower {
  /** An empty list means: read the journal. */
  receive(events: readonly StoredEvent[]): void;
  /** The last event that it has received, or read itself. */
  readonly lastSeq: number;
}

type ReadLastSeqs = SystemStore['lastSeqs'];

const tickMs = 1_000;
const ticksPerRound = 10;

export class Hub implements Publisher {
  readonly #readLastSeqs: ReadLastSeqs;
  readonly #followers = new Map<string, readonly Follower[]>();
  readonly #ticker = new Ticker<Hub>(tickMs, (_, tick) => void this.#compareSome(tick));
  /** Runs that are still to be compared in this round, and how many per tick. */
  #due: string[] = [];
  #perTick = 0;

  constructor(readLastSeqs: ReadLastSeqs) {
    this.#readLastSeqs = readLastSeqs;
  }

  /** The number of followed runs. */
  get size(): number {
    return this.#followers.size;
  }

  /** Calls every follower even if one throws; the errors are thrown afterwards. */
  publish(runId: string, events: readonly StoredEvent[]): void {
    const errors: unknown[] = [];
    for (const follower of this.#of(runId)) {
      try {
        follower.receive(events);
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw new AggregateError(errors, `Followers of run ${runId} failed`);
  }

  /** Returns the function that removes the follower. */
  add(runId: string, follower: Follower): () => void {
    this.#followers.set(runId, [...this.#of(runId), follower]);
    this.#ticker.add(this);
    return () => {
      const others = this.#of(runId).filter((each) => each !== follower);
      if (others.length > 0) this.#followers.set(runId, others);
      else this.#followers.delete(runId);
      if (this.#followers.size === 0) this.#ticker.delete(this);
    };
  }

  #of(runId: string): readonly Follower[] {
    return this.#followers.get(runId) ?? [];
  }

  /** Makes all followers read the store: notifications may have been lost. */
  invalidate(): void {
    for (const runId of this.#followers.keys()) this.publish(runId, []);
  }

  /** Some runs per tick: after many missed events, reading all at once would block the event loop. */
  async #compareSome(tick: number): Promise<void> {
    if (tick % ticksPerRound === 0) {
      this.#due = [...this.#followers.keys()];
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
      if (this.#of(runId).some((follower) => follower.lastSeq < lastSeq)) this.publish(runId, []);
    }
  }
}
