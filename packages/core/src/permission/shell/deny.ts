/*
 * Finds every command that a shell text may run, as texts to match deny patterns against.
 *
 * Rules
 *  - A command starts at its first word that is not a keyword, assignment or redirection. After a
 *    wrapper (`sudo`, `timeout 5`, `xargs -n 1`), each word that may be the wrapped command is a start.
 *  - Its name is read as written, without its folder, and in lower case; its words are joined by single
 *    blanks. An expansion in it is read as nothing (`r$@m`) and as a blank (`rm$IFS-r`).
 *  - Arguments of shells and wrappers that contain more than a word are read as shell text again.
 *  - The work is bounded by a multiple of the length of the text. A text that exceeds it, or nests shell
 *    text too deep, is `excessive`, and every deny rule about the parameter matches.
 */
import { compileGlob } from '../glob/glob.ts';
import { hasSideEffectOption } from './options.ts';
import {
  COMMAND_OPTIONS,
  isWrapping,
  operandsOf,
  programName,
  SHELL_EVALUATORS,
  SHELLS,
  type Wrapper,
  WRAPPER_OPTION,
  wrapperFor,
} from './programs.ts';
import { scanIgnoringQuotes, scanShell } from './scan.ts';
import { EXPANSION, type ShellWord } from './words.ts';

export interface CommandReading {
  /** The texts to match. */
  readonly texts: ReadonlySet<string>;
  readonly excessive: boolean;
  /** The names of all commands, as written. */
  readonly names: ReadonlySet<string>;
  /** Names of commands with arguments that are known only at run time. */
  readonly withUnknownArguments: ReadonlySet<string>;
  /** The name of a command is known only at run time, or text runs that is not read here. */
  readonly opaque: boolean;
}

const MAX_DEPTH = 4;
const BUDGET_PER_CHARACTER = 12;
const LEAST_BUDGET = 65_536;
const KEYWORDS: ReadonlySet<string> = new Set(
  'if then elif else fi while until do done esac in'.split(' '),
);
const TESTS: ReadonlySet<string> = new Set(['[', '[[']);
const ASSIGNMENT = /^[A-Za-z_]\w*(?:\+?=|\[)/;
/** Shell variables that define which program a name runs. */
const NAME_TABLE = /^BASH_(?:CMDS|ALIASES)\b/;
const PROGRAM_OPTION = /^--[a-z-]*(?:command|entrypoint|exec|program|rsh|run|cmd)=/;
const MORE_THAN_A_WORD = /[\s;&|<>()`$'"\\{}]/;

/** Builtins that evaluate the subscript in a variable's name, always or by an option. */
const NAME_TAKERS = new Map<string, { option?: string; always?: true }>([
  ...['test', '[', 'printf'].map((name) => [name, { option: '-v' }] as const),
  ['wait', { option: '-p' }],
  ...['read', 'unset', 'export', 'readonly', 'local', 'getopts'].map(
    (name) => [name, { always: true }] as const,
  ),
]);

export function readCommands(source: string): CommandReading {
  return new CommandReader(source).run();
}

/** Whether a deny pattern matches one of the commands. */
export function deniesCommand(pattern: string, reading: CommandReading): boolean {
  if (reading.excessive) return true;
  const glob = compileGlob(pattern, 'deny');
  for (const text of reading.texts) {
    // `rm *` also denies a bare `rm`, which may get its arguments from elsewhere, such as xargs.
    if (glob.matches(text, ' ')) return true;
  }
  return false;
}

class CommandReader {
  readonly #texts = new Set<string>();
  /** Commands as written, to read each of them once. */
  readonly #seen = new Set<string>();
  readonly #names = new Set<string>();
  readonly #withUnknownArguments = new Set<string>();
  readonly #pending: { readonly text: string; readonly depth: number }[];
  #budget: number;
  #opaque = false;
  #excessive = false;

  constructor(source: string) {
    this.#pending = [{ text: source.replaceAll(EXPANSION, ''), depth: 0 }];
    this.#budget = LEAST_BUDGET + BUDGET_PER_CHARACTER * source.length;
  }

  run(): CommandReading {
    for (let at = 0; at < this.#pending.length && !this.#excessive; at += 1) {
      const { text, depth } = this.#pending[at]!;
      const { commands, ambiguous, tooDeep } = scanShell(text);
      this.#opaque ||= tooDeep || evaluatesValues(text);
      for (const { words, end } of commands) {
        const own = end === undefined ? undefined : text.slice(words[0]!.start, end);
        if (own !== undefined) {
          if (this.#seen.has(own)) continue;
          this.#seen.add(own);
          this.#add(normalize(own));
        }
        this.#command(words, depth);
      }
      if (ambiguous) for (const { words } of scanIgnoringQuotes(text)) this.#command(words, depth);
    }
    return {
      texts: this.#texts,
      excessive: this.#excessive,
      names: this.#names,
      withUnknownArguments: this.#withUnknownArguments,
      opaque: this.#opaque,
    };
  }

  #command(words: readonly ShellWord[], depth: number): void {
    if (words.some(({ text }) => NAME_TABLE.test(text))) this.#opaque = true;
    const starts = [0];
    const seen = new Set<number>();
    const read = new Set<boolean>();
    for (let next = starts.pop(); next !== undefined; next = starts.pop()) {
      const at = commandWordIndex(words, next);
      if (at >= words.length || seen.has(at) || this.#excessive) continue;
      seen.add(at);
      this.#emit(words, at);
      const name = words[at]!.text.replaceAll(EXPANSION, '');
      const program = programName(name);
      const rest = words.slice(at + 1);
      const known = wrapperFor(name);
      const wrapper = known !== undefined && isWrapping(known, rest) ? known : undefined;
      const hasSideEffects = hasSideEffectOption(program, rest);
      const evaluates = SHELLS.has(program) || SHELL_EVALUATORS.has(program);
      for (const start of wrappedStarts(words, at, wrapper)) starts.push(start);
      for (const start of startsWithin(words, at, program)) starts.push(start);
      if (evaluates || evaluatesNames(program, rest)) this.#opaque = true;
      if (read.has(evaluates) || !(evaluates || hasSideEffects || wrapper !== undefined)) continue;
      read.add(evaluates);
      this.#readArguments(rest, { depth, evaluates });
    }
  }

  #emit(words: readonly ShellWord[], at: number): void {
    const head = words[at]!;
    const rest = words.slice(at + 1);
    const tail = rest.map((word) => word.text).join(' ');
    this.#spend(head.text.length + tail.length + 1);
    const base = head.text.slice(head.text.lastIndexOf('/') + 1);
    const varies = (word: ShellWord): boolean => word.expands || word.globs || word.hasBraceOrTilde;
    if (varies(head) && !TESTS.has(head.text)) this.#opaque = true;
    this.#names.add(head.text);
    if (rest.some(varies)) this.#withUnknownArguments.add(programName(base));
    for (const name of new Set([head.text, base, base.toLowerCase()])) {
      const text = `${name} ${tail}`;
      const without = text.replaceAll(EXPANSION, '');
      this.#add(normalize(without));
      if (text.includes(EXPANSION)) this.#add(normalize(text.replaceAll(EXPANSION, ' ')));
      if (/[{},]/.test(name)) this.#add(normalize(without.replace(/[{},]/g, ' ')));
    }
  }

  #readArguments(
    words: readonly ShellWord[],
    { depth, evaluates }: { depth: number; evaluates: boolean },
  ): void {
    const texts = new Set<string>();
    for (const { text } of words) {
      const program = PROGRAM_OPTION.exec(text)?.[0];
      if (program !== undefined) texts.add(text.slice(program.length));
      if (!evaluates && !MORE_THAN_A_WORD.test(text)) continue;
      texts.add(text);
      // Settings of programs may contain commands: ProxyCommand=rm x, alias.x=!rm x.
      for (const at of [text.indexOf('='), text.lastIndexOf('=')]) {
        if (at >= 0) texts.add(text.slice(at + 1).replace(/^!/, ''));
      }
      if (!text.startsWith('-')) continue;
      // An option with its value attached: env -S'rm x'.
      this.#opaque = true;
      texts.add(text.slice(2));
    }
    if (evaluates || texts.size > 0) texts.add(words.map((word) => word.text).join(' '));
    for (const text of texts) {
      this.#spend(text.length);
      if (depth >= MAX_DEPTH) this.#excessive = true;
      else this.#pending.push({ text: text.replaceAll(EXPANSION, ''), depth: depth + 1 });
    }
  }

  #add(text: string): void {
    this.#spend(text.length + 1);
    if (!this.#excessive) this.#texts.add(text);
  }

  #spend(cost: number): void {
    this.#budget -= cost;
    if (this.#budget < 0) this.#excessive = true;
  }
}

function normalize(text: string): string {
  return text.trim().replace(/\s+/g, ' ');
}

/**
 * Whether the value of a variable is evaluated: as a prompt, or as arithmetic over input, where
 * `a[$(…)]` runs a command.
 */
function evaluatesValues(text: string): boolean {
  const joined = text.includes('\\\n') ? text.replaceAll('\\\n', '') : text;
  if (joined.includes('@P}')) return true;
  return /\bread\b/.test(joined) && /\(\(|\$\[|\s-(?:eq|ne|lt|le|gt|ge|v)\s/.test(joined);
}

/** Whether a builtin takes a variable name that is known only at run time: `a[$(…)]`. */
function evaluatesNames(program: string, rest: readonly ShellWord[]): boolean {
  const { option, always } = NAME_TAKERS.get(program) ?? {};
  if (always !== true && !rest.some(({ text }) => text === option)) return false;
  return rest.some(({ text }) => text.split('=', 1)[0]!.includes(EXPANSION));
}

/** The first word from `at` on that names a command. */
function commandWordIndex(words: readonly ShellWord[], at: number): number {
  for (let index = at; index < words.length; index += 1) {
    const { text, quoted } = words[index]!;
    if (!quoted && text === 'function') {
      index += 1;
    } else if (ASSIGNMENT.test(text)) {
      // A subscript may contain blanks: a[1 + 2]=3.
      if (!/^\w+\+?=/.test(text)) index = subscriptEnd(words, index);
    } else if (text !== '' && (quoted || !KEYWORDS.has(text))) {
      return index;
    }
  }
  return words.length;
}

function subscriptEnd(words: readonly ShellWord[], at: number): number {
  for (let index = at; index < words.length; index += 1) {
    if (/\]\+?=/.test(words[index]!.text)) return index;
  }
  return at;
}

/**
 * The words that may start the wrapped command. An option may take the word after it, so each option
 * moves the last candidate by one word.
 */
function wrappedStarts(words: readonly ShellWord[], at: number, wrapper?: Wrapper): number[] {
  if (wrapper === undefined) return [];
  const starts: number[] = [];
  for (let index = at + 1; index < words.length - 1; index += 1) {
    if (WRAPPER_OPTION.test(words[index]!.text)) starts.push(index + 1);
  }
  let last = operandsOf(wrapper, words.slice(at + 1));
  let operand = 0;
  for (let index = at + 1; index < words.length && operand <= last; index += 1) {
    const word = words[index]!;
    // For env, a variable may have any name.
    if (word.text.startsWith('-') || word.expands || word.text.includes('=')) last += 1;
    if (word.text.startsWith('-') || ASSIGNMENT.test(word.text)) continue;
    if (!word.expands) operand += 1;
    starts.push(index);
  }
  return starts;
}

/** Commands that start inside this one: `find … -exec`, `for x do`. */
function startsWithin(words: readonly ShellWord[], at: number, program: string): number[] {
  const starts: number[] = [];
  const fd = program === 'fd' || program === 'fdfind';
  const loop = program === 'for' || program === 'select';
  for (let index = at + 1; index < words.length; index += 1) {
    const { text } = words[index]!;
    if (COMMAND_OPTIONS.has(text) || (fd && /^-[xX]$/.test(text)) || (loop && text === 'do')) {
      starts.push(index + 1);
    }
  }
  return starts;
}
