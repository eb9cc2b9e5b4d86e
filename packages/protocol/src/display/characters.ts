/**
 * Characters that make a text look like a different one: controls, bidi controls, invisible characters,
 * unusual spaces, and stacks of combining marks. They are escaped as `\u{…}` and reported as flags.
 *
 * Ordinary writing is left alone: emoji sequences keep their joiners and variation selectors, Arabic and
 * Indic words their joiners. Takes linear time.
 */

export const displayFlags = [
  'bidi',
  'combining-marks',
  'confusable',
  'confusable-space',
  'control',
  'invisible',
  'lone-surrogate',
  'mixed-scripts',
  'not-checked',
  'resolves-elsewhere',
  'unassigned',
] as const;
export type DisplayFlag = (typeof displayFlags)[number];

/** What to tell an approver, after "The request". */
const flagText: Readonly<Record<DisplayFlag, string>> = {
  bidi: 'contains characters that reverse the direction of text, such as a right-to-left override',
  'combining-marks': 'contains marks that are stacked on other characters to hide them',
  confusable: 'contains words that look like plain letters but are not',
  'confusable-space': 'contains unusual spaces, which programs do not treat as spaces',
  control: 'contains control characters',
  invisible: 'contains invisible characters',
  'lone-surrogate': 'contains invalid characters (lone surrogates)',
  'mixed-scripts': 'contains words that mix the letters of different scripts',
  'not-checked': 'is too long to check all of its words for letters of different scripts',
  'resolves-elsewhere': 'names paths that lead elsewhere: see the arrows (→)',
  unassigned: 'contains characters without a defined look (unassigned or private use)',
};

/** The flags in words. A flag of a newer server is shown as it is. */
export function describeFlags(flags: readonly string[]): string[] {
  return flags.map((flag) =>
    Object.hasOwn(flagText, flag) ? flagText[flag as DisplayFlag] : `is flagged as ${flag}`,
  );
}

const pictograph = String.raw`(?=\p{Emoji})\p{Extended_Pictographic}(?:\ufe0f\u20e3?|\ufe0e|\p{Emoji_Modifier})?`;
/** The flags of England, Scotland and Wales: any other sequence of tags could carry a hidden message. */
const taggedFlag = ['gbeng', 'gbsct', 'gbwls']
  .map((region) => region.replaceAll(/./g, (char) => `\\u{e00${char.charCodeAt(0).toString(16)}}`))
  .join('|');
const emoji = [
  String.raw`[#*0-9]\ufe0f?\u20e3`,
  String.raw`\u{1f3f4}(?:${taggedFlag})\u{e007f}`,
  String.raw`${pictograph}(?:\u200d${pictograph})*`,
].join('|');

/** Tabs and line breaks are shown as such. Line and paragraph separators break lines in some renderers. */
const control = String.raw`[\p{Cc}--[\n\t]]\p{Zl}\p{Zp}`;
const space = String.raw`[\p{Zs}--\x20]`;
/** Includes blank characters that Unicode classifies as letters: Hangul fillers, and Braille blank. */
const invisible = String.raw`\p{Cf}\p{Default_Ignorable_Code_Point}\u115f\u1160\u2800\u3164\uffa0`;
const mark = String.raw`[\p{Mn}\p{Me}]`;

/** Emoji come first, so that the characters within are consumed. Candidates are matched in runs. */
const emojiOrCandidates = new RegExp(
  String.raw`(?:${emoji})|([${control}${space}${invisible}\p{Cs}\p{Cn}\p{Co}${mark}]+)`,
  'gv',
);

const plain = /^[\x20-\x7e\n\t]*$/;

/** Escapes misleading characters, and adds their flags. */
export function escapeMisleading(text: string, flags?: Set<DisplayFlag>): string {
  if (plain.test(text)) return text;
  return text.replace(emojiOrCandidates, (match, run: string | undefined, at: number) => {
    if (run === undefined) return match;
    let escaped = '';
    for (const { char, flag } of charactersOf(run, at, text)) {
      if (flag !== undefined) flags?.add(flag);
      escaped += flag === undefined ? char : characterOf(char).escape;
    }
    return escaped;
  });
}

export interface MisleadingCharacter {
  readonly char: string;
  readonly flag: DisplayFlag;
}

/** A text in pieces: strings that can be shown as they are, and misleading characters between them. */
export function splitMisleading(text: string): (string | MisleadingCharacter)[] {
  if (plain.test(text)) return [text];
  const pieces: (string | MisleadingCharacter)[] = [];
  let shownTo = 0;
  for (const { 1: run, index } of text.matchAll(emojiOrCandidates)) {
    if (run === undefined) continue;
    let at = index;
    for (const { char, flag } of charactersOf(run, index, text)) {
      if (flag !== undefined) {
        if (at > shownTo) pieces.push(text.slice(shownTo, at));
        pieces.push({ char, flag });
        shownTo = at + char.length;
      }
      at += char.length;
    }
  }
  if (shownTo < text.length) pieces.push(text.slice(shownTo));
  return pieces;
}

/** The characters of a run of candidates, with their flags if they are misleading here. */
function* charactersOf(
  run: string,
  at: number,
  text: string,
): Generator<{ readonly char: string; readonly flag: DisplayFlag | undefined }> {
  let marks = isAfterLetter(text, at) ? 0 : maxMarks;
  let previous = charBefore(text, at);
  let end = at;
  for (const char of run) {
    end += char.length;
    const known = characterOf(char);
    marks = known.isMark ? marks + 1 : 0;
    const isStacked = known.isMark && (marks > maxMarks || char === previous);
    const isOrdinary =
      !isStacked && (known.flag === undefined || isOrdinaryHere(char, previous, text, end));
    yield { char, flag: isOrdinary ? undefined : (known.flag ?? 'combining-marks') };
    previous = char;
  }
}

/** UTS 39, 5.4. The same mark twice in a row is not ordinary either, nor a mark without a letter. */
const maxMarks = 4;

function isAfterLetter(text: string, at: number): boolean {
  const code = at === 0 ? 0 : text.charCodeAt(at - 1);
  return code > 0x7f || /[A-Za-z0-9]/.test(String.fromCharCode(code));
}

interface Character {
  readonly flag: CharacterFlag | undefined;
  readonly isMark: boolean;
  readonly escape: string;
}

type CharacterFlag = Exclude<
  DisplayFlag,
  'confusable' | 'mixed-scripts' | 'not-checked' | 'resolves-elsewhere'
>;

const kinds: readonly (readonly [RegExp, CharacterFlag])[] = [
  [/\p{Bidi_Control}/v, 'bidi'],
  [new RegExp(`[${control}]`, 'v'), 'control'],
  [new RegExp(space, 'v'), 'confusable-space'],
  [/\p{Cs}/v, 'lone-surrogate'],
  [new RegExp(`[${invisible}]`, 'v'), 'invisible'],
  [/[\p{Cn}\p{Co}]/v, 'unassigned'],
];

/** The flag of a character, whatever surrounds it. */
export function flagOfCharacter(char: string): CharacterFlag | undefined {
  return kinds.find(([kind]) => kind.test(char))?.[1];
}

const characterOf = remembered((char: string): Character => {
  const flag = flagOfCharacter(char);
  const escape = `\\u{${char.codePointAt(0)?.toString(16)}}`;
  return { flag, isMark: flag === undefined, escape };
});

const joiners = '\u200c\u200d';
const ideographicSpace = '\u3000';

/** Whether a character that is flagged elsewhere is part of ordinary writing here. */
function isOrdinaryHere(char: string, previous: string, text: string, end: number): boolean {
  const isJoiner = joiners.includes(char);
  if (!isJoiner && char !== ideographicSpace) return false;
  const next = String.fromCodePoint(text.codePointAt(end) ?? 0);
  return isJoiner ? isJoined(previous + next) : isIdeographs(previous + next);
}

function charBefore(text: string, at: number): string {
  const low = text.charCodeAt(at - 1);
  const start = low >= 0xdc00 && low <= 0xdfff ? at - 2 : at - 1;
  return start < 0 ? '' : String.fromCodePoint(text.codePointAt(start) ?? 0);
}

/** Scripts whose spelling uses joiners within words. */
const joining =
  'Arab Beng Deva Gujr Guru Khmr Knda Mlym Mong Mymr Orya Sinh Syrc Taml Telu Tibt'.split(' ');
const joinedPair = new RegExp(
  joining.map((script) => String.raw`^[\p{scx=${script}}&&[\p{L}\p{M}]]{2}$`).join('|'),
  'v',
);
const isJoined = remembered((pair: string) => joinedPair.test(pair));

const ideographPair =
  /^[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Hang}\u3001-\u301f\uff01-\uff60]{2}$/v;
const isIdeographs = remembered((pair: string) => ideographPair.test(pair));

const maxRemembered = 10_000;

/** Regular expressions with properties are slow; a text has few different characters. */
export function remembered<Value>(compute: (text: string) => Value): (text: string) => Value {
  const known = new Map<string, Value>();
  return (text) => {
    let value = known.get(text);
    if (value !== undefined) return value;
    value = compute(text);
    if (known.size >= maxRemembered) known.clear();
    known.set(text, value);
    return value;
  };
}
