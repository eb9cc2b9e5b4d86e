/** Replaces, in a word, text that is known only at run time. NUL is dropped from sources first. */
export const EXPANSION = '\0';

export interface ShellWord {
  /** Without quotes and backslashes. */
  readonly text: string;
  readonly start: number;
  readonly end: number;
  readonly quoted: boolean;
  /** Contains EXPANSION. */
  readonly expands: boolean;
  /** Contains an unquoted `*`, `?` or `[`. */
  readonly globs: boolean;
  /** Contains an unquoted brace, or a tilde that may be expanded. */
  readonly hasBraceOrTilde: boolean;
}

export interface SimpleCommand {
  readonly words: readonly ShellWord[];
  /** Where its own text ends; undefined if it contains other commands. */
  readonly end: number | undefined;
}

export interface ShellScan {
  commands: SimpleCommand[];
  /** Quotes in the text may have another meaning than the scanner assumes. */
  ambiguous: boolean;
  /** Nested too deep, and not read to its end; `ambiguous` is set, too. */
  tooDeep: boolean;
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
  #target = false;

  constructor(scan: ShellScan) {
    this.#scan = scan;
  }

  get inWord(): boolean {
    return this.#word !== undefined;
  }

  append(text: string, at: number): WordDraft {
    const clean = { quoted: false, expands: false, globs: false, hasBraceOrTilde: false };
    this.#word ??= { text: '', start: at, end: at, ...clean };
    this.#word.text += text;
    return this.#word;
  }

  /** Another command starts inside this one. */
  nest(): void {
    this.#nested = true;
  }

  /** The next word is the target of a redirection; digits before its operator are a descriptor. */
  redirect(at: number, width: number): void {
    const word = this.#word;
    if (word !== undefined && !word.quoted && DESCRIPTOR.test(word.text)) this.#word = undefined;
    this.endWord(at);
    if (this.#target) this.#scan.ambiguous = true;
    this.#target = true;
    this.#end = at + width;
  }

  endWord(at: number): void {
    const word = this.#word;
    if (word === undefined) return;
    word.end = at;
    this.#word = undefined;
    const bare = word.quoted ? '' : word.text;
    // Some builtins evaluate text that is quoted for the shell: test -v 'a[$(rm x)]'.
    if (QUOTED_CODE.test(word.text)) this.#scan.ambiguous = true;
    if (this.#target) {
      this.#target = false;
      this.#end = at;
    } else if (bare === '{' || bare === '}') {
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
    if (this.#target) this.#scan.ambiguous = true;
    if (this.#words.length > 0) {
      this.#scan.commands.push({
        words: this.#words,
        end: this.#nested ? undefined : this.#end,
      });
    }
    this.#words = [];
    this.#nested = false;
    this.#target = false;
  }
}

/** A subscript after `a[` may contain blanks and `#`. */
function opensSubscript(word: ShellWord): boolean {
  if (!word.globs || word.text === '[') return false;
  return word.text.lastIndexOf('[') > word.text.lastIndexOf(']');
}

const NAMED_ESCAPES: Readonly<Record<string, string>> = {
  a: '\x07',
  b: '\b',
  e: '\x1b',
  E: '\x1b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
};
const NUMBERED_ESCAPE = /(?:[0-7]{1,3}|x[\dA-Fa-f]{1,2}|u[\dA-Fa-f]{1,4}|U[\dA-Fa-f]{1,8})/y;

export interface AnsiText {
  readonly text: string;
  /** The position after the closing quote, or the end of the source if there is none. */
  readonly end: number;
  readonly closed: boolean;
}

/** Decodes `$'…'`; `start` is the position after the opening quote. */
export function readAnsiQuoted(source: string, start: number): AnsiText {
  const parts: string[] = [];
  let at = start;
  while (at < source.length) {
    const char = source[at]!;
    if (char === "'") return { text: parts.join(''), end: at + 1, closed: true };
    if (char !== '\\') {
      parts.push(char);
      at += 1;
      continue;
    }
    NUMBERED_ESCAPE.lastIndex = at + 1;
    const digits = NUMBERED_ESCAPE.exec(source)?.[0];
    const escaped = source[at + 1] ?? '';
    if (digits !== undefined) {
      parts.push(numbered(digits));
      at += 1 + digits.length;
    } else if (escaped === 'c') {
      parts.push(' '); // a control character: never part of a name
      at += 3;
    } else {
      parts.push(NAMED_ESCAPES[escaped] ?? escaped);
      at += 2;
    }
  }
  return { text: parts.join(''), end: source.length, closed: false };
}

function numbered(digits: string): string {
  const hex = /^[xuU]/.test(digits);
  const code = Number.parseInt(hex ? digits.slice(1) : digits, hex ? 16 : 8);
  if (code === 0) return ''; // bash ends the text here
  return String.fromCodePoint(code > 0x10_ff_ff ? 0xff_fd : code);
}
