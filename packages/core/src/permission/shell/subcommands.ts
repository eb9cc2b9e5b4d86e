/*
 * Programs with subcommands: which subcommands only read, and where the subcommand is.
 *
 * Rules
 *  - A wildcard grants readers only. Every other subcommand must be literal in the pattern, and so must
 *    an option by which a reader comes to write (`git branch -D`). Of a group (`git remote`), the word
 *    after it is part of the subcommand.
 *  - To allow, every option before the subcommand must be known, and change neither what runs nor where
 *    (`git -c`, `kubectl --kubeconfig`). An abbreviation or an unknown subcommand is no reader.
 *  - To deny, every word is read as the subcommand that may be it: an option that is not known may take
 *    the word after it or not. Abbreviations and aliases are read under all of their names.
 */
import { clouds } from './tables/clouds.ts';
import { containers } from './tables/containers.ts';
import { git } from './tables/git.ts';
import { packages } from './tables/packages.ts';
import { system } from './tables/system.ts';

/** What is known about a program; lists are separated by blanks. */
export interface SubcommandTable {
  /** Options before the subcommand that change neither what runs nor where. `-n=` takes a value. */
  readonly options?: string;
  /** Options before the subcommand that do. */
  readonly changing?: string;
  /**
   * A line for each subcommand that reads, with all of its options that do, or `...` if those that do
   * not are in the table of options. `tag!` takes no operand, and `tag+-l` needs the option.
   */
  readonly readers?: string;
  /** Subcommands that are followed by another one, in addition to those of the readers. */
  readonly groups?: string;
  /** The number of words that a subcommand consists of, where every subcommand is a group. */
  readonly depth?: number;
  /** A line for each subcommand with several names: `install|i|add`. */
  readonly aliases?: string;
  /** All other subcommands, of a program for which users can define more, or which abbreviates. */
  readonly others?: string;
  /** Accepts the beginning of a subcommand. */
  readonly abbreviates?: true;
  /** Does more than to show a help text when it has no subcommand. */
  readonly actsAlone?: true;
  /** Runs a script if there is no such subcommand: `yarn build`. */
  readonly runsScripts?: true;
}

interface Word {
  readonly text: string;
  readonly globs: boolean;
  readonly expands: boolean;
  readonly end: number;
}

interface Option {
  readonly takesValue: boolean;
  readonly changing: boolean;
}

interface Reader {
  readonly path: readonly string[];
  /** Undefined: all. */
  readonly options: ReadonlyMap<string, Option> | undefined;
  readonly operands: boolean;
  readonly required: string | undefined;
}

interface Program {
  readonly options: ReadonlyMap<string, Option>;
  readonly readers: readonly Reader[];
  readonly groups: ReadonlySet<string>;
  readonly depth: number;
  /** All names of each subcommand that has several. */
  readonly aliases: ReadonlyMap<string, readonly string[]>;
  /** Empty if users cannot define subcommands. */
  readonly known: ReadonlySet<string>;
  readonly abbreviates: boolean;
  readonly actsAlone: boolean;
  readonly runsScripts: boolean;
}

const PROGRAMS: ReadonlyMap<string, Program> = new Map(
  [git, packages, containers, clouds, system]
    .flatMap((tables) => Object.entries(tables))
    .flatMap(([names, table]) => {
      const program = compile(table);
      return wordsOf(names).map((name) => [name, program] as const);
    }),
);

/** Programs that run a subcommand of another one. */
const STANDALONE: ReadonlyMap<string, string> = new Map([
  ['bunx', 'bun x'],
  ['docker-compose', 'docker compose'],
  ['npx', 'npm exec'],
  ['pnpx', 'pnpm dlx'],
]);
const STANDALONE_PREFIX = /^(cargo|git|kubectl)-(?=[a-z])/;
const NOTHING_KNOWN = compile({ groups: 'compose container machine pod' });
const MAX_DEPTH = 4;
/** Candidates for a subcommand behind options that are not known. */
const MAX_CANDIDATES = 64;

/** Whether the second word of this program is a subcommand. */
export function hasSubcommands(program: string): boolean {
  return PROGRAMS.has(program);
}

/**
 * Whether a pattern that is literal up to `literalEnd` grants the subcommand: because it only reads, or
 * because the pattern names it, and the first option by which it does more than to read.
 */
export function grantsSubcommand(
  name: string,
  words: readonly Word[],
  literalEnd: number,
): boolean {
  const program = PROGRAMS.get(name);
  if (program === undefined) return true;
  const forms = readersOf(program, words);
  if (forms.some(({ reader, rest }) => reads(reader, rest))) return true;
  const path = subcommandPath(program, words);
  if (path === undefined) return false;
  const last = words[path.at(-1) ?? -1];
  if (last === undefined) return !program.actsAlone;
  if (literalEnd < last.end) return false;
  const named = forms.filter(({ reader }) => reader.path.length === path.length);
  return (
    named.length === 0 ||
    named.some(({ reader, rest }) => literalEnd >= (writingOption(reader, rest)?.end ?? 0))
  );
}

/** The subcommand that these words start with, if all its uses only read: `log`, `image ls`. */
export function readingSubcommand(name: string, words: readonly string[]): string | undefined {
  const found = PROGRAMS.get(name)?.readers.find(
    ({ path, operands, required }) =>
      operands && required === undefined && path.every((word, at) => word === words[at]),
  );
  return found?.path.join(' ');
}

/**
 * The words of a command as deny rules may spell it: without the options before the subcommand, and
 * with the other names of the program and the subcommand. Ends with undefined if there are too many.
 */
export function* subcommandReadings(
  name: string,
  words: readonly Word[],
): Generator<readonly string[] | undefined> {
  const [program = name, inserted] = (
    STANDALONE.get(name) ?? name.replace(STANDALONE_PREFIX, '$1 ')
  ).split(' ');
  if (!PROGRAMS.has(program)) return;
  const all = inserted === undefined ? words : [insertedWord(inserted), ...words];
  for (const reading of readingsOf(program, all)) {
    if (reading === undefined) return yield undefined;
    if (reading.isLiteral && program === name) continue;
    yield [program, ...reading.names, ...all.slice(reading.next).map(({ text }) => text)];
  }
}

/** Whether one of the subcommands that the words may contain is as wanted. */
export function mayHaveSubcommand(
  name: string,
  words: readonly Word[],
  isWanted: (names: readonly string[]) => boolean,
): boolean {
  for (const reading of readingsOf(name, words)) {
    if (reading === undefined || isWanted(reading.names)) return true;
  }
  return false;
}

/** Whether users may have defined the subcommand, so that it may stand for any other. */
export function mayBeUserDefined(name: string, words: readonly Word[]): boolean {
  const program = PROGRAMS.get(name);
  if (program === undefined || program.known.size === 0) return false;
  const candidates = operandCandidates(program, words, 0).slice(0, MAX_CANDIDATES);
  return candidates.some(
    (at) => !program.known.has(words[at]!.text) && expand(program, words[at]!.text).length === 1,
  );
}

interface Reading {
  readonly names: readonly string[];
  /** The index of the first word after the subcommand. */
  readonly next: number;
  /** The words are as they were. */
  readonly isLiteral: boolean;
}

function* readingsOf(
  name: string,
  words: readonly Word[],
  from = 0,
  before: readonly string[] = [],
): Generator<Reading | undefined> {
  const program = PROGRAMS.get(name) ?? NOTHING_KNOWN;
  const candidates = operandCandidates(program, words, from);
  if (candidates.length > MAX_CANDIDATES) yield undefined;
  for (const at of candidates.slice(0, MAX_CANDIDATES)) {
    const path = [...before, words[at]!.text];
    for (const names of alternatives(program, path)) {
      const isLiteral = at === path.length - 1 && names.join(' ') === path.join(' ');
      yield { names, next: at + 1, isLiteral };
    }
    if (path.length >= MAX_DEPTH) continue;
    const isInGroup = alternatives(program, path).some((names) => isGroup(program, names));
    if (isInGroup) yield* readingsOf(name, words, at + 1, path);
  }
}

/** All spellings of a subcommand, and of the first word of a nested one. */
function alternatives(program: Program, path: readonly string[]): readonly (readonly string[])[] {
  const [first = '', ...rest] = path;
  const spellings = expand(program, first).map((name) => [name, ...rest].join(' '));
  const all = new Set(spellings.flatMap((text) => [text, ...(program.aliases.get(text) ?? [])]));
  if (program.runsScripts && !program.known.has(first)) all.add(`run ${path.join(' ')}`);
  return [...all].map(wordsOf);
}

/** All names that a word may stand for. */
function expand(program: Program, word: string): readonly string[] {
  const names = [word];
  if (program.abbreviates && !program.known.has(word)) {
    // npm also accepts `installTest` for `install-test`.
    const dashed = word.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    for (const known of program.known) {
      if (dashed !== '' && known.startsWith(dashed)) names.push(known);
    }
  }
  return [...new Set(names.flatMap((name) => [name, ...(program.aliases.get(name) ?? [])]))];
}

/** The words that may be the first operand. */
function operandCandidates(program: Program, words: readonly Word[], from: number): number[] {
  const found: number[] = [];
  let mayBeValues = 0;
  for (let at = from; at < words.length; at += 1) {
    const { text, expands } = words[at]!;
    if (isOption(text)) {
      const option = readOption(program.options, text);
      if (option === undefined) mayBeValues += text.includes('=') ? 0 : 1;
      else if (option.takesNext) at += 1;
      else if (program.abbreviates && /^(?:true|false|null)$/.test(words[at + 1]?.text ?? ''))
        at += 1;
      continue;
    }
    found.push(at);
    if (expands) mayBeValues += 1;
    else if (mayBeValues === 0) break;
    else mayBeValues -= 1;
  }
  return found;
}

/** The indexes of the words of the subcommand; undefined if an option before them is not harmless. */
function subcommandPath(program: Program, words: readonly Word[]): number[] | undefined {
  const path: number[] = [];
  do {
    const at = nextOperand(program, words, (path.at(-1) ?? -1) + 1);
    if (at === undefined) return undefined;
    if (at === words.length) break;
    path.push(at);
  } while (
    isGroup(
      program,
      path.map((at) => words[at]!.text),
    )
  );
  return path;
}

function isGroup(program: Program, path: readonly string[]): boolean {
  return path.length < program.depth || program.groups.has(path.join(' '));
}

/** The next word that is no option; undefined if an option before it is not harmless. */
function nextOperand(program: Program, words: readonly Word[], from: number): number | undefined {
  for (let at = from; at < words.length; at += 1) {
    const { text, globs } = words[at]!;
    if (globs) return undefined;
    if (!isOption(text)) return at;
    const option = readOption(program.options, text);
    if (option === undefined || option.changing) return undefined;
    if (option.takesNext) at += 1;
  }
  return words.length;
}

interface ReaderForm {
  readonly reader: Reader;
  /** The words after the subcommand. */
  readonly rest: readonly Word[];
}

function readersOf(program: Program, words: readonly Word[]): readonly ReaderForm[] {
  return program.readers.flatMap((reader) => {
    let next = 0;
    for (const name of reader.path) {
      const at = nextOperand(program, words, next);
      const word = at === undefined ? undefined : words[at];
      if (at === undefined || word === undefined || !matchesName(name, word.text)) return [];
      next = at + 1;
    }
    return [{ reader, rest: words.slice(next) }];
  });
}

function matchesName(name: string, word: string): boolean {
  return name.endsWith('*') ? word.startsWith(name.slice(0, -1)) : word === name;
}

function reads(reader: Reader, rest: readonly Word[]): boolean {
  if (writingOption(reader, rest) !== undefined) return false;
  const { required, operands, options } = reader;
  if (required !== undefined && !rest.some(({ text }) => text.split('=', 1)[0] === required)) {
    return false;
  }
  return operands || operandsIn(options, rest).length === 0;
}

/** The first option that is not among those of the reader. */
function writingOption({ options }: Reader, rest: readonly Word[]): Word | undefined {
  if (options === undefined) return undefined;
  for (let at = 0; at < rest.length; at += 1) {
    const word = rest[at]!;
    if (word.text === '--') return undefined;
    // A file name that a glob matches may start with a dash, too.
    if (word.globs && /^[-*?[]/.test(word.text)) return word;
    if (!isOption(word.text)) continue;
    const option = readOption(options, word.text);
    if (option === undefined || option.changing) return word;
    if (option.takesNext) at += 1;
  }
  return undefined;
}

function operandsIn(options: Reader['options'], rest: readonly Word[]): readonly Word[] {
  const found: Word[] = [];
  for (let at = 0; at < rest.length; at += 1) {
    const word = rest[at]!;
    if (!isOption(word.text)) found.push(word);
    else if (readOption(options ?? new Map(), word.text)?.takesNext === true) at += 1;
  }
  return found;
}

/** `+`: the toolchain of cargo. */
function isOption(text: string): boolean {
  return text.length > 1 && /^[-+]/.test(text);
}

/** Undefined for an option that is not known, also in a bundle of short ones. */
function readOption(
  options: ReadonlyMap<string, Option>,
  text: string,
): { readonly changing: boolean; readonly takesNext: boolean } | undefined {
  if (text === '--') return { changing: false, takesNext: false };
  if (text.startsWith('+')) return { changing: true, takesNext: false };
  const [name = ''] = text.split('=', 1);
  // Go programs take `--json` for `-json`.
  const exact = options.get(name) ?? (name.length > 3 ? options.get(name.slice(1)) : undefined);
  if (exact !== undefined) {
    return { changing: exact.changing, takesNext: exact.takesValue && name === text };
  }
  if (text.startsWith('--')) return undefined;
  let changing = false;
  for (let at = 1; at < text.length; at += 1) {
    const option = options.get(`-${text[at]}`);
    if (option === undefined) return undefined;
    changing ||= option.changing;
    if (option.takesValue) return { changing, takesNext: at === text.length - 1 };
  }
  return { changing, takesNext: false };
}

function insertedWord(text: string): Word {
  return { text, globs: false, expands: false, end: 0 };
}

function compile(table: SubcommandTable): Program {
  const { abbreviates = false, actsAlone = false, runsScripts = false, depth = 1 } = table;
  const harmless = optionsOf(table.options, false);
  const aliases = new Map<string, readonly string[]>();
  for (const line of linesOf(table.aliases)) {
    const names = line.split('|');
    for (const name of names) aliases.set(name, names);
  }
  const readers = linesOf(table.readers).flatMap((line) => {
    const [, text = '', bang, required, more = ''] =
      /^([^!+]+?)(!)?(?:\+(\S+))?(?: ([-.].*))?$/.exec(line) ?? [];
    const options = more === '...' ? undefined : new Map([...harmless, ...optionsOf(more, false)]);
    return (aliases.get(text) ?? [text]).map((name) => ({
      path: wordsOf(name),
      options,
      operands: bang === undefined,
      required,
    }));
  });
  const groups = new Set(wordsOf(table.groups));
  for (const { path } of readers) {
    for (let at = 1; at < path.length; at += 1) groups.add(path.slice(0, at).join(' '));
  }
  const known = new Set(
    table.others === undefined
      ? []
      : [
          ...wordsOf(table.others),
          ...readers.map(({ path }) => path[0] ?? ''),
          ...[...aliases.keys(), ...groups].map((name) => wordsOf(name)[0] ?? ''),
        ],
  );
  const options = new Map([...harmless, ...optionsOf(table.changing, true)]);
  return { options, readers, groups, depth, aliases, known, abbreviates, actsAlone, runsScripts };
}

function optionsOf(text: string | undefined, changing: boolean): Map<string, Option> {
  return new Map(
    wordsOf(text).map((word) => {
      const takesValue = word.endsWith('=');
      return [takesValue ? word.slice(0, -1) : word, { takesValue, changing }] as const;
    }),
  );
}

function linesOf(text = ''): readonly string[] {
  return text.split('\n').flatMap((line) => (line.trim() === '' ? [] : [line.trim()]));
}

function wordsOf(text = ''): readonly string[] {
  return text.split(/\s+/).filter((word) => word !== '');
}
