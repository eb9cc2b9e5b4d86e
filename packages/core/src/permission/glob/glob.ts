/*
 * Globs for permission rules, matched in time linear in the value, without RegExp.
 *
 * On the documented syntax an allow rule matches as picomatch 4.0.7 with {bash: true} does: `*`
 * crosses `/` but no line break; `*` and `?` match no dot at the start of a segment of the pattern;
 * `**`, and `*` in a pattern without `/ ( [ {`, do not cross a `/.`; an empty value matches nothing; a
 * pattern matches its own text. We differ where picomatch is surprising or unsafe; each row has its
 * test in glob.picomatch-differences.test.ts:
 *
 *   pattern           picomatch                            here
 *   ./run *           matches `run x`, not `./run x`       `./` is text
 *   *|wc  a || b      `|` ends the pattern: matches `rm`   `|` outside a group is text
 *   [0-9]+ @(a|b)? c++  quantifiers of a regex             `+` is text, `?` is one character
 *   print(1)          a regex group: `print1`              parentheses are text, (a|b) is @(a|b)
 *   \d \s [\w]         classes of a regex                   a backslash makes text
 *   "a"*              quotes vanish                        quotes are text
 *   [!a]              `!` or `a`                           anything but `a`, as in bash
 *   a?b a[^x]b        match a line break                   do not, like `*`
 *   [^[:digit:]]      matches `/`                          does not, like `[^a]`
 *   ? [x]             a UTF-16 unit                        a code point
 *   @(?at|dog)        `?` after `(` is text                one character
 *   +(a|aa) *(a|?)    text, to avoid backtracking       a group that repeats
 *   {../a,b}          a broken range: never matches        two alternatives
 *   {x**} ^^* $$*     broken regex: never matches          as written
 *   a.b[[:digit:]]    the dot matches anything             the dot is a dot
 *   [[:punct:]]       without the backslash                with it, as in POSIX
 *   NUL               dropped from the pattern             text
 *   !x !(x) {1..3} [z-a] [[:x:]] and unclosed groups       refused
 *
 * A deny rule reads the same pattern broadly: `*`, `**`, `?` and `[^a]` match any character, including
 * line breaks and dots, so that `rm *` also matches `rm -r ~/.ssh`. It matches everything that an
 * allow rule with that pattern matches.
 */
import { indexOfText, spendSteps } from '../step-budget.ts';
import { buildAutomaton, isAlwaysSmall } from './nfa.ts';
import { type Effect, parseGlob } from './parse.ts';
import { GlobRun } from './run.ts';
import { trigramsOf } from './text-index.ts';
import {
  all,
  countPositions,
  type GlobNode,
  literalRuns,
  type RequiredText,
  requiredText,
} from './tree.ts';

export type { Effect } from './parse.ts';

export interface Glob {
  readonly pattern: string;
  /**
   * Why the pattern is refused when it is written. The library accepts it in an allow rule, which then
   * matches its own text and nothing else; a deny rule with it matches everything.
   */
  readonly fault: string | undefined;
  /** Whether it matches the value, or the value and the ending. */
  matches(value: string, ending?: string): boolean;
  /** How much of a value that does not match can be the start of one that does. */
  matchableLength(value: string): number;
}

const MAX_PATTERN_BYTES = 1_024;
/** More than the rules of a large tenant, so that going through all of them does not evict any. */
const MAX_CACHED = 4_096;
/** An automaton takes some 100 bytes per character. */
const MAX_CACHED_CHARS = 256 * 1_024;

/** What it costs to parse a character, a pattern, to build a position, and to look at a value at all. */
const PARSE_STEPS = 80;
const COMPILE_STEPS = 500;
const BUILD_STEPS = 150;
const MATCH_STEPS = 8;
/** Shorter values are read faster than they are indexed. */
const MIN_INDEXED = 1_024;
const MAX_REQUIRED = 18;
const NOTHING = all();
const TOO_LARGE = 'The pattern has too many alternatives that can repeat or be left out.';

/** What was read from patterns. The oldest are dropped. */
export class PatternCache<Value> {
  readonly #values = new Map<string, Value>();
  #chars = 0;

  get(pattern: string): Value | undefined {
    return this.#values.get(pattern);
  }

  add(pattern: string, value: Value): void {
    if (typeof pattern !== 'string' || pattern.length > MAX_PATTERN_BYTES) return;
    this.#values.set(pattern, value);
    this.#chars += pattern.length;
    while (this.#values.size > MAX_CACHED || this.#chars > MAX_CACHED_CHARS) {
      const oldest = this.#values.keys().next().value!;
      this.#values.delete(oldest);
      this.#chars -= oldest.length;
    }
  }
}

const cached: Readonly<Record<Effect, PatternCache<Glob>>> = {
  allow: new PatternCache(),
  deny: new PatternCache(),
};

/** Never throws for a refused pattern, which is a glob with a fault. */
export function compileGlob(pattern: string, effect: Effect = 'allow'): Glob {
  const known = cached[effect].get(pattern);
  if (known !== undefined) return known;
  const glob = new CompiledGlob(pattern, effect);
  cached[effect].add(pattern, glob);
  return glob;
}

/** Why a pattern is refused; undefined if it is valid. */
export function checkPattern(pattern: string): string | undefined {
  return compileGlob(pattern).fault ?? compileGlob(pattern, 'deny').fault;
}

/** Whether the pattern matches only values with a certain letter or digit: not `{*,x}` or `[a-z]*`. */
export function lettersRequiredBy(pattern: string): boolean {
  const tree = parseGlob(pattern, 'allow');
  if (typeof tree === 'string') return false;
  return literalRuns(tree).some((text) => /[\p{L}\p{N}]/u.test(text));
}

/**
 * Most rules do not match most calls. Values are therefore ruled out by the literal text of the pattern,
 * and its automaton is built when a value first gets past that.
 */
class CompiledGlob implements Glob {
  readonly pattern: string;
  readonly #effect: Effect;
  #fault: string | undefined;
  readonly #tree: GlobNode;
  readonly #positions: number;
  readonly #required: RequiredText;
  #trigrams: Int32Array | undefined;
  #run: GlobRun | undefined;

  constructor(pattern: string, effect: Effect) {
    this.pattern = pattern;
    this.#effect = effect;
    const fault = checkSize(pattern);
    if (fault === undefined) spendSteps(COMPILE_STEPS + PARSE_STEPS * pattern.length);
    const parsed = fault ?? parseGlob(pattern, effect);
    this.#fault = typeof parsed === 'string' ? parsed : undefined;
    this.#tree = typeof parsed === 'string' ? NOTHING : parsed;
    this.#positions = countPositions(this.#tree);
    this.#required = requiredText(this.#tree);
  }

  get fault(): string | undefined {
    if (this.#fault === undefined && !isAlwaysSmall(this.#tree, this.#positions)) this.#automaton();
    return this.#fault;
  }

  matches(value: string, ending = ''): boolean {
    spendSteps(MATCH_STEPS);
    if (value === this.pattern || (ending !== '' && value + ending === this.pattern)) return true;
    const isDenial = this.#effect === 'deny';
    if (this.#fault !== undefined) return isDenial;
    if (value === '' && !isDenial) return false;
    if (!this.#mayMatch(value, ending)) return false;
    return this.#automaton()?.matches(value, ending) ?? isDenial;
  }

  matchableLength(value: string): number {
    return this.#automaton()?.matchableLength(value) ?? 0;
  }

  #mayMatch(value: string, ending: string): boolean {
    const { prefix, suffix, longest } = this.#required;
    if (value.length < prefix.length) return `${value}${ending}`.startsWith(prefix);
    if (!value.startsWith(prefix)) return false;
    // A suffix that begins in the value and ends in the ending is left to the automaton.
    if (ending === '' && !value.endsWith(suffix)) return false;
    if (value.length < MIN_INDEXED) return true;
    this.#trigrams ??= trigramsOf(longest.slice(0, MAX_REQUIRED));
    if (this.#trigrams.length <= ending.length) return true;
    const within = this.#trigrams.subarray(0, this.#trigrams.length - ending.length);
    spendSteps(within.length);
    return indexOfText(value)?.mayContain(within) ?? true;
  }

  /** Undefined if it would be too large. */
  #automaton(): GlobRun | undefined {
    if (this.#run !== undefined || this.#fault !== undefined) return this.#run;
    spendSteps(BUILD_STEPS * this.#positions);
    const automaton = buildAutomaton(this.#tree);
    if (automaton === undefined) this.#fault = TOO_LARGE;
    else this.#run = new GlobRun(automaton);
    return this.#run;
  }
}

function checkSize(pattern: string): string | undefined {
  if (typeof pattern !== 'string') return 'A pattern must be a string.';
  if (pattern === '') return 'A pattern must not be empty.';
  let bytes = 0;
  for (const char of pattern.slice(0, MAX_PATTERN_BYTES + 1)) {
    const code = char.codePointAt(0)!;
    bytes += code < 0x80 ? 1 : code < 0x8_00 ? 2 : code < 0x1_00_00 ? 3 : 4;
  }
  return bytes > MAX_PATTERN_BYTES ? 'A pattern must not be longer than 1 KiB.' : undefined;
}
