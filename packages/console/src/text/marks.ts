/** Text in pieces: what can be shown as it is, and marks in place of characters that hide or mislead. */
import {
  escapeMisleading,
  type MisleadingCharacter,
  splitMisleading,
} from '@relay/protocol/display';

export interface Mark {
  /** `U+202E RLO` */
  readonly label: string;
  /** What the character does. */
  readonly about: string;
  /** How many of it follow each other. */
  readonly count: number;
}

export type Piece = string | Mark;

/** Their usual abbreviations. */
const names: Readonly<Record<number, string>> = {
  0x00a0: 'NBSP',
  0x00ad: 'SHY',
  0x061c: 'ALM',
  0x200b: 'ZWSP',
  0x200c: 'ZWNJ',
  0x200d: 'ZWJ',
  0x200e: 'LRM',
  0x200f: 'RLM',
  0x2028: 'LS',
  0x2029: 'PS',
  0x202a: 'LRE',
  0x202b: 'RLE',
  0x202c: 'PDF',
  0x202d: 'LRO',
  0x202e: 'RLO',
  0x202f: 'NNBSP',
  0x2060: 'WJ',
  0x2066: 'LRI',
  0x2067: 'RLI',
  0x2068: 'FSI',
  0x2069: 'PDI',
  0x3000: 'IDSP',
  0xfeff: 'BOM',
};
const controls =
  'NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US'.split(
    ' ',
  );

const about: Readonly<Record<MisleadingCharacter['flag'], string>> = {
  bidi: 'Changes the direction of the text after it',
  'combining-marks': 'Is drawn over other characters',
  confusable: 'Looks like another character',
  'confusable-space': 'Looks like a space, but is not one',
  control: 'Control character',
  invisible: 'Invisible character',
  'lone-surrogate': 'Half of a character',
  'mixed-scripts': 'Is of another script',
  'not-checked': 'Was not checked',
  'resolves-elsewhere': 'Leads elsewhere',
  unassigned: 'Has no defined look',
};

function labelOf(code: number): string {
  const hex = `U+${code.toString(16).toUpperCase().padStart(4, '0')}`;
  const name = code === 0x7f ? 'DEL' : (controls[code] ?? names[code]);
  return name === undefined ? hex : `${hex} ${name}`;
}

/** Elements are slow; a text with more marks than these has the others as escape sequences. */
const maxMarks = 500;

/** From so much white space on, what follows it may be out of sight. */
const longSpace = /\n(?:[ \t]*\n){9,}|[ \t]{100,}/g;

/** Text with marks in place of white space that nobody would scroll over. */
function withoutLongSpace(text: string, maxCount: number): Piece[] {
  const pieces: Piece[] = [];
  let end = 0;
  for (const { 0: space, index } of text.matchAll(longSpace)) {
    if (pieces.length >= 2 * maxCount) break;
    const lines = space.split('\n').length - 1;
    pieces.push(text.slice(end, index), {
      label: lines === 0 ? 'space' : 'line break',
      about: 'White space that would push the rest out of sight',
      count: lines === 0 ? space.length : lines,
    });
    // What follows begins a line of its own.
    end = index + space.length - (lines === 0 ? 0 : 1);
  }
  return [...pieces, text.slice(end)].filter((piece) => piece !== '');
}

/** The same character several times in a row is one mark. */
export function piecesOf(text: string): Piece[] {
  const pieces: Piece[] = [];
  let markCount = 0;
  let escaped = '';
  let previous: string | undefined;
  for (const piece of splitMisleading(text)) {
    const last = pieces.at(-1);
    if (markCount === maxMarks) {
      escaped += typeof piece === 'string' ? piece : escapeMisleading(piece.char);
    } else if (typeof piece === 'string') {
      const parts = withoutLongSpace(piece, maxMarks - markCount);
      markCount += parts.filter((part) => typeof part === 'object').length;
      pieces.push(...parts);
      previous = undefined;
    } else if (piece.char === previous && typeof last === 'object') {
      pieces[pieces.length - 1] = { ...last, count: last.count + 1 };
    } else {
      markCount += 1;
      previous = piece.char;
      const label = labelOf(piece.char.codePointAt(0) ?? 0);
      pieces.push({ label, about: about[piece.flag], count: 1 });
    }
  }
  if (escaped !== '') pieces.push(escaped);
  return pieces;
}

/** Ends before a character that belongs to the one before it, if one is near. */
export function cutAt(text: string, length: number): number {
  if (length >= text.length) return text.length;
  const isPlain = (at: number) => /[\x20-\x7e\n\t]/.test(text[at] ?? '');
  for (let at = length; at > Math.max(0, length - 64); at -= 1) {
    if (isPlain(at) && isPlain(at - 1)) return at;
  }
  const isPair = /[\ud800-\udbff]/.test(text[length - 1] ?? '');
  return isPair && length > 1 ? length - 1 : length;
}
