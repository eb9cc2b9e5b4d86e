/**
 * Writes a response as fast as its client reads: a text is written in pieces, and nothing more until the
 * client has taken them, so that a slow client holds little memory. A client that receives nothing for
 * a minute is disconnected; one that receives anything is not.
 */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { acknowledgedBytes, type Peer } from './dead-peers.ts';

/**
 * A client that reads steadily, but slowly, is not seen for long: its kernel acknowledges nothing until
 * a sixteenth of its receive buffer is free, which can be several hundred kilobytes.
 */
const stalledAfterMs = 60_000;
/** Most clients need less: only those that need more are measured. */
const firstMeasureMs = 1_000;
/** Small enough to see that a slow client reads, large enough to be cheap. */
export const maxWriteChars = 64 * 1024;

export class ResponseWriter implements Peer {
  protected readonly response: ServerResponse;
  readonly closed: AbortSignal;
  #isEnding = false;

  constructor(response: ServerResponse) {
    this.response = response;
    this.closed = closedSignal(response);
  }

  /** The client disconnected, or the response was ended. */
  get isOver(): boolean {
    const { destroyed, writableEnded } = this.response;
    return this.closed.aborted || destroyed || writableEnded;
  }

  get socket(): Socket | null {
    return this.response.socket;
  }

  /** Resolves when the client can receive more, or the response is over. */
  async send(text: string): Promise<void> {
    for (let at = 0; at < text.length && !this.isOver;) {
      const end = splitAt(text, at + maxWriteChars);
      const piece = at === 0 && end === text.length ? text : text.slice(at, end);
      if (!this.response.write(piece)) await this.#drained();
      at = end;
    }
  }

  /** Sends the rest as all before it, and ends the response. Resolves when all but little is sent. */
  async end(text = ''): Promise<void> {
    if (this.isOver || this.#isEnding) return;
    this.#isEnding = true;
    const last = splitAt(text, text.length - maxWriteChars);
    if (last > 0) await this.send(text.slice(0, last));
    if (this.isOver) return;
    this.response.end(text.slice(last));
    if (this.response.writableLength > 0) void this.#sent('finish');
  }

  destroy(): void {
    this.response.destroy();
  }

  async #drained(): Promise<void> {
    if (!this.response.writableNeedDrain || this.closed.aborted) return;
    await this.#sent('drain');
  }

  /** Resolves at the event, or when the response is over. Disconnects a client that receives nothing. */
  async #sent(event: 'drain' | 'finish'): Promise<void> {
    let received: Promise<number | undefined> | undefined;
    let isDone = false;
    await new Promise<void>((resolve) => {
      const done = () => {
        isDone = true;
        clearTimeout(first);
        clearInterval(stalled);
        this.response.off(event, done);
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
        this.response.destroy();
        done();
      };
      const first = setTimeout(measure, firstMeasureMs);
      const stalled = setInterval(() => void check(), stalledAfterMs);
      this.response.once(event, done);
      this.closed.addEventListener('abort', done);
    });
  }
}

/** Never between the halves of a surrogate pair: each would be encoded alone, and lost. */
function splitAt(text: string, at: number): number {
  if (at <= 0) return 0;
  if (at >= text.length) return text.length;
  const last = text.charCodeAt(at - 1);
  return last >= 0xd800 && last <= 0xdbff ? at - 1 : at;
}

/** One signal per response: all that wait for its end share it. */
const closedSignals = new WeakMap<ServerResponse, AbortSignal>();

/** Aborted when the client disconnects, or if it already has. */
export function closedSignal(response: ServerResponse): AbortSignal {
  const known = closedSignals.get(response);
  if (known !== undefined) return known;
  const closed = new AbortController();
  closedSignals.set(response, closed.signal);
  if (response.closed || response.socket?.destroyed === true) closed.abort('closed');
  else response.on('close', () => closed.abort('closed'));
  return closed.signal;
}
