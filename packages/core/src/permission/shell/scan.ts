/*
 * Where the commands of a shell text begin, and what their words are: one pass from left to right,
 * in time linear in the text, without a parser. It serves denying, so it errs on finding too much.
 *
 * Rules
 *  - A command ends at a line break, `;`, `&`, `|`, a parenthesis, or a lone `{` or `}`.
 *  - `$( )`, `<( )`, `>( )`, backquotes and `( )` hold commands of their own, in double quotes too.
 *  - Words come without their quotes and backslashes, `$'…'` decoded. What a word takes from
 *    elsewhere (`$x`, `$(…)`, `a=(…)`) is one EXPANSION character in it.
 *  - Redirections and their targets are no words; a `!` in front is none either.
 *  - A comment is skipped only where bash sees one: a `#` that begins a word, outside of quotes.
 *
 * Invariants
 *  - `doubt` is set wherever the quotes that follow may be read in another way than ours: here-
 *    documents, arithmetic, `[[`, `case`, `${…}` with quotes in it, quotes or backslashes in
 *    backquotes, substitutions kept in quotes, odd white space, anything left open. A reader must then
 *    look at `scanBlind` as well, which knows no quotes and so cannot be led astray by them.
 *  - Only the character at `#at` and its neighbours are looked at, and `#at` never moves back.
 */
import { readAnsiQuoted } from './ansi.ts';
import { CommandDraft, EXPANSION, type ShellScan } from './words.ts';

/** `skip` is the inside of `${…}` and of arithmetic, where only a nested command matters. */
interface Frame {
  readonly mode: 'code' | 'double' | 'skip';
  readonly close: string;
  readonly draft: CommandDraft;
  /** For a parenthesis that is no substitution: how many commands had been found before it. */
  readonly found?: number;
}

const MAX_DEPTH = 256;
const ODD_SPACE = /[^\P{White_Space} \t\n]|[^\P{Cc}\t\n]|\ufeff/u;
const NAME = /[A-Za-z_]\w*|[\d@*#$!-]/y;
const REDIRECTION = /<<<|<<-?|<[&>]|>[>|&]|[<>]/y;

/** NUL is dropped first, as bash does; positions are those of the text without it. */
export function scanShell(source: string): ShellScan {
  return new Scanner(source.replaceAll(EXPANSION, '')).run();
}

class Scanner {
  readonly #source: string;
  readonly #scan: ShellScan;
  readonly #frames: Frame[];
  #at = 0;
  /** How many frames lie below the open backquotes; they do not nest. */
  #tick = -1;

  constructor(source: string) {
    this.#source = source;
    this.#scan = { commands: [], doubt: ODD_SPACE.test(source), deep: false };
    this.#frames = [{ mode: 'code', close: '', draft: new CommandDraft(this.#scan) }];
  }

  run(): ShellScan {
    while (this.#at < this.#source.length && this.#frames.length <= MAX_DEPTH) {
      const char = this.#source[this.#at]!;
      const { mode } = this.#top();
      if (mode === 'code') this.#inCode(char);
      else if (mode === 'double') this.#inDouble(char);
      else this.#inSkipped(char);
    }
    this.#scan.deep = this.#frames.length > MAX_DEPTH;
    if (this.#frames.length > 1) this.#doubt();
    while (this.#frames.length > 0) this.#leave();
    return this.#scan;
  }

  #inCode(char: string): void {
    const { draft, close } = this.#top();
    switch (char) {
      case '\\':
        return this.#escape();
      case "'":
        return this.#single();
      case '$':
        return this.#dollar('code');
      case '`':
        return this.#backquote();
      case '<':
      case '>':
        return this.#redirect();
      case '(':
        return this.#parenthesis();
      case '"':
        if (this.#tick >= 0) this.#doubt();
        this.#append('').quoted = true;
        this.#frames.push({ mode: 'double', close: '"', draft });
        break;
      case ' ':
      case '\t':
        draft.endWord(this.#at);
        break;
      case ';':
        if (this.#next() === ';' || this.#next() === '&') this.#doubt();
        draft.endCommand(this.#at);
        break;
      case '\n':
      case '&':
      case '|':
        draft.endCommand(this.#at);
        break;
      case ')':
        draft.endCommand(this.#at);
        if (close === ')') this.#closeParenthesis();
        else this.#doubt();
        break;
      case '#':
        if (!draft.inWord) return this.#comment();
        this.#append(char);
        break;
      case '*':
      case '?':
      case '[':
        this.#append(char).globs = true;
        break;
      case '{':
      case '}':
        this.#append(char).shifts = true;
        break;
      case '~':
        if (draft.inWord && !':='.includes(this.#source[this.#at - 1]!)) this.#append(char);
        else this.#append(char).shifts = true;
        break;
      default:
        this.#append(char);
    }
    this.#at += 1;
  }

  #inDouble(char: string): void {
    if (char === '$') return this.#dollar('double');
    if (char === '`') return this.#backquote();
    const next = this.#next();
    if (char === '"') {
      this.#leave();
    } else if (char === '\\' && next !== '' && '$`"\\\n'.includes(next)) {
      if (this.#tick >= 0 || (next === '\n' && this.#splitsOperator())) this.#doubt();
      if (next !== '\n') this.#append(next);
      this.#at += 1;
    } else {
      this.#append(char);
    }
    this.#at += 1;
  }

  #inSkipped(char: string): void {
    if (char === '$') return this.#dollar('skip');
    if (char === '`') return this.#backquote();
    const { close, draft } = this.#top();
    if (`'"\\<>`.includes(char)) this.#doubt();
    if (char === close) this.#leave();
    else if (char === '(' && close === ')') this.#frames.push({ mode: 'skip', close, draft });
    this.#at += 1;
  }

  #escape(): void {
    const next = this.#next();
    if (this.#tick >= 0 || (next === '\n' && this.#splitsOperator())) this.#doubt();
    if (next !== '\n') this.#append(next === '' ? '\\' : next).quoted = true;
    this.#at += 2;
  }

  /** Bash joins lines before it looks at `$(`, `<<` or `((`; we do not. */
  #splitsOperator(): boolean {
    return '$(<>&|;{#!`'.includes(this.#source[this.#at - 1] ?? ' ');
  }

  #single(): void {
    const close = this.#source.indexOf("'", this.#at + 1);
    const end = close < 0 ? this.#source.length : close;
    if (close < 0 || this.#tick >= 0) this.#doubt();
    this.#append(this.#source.slice(this.#at + 1, end)).quoted = true;
    this.#at = end + 1;
  }

  #dollar(mode: Frame['mode']): void {
    const { draft } = this.#top();
    const next = this.#next();
    const after = this.#source[this.#at + 2] ?? '';
    NAME.lastIndex = this.#at + 1;
    const name = NAME.exec(this.#source)?.[0];
    if (next === '(' && after === '(') {
      this.#expand(3);
      this.#doubt();
      for (const close of '))') this.#frames.push({ mode: 'skip', close, draft });
    } else if (next === '(') {
      this.#expand(2);
      this.#enter(')');
    } else if (next === '{') {
      this.#expand(2);
      if (/^[\s|(]?$/.test(after)) this.#doubt();
      this.#frames.push({ mode: 'skip', close: '}', draft });
    } else if (next === '[') {
      this.#expand(2);
      this.#doubt();
    } else if (next === "'" && mode === 'code') {
      this.#ansi();
    } else if (next === '"' && mode === 'code') {
      this.#at += 1;
    } else if (next === '?') {
      this.#append('$?'); // a number, and so the one expansion that hides nothing
      this.#at += 2;
    } else if (name !== undefined) {
      this.#expand(1 + name.length);
    } else {
      this.#append('$');
      this.#at += 1;
    }
  }

  #ansi(): void {
    const { text, end, closed } = readAnsiQuoted(this.#source, this.#at + 2);
    // A plain sh does not know this form and ends it at the first quote.
    const plain = this.#source.indexOf("'", this.#at + 2) === end - 1;
    if (!closed || !plain || this.#tick >= 0) this.#doubt();
    this.#append(text).quoted = true;
    this.#at = end;
  }

  /** Backquotes end at the next one, whatever quotes are open between them. */
  #backquote(): void {
    if (this.#tick < 0) {
      this.#expand(1);
      this.#tick = this.#frames.length;
      return this.#enter('`');
    }
    if (this.#tick !== this.#frames.length - 1) this.#doubt();
    while (this.#frames.length > this.#tick) this.#leave();
    this.#tick = -1;
    this.#at += 1;
  }

  #parenthesis(): void {
    if (this.#next() === '(') this.#doubt();
    if (this.#top().draft.inWord) this.#expand(1);
    else this.#at += 1;
    this.#enter(')', this.#scan.commands.length);
  }

  /** After `f()` a command begins, even without a brace. */
  #closeParenthesis(): void {
    const { found } = this.#top();
    this.#leave();
    if (found === this.#scan.commands.length) this.#top().draft.endCommand(this.#at);
  }

  #redirect(): void {
    if (this.#next() === '(') {
      this.#expand(2);
      return this.#enter(')');
    }
    REDIRECTION.lastIndex = this.#at;
    const sign = REDIRECTION.exec(this.#source)![0];
    if (sign.startsWith('<<') && sign !== '<<<') this.#doubt();
    this.#top().draft.redirect(this.#at, sign.length);
    this.#at += sign.length;
  }

  #comment(): void {
    if (this.#tick >= 0) this.#doubt();
    const end = this.#source.indexOf('\n', this.#at);
    this.#at = end < 0 ? this.#source.length : end;
  }

  #enter(close: string, found?: number): void {
    this.#top().draft.nest();
    const frame: Frame = { mode: 'code', close, draft: new CommandDraft(this.#scan) };
    this.#frames.push(found === undefined ? frame : { ...frame, found });
  }

  #leave(): void {
    const { mode, draft } = this.#top();
    if (mode === 'code') draft.endCommand(this.#at);
    this.#frames.pop();
  }

  #expand(width: number): void {
    this.#append(EXPANSION).expands = true;
    this.#at += width;
  }

  #append(text: string): ReturnType<CommandDraft['append']> {
    return this.#top().draft.append(text, this.#at);
  }

  #next(): string {
    return this.#source[this.#at + 1] ?? '';
  }

  #doubt(): void {
    this.#scan.doubt = true;
  }

  #top(): Frame {
    return this.#frames.at(-1)!;
  }
}
