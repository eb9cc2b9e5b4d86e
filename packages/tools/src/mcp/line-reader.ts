/**
 * The messages in a program's output, one a line. A line that is endless is an error; one that is no
 * message is skipped. A program that says too much in a second is not read for the rest of it, and one
 * whose lines take long to read not for a multiple of that, so that its noise slows down itself alone.
 */
import type { Readable } from 'node:stream';
import { type JSONRPCMessage, parseJSONRPCMessage } from '@modelcontextprotocol/client';

export interface LineBounds {
  readonly maxLineBytes: number;
  readonly linesPerSecond: number;
  readonly bytesPerSecond: number;
  /** Reading a line of 4 MB can hold up everybody for a second. */
  readonly restAfterMs: number;
}

export const lineBounds: LineBounds = {
  maxLineBytes: 4 * 1024 * 1024,
  linesPerSecond: 2_000,
  bytesPerSecond: 32 * 1024 * 1024,
  restAfterMs: 20,
};

export interface LineListener {
  message(message: JSONRPCMessage): void;
  /** Nothing more can be read. */
  failed(error: Error): void;
}

const newline = 0x0a;
/** How many times as long as it took to read. */
const restTimes = 4;

export class LineReader {
  readonly #stream: Readable;
  readonly #listener: LineListener;
  readonly #bounds: LineBounds;
  #begun: Buffer[] = [];
  #begunBytes = 0;
  #spent = { since: 0, lines: 0, bytes: 0 };
  #pause: NodeJS.Timeout | undefined;
  #ended = false;

  constructor(stream: Readable, listener: LineListener, bounds = lineBounds) {
    this.#stream = stream;
    this.#listener = listener;
    this.#bounds = bounds;
    stream.on('data', (piece: Buffer) => this.#take(piece));
    stream.on('error', () => this.end());
  }

  end(): void {
    this.#ended = true;
    this.#begun = [];
    clearTimeout(this.#pause);
    // What nobody reads any more may not hold its writer up.
    this.#stream.resume();
  }

  #take(piece: Buffer): void {
    if (this.#ended) return;
    const began = performance.now();
    this.#spend('bytes', piece.length);
    let from = 0;
    for (let at = piece.indexOf(newline); at >= 0; at = piece.indexOf(newline, from)) {
      this.#line(piece.subarray(from, at));
      from = at + 1;
      if (this.#ended) return;
    }
    this.#keep(piece.subarray(from));
    const pauseMs = Math.max(this.#untilNextSecond(), this.#restAfter(performance.now() - began));
    if (pauseMs === 0) return;
    this.#stream.pause();
    this.#pause = setTimeout(() => this.#stream.resume(), pauseMs);
    this.#pause.unref();
  }

  /** 0 if there is still something left of this one. */
  #untilNextSecond(): number {
    const { lines, bytes, since } = this.#spent;
    const { linesPerSecond, bytesPerSecond } = this.#bounds;
    if (lines <= linesPerSecond && bytes <= bytesPerSecond) return 0;
    return Math.max(since + 1_000 - Date.now(), 1);
  }

  #restAfter(tookMs: number): number {
    return tookMs > this.#bounds.restAfterMs ? tookMs * restTimes : 0;
  }

  #line(end: Buffer): void {
    this.#spend('lines', 1);
    if (this.#begunBytes + end.length > this.#bounds.maxLineBytes) return this.#tooLong();
    const line = Buffer.concat([...this.#begun, end]).toString('utf8');
    this.#begun = [];
    this.#begunBytes = 0;
    const message = messageIn(line);
    if (message !== undefined) this.#listener.message(message);
  }

  #keep(rest: Buffer): void {
    if (rest.length === 0) return;
    this.#begun.push(rest);
    this.#begunBytes += rest.length;
    if (this.#begunBytes > this.#bounds.maxLineBytes) this.#tooLong();
  }

  #tooLong(): void {
    this.end();
    this.#listener.failed(new Error(`It sent a line of over ${this.#bounds.maxLineBytes} bytes`));
  }

  #spend(what: 'lines' | 'bytes', amount: number): void {
    const now = Date.now();
    if (now - this.#spent.since >= 1_000) this.#spent = { since: now, lines: 0, bytes: 0 };
    this.#spent[what] += amount;
  }
}

function messageIn(line: string): JSONRPCMessage | undefined {
  if (!line.startsWith('{')) return undefined;
  try {
    return parseJSONRPCMessage(JSON.parse(line));
  } catch {
    return undefined;
  }
}
