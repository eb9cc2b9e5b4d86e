/**
 * Decisions a second with 10, 100 and 1,000 rules, beside picomatch: as `isMatch`, which compiles a
 * pattern at each call, and compiled once. A text parameter is what picomatch can be compared on;
 * commands cost a parser on top, which it has not. Then what a value of 64 KB costs, against one of
 * 4 KB: linear is 16.
 */
import { decideCall, type RuleSet } from '@relay/core';
import picomatch from 'picomatch';
import { compare, show } from './measure.ts';

const sizes = [10, 100, 1_000];
const calls = 500;

const options = { bash: true };
const patternOf = (n: number): string => `src/part-${n}/**/*.{ts,tsx}`;
/** The last rule matches half of them, none the others: every rule is looked at. */
const valueOf = (n: number, rules: number): string =>
  n % 2 === 0 ? `src/part-${rules - 1}/a/b/file-${n}.ts` : `lib/other/file-${n}.md`;

function ruleSet(kind: 'text' | 'command', patterns: readonly string[]): RuleSet {
  return {
    permissions: { allowlist: patterns.map((value) => ({ tool: 'tool', params: { value } })) },
    usedOnce: [],
    grants: [],
    builtinAllow: false,
    kinds: { value: kind },
  };
}

/** Calls a second. */
async function rate(times: number, once: (n: number) => void): Promise<number> {
  const began = performance.now();
  for (let n = 0; n < times; n += 1) once(n);
  return Promise.resolve((times * 1_000) / (performance.now() - began));
}

function decideOn(rules: RuleSet, value: string): string {
  return decideCall({ toolCallId: 'c', name: 'tool', arguments: { value } }, rules).decision;
}

async function compareRules(count: number, rounds: number): Promise<void> {
  const patterns = Array.from({ length: count }, (_, n) => patternOf(n));
  const compiled = patterns.map((pattern) => picomatch(pattern, options));
  const rules = ruleSet('text', patterns);
  const commands = ruleSet(
    'command',
    Array.from({ length: count }, (_, n) => `tool-${n} *`),
  );
  const few = Math.max(20, Math.floor(20_000 / count));
  const rows = await compare(
    [
      {
        name: 'picomatch, compiled once',
        run: () => rate(calls, (n) => void compiled.some((match) => match(valueOf(n, count)))),
      },
      {
        name: 'picomatch.isMatch',
        run: () =>
          rate(few, (n) => {
            const value = valueOf(n, count);
            patterns.some((pattern) => picomatch.isMatch(value, pattern, options));
          }),
      },
      {
        name: 'decide, a text parameter',
        run: () => rate(calls, (n) => void decideOn(rules, valueOf(n, count))),
      },
      {
        name: 'decide, a command',
        run: () =>
          rate(calls, (n) => void decideOn(commands, `tool-${count - 1} -a file-${n} | tool-0 x`)),
      },
    ],
    rounds,
  );
  show(`permissions, ${count} rules`, rows, 'decisions/s');
}

const hostile = ['*a*a*a*c', '+(a|aa|d|ad)', '**/*a*/**/*b', '{a,b}*{c,d}*x', '*[a-c]*[d-f]*z'];

/** Milliseconds a decision on a value of so many characters. */
async function cost(pattern: string, length: number): Promise<number> {
  const rules = ruleSet('text', [pattern]);
  // It ends as the pattern does: otherwise one look at the end would be enough.
  const last = /[a-z]$/.exec(pattern)?.[0] ?? 'a';
  const value = `${'ad'.repeat(length / 2)}${last}`;
  return Promise.resolve(1_000 / (await rate(20, () => void decideOn(rules, value))));
}

export async function benchPermissions(rounds: number): Promise<void> {
  for (const count of sizes) await compareRules(count, rounds);
  for (const pattern of hostile) {
    const rows = await compare(
      [4, 16, 64].map((kilobytes) => ({
        name: `${kilobytes} KB`,
        run: () => cost(pattern, kilobytes * 1_024),
      })),
      rounds,
    );
    show(`permissions, ${pattern} against a value of`, rows, 'ms');
  }
}
