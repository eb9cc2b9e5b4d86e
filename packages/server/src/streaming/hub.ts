/**
 * Publishes stored events of runs, or of sessions, to the open streams of this process. It only makes them
 * faster: the journals of all that are followed are compared periodically with what their followers have, so
 * a missed event is only late. For the programs of sessions, versions are compared, because not all that
 * they have to know is an event.
 */
import { type SystemStore, Ticker } from '@relay/core';

export interface Follower<Event> {
  /** An empty list means: read the journal. */
  receive(events: readonly Event[]): void;
  /** The last event that it has received, or read itself; or the version that it has read. */
  readonly lastSeq: number;
}

type ReadLastSeqs = SystemStore['lastSeqs'];

const tickMs = 1_000;
const ticksPerRound = 10;

export class Hub<Event> {
  readonly #readLastSeqs: ReadLastSeqs;
  readonly #followers = new Map<string, readonly Follower<Event>[]>();
  readonly #ticker = new Ticker<Hub<Event>>(tickMs, (_, tick) => void this.#compareSome(tick));
  /** Journals that are still to be compared in this round, and how many per tick. */
  #due: string[] = [];
  #perTick = 0;

  constructor(readLastSeqs: ReadLastSeqs) {
    this.#readLastSeqs = readLastSeqs;
  }

  /** The number of followed journals. */
  get size(): number {
    return this.#followers.size;
  }

  publish(id: string, events: readonly Event[]): void {
    this.#send(id, this.#of(id), events);
  }

  /** Calls every follower even if one throws; the errors are thrown afterwards. */
  #send(id: string, followers: readonly Follower<Event>[], events: readonly Event[]): void {
    const errors: unknown[] = [];
    for (const follower of followers) {
      try {
        follower.receive(events);
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw new AggregateError(errors, `Followers of ${id} failed`);
  }

  /** Returns the function that removes the follower. */
  add(id: string, follower: Follower<Event>): () => void {
    this.#followers.set(id, [...this.#of(id), follower]);
    this.#ticker.add(this);
    return () => {
      const others = this.#of(id).filter((each) => each !== follower);
      if (others.length > 0) this.#followers.set(id, others);
      else this.#followers.delete(id);
      if (this.#followers.size === 0) this.#ticker.delete(this);
    };
  }

  #of(id: string): readonly Follower<Event>[] {
    return this.#followers.get(id) ?? [];
  }

  /** Makes all followers read the store: notifications may have been lost. */
  invalidate(): void {
    for (const id of this.#followers.keys()) this.publish(id, []);
  }

  /** Some journals per tick: after many missed events, reading all at once would block the event loop. */
  async #compareSome(tick: number): Promise<void> {
    if (tick % ticksPerRound === 0) {
      this.#due = [...this.#followers.keys()];
      this.#perTick = Math.ceil(this.#due.length / ticksPerRound);
    }
    try {
      const some = this.#due.splice(0, this.#perTick);
      if (some.length > 0) this.#notifyOfMissed(await this.#readLastSeqs(some));
    } catch {
      // The next round compares these journals again.
    }
  }

  #notifyOfMissed(lastSeqs: ReadonlyMap<string, number>): void {
    for (const [id, lastSeq] of lastSeqs) {
      // Those that are up to date need not read because another one is slow.
      const behind = this.#of(id).filter((follower) => follower.lastSeq < lastSeq);
      this.#send(id, behind, []);
    }
  }
}
