import { changesWhatRuns } from './variables.ts';

/** Replaces, in a word, text that is known only at run time. NUL is dropped from sources first. */
export const EXPANSION = '\0';

export interface ShellWord {
  /** Without quotes and backslashes. */
  readonly text: string;
  readonly start: number;
  readonly end: number;
  readonly quoted: boolean;
  /** Contains EXPANSION, or text that depends on the locale. */
  readonly expands: boolean;
  /** Contains an expansion that can become several words: `$x`, `"$@"`. */
  readonly splits: boolean;
  /** Contains an unquoted `*`, `?` or `[`. */
  readonly globs: boolean;
  /** Contains an unquoted brace, or a tilde that may be expanded. */
  readonly hasBraceOrTilde: boolean;
}

export interface SimpleCommand {
  readonly words: readonly ShellWord[];
  /** Where its own text ends; undefined if it contains other commands. */
  readonly end: number | undefined;
  /** The targets of its redirections, and its here-strings. */
  readonly targets: readonly ShellWord[];
}

export interface ShellScan {
  commands: SimpleCommand[];
  /** The targets of all redirections, also of those of a group: `{ cat; } < x`. */
  targets: ShellWord[];
  /** Which file a redirection reads is known only at run time: `< $x`, `< .e*`. */
  unknownInput: boolean;
  /** Quotes in the text may have another meaning than the scanner assumes. */
  ambiguous: boolean;
  /** What precedes this position is not ambiguous. */
  ambiguousFrom: number;
  /** Nested too deep, and not read to its end; `ambiguous` is set, too. */
  tooDeep: boolean;
  /** An expansion, arithmetic or a subscript evaluates the value of a variable: `$((x))`. */
  evaluates: boolean;
}

type WordDraft = { -readonly [Field in keyof ShellWord]: ShellWord[Field] };

const QUOTED_CODE = new RegExp(`\\$${EXPANSION}*\\(|\``);
const DESCRIPTOR = /^(?:\d+|\{\w+\})$/;

/** A command while it is being scanned. It adds itself to the scan when it ends. */
export class CommandDraft {
  readonly #scan: ShellScan;
  #words: ShellWord[] = [];
  #word: WordDraft | undefined;
  #end = 0;
  #nested = false;
  #target: '' | 'read' | 'other' = '';
  #targets: ShellWord[] = [];

  constructor(scan: ShellScan) {
    this.#scan = scan;
  }

  get inWord(): boolean {
    return this.#word !== undefined;
  }

  get wordStart(): number | undefined {
    return this.#word?.start;
  }

  append(text: string, at: number): WordDraft {
    this.#word ??= {
      text: '',
      start: at,
      end: at,
      quoted: false,
      expands: false,
      splits: false,
      globs: false,
      hasBraceOrTilde: false,
    };
    this.#word.text += text;
    return this.#word;
  }

  /** Another command starts inside this one. */
  nest(): void {
    this.#nested = true;
  }

  /**
   * The next word is the target of a redirection; digits before its operator are a descriptor. Returns
   * where the redirection starts.
   */
  redirect(at: number, sign: string): number {
    const word = this.#word;
    if (word !== undefined && !word.quoted && DESCRIPTOR.test(word.text)) this.#word = undefined;
    const start = this.#word === undefined ? (word?.start ?? at) : at;
    // Bash stores the descriptor in the variable: `{PATH}>f`, `{a[x]}>f`.
    if (word !== undefined && /^\{\w/.test(word.text)) {
      const name = word.text.slice(1, -1);
      if (!/^\w+$/.test(name) || changesWhatRuns(name)) this.#scan.evaluates = true;
    }
    this.endWord(at);
    if (this.#target !== '') this.#scan.ambiguous = true;
    this.#target = sign === '<' || sign === '<>' ? 'read' : 'other';
    this.#end = at + sign.length;
    return start;
  }

  endWord(at: number): void {
    const word = this.#word;
    if (word === undefined) return;
    word.end = at;
    this.#word = undefined;
    const bare = word.quoted ? '' : word.text;
    // Some builtins evaluate text that is quoted for the shell: test -v 'a[$(rm x)]'.
    if (QUOTED_CODE.test(word.text)) this.#scan.ambiguous = true;
    if (this.#target !== '') {
      const varies = word.expands || word.globs || word.hasBraceOrTilde;
      this.#scan.unknownInput ||= this.#target === 'read' && varies;
      this.#target = '';
      this.#targets.push(word);
      this.#scan.targets.push(word);
      this.#end = at;
    } else if (bare === '{' || bare === '}') {
      // As an argument it is text: `find . { -exec x`. The words after it belong to the command then.
      if (this.#words.length > 0 && !this.#words.every(precedesBrace)) this.#scan.evaluates = true;
      this.endCommand(at);
    } else if (bare !== '!' || this.#words.length > 0) {
      if (bare === 'case' || bare === '[[' || opensSubscript(word)) this.#scan.ambiguous = true;
      if (bare === '{}') word.hasBraceOrTilde = false;
      this.#words.push(word);
      this.#end = at;
    }
  }

  endCommand(at: number): void {
    this.endWord(at);
    if (this.#target !== '') this.#scan.ambiguous = true;
    if (this.#words.length > 0) {
      this.#scan.commands.push({
        words: this.#words,
        end: this.#nested ? undefined : this.#end,
        targets: this.#targets,
      });
    }
    this.#words = [];
    this.#targets = [];
    this.#nested = false;
    this.#target = '';
  }
}

const BEFORE_BRACE: ReadonlySet<string> = new Set(
  'if then elif else while until do time function coproc !'.split(' '),
);

/** Whether a brace after this word may start a group: `then {`, `function f {`. */
function precedesBrace({ text, quoted }: ShellWord, at: number, words: readonly ShellWord[]) {
  if (!quoted && BEFORE_BRACE.has(text)) return true;
  return at > 0 && /^(?:function|coproc)$/.test(words[at - 1]!.text);
}

/** A subscript after `a[` may contain blanks and `#`. */
function opensSubscript(word: ShellWord): boolean {
  if (!word.globs || word.text === '[') return false;
  return word.text.lastIndexOf('[') > word.text.lastIndexOf(']');
}

const NAMED_ESCAPES: Readonly<Record<string, number>> = {
  a: 7,
  b: 8,
  e: 27,
  E: 27,
  f: 12,
  n: 10,
  r: 13,
  t: 9,
  v: 11,
  '\\': 92,
  "'": 39,
  '"': 34,
  '?': 63,
};
const PLAIN = /[^\\]*/y;
/** Octal, `\x{…}`, `\x`, `\u`, `\U`, `\c`, any other character; a lone backslash at the end is text. */
const ESCAPE =
  /\\(?:([0-7]{1,3})|x\{([\dA-Fa-f]*)\}?|x([\dA-Fa-f]{1,2})|u([\dA-Fa-f]{1,4})|U([\dA-Fa-f]{1,8})|c([^])|([^]?))/uy;

export interface AnsiText {
  readonly text: string;
  /** The position after the closing quote, or the end of the source if there is none. */
  readonly end: number;
  readonly closed: boolean;
  /** Contains a character that bash writes according to the locale. */
  readonly dependsOnLocale: boolean;
}

/**
 * Decodes `$'…'` as bash does; `start` is the position after the opening quote. Bash looks for the
 * closing quote first. Escapes yield bytes, and NUL ends the text.
 */
export function readAnsiQuoted(source: string, start: number): AnsiText {
  let close = start;
  while (close < source.length && source[close] !== "'") close += source[close] === '\\' ? 2 : 1;
  const closed = close < source.length;
  const content = source.slice(start, Math.min(close, source.length));
  const end = closed ? close + 1 : source.length;
  if (!content.includes('\\')) return { text: content, end, closed, dependsOnLocale: false };
  const { bytes, dependsOnLocale } = decodeEscapes(content);
  return {
    text: new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes),
    end,
    closed,
    dependsOnLocale,
  };
}

function decodeEscapes(source: string): { bytes: Uint8Array; dependsOnLocale: boolean } {
  const encoder = new TextEncoder();
  const bytes: number[] = [];
  let dependsOnLocale = false;
  let at = 0;
  const match = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at;
    return pattern.exec(source);
  };
  while (at < source.length) {
    const plain = match(PLAIN)?.[0] ?? '';
    for (const byte of encoder.encode(plain)) bytes.push(byte);
    at += plain.length;
    const found = match(ESCAPE);
    if (found === null) continue;
    const [all, octal, braced, hex, short, long, control, other = ''] = found;
    at += all.length;
    const unicode = short ?? long;
    if (octal !== undefined) {
      bytes.push(Number.parseInt(octal, 8) & 0xff);
    } else if (braced !== undefined || hex !== undefined) {
      // All digits count, modulo 256.
      bytes.push(Number.parseInt(`0${(braced ?? hex ?? '').slice(-2)}`, 16));
    } else if (unicode !== undefined) {
      const value = Number.parseInt(unicode, 16);
      dependsOnLocale ||= value > 0x7f;
      bytes.push(...utf8(value));
    } else if (control !== undefined) {
      const [first = 0, ...more] = encoder.encode(control);
      bytes.push(control === '?' ? 0x7f : first & 0x1f, ...more);
      if (control === '\\' && source[at] === '\\') at += 1;
    } else {
      const named = NAMED_ESCAPES[other];
      bytes.push(...(named === undefined ? encoder.encode(`\\${other}`) : [named]));
    }
  }
  const end = bytes.indexOf(0);
  return { bytes: Uint8Array.from(end < 0 ? bytes : bytes.slice(0, end)), dependsOnLocale };
}

/** Bash also encodes surrogates and values beyond Unicode, and drops those of 32 bits. */
function utf8(value: number): readonly number[] {
  if (value <= 0x7f) return [value];
  const length = [0x7ff, 0xffff, 0x1f_ffff, 0x3ff_ffff, 0x7fff_ffff].findIndex(
    (max) => value <= max,
  );
  if (length < 0) return [];
  const bytes: number[] = [];
  for (let shift = 6 * (length + 1); shift >= 0; shift -= 6) {
    const bits = Math.floor(value / 2 ** shift);
    bytes.push(bytes.length === 0 ? ((0xff << (6 - length)) & 0xff) | bits : 0x80 | (bits & 0x3f));
  }
  return bytes;
}
