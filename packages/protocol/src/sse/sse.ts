// Writes and parses server-sent events by the WHATWG rules. Runs in browsers and in Node.
// https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation

// This package has no DOM types, so it declares the platform types that it needs.
declare const TextDecoder: new (
  label: string,
  options: { ignoreBOM: boolean },
) => { decode(bytes: Uint8Array, options: { stream: boolean }): string };

interface ByteStream {
  getReader(): {
    read(): Promise<{ done: boolean; value?: Uint8Array | undefined }>;
    cancel(): Promise<void>;
    releaseLock(): void;
  };
}

export interface SseFrame {
  id?: string | number;
  event?: string;
  data: string;
}

export interface ParsedFrame {
  /** The last event id of the stream, which a frame without an `id` inherits. */
  id: string;
  event: string;
  data: string;
}

export interface SseParserOptions {
  /** Limit on the characters of a frame's lines, comments included. Default: 16 Mi. */
  maxFrameChars?: number;
  onComment?: (text: string) => void;
  onRetry?: (ms: number) => void;
}

const LINE_END = /\r\n|\r|\n/g;

function fieldLine(name: 'id' | 'event', value: string | number | undefined): string {
  if (value === undefined) return '';
  if (typeof value === 'number') return `${name}: ${value}\n`;
  if (value.includes('\n') || value.includes('\r') || value.includes('\0')) {
    throw new TypeError(`An SSE ${name} cannot contain CR, LF or NUL`);
  }
  return `${name}: ${value}\n`;
}

/** A line end in `data` is parsed as `\n`; JSON contains none, so it is preserved exactly. */
export function encodeFrame({ id, event, data }: SseFrame): string {
  const head = fieldLine('id', id) + fieldLine('event', event);
  if (!data.includes('\n') && !data.includes('\r')) return `${head}data: ${data}\n\n`;
  return `${head}data: ${data.replace(LINE_END, '\ndata: ')}\n\n`;
}

export function encodeComment(text: string): string {
  return `: ${text.replace(LINE_END, '\n: ')}\n\n`;
}

export function encodeRetry(ms: number): string {
  if (!Number.isSafeInteger(ms) || ms < 0) {
    throw new TypeError('An SSE retry must be a whole number of milliseconds');
  }
  return `retry: ${ms}\n\n`;
}

function indexOrEnd(text: string, char: string, from: number): number {
  const index = text.indexOf(char, from);
  return index === -1 ? text.length : index;
}

/**
 * Each character is scanned once for a line end and a line is joined once, when it ends, so the
 * cost is linear in the input under any chunking. Callbacks run inside `feed`: one that throws
 * loses the rest of its chunk.
 */
export class SseParser {
  readonly #onFrame: (frame: ParsedFrame) => void;
  readonly #onComment: ((text: string) => void) | undefined;
  readonly #onRetry: ((ms: number) => void) | undefined;
  readonly #maxFrameChars: number;
  #lastEventId = '';
  /** Applied only when its frame is complete, or a broken connection would skip that frame on resume. */
  #pendingId = '';
  #event = '';
  #data: string[] = [];
  #unfinishedLine: string[] = [];
  #frameChars = 0;
  #atStart = true;
  #afterCr = false;

  constructor(onFrame: (frame: ParsedFrame) => void, options: SseParserOptions = {}) {
    this.#onFrame = onFrame;
    this.#onComment = options.onComment;
    this.#onRetry = options.onRetry;
    this.#maxFrameChars = options.maxFrameChars ?? 16 * 1024 * 1024;
  }

  get lastEventId(): string {
    return this.#lastEventId;
  }

  feed(chunk: string): void {
    if (chunk === '') return;
    let from = 0;
    if (this.#atStart && chunk.startsWith('\uFEFF')) from = 1;
    // A CR at the end of a chunk has already ended its line; an LF that follows is part of that line end.
    if (this.#afterCr && chunk.startsWith('\n')) from = 1;
    this.#atStart = false;
    this.#afterCr = false;
    let cr = -1;
    let lf = -1;
    while (from < chunk.length) {
      // Kept across lines: searching again for a CR that never comes would be quadratic.
      if (cr < from) cr = indexOrEnd(chunk, '\r', from);
      if (lf < from) lf = indexOrEnd(chunk, '\n', from);
      const end = Math.min(cr, lf);
      this.#count(end - from);
      const part = chunk.slice(from, end);
      if (end === chunk.length) {
        this.#unfinishedLine.push(part);
        return;
      }
      from = end + 1;
      if (end === cr) {
        if (from === chunk.length) this.#afterCr = true;
        else if (lf === from) from += 1;
      }
      this.#line(this.#completed(part));
    }
  }

  /** Drops an unfinished frame. The parser keeps its last event id for the next stream. */
  end(): void {
    this.#pendingId = this.#lastEventId;
    this.#event = '';
    this.#data = [];
    this.#unfinishedLine = [];
    this.#frameChars = 0;
    this.#atStart = true;
    this.#afterCr = false;
  }

  /** Stays over the limit until `end`: the rest of a long line must not be read as lines. */
  #count(chars: number): void {
    this.#frameChars += chars;
    if (this.#frameChars <= this.#maxFrameChars) return;
    this.#frameChars = Infinity;
    this.#data = [];
    this.#unfinishedLine = [];
    throw new RangeError(`An SSE frame is longer than ${this.#maxFrameChars} characters`);
  }

  #completed(lastPart: string): string {
    if (this.#unfinishedLine.length === 0) return lastPart;
    const line = this.#unfinishedLine.join('') + lastPart;
    this.#unfinishedLine = [];
    return line;
  }

  #line(line: string): void {
    if (line === '') return this.#dispatch();
    const colon = line.indexOf(':');
    const field = colon === -1 ? line : line.slice(0, colon);
    const skip = line.startsWith(' ', colon + 1) ? 2 : 1;
    const value = colon === -1 ? '' : line.slice(colon + skip);
    if (field === 'data') this.#data.push(value);
    else if (field === 'event') this.#event = value;
    else if (field === 'id' && !value.includes('\0')) this.#pendingId = value;
    else if (field === 'retry' && /^[0-9]+$/.test(value)) {
      this.#onRetry?.(Math.min(Number(value), Number.MAX_SAFE_INTEGER));
    } else if (colon === 0) this.#onComment?.(value);
  }

  #dispatch(): void {
    const data = this.#data;
    const event = this.#event === '' ? 'message' : this.#event;
    this.#lastEventId = this.#pendingId;
    this.#event = '';
    this.#frameChars = 0;
    if (data.length === 0) return;
    this.#data = [];
    this.#onFrame({ id: this.#lastEventId, event, data: data.join('\n') });
  }
}

/** For browsers in which a ReadableStream is not async iterable. */
async function* chunksOf(stream: ByteStream): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      if (value !== undefined) yield value;
    }
  } finally {
    await reader.cancel().finally(() => reader.releaseLock());
  }
}

/** Leaving the loop early, or a frame over the limit, cancels the source. */
export async function* readSse(
  body: AsyncIterable<Uint8Array> | ByteStream,
  options: SseParserOptions = {},
): AsyncGenerator<ParsedFrame> {
  const frames: ParsedFrame[] = [];
  const parser = new SseParser((frame) => frames.push(frame), options);
  // The parser removes the one BOM the rules allow; the decoder would remove a second.
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  for await (const chunk of Symbol.asyncIterator in body ? body : chunksOf(body)) {
    try {
      parser.feed(decoder.decode(chunk, { stream: true }));
    } finally {
      // Frames before one that is too long are complete, and are delivered before the error.
      for (const frame of frames.splice(0)) yield frame;
    }
  }
}
