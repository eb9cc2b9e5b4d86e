/** One timer for all streams, so that a silent stream costs no timer of its own. */
import { Ticker } from '@relay/core';
import { DeadPeers, type Peer } from './dead-peers.ts';

export interface Beating extends Peer {
  /** Sends a sign of life. */
  beat(): void;
}

const tickMs = 1_000;
const ticksABeat = 15;
/** After a beat: a peer that answers at neither of these, ten seconds apart, is gone within 30 s. */
const looksAfterTicks: ReadonlySet<number> = new Set([3, 13]);

export class Heartbeats {
  readonly #dead = new DeadPeers();
  readonly #ticker = new Ticker<Beating>(tickMs, (streams, tick) => {
    const since = tick % ticksABeat;
    if (since === 0) for (const each of streams) each.beat();
    else if (looksAfterTicks.has(since)) void this.#dead.look(streams);
  });

  /** Streams that are kept alive. */
  get size(): number {
    return this.#ticker.size;
  }

  add(stream: Beating): void {
    this.#ticker.add(stream);
  }

  delete(stream: Beating): void {
    this.#ticker.delete(stream);
  }
}
