/*
 * When allow rules allow a shell text.
 *
 * Rules
 *  - The parser must understand all of it, the scanner must find the same commands and words, and a
 *    pattern must cover each command. Anything else needs approval.
 *  - A wildcard matches arguments, never what decides which program runs: not the folder of its name,
 *    not the code that an interpreter runs, not an option with side effects
 *    (`find -delete`), not a command that a wrapper runs. The pattern must contain these literally.
 *  - A star directly after a word matches more words, not more of that word: `ls*` covers `ls` and
 *    `ls -la`, not `lsof`; `git log*` covers `git log -5`, not `git log-x`.
 *  - Hence an interpreter is allowed by a pattern with its literal script (`node build.js *`); a wrapper
 *    by one with the literal wrapped command (`sudo ls *`), or if it has no options and the wrapped
 *    command is covered on its own (`timeout *` with `ls *`); and a program that evaluates its
 *    arguments (`awk`, `sed`, `make`) only by a pattern without wildcards. Opaque commands (`eval`) are
 *    allowed by no pattern (see match.ts).
 *  - Of a program with subcommands, a wildcard grants those that only read; any other must be literal
 *    (see subcommands.ts).
 *  - After a `cd` that matched a wildcard, patterns that depend on the folder (`node build.js*`,
 *    `git log*`) allow nothing: they were written for another folder.
 *  - `$x` needs approval even as an argument, because the text that runs is not the one that was matched:
 *    `echo *` must not allow `echo $AWS_SECRET_ACCESS_KEY`. So are braces and tildes.
 */
import { compileGlob } from '../glob/glob.ts';
import { expandAlternatives, literalPrefixLength } from '../glob/pattern-text.ts';
import { spendSteps } from '../step-budget.ts';
import type { CommandReading } from './deny.ts';
import { hasSideEffectOption } from './options.ts';
import { commandNames, plainCommands } from './parse.ts';
import {
  EVALUATORS,
  INTERPRETERS,
  isWrapping,
  operandsOf,
  programName,
  type Wrapper,
  wrapperFor,
} from './programs.ts';
import { scanShell } from './scan.ts';
import { grantsSubcommand, hasSubcommands, readingSubcommand } from './subcommands.ts';
import type { ShellWord } from './words.ts';

const MAX_WRAPPERS = 4;
const MAX_STARTS = 8;
const NAME = /^[\w./+-]+$/;
/** A name with a wildcard of any length. */
const OPEN_NAME = /^\S*(?:\*|\+\()/;
const EVERYTHING: ReadonlySet<string> = new Set(['*', '**']);
/** Commands that change the folder. */
const FOLDER_CHANGERS: ReadonlySet<string> = new Set(['cd', 'pushd', 'popd']);

/** Why patterns do not cover a command. */
export type Obstacle =
  /** The parser does not understand all of the text. */
  | 'not_understood'
  /** The shell replaces a word of it. */
  | 'expands'
  /** No pattern matches its text. */
  | 'text'
  /** The patterns depend on the folder, which has changed. */
  | 'folder_changed'
  /** A wildcard would stand for this. */
  | 'program'
  | 'evaluated'
  | 'option'
  | 'subcommand'
  | 'wrapped'
  | 'script';

export interface UncoveredCommand {
  readonly obstacle: Obstacle;
  /** The whole text if it is not understood. */
  readonly text: string;
  /** What the wildcard stands for. */
  readonly wildcard?: string;
}

/** Whether every command of the text is covered by one of the patterns. */
export function allowsCommand(source: string, patterns: readonly string[]): boolean {
  return uncoveredCommand(source, patterns) === undefined;
}

/** The first command of the text that no pattern covers. */
export function uncoveredCommand(
  source: string,
  patterns: readonly string[],
): UncoveredCommand | undefined {
  const notUnderstood: UncoveredCommand = { obstacle: 'not_understood', text: source };
  const parsed = plainCommands(source);
  if (parsed === undefined || parsed.length === 0) return notUnderstood;
  const { commands, ambiguous } = scanShell(source);
  if (ambiguous || commands.length !== parsed.length) return notUnderstood;
  const scanned = commands.toSorted((a, b) => a.words[0]!.start - b.words[0]!.start);
  let folderChanged = false;
  for (const [index, command] of parsed.entries()) {
    const { words } = scanned[index]!;
    const agree =
      words[0]!.start === command.start &&
      words.length === command.words.length &&
      words.every((word, at) => word.text === command.words[at]);
    if (!agree) return notUnderstood;
    const text = source.slice(command.start, command.end);
    if (words.some((word) => word.expands || word.hasBraceOrTilde)) {
      return { obstacle: 'expands', text };
    }
    const applicable = folderChanged
      ? patterns.filter((pattern) => !dependsOnFolder(pattern, words))
      : patterns;
    const found = new Coverage(source.slice(0, command.end), applicable).obstacle(words, 0);
    if (found !== undefined) {
      const { obstacle, literalEnd } = found;
      if (literalEnd !== undefined) {
        return { obstacle, text, wildcard: source.slice(literalEnd, command.end) };
      }
      const wasCovered = applicable.length < patterns.length;
      return { obstacle: wasCovered ? 'folder_changed' : obstacle, text };
    }
    folderChanged ||= FOLDER_CHANGERS.has(words[0]!.text) && !patterns.includes(text);
  }
  return undefined;
}

/**
 * Whether the meaning of a pattern depends on the folder: `node build.js*` and `./check*` name files
 * in it, and `git` and `npm` do what files in it configure.
 */
function dependsOnFolder(pattern: string, [head]: readonly ShellWord[]): boolean {
  if (EVERYTHING.has(pattern)) return false;
  const name = head!.text;
  if (name.includes('/') && !name.startsWith('/')) return true;
  return hasSubcommands(programName(name)) || /\S\s+[^\s*]/.test(pattern);
}

/**
 * Whether deny rules can see every command that a text runs. Only then may a rule for the whole tool
 * allow it although there are deny rules about the parameter.
 */
export function isVisibleToDenyRules(
  source: string,
  reading: CommandReading,
  denials: readonly string[],
): boolean {
  if (reading.opaque || reading.excessive) return false;
  const names = commandNames(source);
  if (names === undefined) return false;
  if (![...names].every((name) => reading.names.has(name))) return false;
  return ![...reading.withUnknownArguments].some((name) =>
    denials.some((pattern) => mayName(pattern, name)),
  );
}

/** Whether a pattern may be about this program, judging by its literal prefix. */
function mayName(pattern: string, program: string): boolean {
  const prefix = pattern.slice(0, literalPrefixLength(pattern));
  const blank = prefix.search(/\s/);
  if (blank >= 0) return programName(prefix.slice(0, blank)) === program;
  const name = prefix.slice(prefix.lastIndexOf('/') + 1).toLowerCase();
  return program.startsWith(name) || name.startsWith(program);
}

interface Found {
  readonly obstacle: Obstacle;
  /** Where the literal text of the pattern ends that matches the text. */
  readonly literalEnd?: number;
}

const noMatch: Found = { obstacle: 'text' };

/** Whether patterns cover the commands of a source, which ends where the outermost command does. */
class Coverage {
  readonly #source: string;
  readonly #patterns: readonly string[];
  readonly #known = new Map<number, Found | undefined>();

  constructor(source: string, patterns: readonly string[]) {
    this.#source = source;
    this.#patterns = patterns;
  }

  /** What keeps the first pattern that matches the text from covering the command; undefined if one covers it. */
  obstacle(words: readonly ShellWord[], depth: number): Found | undefined {
    const start = words[0]!.start;
    if (this.#known.has(start)) return this.#known.get(start);
    const found = this.#findObstacle(words, depth);
    this.#known.set(start, found);
    return found;
  }

  #findObstacle(words: readonly ShellWord[], depth: number): Found | undefined {
    const start = words[0]!.start;
    const text = this.#source.slice(start);
    let first: Found | undefined;
    for (const pattern of this.#patterns) {
      if (!compileGlob(pattern).matches(text)) continue;
      for (const alternative of matchingAlternatives(pattern, text)) {
        const literalEnd = start + literalPrefixLength(alternative);
        const obstacle = endsAtWordEnd(alternative, words)
          ? this.#obstacleTo(words, literalEnd, depth)
          : 'program';
        if (obstacle === undefined) return undefined;
        first ??= { obstacle, literalEnd };
      }
    }
    return first ?? noMatch;
  }

  /** What the pattern must contain literally, and does not: it is literal up to `literalEnd` in the source. */
  #obstacleTo(
    words: readonly ShellWord[],
    literalEnd: number,
    depth: number,
  ): Obstacle | undefined {
    spendSteps(words.length);
    const isLiteral = literalEnd >= this.#source.length;
    const [head, ...rest] = words as readonly [ShellWord, ...ShellWord[]];
    const name = this.#source.slice(head.start, head.end);
    if (!NAME.test(name) || depth > MAX_WRAPPERS) return 'program';
    if (name.includes('/') && literalEnd < head.start + name.lastIndexOf('/') + 1) return 'program';
    const program = programName(name);
    if (!isLiteral && EVALUATORS.has(program)) return 'evaluated';
    if (!isLiteral && hasSideEffectOption(program, rest)) return 'option';
    if (!isLiteral && !grantsSubcommand(program, rest, literalEnd)) return 'subcommand';
    const wrapper = wrapperFor(name);
    if (wrapper !== undefined && isWrapping(wrapper, name, rest)) {
      return this.#coversWrapped(rest, wrapper, literalEnd, depth) ? undefined : 'wrapped';
    }
    if (!INTERPRETERS.has(program)) return undefined;
    return hasLiteralScript(rest, literalEnd, isLiteral) ? undefined : 'script';
  }

  #coversWrapped(
    rest: readonly ShellWord[],
    wrapper: Wrapper,
    literalEnd: number,
    depth: number,
  ): boolean {
    const { starts, bare } = wrappedStarts(rest, wrapper);
    const last = starts.at(-1);
    if (last === undefined) {
      // The operand of a subcommand may name the code: `docker run image`.
      const end = wrapper.only === undefined ? 0 : (rest.at(-1)?.end ?? 0);
      return (bare && literalEnd >= end) || literalEnd >= this.#source.length;
    }
    if (starts.length > MAX_STARTS) return false;
    if (literalEnd >= rest[last]!.end) {
      return starts.every(
        (at) => this.#obstacleTo(rest.slice(at), literalEnd, depth + 1) === undefined,
      );
    }
    // `npm exec ls` runs a package, and `docker run` an image, that only happens to have this name.
    if (!bare || wrapper.appendsArguments === true || wrapper.only !== undefined) return false;
    return this.obstacle(rest.slice(last), depth + 1) === undefined;
  }
}

/** The alternatives of a pattern that match; none if there are too many. */
function matchingAlternatives(pattern: string, text: string): readonly string[] {
  return (expandAlternatives(pattern) ?? []).filter(
    (alternative) => alternative === pattern || matchesInGroup(alternative, text),
  );
}

/** Inside a group, a star also matches hidden names. */
function matchesInGroup(alternative: string, text: string): boolean {
  const alone = compileGlob(alternative).matches(text);
  return alone || (!/[|()]/.test(alternative) && compileGlob(`@(${alternative})`).matches(text));
}

/**
 * Whether no wildcard directly after a word matches more of the command's name. A name with wildcards
 * must show where it ends.
 */
function endsAtWordEnd(pattern: string, words: readonly ShellWord[]): boolean {
  let end = literalPrefixLength(pattern);
  let length = end;
  while (pattern[end] === '\\') {
    const more = literalPrefixLength(pattern.slice(end + 2));
    end += 2 + more;
    length += 1 + more;
  }
  const rest = pattern.slice(end);
  if (rest.startsWith('*') ? !/\w$/.test(pattern.slice(0, end)) : !OPEN_NAME.test(rest))
    return true;
  const [head, second] = words;
  const at = head!.start + length;
  if (at < head!.end) return false;
  if (!hasSubcommands(programName(head!.text))) return true;
  return second === undefined || at <= second.start || at >= second.end;
}

/**
 * Where the wrapped command may start. An option may take the word after it, so each option moves the
 * last candidate by one word. `bare`: no options or variable assignments precede it.
 */
export function wrappedStarts(rest: readonly ShellWord[], wrapper: Wrapper) {
  const operands = operandsOf(wrapper, rest);
  const starts: number[] = [];
  let seen = 0;
  let options = 0;
  let bare = true;
  for (const [at, { text, globs, expands }] of rest.entries()) {
    if (seen > operands + options) break;
    const option = text.startsWith('-') || globs || expands;
    if (option || /^\w+=/.test(text)) {
      bare = false;
      options += option ? 1 : 0;
    } else {
      if (seen >= operands) starts.push(at);
      seen += 1;
    }
  }
  return { starts, bare };
}

/** Modules of Python that run the project, not a file or code that an argument names. */
const MODULES: ReadonlySet<string> = new Set(
  'black build flake8 isort mypy pylint pyright pytest ruff unittest'.split(' '),
);

/** Without a script, an interpreter reads code from its input, which no rule has seen. */
function hasLiteralScript(
  rest: readonly ShellWord[],
  literalEnd: number,
  isLiteral: boolean,
): boolean {
  const isOption = (word: ShellWord): boolean => word.text.startsWith('-');
  if (isLiteral) return rest.some((word) => !isOption(word)) || rest[0]?.text === '--version';
  const script = rest[0]?.text === '-m' && MODULES.has(rest[1]?.text ?? '') ? rest[1] : rest[0];
  return script !== undefined && !isOption(script) && literalEnd >= script.end;
}

/**
 * Programs that only read. For all other commands no pattern is suggested: "always" then grants the
 * exact command.
 */
const READERS: ReadonlySet<string> = new Set(
  (
    'basename cat cmp comm cut date df diff dirname du echo file fold grep head id ls md5sum nl od ' +
    'printenv pwd readlink realpath rg sha256sum sort stat tail tr tree uniq uname wc which whoami'
  ).split(' '),
);

/** These show nothing of a file's content, so that repeating them needs no file. */
const HARMLESS = /^(?:(?:date|df|id|ls|pwd|uname|whoami)|git status)(?: -[\w-]+)*$/;
/** A word that means itself: no path, no hidden name, nothing that the shell expands. */
const PLAIN_WORD = /^[\w+:@%,=-][\w.+:@%,=-]*$/;
/** A file in a folder below the current one, without hidden names. */
const FILE_IN_FOLDER = /^((?:\w[\w.-]*\/)+)\w[\w.-]*$/;
/** Names that are neither hidden nor another path: a star would match `../.env` and more words. */
const ONE_NAME = '[a-zA-Z0-9_]*([a-zA-Z0-9_.-])';

/**
 * A pattern for commands like this one that only read: the same for the other files in the folder of its
 * last word. Undefined if there is no such file, or if it may be more than the files of a project.
 */
export function suggestedPattern(command: string): string | undefined {
  const [only, ...others] = plainCommands(command) ?? [];
  if (only === undefined || others.length > 0 || only.words.join(' ') !== command) return undefined;
  const [name = '', ...rest] = only.words;
  if (!READERS.has(name) && readingSubcommand(name, rest) === undefined) return undefined;
  const last = rest.at(-1) ?? '';
  const folder = FILE_IN_FOLDER.exec(last)?.[1];
  const before = only.words.slice(0, -1);
  const isFile = folder !== undefined && before.every((word) => PLAIN_WORD.test(word));
  if (!isFile && !HARMLESS.test(command)) return undefined;
  const pattern = isFile ? [...before, `${folder}${ONE_NAME}`].join(' ') : command;
  return allowsCommand(command, [pattern]) ? pattern : undefined;
}
