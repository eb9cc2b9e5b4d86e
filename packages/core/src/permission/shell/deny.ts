/*
 * Finds every command that a shell text may run, as texts to match deny patterns against.
 *
 * Rules
 *  - A command starts at its first word that is not a keyword, assignment or redirection. After a
 *    wrapper (`sudo`, `timeout 5`, `xargs -n 1`), each word that may be the wrapped command is a start.
 *  - Its name is read as written, without its folder, and in lower case; its words are joined by single
 *    blanks. Options before a subcommand are left out, and aliases resolved. An expansion in it is read
 *    as nothing (`r$@m`) and as a blank (`rm$IFS-r`).
 *  - Arguments of shells and wrappers that contain more than a word are read as shell text again.
 *  - The targets of redirections are read as operands, too.
 *  - Words that are paths are also matched in their shortest form, and options in any order
 *    (`deny-pattern.ts`).
 *  - A program that is not in the tables may run what its arguments name. If one of them is the program
 *    of a deny rule, the command is never allowed without a person, except where every command of the
 *    text is known to run nothing else (`isInert`).
 *  - The work is bounded by a multiple of the length of the text. A text that exceeds it, or nests shell
 *    text too deep, is `excessive`, and every deny rule about the parameter matches.
 */
import { compileGlob } from '../glob/glob.ts';
import { spendSteps } from '../step-budget.ts';
import { normalizePath } from '../path.ts';
import { DeniableCommand, DenyPattern, namesIn } from './deny-pattern.ts';
import {
  assignsSubscript,
  evaluatesCode,
  evaluatesCondition,
  isInert,
  mayRunOperand,
  runsCodeIfWrapped,
} from './opaque.ts';
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
import { mayBeUserDefined, subcommandReadings } from './subcommands.ts';
import { assignsWhatRuns } from './variables.ts';
import { EXPANSION, type ShellWord, type SimpleCommand } from './words.ts';

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
  /** A value or an argument is evaluated as code; then it is `opaque`, too. */
  readonly evaluates: boolean;
  readonly commands: readonly DeniableCommand[];
  /** What commands may read or write by a redirection that is not their own. */
  readonly targets: DeniableCommand;
  /** Names in arguments that may be programs; none if no command runs what its arguments name. */
  readonly mentioned: ReadonlySet<string>;
}

const MAX_DEPTH = 4;
const BUDGET_PER_CHARACTER = 12;
const LEAST_BUDGET = 65_536;
/** How many words after a name decide whether it would run code. */
const MAX_LOOKAHEAD = 64;
/** Wrappers that start no shell without a command. */
const RUNS_NOTHING: ReadonlySet<string> = new Set(
  'arch builtin command env exec git ip jobs nice time xargs'.split(' '),
);
const KEYWORDS: ReadonlySet<string> = new Set(
  'if then elif else fi while until do done esac in'.split(' '),
);
const TESTS: ReadonlySet<string> = new Set(['[', '[[']);
const ASSIGNMENT = /^[A-Za-z_]\w*(?:\+?=|\[)/;
/** Shell variables that define which program a name runs. */
const NAME_TABLE = /^BASH_(?:CMDS|ALIASES)\b/;
const PROGRAM_OPTION = /^--[a-z-]*(?:command|entrypoint|exec|program|rsh|run|cmd)=/;
const MORE_THAN_A_WORD = /[\s;&|<>()`$'"\\{}]/;

/** What it costs to compare a pattern with a command. */
const COMPARE_STEPS = 40;
/** What it costs to look at a command, at one of its words, and at a character of a text to match. */
const COMMAND_STEPS = 400;
const WORD_STEPS = 200;
const TEXT_STEPS = 6;

export function readCommands(source: string): CommandReading {
  return new CommandReader(source).run();
}

/** Whether a deny pattern matches one of the commands. */
export function deniesCommand(pattern: string, reading: CommandReading): boolean {
  if (reading.excessive) return true;
  const globs = [...new Set([pattern, withShortestPaths(pattern)])].map((each) =>
    compileGlob(each, 'deny'),
  );
  for (const text of reading.texts) {
    // `rm *` also denies a bare `rm`, which may get its arguments from elsewhere, such as xargs.
    if (globs.some((glob) => glob.matches(text, ' '))) return true;
  }
  spendSteps(COMPARE_STEPS * reading.commands.length);
  const parsed = DenyPattern.of(pattern);
  return reading.commands.some((command) => parsed.matches(command));
}

/** Whether a deny pattern that does not match may be about a command of the text, so that it is asked about. */
export function concernsCommand(pattern: string, reading: CommandReading): boolean {
  spendSteps(COMPARE_STEPS * reading.commands.length);
  const parsed = DenyPattern.of(pattern);
  if (parsed.names(reading.mentioned)) return true;
  return reading.commands.some((command) => parsed.concerns(command, reading.targets));
}

/** A pattern with the literal starts of its paths in their shortest form. */
function withShortestPaths(pattern: string): string {
  return pattern
    .replace(/(?<=^|\s)(?:\.\/+)+(?=[^\s*?[{(+@!\\/.]|\.[^\s/.])/g, '')
    .replace(/\/(?:\.?\/)+/g, '/');
}

class CommandReader {
  readonly #texts = new Set<string>();
  /** Commands as written, to read each of them once. */
  readonly #seen = new Set<string>();
  readonly #seenIgnoringQuotes = new Set<string>();
  readonly #seenTexts = new Set<string>();
  readonly #seenMentions = new Set<string>();
  readonly #names = new Set<string>();
  readonly #withUnknownArguments = new Set<string>();
  readonly #pending: { readonly text: string; readonly depth: number }[];
  #budget: number;
  readonly #commands: DeniableCommand[] = [];
  readonly #targets = new Set<string>();
  #unknownInput = false;
  readonly #mentioned = new Set<string>();
  #allInert = true;
  #conditional = false;
  #arithmetic = false;
  #opaque = false;
  #evaluates = false;
  #excessive = false;

  constructor(source: string) {
    this.#pending = [{ text: source.replaceAll(EXPANSION, ''), depth: 0 }];
    this.#budget = LEAST_BUDGET + BUDGET_PER_CHARACTER * source.length;
  }

  run(): CommandReading {
    for (let at = 0; at < this.#pending.length && !this.#excessive; at += 1) {
      const { text, depth } = this.#pending[at]!;
      const { commands, targets, unknownInput, ambiguous, tooDeep, evaluates } = scanShell(text);
      this.#readTargets(targets, unknownInput);
      this.#opaque ||= tooDeep;
      this.#evaluates ||= evaluates;
      for (const command of commands) {
        const { words, end } = command;
        const own = end === undefined ? undefined : text.slice(words[0]!.start, end);
        if (own !== undefined) {
          if (this.#seen.has(own)) continue;
          this.#seen.add(own);
          this.#add(normalize(own));
        }
        this.#command(command, depth);
      }
      if (ambiguous) this.#readIgnoringQuotes(text, depth);
    }
    this.#evaluates ||= this.#conditional && this.#arithmetic;
    return {
      texts: this.#texts,
      excessive: this.#excessive,
      names: this.#names,
      withUnknownArguments: this.#withUnknownArguments,
      opaque: this.#opaque || this.#evaluates,
      evaluates: this.#evaluates,
      commands: this.#commands,
      targets: new DeniableCommand('', [...this.#targets]),
      mentioned: this.#allInert ? new Set() : this.#mentioned,
    };
  }

  #readTargets(targets: readonly ShellWord[], unknownInput: boolean): void {
    this.#unknownInput ||= unknownInput;
    for (const text of textsOf(targets)) this.#targets.add(text.replaceAll(EXPANSION, ''));
  }

  #readIgnoringQuotes(text: string, depth: number): void {
    const { commands, targets, unknownInput, evaluates } = scanIgnoringQuotes(text);
    this.#readTargets(targets, unknownInput);
    this.#evaluates ||= evaluates;
    for (const command of commands) {
      // Words contain no control character here, except for EXPANSION.
      const key = [...textsOf(command.words), '', ...textsOf(command.targets)].join('\x01');
      if (this.#seenIgnoringQuotes.has(key)) continue;
      this.#seenIgnoringQuotes.add(key);
      this.#command(command, depth);
    }
  }

  #command({ words, targets }: SimpleCommand, depth: number): void {
    spendSteps(COMMAND_STEPS + WORD_STEPS * words.length);
    if (words.some(({ text }) => NAME_TABLE.test(text) || assignsWhatRuns(text)))
      this.#opaque = true;
    if (words.some(assignsSubscript)) this.#evaluates = true;
    this.#conditional ||= words.some(({ text }) => text === '[[' || text === ']]');
    this.#arithmetic ||= evaluatesCondition(words);
    for (const { text } of targets) this.#mention(text);
    const starts = [0];
    const seen = new Set<number>();
    const read = new Set<boolean>();
    let inert = true;
    let appends = false;
    const replaced = replacedWords(words);
    for (let next = starts.pop(); next !== undefined; next = starts.pop()) {
      const at = commandWordIndex(words, next);
      if (at >= words.length || seen.has(at) || this.#excessive) continue;
      seen.add(at);
      this.#emit(words, at, targets);
      const name = words[at]!.text.replaceAll(EXPANSION, '');
      const program = programName(name);
      const rest = words.slice(at + 1);
      const known = wrapperFor(name);
      const wrapper = known !== undefined && isWrapping(known, name, rest) ? known : undefined;
      const hasSideEffects = hasSideEffectOption(program, rest);
      const evaluates = SHELLS.has(program) || SHELL_EVALUATORS.has(program);
      const wrapped = wrappedStarts(words, at, wrapper);
      const hasStart = wrapped.length > 0 && (!appends || hasCommand(wrapper, rest));
      for (const start of wrapped) starts.push(start);
      for (const start of startsWithin(words, at, program)) starts.push(start);
      if (evaluates) this.#opaque = true;
      if (evaluatesCode(program, rest)) this.#evaluates = true;
      if (wrapper !== undefined && wrapper.only === undefined)
        this.#evaluates ||= rest.some(({ text }) => assignsWhatRuns(text));
      if (wrapper === undefined && mayRunOperand(program, rest, appends)) this.#opaque = true;
      // A wrapper without a command starts a shell, or gets the command from its input.
      if (wrapper !== undefined && !hasStart && (appends || !RUNS_NOTHING.has(program)))
        this.#opaque = true;
      if (appends) this.#withUnknownArguments.add(program);
      if (replaced.has(at)) this.#opaque = true;
      appends ||= wrapper?.appendsArguments === true;
      if (!isInert(name, program, rest)) inert = false;
      if (read.has(evaluates) || !(evaluates || hasSideEffects || wrapper !== undefined)) continue;
      read.add(evaluates);
      this.#readArguments(rest, { depth, evaluates });
    }
    if (!inert) this.#allInert = false;
    for (const [at, word] of words.entries()) {
      if (seen.has(at)) continue;
      this.#mention(word.text);
      if (inert || word.expands || this.#opaque) continue;
      const rest = words.slice(at + 1, at + 1 + MAX_LOOKAHEAD);
      if (runsCodeIfWrapped(programName(word.text), rest)) this.#opaque = true;
    }
  }

  #mention(word: string): void {
    if (this.#seenMentions.has(word)) return;
    this.#seenMentions.add(word);
    spendSteps(WORD_STEPS);
    this.#spend(word.length);
    if (this.#excessive) return;
    for (const name of namesIn(word)) this.#mentioned.add(name);
  }

  #emit(words: readonly ShellWord[], at: number, targets: readonly ShellWord[]): void {
    const head = words[at]!;
    const rest = words.slice(at + 1);
    const tail = rest.map((word) => word.text).join(' ');
    spendSteps(COMMAND_STEPS + WORD_STEPS * rest.length);
    this.#spend(head.text.length + tail.length + 1);
    const base = head.text.slice(head.text.lastIndexOf('/') + 1);
    const varies = (word: ShellWord): boolean => word.expands || word.globs || word.hasBraceOrTilde;
    if (varies(head) && !TESTS.has(head.text)) this.#opaque = true;
    this.#names.add(head.text);
    const program = programName(base);
    // An alias that a user defined may stand for any subcommand.
    const isUnknown = this.#unknownInput || rest.some(varies) || mayBeUserDefined(program, rest);
    if (isUnknown) this.#withUnknownArguments.add(program);
    const paths = rest.map((word) => shortestPath(word.text)).join(' ');
    this.#deniable(
      head.text,
      rest.map((word) => word.text),
    );
    this.#emitWithTargets(head.text, rest, targets);
    for (const name of new Set([head.text, base, base.toLowerCase(), program])) {
      const text = `${name} ${tail}`;
      const without = text.replaceAll(EXPANSION, '');
      this.#add(normalize(without));
      if (text.includes(EXPANSION)) this.#add(normalize(text.replaceAll(EXPANSION, ' ')));
      if (paths !== tail) this.#add(normalize(`${name} ${paths}`.replaceAll(EXPANSION, '')));
      if (/[{},]/.test(name)) this.#add(normalize(without.replace(/[{},]/g, ' ')));
    }
    for (const reading of subcommandReadings(program, rest)) {
      spendSteps(COMMAND_STEPS + WORD_STEPS * rest.length);
      this.#excessive ||= reading === undefined;
      if (this.#excessive || reading === undefined) return;
      this.#deniable(program, reading.slice(1));
      const text = normalize(reading.join(' ').replaceAll(EXPANSION, ''));
      this.#add(text);
      if (head.text.includes('/')) this.#add(head.text + text.slice(program.length));
    }
  }

  /** `cat < x` reads the same file as `cat x`. */
  #emitWithTargets(name: string, rest: readonly ShellWord[], targets: readonly ShellWord[]): void {
    if (targets.length === 0) return;
    const words = textsOf([...rest, ...targets]);
    spendSteps(WORD_STEPS * targets.length);
    this.#deniable(name, words);
    const base = name.slice(name.lastIndexOf('/') + 1);
    for (const texts of [words, words.map(shortestPath)]) {
      this.#add(normalize(`${base} ${texts.join(' ')}`.replaceAll(EXPANSION, '')));
    }
  }

  #deniable(name: string, words: readonly string[]): void {
    if (this.#excessive) return;
    const texts = words.map((word) => word.replaceAll(EXPANSION, ''));
    this.#commands.push(new DeniableCommand(name.replaceAll(EXPANSION, ''), texts));
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
      if (this.#seenTexts.has(text)) continue;
      this.#seenTexts.add(text);
      this.#spend(text.length);
      if (depth >= MAX_DEPTH) this.#excessive = true;
      else this.#pending.push({ text: text.replaceAll(EXPANSION, ''), depth: depth + 1 });
    }
  }

  #add(text: string): void {
    spendSteps(TEXT_STEPS * text.length);
    this.#spend(text.length + 1);
    if (!this.#excessive) this.#texts.add(text);
  }

  #spend(cost: number): void {
    this.#budget -= cost;
    if (this.#budget < 0) this.#excessive = true;
  }
}

function textsOf(words: readonly ShellWord[]): string[] {
  return words.map(({ text }) => text);
}

function normalize(text: string): string {
  return text.trim().replace(/\s+/g, ' ');
}

/** A word with the path in it, or after its `=`, in its shortest form. */
function shortestPath(word: string): string {
  if (!/\.\/|\/\/|\/$|\/\.\.?$/.test(word) || word.includes('://')) return word;
  const at = word.indexOf('=') + 1;
  return word.slice(0, at) + normalizePath(word.slice(at));
}

/** Whether the words after a wrapper are certainly more than its options and operands. */
function hasCommand(wrapper: Wrapper | undefined, rest: readonly ShellWord[]): boolean {
  const options = rest.filter(({ text }) => text.startsWith('-')).length;
  return wrapper !== undefined && rest.length - 2 * options > operandsOf(wrapper, rest);
}

/** The words that `xargs -I` and `parallel` replace by their input. */
function replacedWords(words: readonly ShellWord[]): ReadonlySet<number> {
  const placeholders = new Set(['{}']);
  for (const [at, { text }] of words.entries()) {
    if (/^-[Ii]/.test(text)) placeholders.add(text.slice(2) || (words[at + 1]?.text ?? ''));
  }
  const found = new Set<number>();
  for (const [at, { text }] of words.entries()) {
    if (placeholders.has(text) && !/^-[Ii]$/.test(words[at - 1]?.text ?? '')) found.add(at);
  }
  return found;
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
export function startsWithin(words: readonly ShellWord[], at: number, program: string): number[] {
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
