/** Stands in a word for what is only known when it runs. Texts never hold it: NUL is dropped first. */
export const EXPANSION = '\0';

export interface ShellWord {
  /** Without quotes and backslashes. */
  readonly text: string;
  readonly start: number;
  readonly end: number;
  readonly quoted: boolean;
  readonly expands: boolean;
  /** It holds an unquoted `*`, `?` or `[`. */
  readonly globs: boolean;
  /** It holds an unquoted brace, or a tilde that may become a folder. */
  readonly shifts: boolean;
}

export interface SimpleCommand {
  readonly words: readonly ShellWord[];
  /** Where its own text ends; undefined if other commands lie within. */
  readonly end: number | undefined;
}

export interface ShellScan {
  commands: SimpleCommand[];
  /** The quotes of the text may be read in another way. */
  doubt: boolean;
  /** It nests deeper than anyone writes, and was not read to its end; `doubt` is set, too. */
  deep: boolean;
}

type WordDraft = { -readonly [Field in keyof ShellWord]: ShellWord[Field] };

const QUOTED_CODE = new RegExp(`\\$${EXPANSION}*\\(|\``);
const DESCRIPTOR = /^(?:\d+|\{\w+\})$/;

/** One command while it is being read. It adds itself to the scan when it ends. */
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
    const clean = { quoted: false, expands: false, globs: false, shifts: false };
    this.#word ??= { text: '', start: at, end: at, ...clean };
    this.#word.text += text;
    return this.#word;
  }

  /** Another command begins inside of this one. */
  nest(): void {
    this.#nested = true;
  }

  /** The next word is where a redirection leads; digits in front of its sign are a descriptor. */
  redirect(at: number, width: number): void {
    const word = this.#word;
    if (word !== undefined && !word.quoted && DESCRIPTOR.test(word.text)) this.#word = undefined;
    this.endWord(at);
    if (this.#target) this.#scan.doubt = true;
    this.#target = true;
    this.#end = at + width;
  }

  endWord(at: number): void {
    const word = this.#word;
    if (word === undefined) return;
    word.end = at;
    this.#word = undefined;
    const bare = word.quoted ? '' : word.text;
    // Some builtins evaluate what was quoted for the shell: test -v 'a[$(rm x)]'.
    if (QUOTED_CODE.test(word.text)) this.#scan.doubt = true;
    if (this.#target) {
      this.#target = false;
      this.#end = at;
    } else if (bare === '{' || bare === '}') {
      this.endCommand(at);
    } else if (bare !== '!' || this.#words.length > 0) {
      if (bare === 'case' || bare === '[[' || opensSubscript(word)) this.#scan.doubt = true;
      if (bare === '{}') word.shifts = false;
      this.#words.push(word);
      this.#end = at;
    }
  }

  endCommand(at: number): void {
    this.endWord(at);
    if (this.#target) this.#scan.doubt = true;
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

/** `a[` may go on to its `]` over blanks and comment signs. */
function opensSubscript(word: ShellWord): boolean {
  if (!word.globs || word.text === '[') return false;
  return word.text.lastIndexOf('[') > word.text.lastIndexOf(']');
}
