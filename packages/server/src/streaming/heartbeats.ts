/** One timer for all streams, so that a silent stream costs no timer of its own. */
import { DeadPeers, type Peer } from './dead-peers.ts';

export interface Beating extends Peer {
  /** Says that we are still there. */
  beat(): void;
}

const tickMs = 1_000;
const ticksABeat = 15;
/** After a beat: who does not answer at either of these, ten seconds apart, is gone within 30 s. */
const looksAfterTicks: ReadonlySet<number> = new Set([3, 13]);

export class Heartbeats {
  readonly #streams = new Set<Beating>();
  readonly #dead = new DeadPeers();
  #timer: NodeJS.Timeout | undefined;
  #tick = 0;

  /** Streams that are kept alive. */
  get size(): number {
    return this.#streams.size;
  }

  add(stream: Beating): void {
    this.#streams.add(stream);
    this.#timer ??= setInterval(() => this.#turn(), tickMs).unref();
  }

  delete(stream: Beating): void {
    this.#streams.delete(stream);
    if (this.#streams.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#tick = 0;
  }

  #turn(): void {
    this.#tick = (this.#tick + 1) % ticksABeat;
    if (this.#tick === 0) for (const each of this.#streams) each.beat();
    else if (looksAfterTicks.has(this.#tick)) void this.#dead.look(this.#streams);
  }
}
