/**
 * An open SSE response: the only place where SSE frames are written to a socket. A batch of frames is
 * one write, unless it is large. Nothing more is written until the client has read it, so a slow client
 * holds little memory. A client that receives nothing for half a minute is disconnected, and reconnects
 * with `Last-Event-ID` without loss.
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
} from '@relay/protocol';
import { acknowledgedBytes, DeadPeerDetector, type Peer } from './dead-peers.ts';

export const stalledAfterMs = 30_000;
const firstMeasureMs = 1_000;
const keepAliveDelayMs = 10_000;
/** Small enough to see that a slow client reads, large enough to be cheap. */
const maxWriteChars = 64 * 1024;

export class SseStream implements Peer {
  readonly #response: ServerResponse;
  readonly closed: AbortSignal;
  #isEnding = false;

  constructor(response: ServerResponse) {
    this.#response = response;
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
    this.closed = closedSignal(response);
    if (this.closed.aborted) return;
    this.closed.addEventListener('abort', () => heartbeats.delete(this));
    heartbeats.add(this);
  }

  /** The client disconnected, or the response was ended. */
  get isOver(): boolean {
    return this.closed.aborted || this.#response.writableEnded;
  }

  /** Resolves when the client can receive more, or the stream is over. */
  async send(text: string): Promise<void> {
    for (let at = 0; at < text.length && !this.isOver;) {
      const end = pieceEnd(text, at);
      const piece = at === 0 && end === text.length ? text : text.slice(at, end);
      if (!this.#response.write(piece)) await this.#drained();
      at = end;
    }
  }

  get socket(): Socket | null {
    return this.#response.socket;
  }

  destroy(): void {
    this.#response.destroy();
  }

  sendHeartbeat(): void {
    if (this.#response.writableLength === 0) this.#response.write(encodeComment('heartbeat'));
  }

  /** Sends the rest as all before it, and ends the response. Resolves when all but little is sent. */
  async end(text = ''): Promise<void> {
    heartbeats.delete(this);
    if (this.isOver || this.#isEnding) return;
    this.#isEnding = true;
    const last = text.length <= maxWriteChars ? 0 : text.length - maxWriteChars;
    const cut = last === 0 ? 0 : pieceEnd(text, last - maxWriteChars);
    if (cut > 0) await this.send(text.slice(0, cut));
    if (this.isOver) return;
    this.#response.end(text.slice(cut));
    if (this.#response.writableLength > 0) void this.#sent('finish');
  }

  async #drained(): Promise<void> {
    if (!this.#response.writableNeedDrain || this.closed.aborted) return;
    await this.#sent('drain');
  }

  /** Resolves at the event, or when the stream is over. Disconnects a client that receives nothing. */
  async #sent(event: 'drain' | 'finish'): Promise<void> {
    let received: Promise<number | undefined> | undefined;
    let isDone = false;
    await new Promise<void>((resolve) => {
      const done = () => {
        isDone = true;
        clearTimeout(first);
        clearInterval(stalled);
        this.#response.off(event, done);
        this.closed.removeEventListener('abort', done);
        resolve();
      };
      const measure = () => {
        received = acknowledgedBytes(this);
      };
      const check = async () => {
        const before = await received;
        measure();
        const now = await received;
        const isReading = now !== undefined && before !== undefined && now !== before;
        if (isDone || isReading) return;
        this.#response.destroy();
        done();
      };
      const first = setTimeout(measure, firstMeasureMs);
      const stalled = setInterval(() => void check(), stalledAfterMs);
      this.#response.once(event, done);
      this.closed.addEventListener('abort', done);
    });
  }
}

/** Never between the halves of a surrogate pair: each would be encoded alone, and lost. */
function pieceEnd(text: string, at: number): number {
  const end = at + maxWriteChars;
  if (end >= text.length) return text.length;
  const last = text.charCodeAt(end - 1);
  return last >= 0xd800 && last <= 0xdbff ? end - 1 : end;
}

/** Aborted when the client disconnects, or if it already has. */
export function closedSignal(response: ServerResponse): AbortSignal {
  const closed = new AbortController();
  if (response.closed || response.socket?.destroyed === true) closed.abort('closed');
  else response.once('close', () => closed.abort('closed'));
  return closed.signal;
}

const tickMs = 1_000;
const ticksPerHeartbeat = 15;
/** Ticks after a heartbeat: a peer that acknowledges at neither of these is destroyed within 30 s. */
const checkAtTicks: ReadonlySet<number> = new Set([3, 13]);
const deadPeers = new DeadPeerDetector();

/** One timer for all streams, so that an idle stream needs no timer of its own. */
const heartbeats = new Ticker<SseStream>(tickMs, (streams, tick) => {
  const since = tick % ticksPerHeartbeat;
  if (since === 0) for (const stream of streams) stream.sendHeartbeat();
  else if (checkAtTicks.has(since)) void deadPeers.check(streams);
});

/**
 * The frames of a batch in a dialect, in pieces, so that only one piece is held for a client that does
 * not read. The last piece is returned.
 */
export function* encodeBatch(
  events: readonly StoredEvent[],
  dialect: Dialect,
  run: RunHeader,
): Generator<string, string> {
  let text = '';
  for (const event of events) {
    if (text.length >= maxWriteChars) {
      yield text;
      text = '';
    }
    const frame = dialect.project(event, run);
    if (frame === undefined) continue;
    const data = JSON.stringify(frame);
    text += dialect.namesEvents
      ? encodeFrame({ id: event.seq, event: frame.type, data })
      : encodeFrame({ id: event.seq, data });
  }
  return text;
}

/** A frame that is not a journal event has no id. */
export function encodeFirstFrame(frame: Frame, dialect: Dialect): string {
  const data = JSON.stringify(frame);
  return encodeFrame(dialect.namesEvents ? { event: frame.type, data } : { data });
}
