/**
 * Text that arrives in small pieces. It is kept in segments that can be drawn one by one, and what it was
 * at an earlier `seq` is found by binary search. Appending costs the same however long the text is.
 */
export interface Segment {
  /** Where it starts in the whole text. */
  readonly start: number;
  text: string;
  /** The line that opened the code block in which the segment starts. */
  readonly fence: string | undefined;
}

/** A segment ends at the first blank line after so many characters, outside of code … */
const softLength = 3_000;
/** … and after so many at any line, word or character. */
const hardLength = 6_000;

export class GrowingText {
  readonly segments: Segment[] = [];
  /** The `seq` of each piece, and the length of the text with it. */
  readonly #seqs: number[] = [];
  readonly #ends: number[] = [];
  /** Lines of the last segment before this were looked at. */
  #scanned = 0;
  #fence: string | undefined;
  /** The last blank line of the last segment that is outside of code. */
  #break = 0;

  append(seq: number, piece: string): void {
    if (piece === '') return;
    this.#seqs.push(seq);
    this.#ends.push(this.length + piece.length);
    // What arrives at once is cut into segments like what arrives bit by bit.
    for (let at = 0; at < piece.length; at += softLength / 4) {
      this.#extend(piece.slice(at, at + softLength / 4));
    }
  }

  #extend(piece: string): void {
    let last = this.segments.at(-1);
    if (last === undefined) {
      last = { start: 0, text: '', fence: undefined };
      this.segments.push(last);
    }
    last.text += piece;
    if (piece.includes('\n')) this.#scan(last.text);
    if (last.text.length <= softLength) return;
    const at = this.#break > 0 ? this.#break : hardBreak(last.text);
    if (at === undefined) return;
    const rest = last.text.slice(at);
    last.text = last.text.slice(0, at);
    this.#fence = this.#break > 0 ? undefined : fenceAfter(last);
    this.#scanned = 0;
    this.#break = 0;
    this.segments.push({ start: last.start + at, text: rest, fence: this.#fence });
    this.#scan(rest);
  }

  get length(): number {
    return this.#ends.at(-1) ?? 0;
  }

  get firstSeq(): number {
    return this.#seqs[0] ?? 0;
  }

  /** The length of the text as it was at `seq`. */
  lengthAt(seq: number): number {
    if (seq >= (this.#seqs.at(-1) ?? 0)) return this.length;
    const count = countUpTo(this.#seqs, seq);
    return count === 0 ? 0 : (this.#ends[count - 1] ?? 0);
  }

  #scan(text: string): void {
    for (;;) {
      const end = text.indexOf('\n', this.#scanned);
      if (end === -1) return;
      const line = text.slice(this.#scanned, end);
      this.#scanned = end + 1;
      const fence = fenceOf(line);
      if (fence !== undefined) {
        this.#fence = toggled(this.#fence, line, fence);
      } else if (this.#fence === undefined && line.trim() === '' && end > softLength / 2) {
        this.#break = end + 1;
      }
    }
  }
}

function fenceOf(line: string): string | undefined {
  return /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
}

/** The line that opened the code block which is open after a line with a fence. */
function toggled(open: string | undefined, line: string, fence: string): string | undefined {
  if (open === undefined) return line;
  return open.trimStart().startsWith(fence) ? undefined : open;
}

function fenceAfter({ text, fence: before }: Segment): string | undefined {
  let open = before;
  for (const line of text.split('\n')) {
    const fence = fenceOf(line);
    if (fence !== undefined) open = toggled(open, line, fence);
  }
  return open;
}

/** Undefined while the text may grow further. */
function hardBreak(text: string): number | undefined {
  if (text.length <= hardLength) return undefined;
  const isLate = (at: number) => at > softLength / 2 && at <= hardLength;
  const line = text.lastIndexOf('\n', hardLength - 1) + 1;
  if (isLate(line)) return line;
  const word = text.lastIndexOf(' ', hardLength - 1) + 1;
  if (isLate(word)) return word;
  // Not between the two halves of a character.
  const code = text.charCodeAt(hardLength - 1);
  return code >= 0xd800 && code < 0xdc00 ? hardLength - 1 : hardLength;
}

/** How many of the ascending numbers are at most `limit`. */
export function countUpTo(numbers: ArrayLike<number>, limit: number): number {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((numbers[middle] ?? 0) <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}
