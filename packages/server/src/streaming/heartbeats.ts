/** Keeps SSE connections alive and detects peers that vanished. */
import { Ticker } from '@relay/core';
import { DeadPeerDetector, type Peer } from './dead-peers.ts';

const tickMs = 1_000;
const ticksPerBeat = 15;
/** Ticks after a beat: a peer that acknowledges at neither of these is destroyed within 30 s. */
const checkAtTicks: ReadonlySet<number> = new Set([3, 13]);

export interface HeartbeatTarget extends Peer {
  sendHeartbeat(): void;
}

/** One timer for all streams, so that an idle stream needs no timer of its own. */
export function createHeartbeats(): Ticker<HeartbeatTarget> {
  const deadPeers = new DeadPeerDetector();
  return new Ticker(tickMs, (streams, tick) => {
    const since = tick % ticksPerBeat;
    if (since === 0) for (const stream of streams) stream.sendHeartbeat();
    else if (checkAtTicks.has(since)) void deadPeers.check(streams);
  });
}
