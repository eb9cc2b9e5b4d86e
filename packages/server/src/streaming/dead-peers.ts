/**
 * Peers that vanished without a word. Data that nobody acknowledges would keep a connection open for
 * a quarter of an hour, and Node offers no `TCP_USER_TIMEOUT`; so we look into the kernel's table of
 * connections a while after each heartbeat.
 *
 * A peer is dead if the kernel tries again and again and nothing was acknowledged from one look to
 * another ten seconds later. One that is only slow to read answers the kernel's probes, and is not.
 */
import type { Socket } from 'node:net';
import { connectionOf, readUnanswered, type ReadUnanswered, type Unanswered } from './tcp-table.ts';

export interface Peer {
  readonly socket: Pick<
    Socket,
    'localPort' | 'remoteAddress' | 'remotePort' | 'bytesWritten' | 'writableLength'
  > | null;
  /** Ends the connection without a word. */
  cut(): void;
}

const deadAfterMs = 10_000;
/** Timers are a little early at times. */
const toleranceMs = 500;
const minTries = 2;

export class DeadPeers {
  readonly #read: ReadUnanswered;
  /** Who was silent at the last look, since when, and how far they had come. */
  #silent = new Map<Peer, { since: number; acknowledged: number }>();
  #looking = false;

  constructor(read: ReadUnanswered = readUnanswered) {
    this.#read = read;
  }

  /** Looks once at all of them. It never rejects. */
  async look(peers: ReadonlySet<Peer>, now = performance.now()): Promise<void> {
    if (this.#looking || peers.size === 0) return;
    this.#looking = true;
    try {
      const unanswered = await this.#read();
      if (unanswered !== undefined) this.#judge(peers, unanswered, now);
    } catch {
      // The next look will tell.
    } finally {
      this.#looking = false;
    }
  }

  #judge(peers: ReadonlySet<Peer>, unanswered: ReadonlyMap<string, Unanswered>, now: number): void {
    const before = this.#silent;
    this.#silent = new Map();
    if (unanswered.size === 0) return;
    for (const peer of peers) {
      const { socket } = peer;
      const key = socket === null ? undefined : connectionOf(socket);
      const found = key === undefined ? undefined : unanswered.get(key);
      if (socket === null || found === undefined || found.queued === 0 || found.tries === 0)
        continue;
      const acknowledged = socket.bytesWritten - socket.writableLength - found.queued;
      const seen = before.get(peer);
      const since = seen?.acknowledged === acknowledged ? seen.since : now;
      if (now - since >= deadAfterMs - toleranceMs && found.tries >= minTries) peer.cut();
      else this.#silent.set(peer, { since, acknowledged });
    }
  }
}
