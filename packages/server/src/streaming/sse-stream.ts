/**
 * An open SSE response: the only place where SSE frames are written to a socket. A batch of frames is
 * one write, unless it is large. A client that was disconnected reconnects with `Last-Event-ID` without
 * loss.
 */
import type { ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { Ticker } from '@relay/core';
import {
  type Dialect,
  encodeComment,
  encodeFrame,
  type Frame,
  type RunHeader,
  type StoredEvent,
  type StoredSessionEvent,
} from '@relay/protocol';
import { DeadPeerDetector } from './dead-peers.ts';
import { maxWriteChars, ResponseWriter } from './response-writer.ts';

const keepAliveDelayMs = 10_000;

export class SseStream extends ResponseWriter {
  constructor(response: ServerResponse) {
    super(response);
    response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
    });
    // Between heartbeats, keep-alive probes detect a peer that vanished.
    if (response.socket instanceof Socket) response.socket.setKeepAlive(true, keepAliveDelayMs);
    // The headers are sent with the first frames if there are any yet.
    setImmediate(() => {
      if (!response.closed) response.flushHeaders();
    });
    if (this.closed.aborted) return;
    this.closed.addEventListener('abort', () => heartbeats.delete(this));
    heartbeats.add(this);
  }

  override end(text?: string): Promise<void> {
    heartbeats.delete(this);
    return super.end(text);
  }

  sendHeartbeat(): void {
    if (this.response.writableLength === 0) this.response.write(encodeComment('heartbeat'));
  }
}

const tickMs = 1_000;
const ticksPerHeartbeat = 15;
/**
 * Ticks after a heartbeat: a peer that acknowledges at neither of these is destroyed within 30 s. The
 * second check, whose cost grows with the machine's connections, is made only if it can destroy one.
 */
const checkAtTick = 3;
const checkAgainAtTick = 13;
const deadPeers = new DeadPeerDetector();

/** One timer for all streams, so that an idle stream needs no timer of its own. */
const heartbeats = new Ticker<SseStream>(tickMs, (streams, tick) => {
  const since = tick % ticksPerHeartbeat;
  if (since === 0) for (const stream of streams) stream.sendHeartbeat();
  else if (since === checkAtTick || (since === checkAgainAtTick && deadPeers.hasSilent)) {
    void deadPeers.check(streams);
  }
});

/** How the events of a journal become frames; an event without a frame is left out. */
export interface Projection<Event> {
  readonly namesEvents: boolean;
  project(event: Event): { readonly type: string } | undefined;
}

/** A run in a dialect. */
export function runProjection(dialect: Dialect, run: RunHeader): Projection<StoredEvent> {
  const { namesEvents } = dialect;
  return { namesEvents, project: (event) => dialect.project(event, run) };
}

/** A run as its journal has it. */
export const journalProjection: Projection<StoredEvent> = {
  namesEvents: false,
  project: (event) => event,
};

/** A session as its journal has it: the `seq` is the id of the frame. */
export const sessionProjection: Projection<StoredSessionEvent> = {
  namesEvents: false,
  project(event) {
    const { seq: _, ...frame } = event;
    return frame;
  },
};

/**
 * The frames of a batch, in pieces, so that only one piece is held for a client that does not read. The
 * last piece is returned.
 */
export function* encodeBatch<Event extends { readonly seq: number }>(
  events: readonly Event[],
  projection: Projection<Event>,
): Generator<string, string> {
  let text = '';
  for (const event of events) {
    if (text.length >= maxWriteChars) {
      yield text;
      text = '';
    }
    const frame = projection.project(event);
    if (frame === undefined) continue;
    const data = JSON.stringify(frame);
    text += projection.namesEvents
      ? encodeFrame({ id: event.seq, event: frame.type, data })
      : encodeFrame({ id: event.seq, data });
  }
  return text;
}

/** A frame that is not a journal event has no id. */
export function encodeFirstFrame(
  frame: Frame,
  { namesEvents }: Pick<Dialect, 'namesEvents'>,
): string {
  const data = JSON.stringify(frame);
  return encodeFrame(namesEvents ? { event: frame.type, data } : { data });
}
