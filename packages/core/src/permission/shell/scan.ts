/*
 * Finds the commands of a shell text and their words: one pass from left to right, in time linear in
 * the text, without a parser. It is used to deny, so it errs on finding too much.
 *
 * Rules
 *  - A command ends at a line break, `;`, `&`, `|`, a parenthesis, or a lone `{` or `}`.
 *  - `$( )`, `<( )`, `>( )`, backquotes and `( )` contain commands, in double quotes too.
 *  - Words have no quotes and backslashes, and `$'…'` is decoded. Text that is known only at run time
 *    (`$x`, `$(…)`, `a=(…)`) is one EXPANSION character.
 *  - Redirections, their targets and a leading `!` are not words.
 *  - A comment is skipped only where bash sees one: a `#` that starts a word, outside of quotes.
 *
 * Invariants
 *  - `ambiguous` is set wherever the quotes that follow may have another meaning than assumed here:
 *    here-documents, arithmetic, `[[`, `case`, `${…}` with quotes in it, quotes or backslashes in
 *    backquotes, quoted substitutions, unusual white space, anything left open. The caller must then
 *    use `scanIgnoringQuotes` as well, which quotes cannot mislead.
 *  - Only the character at `#at` and its neighbours are read, and `#at` never moves back.
 */
import { spendSteps } from '../step-budget.ts';
import { CommandDraft, EXPANSION, readAnsiQuoted, type ShellScan } from './words.ts';
import { changesWhatRuns } from './variables.ts';

/** `skip` is the content of `${…}` and of arithmetic, where only nested commands matter. */
interface Frame {
  readonly mode: 'code' | 'double' | 'skip';
  readonly close: string;
  readonly draft: CommandDraft;
  readonly start: number;
  /** Its text, with what opens and closes it, is known only at run time. */
  readonly expands?: true;
  /** For a parenthesis that is not a substitution: the number of commands found before it. */
  readonly found?: number;
}

const MAX_DEPTH = 256;
/** What it costs to scan a character. */
const SCAN_STEPS = 28;
const UNUSUAL_SPACE = /[^\P{White_Space} \t\n]|[^\P{Cc}\t\n]|\ufeff/u;
const NAME = /[A-Za-z_]\w*|[\d@*#$!-]/y;
const REDIRECTION = /<<<|<<-?|<[&>]|>[>|&]|[<>]/y;
const EXPANDED_NAME = /(?:\w+|[@*#$!?-])?/y;
const REDIRECTION_SIGN = /[<>][<>&|-]*/y;
/** Arithmetic over constants. The bounds keep the work linear. */
const CONSTANT = String.raw`(?:[\d\s+*/%<>=!&|^~?:,-]|\([\d\s+*/%<>=!&|^~?:,-]{0,50}\)){0,200}`;
const CONSTANT_ARITHMETIC = new RegExp(String.raw`\$?\(\(${CONSTANT}\)\)|\$\[${CONSTANT}\]`, 'y');
/** Expansions that evaluate no value; the last group is the variable that `=` assigns to. */
const PLAIN_EXPANSION =
  /\$\{(?:[#?$!-]\}|!\w+(?:\[[@*]\]|[@*])\}|#?(?:\w+|[@*])(?:\[(?:-?\d+|[@*])\])?\}|(?:\w+|[@*])(?:\[(?:-?\d+|[@*])\])?(?::?[-+?]|[#%/^,]|@[UuLQEKkAa]\}|: *(?:-?\d+|\(-?\d+\))? *(?:: *-?\d+ *)?\})|(\w+):?=)/y;
/** In double quotes, too, these become several words. */
const SEVERAL_WORDS = /^\$(?:@|\{[^}]*@)/;
/** `{a[x]}>f`, which may also be text. */
const SUBSCRIPT_IN_BRACES = /\{\w{1,100}\[/y;
const BLANK = /[\s\p{Cc}\ufeff]/u;

/** What a part of the text is that is not a word of a command, or that is inside of one. */
export interface ShellMark {
  readonly role: 'operator' | 'redirection' | 'expansion' | 'comment';
  readonly start: number;
  readonly end: number;
}

/**
 * NUL is dropped first, as in bash; positions refer to the text without it. `marks` gets what is not a
 * word; of redirections only the operator, with its descriptor.
 */
export function scanShell(source: string, marks?: ShellMark[]): ShellScan {
  spendSteps(SCAN_STEPS * source.length);
  return new Scanner(source.replaceAll(EXPANSION, ''), marks).run();
}

class Scanner {
  readonly #source: string;
  readonly #scan: ShellScan;
  readonly #frames: Frame[];
  readonly #marks: ShellMark[] | undefined;
  #at = 0;
  /** The number of frames below the open backquotes, which do not nest; -1 outside of backquotes. */
  #backquoteBase = -1;

  constructor(source: string, marks?: ShellMark[]) {
    this.#source = source;
    this.#marks = marks;
    this.#scan = {
      commands: [],
      targets: [],
      unknownInput: false,
      ambiguous: UNUSUAL_SPACE.test(source),
      ambiguousFrom: source.length,
      tooDeep: false,
      evaluates: false,
    };
    this.#frames = [{ mode: 'code', close: '', draft: new CommandDraft(this.#scan), start: 0 }];
  }

  run(): ShellScan {
    while (this.#at < this.#source.length && this.#frames.length <= MAX_DEPTH) {
      const char = this.#source[this.#at]!;
      const { mode } = this.#top();
      const open = this.#openFrom();
      if (mode === 'code') this.#inCode(char);
      else if (mode === 'double') this.#inDouble(char);
      else this.#inSkipped(char);
      this.#limitAmbiguity(open);
    }
    const open = this.#openFrom();
    this.#scan.tooDeep = this.#frames.length > MAX_DEPTH;
    if (this.#frames.length > 1) this.#markAmbiguous();
    while (this.#frames.length > 0) this.#leave();
    this.#limitAmbiguity(open);
    return this.#scan;
  }

  /** Where the word or the parenthesis starts that is read now. */
  #openFrom(): number {
    const { wordStart = this.#at } = this.#frames[0]!.draft;
    return Math.min(wordStart, this.#frames[1]?.start ?? this.#at);
  }

  /** What was read before `open` has no other meaning. */
  #limitAmbiguity(open: number): void {
    if (!this.#scan.ambiguous) return;
    this.#scan.ambiguousFrom = Math.min(this.#scan.ambiguousFrom, open);
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
        if (this.#backquoteBase >= 0) this.#markAmbiguous();
        this.#append('').quoted = true;
        this.#frames.push({ mode: 'double', close: '"', draft, start: this.#at });
        break;
      case ' ':
      case '\t':
        draft.endWord(this.#at);
        break;
      case ';':
        if (this.#next() === ';' || this.#next() === '&') this.#markAmbiguous();
        draft.endCommand(this.#at);
        this.#mark('operator', this.#at);
        break;
      case '\n':
      case '&':
      case '|':
        draft.endCommand(this.#at);
        this.#mark(char === '&' && this.#next() === '>' ? 'redirection' : 'operator', this.#at);
        break;
      case ')':
        draft.endCommand(this.#at);
        if (close === ')') this.#closeParenthesis();
        else this.#markAmbiguous();
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
        this.#append(char).hasBraceOrTilde = true;
        break;
      case '~':
        if (draft.inWord && !':='.includes(this.#source[this.#at - 1]!)) this.#append(char);
        else this.#append(char).hasBraceOrTilde = true;
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
      if (this.#backquoteBase >= 0 || (next === '\n' && this.#splitsOperator()))
        this.#markAmbiguous();
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
    if (`'"\\<>`.includes(char)) this.#markAmbiguous();
    if (char === close) this.#leave();
    else if (char === '(' && close === ')')
      this.#frames.push({ mode: 'skip', close, draft, start: this.#at });
    this.#at += 1;
  }

  #escape(): void {
    const next = this.#next();
    if (this.#backquoteBase >= 0 || (next === '\n' && this.#splitsOperator()))
      this.#markAmbiguous();
    if (next !== '\n') this.#append(next === '' ? '\\' : next).quoted = true;
    this.#at += 2;
  }

  /** Bash joins lines before it reads `$(`, `<<` or `((`; this scanner does not. */
  #splitsOperator(): boolean {
    return '$(<>&|;{#!`'.includes(this.#source[this.#at - 1] ?? ' ');
  }

  #single(): void {
    const close = this.#source.indexOf("'", this.#at + 1);
    const end = close < 0 ? this.#source.length : close;
    if (close < 0 || this.#backquoteBase >= 0) this.#markAmbiguous();
    this.#append(this.#source.slice(this.#at + 1, end)).quoted = true;
    this.#at = end + 1;
  }

  #dollar(mode: Frame['mode']): void {
    const { draft } = this.#top();
    const start = this.#at;
    const next = this.#next();
    const after = this.#source[this.#at + 2] ?? '';
    NAME.lastIndex = this.#at + 1;
    const name = NAME.exec(this.#source)?.[0];
    if (evaluatesValueAt(this.#source, this.#at)) this.#scan.evaluates = true;
    if (next === '(' && after === '(') {
      this.#expand(3);
      this.#markAmbiguous();
      for (const close of '))') this.#frames.push({ mode: 'skip', close, draft, start });
    } else if (next === '(') {
      this.#expand(2);
      this.#enter(')', start);
    } else if (next === '{') {
      this.#expand(2);
      if (/^[\s|(]?$/.test(after)) this.#markAmbiguous();
      this.#frames.push({ mode: 'skip', close: '}', draft, start, expands: true });
    } else if (next === '[') {
      this.#expand(2);
      this.#markAmbiguous();
    } else if (next === "'" && mode === 'code') {
      this.#ansi();
    } else if (next === '"' && mode === 'code') {
      this.#at += 1;
    } else if (next !== '' && '?#$'.includes(next)) {
      this.#append(`$${next}`); // always a number
      this.#at += 2;
      this.#mark('expansion', start);
    } else if (name !== undefined) {
      this.#expand(1 + name.length);
      this.#mark('expansion', start);
    } else {
      this.#append('$');
      this.#at += 1;
    }
  }

  #ansi(): void {
    const { text, end, closed, dependsOnLocale } = readAnsiQuoted(this.#source, this.#at + 2);
    // Plain sh does not know this form and ends it at the first quote.
    const plain = this.#source.indexOf("'", this.#at + 2) === end - 1;
    if (!closed || !plain || this.#backquoteBase >= 0) this.#markAmbiguous();
    const word = this.#append(text);
    word.quoted = true;
    word.expands ||= dependsOnLocale;
    this.#at = end;
  }

  /** A backquote ends at the next one, even if quotes are open between them. */
  #backquote(): void {
    if (this.#backquoteBase < 0) {
      const start = this.#at;
      this.#expand(1);
      this.#backquoteBase = this.#frames.length;
      return this.#enter('`', start);
    }
    if (this.#backquoteBase !== this.#frames.length - 1) this.#markAmbiguous();
    while (this.#frames.length > this.#backquoteBase) this.#leave();
    this.#backquoteBase = -1;
    this.#at += 1;
  }

  #parenthesis(): void {
    if (this.#next() === '(') {
      this.#markAmbiguous();
      if (evaluatesValueAt(this.#source, this.#at)) this.#scan.evaluates = true;
    }
    const start = this.#at;
    if (this.#top().draft.inWord) this.#expand(1);
    else this.#at += 1;
    this.#mark('operator', start);
    this.#enter(')', start, this.#scan.commands.length);
  }

  /** A command starts after `f()`, even without a brace. */
  #closeParenthesis(): void {
    const { found } = this.#top();
    this.#leave();
    if (found !== undefined) this.#mark('operator', this.#at);
    if (found === this.#scan.commands.length) this.#top().draft.endCommand(this.#at);
  }

  #redirect(): void {
    const at = this.#at;
    if (this.#next() === '(') {
      this.#expand(2);
      return this.#enter(')', at);
    }
    REDIRECTION.lastIndex = this.#at;
    const sign = REDIRECTION.exec(this.#source)![0];
    if (sign.startsWith('<<') && sign !== '<<<') this.#markAmbiguous();
    const start = this.#top().draft.redirect(at, sign);
    this.#at += sign.length;
    this.#mark('redirection', start);
  }

  #comment(): void {
    if (this.#backquoteBase >= 0) this.#markAmbiguous();
    const start = this.#at;
    const end = this.#source.indexOf('\n', start);
    this.#at = end < 0 ? this.#source.length : end;
    this.#mark('comment', start);
  }

  #enter(close: string, start: number, found?: number): void {
    this.#top().draft.nest();
    const frame = { mode: 'code', close, draft: new CommandDraft(this.#scan), start } as const;
    this.#frames.push(found === undefined ? { ...frame, expands: true } : { ...frame, found });
  }

  #leave(): void {
    const { mode, draft, start, expands } = this.#top();
    if (mode === 'code') draft.endCommand(this.#at);
    if (expands === true) this.#mark('expansion', start, this.#at + 1);
    this.#frames.pop();
  }

  /** Without `end`: up to where the scanner is, or one character. */
  #mark(role: ShellMark['role'], start: number, end = Math.max(this.#at, start + 1)): void {
    this.#marks?.push({ role, start, end });
  }

  #expand(width: number): void {
    const word = this.#append(EXPANSION);
    word.expands = true;
    word.splits ||=
      this.#top().mode !== 'double' ||
      SEVERAL_WORDS.test(this.#source.slice(this.#at, this.#at + 100));
    this.#at += width;
  }

  #append(text: string): ReturnType<CommandDraft['append']> {
    return this.#top().draft.append(text, this.#at);
  }

  #next(): string {
    return this.#source[this.#at + 1] ?? '';
  }

  #markAmbiguous(): void {
    this.#scan.ambiguous = true;
  }

  #top(): Frame {
    return this.#frames.at(-1)!;
  }
}

/**
 * The commands of a shell text if quotes had no meaning: every separator ends a command, even a quoted
 * or commented one, and quotes and backslashes are dropped from words. It finds all commands that run,
 * and more, and is used for texts whose quotes are ambiguous. For the same reason a backslash before a
 * line break is read both ways.
 */
export function scanIgnoringQuotes(source: string): ShellScan {
  const found: ShellScan = {
    commands: [],
    targets: [],
    unknownInput: false,
    ambiguous: true,
    ambiguousFrom: 0,
    tooDeep: false,
    evaluates: false,
  };
  const text = source.replaceAll(EXPANSION, '');
  const joined = text.replaceAll('\\\n', '');
  splitCommands(text, found);
  if (joined !== text) splitCommands(joined, found);
  return found;
}

function splitCommands(text: string, found: ShellScan): void {
  spendSteps(SCAN_STEPS * text.length);
  const draft = new CommandDraft(found);
  let at = 0;
  while (at < text.length) {
    const char = text[at]!;
    let width = 1;
    if (evaluatesValueAt(text, at)) found.evaluates = true;
    if ('\n;&|(){}`'.includes(char)) {
      draft.endCommand(at);
    } else if (char === '<' || char === '>') {
      width = lengthOf(REDIRECTION_SIGN, text, at);
      draft.redirect(at, text.slice(at, at + width));
      if (text[at + width] === '(') draft.endCommand(at + width);
    } else if (char === '$' && '?#$'.includes(text[at + 1] ?? ' ')) {
      draft.append(text.slice(at, at + 2), at); // always a number
      width = 2;
    } else if (char === '$') {
      const name = lengthOf(EXPANDED_NAME, text, at + 1);
      if (name > 0 || !`'"`.includes(text[at + 1] ?? ' '))
        draft.append(EXPANSION, at).expands = true;
      width += name;
    } else if (BLANK.test(char)) {
      draft.endWord(at);
    } else if (!`'"\\`.includes(char) && (char !== '#' || draft.inWord)) {
      draft.append(char, at);
    }
    at += width;
  }
  draft.endCommand(at);
}

/** Whether an expansion, arithmetic or a redirection that starts here evaluates the value of a variable. */
function evaluatesValueAt(text: string, at: number): boolean {
  const next = text[at + 1];
  switch (text[at]) {
    case '(':
      return next === '(' && lengthOf(CONSTANT_ARITHMETIC, text, at) === 0;
    case '{':
      return lengthOf(SUBSCRIPT_IN_BRACES, text, at) > 0;
    case '$':
      if (next === '[' || (next === '(' && text[at + 2] === '('))
        return lengthOf(CONSTANT_ARITHMETIC, text, at) === 0;
      if (next !== '{') return false;
      PLAIN_EXPANSION.lastIndex = at;
      return isEvaluating(PLAIN_EXPANSION.exec(text));
    default:
      return false;
  }
}

function isEvaluating(plain: RegExpExecArray | null): boolean {
  return plain === null || (plain[1] !== undefined && changesWhatRuns(plain[1]));
}

/** `pattern` must be sticky. */
function lengthOf(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0].length ?? 0;
}
