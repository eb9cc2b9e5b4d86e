/*
 * When allow rules grant a shell text.
 *
 * Rules
 *  - The parser must understand all of it, our own scanner must find the same commands and words,
 *    and each command must be covered by a pattern. Anything else is asked.
 *  - A wildcard stands for arguments, never for what decides about the program: not for the folder
 *    of its name, not for the code an interpreter runs, not for an option by which a reader acts
 *    (`find -delete`), not for a command that a wrapper runs. Those a pattern must spell.
 *  - A star right behind a word stands for more words, not for more of that one: `ls*` covers `ls`
 *    and `ls -la`, not `lsof`; `git log*` covers `git log -5`, not `git log-x`.
 *  - Hence an interpreter is granted by a pattern that spells its script (`node build.js *`); a
 *    wrapper by one that spells the wrapped command (`sudo apt *`), or if it has no options and the
 *    wrapped command is covered on its own (`timeout *` with `ls *`); and what evaluates its
 *    arguments (`eval`, `awk`, `sed`, `export`) only by a pattern without any wildcard.
 *  - A subcommand by which a program acts (`git config`, `npm init`) must be spelled.
 *  - After a `cd` that a wildcard stands for, patterns that speak of files or of what a folder holds
 *    (`node build.js*`, `git log*`) grant nothing: they were written about another folder.
 *  - `$x` is asked even as an argument: the pattern would be matched against a text that is not the
 *    one that runs, and `echo $AWS_SECRET_ACCESS_KEY` is no `echo *`. So are braces and tildes.
 */
import { compileGlob } from '../glob/glob.ts';
import { type CommandReading } from './denial.ts';
import { actingSubcommand, actsByOption } from './options.ts';
import { commandNames, plainCommands } from './parse.ts';
import {
  COMMANDS_OF_COMMANDS,
  EVALUATORS,
  INTERPRETERS,
  isWrapping,
  operandsOf,
  programName,
  type Wrapper,
  wrapperFor,
} from './programs.ts';
import { scanShell } from './scan.ts';
import { type ShellWord } from './words.ts';
import { alternativesOf, spelledLength } from '../glob/spelled.ts';

const MAX_WRAPPERS = 4;
const MAX_PLACES = 8;
const NAME = /^[\w./+-]+$/;
/** A name that is not spelled, and goes on for as long as it likes. */
const GROWS = /^\S*(?:\*|\+\()/;
const EVERYTHING: ReadonlySet<string> = new Set(['*', '**']);
/** After these, files are looked for elsewhere. */
const MOVERS: ReadonlySet<string> = new Set(['cd', 'pushd', 'popd']);

/** Whether every command of the text is covered by one of the patterns. */
export function grantsCommand(source: string, patterns: readonly string[]): boolean {
  const parsed = plainCommands(source);
  if (parsed === undefined || parsed.length === 0) return false;
  const { commands, doubt } = scanShell(source);
  if (doubt || commands.length !== parsed.length) return false;
  const scanned = commands.toSorted((a, b) => a.words[0]!.start - b.words[0]!.start);
  let moved = false;
  return parsed.every((command, index) => {
    const { words } = scanned[index]!;
    const agree =
      words[0]!.start === command.start &&
      words.length === command.words.length &&
      words.every((word, at) => word.text === command.words[at]);
    if (!agree || words.some((word) => word.expands || word.shifts)) return false;
    const speaking = moved ? patterns.filter((pattern) => !isAboutPlace(pattern, words)) : patterns;
    moved ||=
      MOVERS.has(words[0]!.text) && !patterns.includes(source.slice(command.start, command.end));
    return new Cover(source.slice(0, command.end), speaking).covers(words, 0);
  });
}

/**
 * Whether what a pattern means depends on the folder: `node build.js*` and `./check*` speak of files
 * where they were meant to run, and what `git` and `npm` do is written in the folder they run in.
 */
function isAboutPlace(pattern: string, [head]: readonly ShellWord[]): boolean {
  if (EVERYTHING.has(pattern)) return false;
  const name = head!.text;
  if (name.includes('/') && !name.startsWith('/')) return true;
  return COMMANDS_OF_COMMANDS.has(programName(name)) || /\S\s+[^\s*]/.test(pattern);
}

/**
 * Whether a text that is granted as a whole tool may pass although deny rules speak about it: they
 * must have been able to see every command that it runs.
 */
export function isOpenToDenial(
  source: string,
  reading: CommandReading,
  denials: readonly string[],
): boolean {
  if (reading.opaque || reading.excessive) return false;
  const names = commandNames(source);
  if (names === undefined) return false;
  if (![...names].every((name) => reading.names.has(name))) return false;
  return ![...reading.loose].some((name) => denials.some((pattern) => mayName(pattern, name)));
}

/** Whether a pattern may be about this program, as far as its first word is spelled. */
function mayName(pattern: string, program: string): boolean {
  const spelled = pattern.slice(0, spelledLength(pattern));
  const blank = spelled.search(/\s/);
  if (blank >= 0) return programName(spelled.slice(0, blank)) === program;
  const name = spelled.slice(spelled.lastIndexOf('/') + 1).toLowerCase();
  return program.startsWith(name) || name.startsWith(program);
}

class Cover {
  readonly #source: string;
  readonly #patterns: readonly string[];
  readonly #known = new Map<number, boolean>();

  constructor(source: string, patterns: readonly string[]) {
    this.#source = source;
    this.#patterns = patterns;
  }

  covers(words: readonly ShellWord[], depth: number): boolean {
    const start = words[0]!.start;
    const known = this.#known.get(start);
    if (known !== undefined) return known;
    const text = this.#source.slice(start);
    const covered = this.#patterns.some(
      (pattern) =>
        compileGlob(pattern).matches(text) &&
        keepsWord(pattern, text, words) &&
        this.#suffices(words, start + spelledLength(pattern), depth),
    );
    this.#known.set(start, covered);
    return covered;
  }

  /** Whether a pattern that matches, and spells the source up to `spelled`, spells enough of it. */
  #suffices(words: readonly ShellWord[], spelled: number, depth: number): boolean {
    const whole = spelled >= this.#source.length;
    const [head, ...rest] = words as readonly [ShellWord, ...ShellWord[]];
    const name = this.#source.slice(head.start, head.end);
    if (!NAME.test(name) || depth > MAX_WRAPPERS) return false;
    if (name.includes('/') && spelled < head.start + name.lastIndexOf('/') + 1) return false;
    const program = programName(name);
    if (!whole && (EVALUATORS.has(program) || actsByOption(program, rest))) return false;
    const acting = actingSubcommand(program, rest);
    if (acting !== undefined && spelled < acting.end) return false;
    const wrapper = wrapperFor(name);
    if (wrapper !== undefined && isWrapping(wrapper, rest)) {
      return this.#wraps(rest, { wrapper, spelled, depth });
    }
    return !INTERPRETERS.has(program) || spellsScript(rest, spelled, whole);
  }

  #wraps(
    rest: readonly ShellWord[],
    { wrapper, spelled, depth }: { wrapper: Wrapper; spelled: number; depth: number },
  ): boolean {
    const { places, bare } = placesOf(rest, wrapper);
    const last = places.at(-1);
    if (last === undefined) return bare || spelled >= this.#source.length;
    if (places.length > MAX_PLACES) return false;
    if (spelled >= rest[last]!.end) {
      return places.every((at) => this.#suffices(rest.slice(at), spelled, depth + 1));
    }
    if (!bare || wrapper.feeds === true) return false;
    return this.covers(rest.slice(last), depth + 1);
  }
}

/**
 * Whether no wildcard behind a word takes more of the command's name. A pattern with alternatives is
 * judged by those that match; one whose name is not spelled must show where the name ends.
 */
function keepsWord(pattern: string, text: string, words: readonly ShellWord[]): boolean {
  const readings = alternativesOf(pattern);
  if (readings === undefined) return false;
  return readings.some(
    (reading) => (reading === pattern || matchesWithin(reading, text)) && endsWords(reading, words),
  );
}

/** As one alternative among others, where a star also runs over hidden names. */
function matchesWithin(reading: string, text: string): boolean {
  const alone = compileGlob(reading).matches(text);
  return alone || (!/[|()]/.test(reading) && compileGlob(`@(${reading})`).matches(text));
}

function endsWords(pattern: string, words: readonly ShellWord[]): boolean {
  let end = spelledLength(pattern);
  let length = end;
  while (pattern[end] === '\\') {
    const more = spelledLength(pattern.slice(end + 2));
    end += 2 + more;
    length += 1 + more;
  }
  const rest = pattern.slice(end);
  if (rest.startsWith('*') ? !/\w$/.test(pattern.slice(0, end)) : !GROWS.test(rest)) return true;
  const [head, second] = words;
  const at = head!.start + length;
  if (at < head!.end) return false;
  if (!COMMANDS_OF_COMMANDS.has(programName(head!.text))) return true;
  return second === undefined || at <= second.start || at >= second.end;
}

/**
 * Where the wrapped command may begin: an option may take the word after it, so each one moves the
 * last place by a word. `bare`: neither options nor settings stand before it.
 */
function placesOf(rest: readonly ShellWord[], wrapper: Wrapper) {
  const operands = operandsOf(wrapper, rest);
  const places: number[] = [];
  let seen = 0;
  let options = 0;
  let bare = true;
  for (const [at, { text, globs }] of rest.entries()) {
    if (seen > operands + options) break;
    const option = text.startsWith('-') || globs;
    if (option || /^\w+=/.test(text)) {
      bare = false;
      options += option ? 1 : 0;
    } else {
      if (seen >= operands) places.push(at);
      seen += 1;
    }
  }
  return { places, bare };
}

/** Without a script it would take its code from a pipe, where no rule has read it. */
function spellsScript(rest: readonly ShellWord[], spelled: number, whole: boolean): boolean {
  const isOption = (word: ShellWord): boolean => word.text.startsWith('-');
  if (whole) return rest.some((word) => !isOption(word)) || rest[0]?.text === '--version';
  const script = rest[0];
  return script !== undefined && !isOption(script) && spelled >= script.end;
}
