import { type CodeRanges, rangesOf, union } from './code-ranges.ts';

/** A bracket expression: what it lists, whether that is negated, and where the pattern goes on. */
export interface BracketClass {
  readonly ranges: CodeRanges;
  readonly negated: boolean;
  /** `[abc]` without any special character also stands for its own text, as in `app/[id]/page`. */
  readonly literal: string | undefined;
  readonly next: number;
}

const POSIX: ReadonlyMap<string, CodeRanges> = new Map(
  Object.entries({
    alnum: [0x30, 0x39, 0x41, 0x5a, 0x61, 0x7a],
    alpha: [0x41, 0x5a, 0x61, 0x7a],
    ascii: [0, 0x7f],
    blank: [0x09, 0x09, 0x20, 0x20],
    cntrl: [0, 0x1f, 0x7f, 0x7f],
    digit: [0x30, 0x39],
    graph: [0x21, 0x7e],
    lower: [0x61, 0x7a],
    print: [0x20, 0x7e],
    punct: [0x21, 0x2f, 0x3a, 0x40, 0x5b, 0x60, 0x7b, 0x7e],
    space: [0x09, 0x0d, 0x20, 0x20],
    upper: [0x41, 0x5a],
    word: [0x30, 0x39, 0x41, 0x5a, 0x5f, 0x5f, 0x61, 0x7a],
    xdigit: [0x30, 0x39, 0x41, 0x46, 0x61, 0x66],
  }),
);

/** Reads the bracket expression whose `[` stands at `start`; a sentence if it is not one. */
export function parseClass(chars: readonly string[], start: number): BracketClass | string {
  const negated = chars[start + 1] === '!' || chars[start + 1] === '^';
  const first = negated ? start + 2 : start + 1;
  const parts: CodeRanges[] = [];
  let plain = !negated;
  let at = first;
  while (chars[at] !== ']' || at === first) {
    const named = posixName(chars, at);
    if (named !== undefined) {
      const ranges = POSIX.get(named);
      if (ranges === undefined) return `The character class "[:${named}:]" is not known.`;
      parts.push(ranges);
      plain = false;
      at += named.length + 4;
      continue;
    }
    const low = readChar(chars, at);
    if (low === undefined) {
      return `The "[" at character ${start + 1} is never closed; write "\\[" for the character.`;
    }
    plain &&= !'-*+?.^${}(|)[]\\'.includes(chars[at]!);
    const high = rangeEnd(chars, low.next);
    if (high === undefined) {
      parts.push(rangesOf(low.char));
      at = low.next;
      continue;
    }
    const codes = [low.char.codePointAt(0)!, high.char.codePointAt(0)!] as const;
    if (codes[0] > codes[1]) {
      return `The range "${low.char}-${high.char}" runs backwards.`;
    }
    parts.push(codes);
    plain = false;
    at = high.next;
  }
  const literal = plain ? chars.slice(start, at + 1).join('') : undefined;
  return { ranges: union(...parts), negated, literal, next: at + 1 };
}

function posixName(chars: readonly string[], at: number): string | undefined {
  if (chars[at] !== '[' || chars[at + 1] !== ':') return undefined;
  let end = at + 2;
  while (end < chars.length && /^[a-z]$/i.test(chars[end]!)) end += 1;
  return chars[end] === ':' && chars[end + 1] === ']'
    ? chars.slice(at + 2, end).join('')
    : undefined;
}

function readChar(
  chars: readonly string[],
  at: number,
): { readonly char: string; readonly next: number } | undefined {
  const escaped = chars[at] === '\\';
  const char = chars[escaped ? at + 1 : at];
  return char === undefined ? undefined : { char, next: escaped ? at + 2 : at + 1 };
}

function rangeEnd(chars: readonly string[], dash: number): ReturnType<typeof readChar> {
  if (chars[dash] !== '-' || chars[dash + 1] === ']') return undefined;
  return posixName(chars, dash + 1) === undefined ? readChar(chars, dash + 1) : undefined;
}
