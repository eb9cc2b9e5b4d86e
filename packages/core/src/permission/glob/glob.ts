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
import { buildAutomaton } from './nfa.ts';
import { type Effect, parseGlob } from './parse.ts';
import { literalPrefixLength } from './pattern-text.ts';
import { GlobRun } from './run.ts';

export type { Effect } from './parse.ts';

export interface Glob {
  readonly pattern: string;
  /**
   * Why the pattern is refused when it is written. The library accepts it in an allow rule, which then
   * matches its own text and nothing else; a deny rule with it matches everything.
   */
  readonly fault: string | undefined;
  matches(value: string): boolean;
}

const MAX_PATTERN_BYTES = 1_024;
/** More than the rules of a large tenant, so that going through all of them does not evict any. */
const MAX_CACHED = 4_096;

const cached: Readonly<Record<Effect, Map<string, Glob>>> = { allow: new Map(), deny: new Map() };

/** Never throws; a refused pattern is a glob with a fault. */
export function compileGlob(pattern: string, effect: Effect = 'allow'): Glob {
  const cache = cached[effect];
  const known = cache.get(pattern);
  if (known !== undefined) return known;
  const glob = compile(pattern, effect);
  if (glob.fault !== undefined) return glob;
  if (cache.size >= MAX_CACHED) cache.delete(cache.keys().next().value!);
  cache.set(pattern, glob);
  return glob;
}

/** Why a pattern is refused; undefined if it is valid. */
export function checkPattern(pattern: string): string | undefined {
  return compileGlob(pattern).fault ?? compileGlob(pattern, 'deny').fault;
}

function compile(pattern: string, effect: Effect): Glob {
  const fault = checkSize(pattern);
  const parsed = fault ?? parseGlob(pattern, effect);
  if (typeof parsed === 'string') return refused(pattern, effect, parsed);
  const automaton = buildAutomaton(parsed);
  if (automaton === undefined) {
    return refused(
      pattern,
      effect,
      'The pattern has too many alternatives that can repeat or be left out.',
    );
  }
  const run = new GlobRun(automaton);
  const allowsEmpty = effect === 'deny';
  // Fast path: most rules do not match by their prefix already. `a/**` matches `a` too.
  const prefix = pattern.slice(0, literalPrefixLength(pattern)).replace(/\/$/, '');
  return {
    pattern,
    fault: undefined,
    matches: (value) =>
      value === pattern ||
      ((allowsEmpty || value !== '') && value.startsWith(prefix) && run.matches(value)),
  };
}

function refused(pattern: string, effect: Effect, fault: string): Glob {
  return { pattern, fault, matches: (value) => effect === 'deny' || value === pattern };
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
