/**
 * What a person is shown of a call: all of it, and nothing that looks like something else. Characters
 * that do not show, or that turn the order of others around, are written out and named.
 */
export interface Display {
  readonly text: string;
  /** What there is to beware of. */
  readonly flags: readonly Flag[];
}

export type Flag = 'control' | 'bidi' | 'invisible' | 'confusable-space' | 'lone-surrogate';

const bidi = /\p{Bidi_Control}/u;
/** Line and paragraph separators end lines in some places and not in others. */
const control = /[\p{Cc}\p{Zl}\p{Zp}]/u;
const space = /[^\P{Zs} ]/u;
/** What no font shows, and the blanks that are letters to Unicode: of Hangul, and of Braille. */
const invisible =
  /[\p{Cf}\p{Default_Ignorable_Code_Point}\p{Cn}\p{Co}\u115f\u1160\u2800\u3164\uffa0]/u;

/** Line breaks and tabs are what they look like; they are left to the JSON around them. */
function flagOf(char: string): Flag | undefined {
  if (bidi.test(char)) return 'bidi';
  if (control.test(char)) return 'control';
  if (space.test(char)) return 'confusable-space';
  if (/\p{Cs}/u.test(char)) return 'lone-surrogate';
  return invisible.test(char) ? 'invisible' : undefined;
}

/** Inside a string of JSON: what is written out already, if a backslash does not stand for itself. */
const written = /\\(?:\\|u([\da-f]{4})|([bfr])|.)/g;

/** As JSON, indented, so that every value has its line and its quotes. */
export function displayOf(tool: string, params: unknown): Display {
  const flags = new Set<Flag>();
  const json = JSON.stringify(params, null, 2) ?? 'null';
  let text = '';
  for (const char of `${tool} ${json}`) {
    const plain = (char >= ' ' && char <= '~') || char === '\n';
    const flag = plain ? undefined : flagOf(char);
    if (flag !== undefined) flags.add(flag);
    text += flag === undefined ? char : `\\u{${char.codePointAt(0)?.toString(16)}}`;
  }
  for (const [, hex, letter] of json.matchAll(written)) {
    const flag = hex === undefined ? undefined : flagOf(String.fromCharCode(parseInt(hex, 16)));
    if (flag !== undefined) flags.add(flag);
    if (letter !== undefined) flags.add('control');
  }
  return { text, flags: [...flags].toSorted() };
}
