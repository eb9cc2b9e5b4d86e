/**
 * Reads the output of a program line by line. A line that is too long ends the reading. It pauses for the
 * rest of the second after too many lines or bytes, for a multiple of the time after lines that take long to
 * handle, and until a line is handled whose listener returned a promise. So a noisy program slows down only
 * itself, and at most one line and one chunk of it are in memory.
 */
import type { Readable } from 'node:stream';

export interface LineLimits {
  readonly maxLineBytes: number;
  readonly linesPerSecond: number;
  readonly bytesPerSecond: number;
  /** Handling that takes longer is followed by a pause; parsing 4 MB can block for a second. */
  readonly slowLineMs: number;
}

export const lineLimits: LineLimits = {
  maxLineBytes: 4 * 1024 * 1024,
  linesPerSecond: 2_000,
  bytesPerSecond: 32 * 1024 * 1024,
  slowLineMs: 20,
};

export interface LineListener {
  /** The next line is read when the promise is settled. */
  line(line: string): void | Promise<void>;
  /** Called once; nothing is read afterwards. */
  tooLong(maxBytes: number): void;
}

const newline = 0x0a;
/** The pause is this many times as long as the handling took. */
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
    stream.on('data', (chunk: Buffer) => {
      this.#count('bytes', chunk.length);
      this.#read(chunk);
    });
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
    const startedAt = performance.now();
    let from = 0;
    while (!this.#ended) {
      const at = chunk.indexOf(newline, from);
      if (at < 0) break;
      const handled = this.#line(chunk.subarray(from, at));
      from = at + 1;
      if (handled === undefined) continue;
      this.#stream.pause();
      const next = () => this.#read(chunk.subarray(from));
      handled.then(next, next);
      return;
    }
    if (this.#ended) return;
    this.#keep(chunk.subarray(from));
    this.#pause(performance.now() - startedAt);
  }

  #pause(tookMs: number): void {
    const pauseMs = Math.max(this.#untilNextSecond(), this.#pauseAfter(tookMs));
    if (pauseMs === 0) {
      this.#stream.resume();
      return;
    }
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

  #pauseAfter(tookMs: number): number {
    return tookMs > this.#limits.slowLineMs ? tookMs * pauseFactor : 0;
  }

  #line(end: Buffer): Promise<void> | undefined {
    this.#count('lines', 1);
    if (this.#partialBytes + end.length > this.#limits.maxLineBytes) return this.#tooLong();
    const line = Buffer.concat([...this.#partial, end]).toString('utf8');
    this.#partial = [];
    this.#partialBytes = 0;
    return this.#listener.line(line) ?? undefined;
  }

  #keep(rest: Buffer): void {
    if (rest.length === 0) return;
    this.#partial.push(rest);
    this.#partialBytes += rest.length;
    if (this.#partialBytes > this.#limits.maxLineBytes) this.#tooLong();
  }

  #tooLong(): undefined {
    this.end();
    this.#listener.tooLong(this.#limits.maxLineBytes);
  }

  #count(what: 'lines' | 'bytes', amount: number): void {
    const now = Date.now();
    if (now - this.#window.since >= 1_000) this.#window = { since: now, lines: 0, bytes: 0 };
    this.#window[what] += amount;
  }
}
