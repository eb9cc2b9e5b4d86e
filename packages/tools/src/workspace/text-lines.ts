/** Some lines of a file, without holding the rest of it in memory. */
import type { FileHandle } from 'node:fs/promises';

const pieceBytes = 64 * 1024;
const maxLineChars = 2_000;
const maxChars = 200_000;

export interface Lines {
  readonly taken: readonly string[];
  /** There are lines after them. */
  readonly more: boolean;
  /** How many of them were too long to be shown as a whole. */
  readonly cut: number;
}

interface Wanted {
  readonly offset: number;
  readonly limit: number;
  readonly signal: AbortSignal;
}

/** Undefined if it is not text, as far as it was looked at: NUL, or bytes that are no UTF-8. */
export async function readLines(file: FileHandle, wanted: Wanted): Promise<Lines | undefined> {
  const taker = new LineTaker(wanted);
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const buffer = Buffer.alloc(pieceBytes);
  try {
    for (let at = 0; !taker.full;) {
      wanted.signal.throwIfAborted();
      const { bytesRead } = await file.read(buffer, 0, pieceBytes, at);
      const piece = buffer.subarray(0, bytesRead);
      if (piece.includes(0)) return undefined;
      taker.take(decoder.decode(piece, { stream: bytesRead > 0 }));
      if (bytesRead === 0) break;
      at += bytesRead;
    }
  } catch (error) {
    if ((error as { code?: string }).code === 'ERR_ENCODING_INVALID_ENCODED_DATA') return undefined;
    throw error;
  }
  return taker.lines();
}

class LineTaker {
  readonly #wanted: Wanted;
  readonly #taken: string[] = [];
  #number = 1;
  #line = '';
  #cut = 0;
  #chars = 0;
  #more = false;

  constructor(wanted: Wanted) {
    this.#wanted = wanted;
  }

  get full(): boolean {
    return this.#more;
  }

  take(text: string): void {
    const parts = text.split('\n');
    for (const [index, part] of parts.entries()) {
      // One character more than is shown tells that something is missing.
      if (this.#line.length <= maxLineChars) this.#line += part.slice(0, maxLineChars + 1);
      if (index < parts.length - 1) this.#end();
      if (this.#more) return;
    }
  }

  lines(): Lines {
    if (!this.#more && this.#line !== '') this.#end();
    return { taken: this.#taken, more: this.#more, cut: this.#cut };
  }

  #end(): void {
    const { offset, limit } = this.#wanted;
    const line = this.#line.replace(/\r$/, '');
    this.#line = '';
    this.#number += 1;
    if (this.#number <= offset) return;
    if (this.#taken.length >= limit || this.#chars > maxChars) {
      this.#more = true;
      return;
    }
    const isLong = line.length > maxLineChars;
    if (isLong) this.#cut += 1;
    const shown = isLong ? `${line.slice(0, maxLineChars)} … (cut)` : line;
    this.#chars += shown.length + 1;
    this.#taken.push(shown);
  }
}
