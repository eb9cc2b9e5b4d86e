/**
 * Reads messages from the output of a program, one per line. A line that is too long is an error; one
 * that is not a message is skipped. Reading pauses for the rest of the second after too many lines or
 * bytes, and for a multiple of the time after lines that take long to parse, so that a noisy program
 * slows down only itself.
 */
import type { Readable } from 'node:stream';
import { type JSONRPCMessage, parseJSONRPCMessage } from '@modelcontextprotocol/client';

export interface LineLimits {
  readonly maxLineBytes: number;
  readonly linesPerSecond: number;
  readonly bytesPerSecond: number;
  /** Parsing that takes longer is followed by a pause; a line of 4 MB can block for a second. */
  readonly slowParseMs: number;
}

export const lineLimits: LineLimits = {
  maxLineBytes: 4 * 1024 * 1024,
  linesPerSecond: 2_000,
  bytesPerSecond: 32 * 1024 * 1024,
  slowParseMs: 20,
};

export interface LineListener {
  message(message: JSONRPCMessage): void;
  /** Called once; nothing is read afterwards. */
  failed(error: Error): void;
}

const newline = 0x0a;
/** The pause is this many times as long as the parsing took. */
const pauseFactor = 4;

export class LineReader {
  readonly #stream: Readable;
  readonly #listener: LineListener;
  readonly #limits: LineLimits;
  #partial: Buffer[] = [];
  #partialBytes = 0;
  #window = { since: 0, lines: 0, bytes: 0 };
  #pauseTimer: NodeJS.Timeout | undefined;
  #ended = false;

  constructor(stream: Readable, listener: LineListener, limits = lineLimits) {
    this.#stream = stream;
    this.#listener = listener;
    this.#limits = limits;
    stream.on('data', (chunk: Buffer) => this.#read(chunk));
    stream.on('error', () => this.end());
  }

  end(): void {
    this.#ended = true;
    this.#partial = [];
    clearTimeout(this.#pauseTimer);
    // Discards further output, so that the program is not blocked.
    this.#stream.resume();
  }

  #read(chunk: Buffer): void {
    if (this.#ended) return;
    const startedAt = performance.now();
    this.#count('bytes', chunk.length);
    let from = 0;
    for (let at = chunk.indexOf(newline); at >= 0; at = chunk.indexOf(newline, from)) {
      this.#line(chunk.subarray(from, at));
      from = at + 1;
      if (this.#ended) return;
    }
    this.#keep(chunk.subarray(from));
    const pauseMs = Math.max(
      this.#untilNextSecond(),
      this.#pauseAfter(performance.now() - startedAt),
    );
    if (pauseMs === 0) return;
    this.#stream.pause();
    this.#pauseTimer = setTimeout(() => this.#stream.resume(), pauseMs);
    this.#pauseTimer.unref();
  }

  /** 0 while the limits of this second are not reached. */
  #untilNextSecond(): number {
    const { lines, bytes, since } = this.#window;
    const { linesPerSecond, bytesPerSecond } = this.#limits;
    if (lines <= linesPerSecond && bytes <= bytesPerSecond) return 0;
    return Math.max(since + 1_000 - Date.now(), 1);
  }

  #pauseAfter(parsedMs: number): number {
    return parsedMs > this.#limits.slowParseMs ? parsedMs * pauseFactor : 0;
  }

  #line(end: Buffer): void {
    this.#count('lines', 1);
    if (this.#partialBytes + end.length > this.#limits.maxLineBytes) return this.#tooLong();
    const line = Buffer.concat([...this.#partial, end]).toString('utf8');
    this.#partial = [];
    this.#partialBytes = 0;
    const message = messageIn(line);
    if (message !== undefined) this.#listener.message(message);
  }

  #keep(rest: Buffer): void {
    if (rest.length === 0) return;
    this.#partial.push(rest);
    this.#partialBytes += rest.length;
    if (this.#partialBytes > this.#limits.maxLineBytes) this.#tooLong();
  }

  #tooLong(): void {
    this.end();
    this.#listener.failed(
      new Error(`The MCP program sent a line of more than ${this.#limits.maxLineBytes} bytes`),
    );
  }

  #count(what: 'lines' | 'bytes', amount: number): void {
    const now = Date.now();
    if (now - this.#window.since >= 1_000) this.#window = { since: now, lines: 0, bytes: 0 };
    this.#window[what] += amount;
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
