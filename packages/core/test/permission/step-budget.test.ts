import { describe, expect, it } from 'vitest';
import {
  decideCall,
  decideCounted,
  decideInTurn,
  type RuleSet,
} from '../../src/permission/decide.ts';
import { checkPermissions, checkPermissionsInTurn } from '../../src/permission/match.ts';
import type { ParameterKind } from '../../src/permission/match.ts';
import { readCommands } from '../../src/permission/shell/deny.ts';
import { DenyPattern } from '../../src/permission/shell/deny-pattern.ts';
import { MAX_STEPS } from '../../src/permission/step-budget.ts';

const rulesOf = (permissions: RuleSet['permissions'], more: Partial<RuleSet> = {}): RuleSet => ({
  permissions,
  usedOnce: [],
  grants: [],
  builtinAllow: true,
  ...more,
});

const callOf = (a: unknown) => ({ toolCallId: 'c', name: 't', arguments: { a } });
const denylist = (patterns: readonly string[]) =>
  patterns.map((pattern) => ({ tool: 't', params: { a: pattern } }));

/** Neither a wildcard nor a literal text rules a value out early. */
const slow = (n: number): string => `*a${'?'.repeat(800)}${'b?'.repeat(1 + (n % 40))}b`;
const coins = (length: number): string => {
  let seed = 1;
  return Array.from({ length }, () => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return seed > 1_073_741_824 ? 'a' : 'b';
  }).join('');
};

describe('a decision takes a bounded number of steps', () => {
  const many = denylist(Array.from({ length: 200 }, (_, n) => slow(n)));
  const text = `${coins(300_000)}b`;

  it('and a call that exceeds them is never allowed, although a rule allows it', () => {
    const { verdict, steps } = decideCounted(callOf(text), rulesOf({ denylist: many }));
    expect(verdict).toEqual({ decision: 'ask', tooLarge: true });
    expect(steps).toBeLessThanOrEqual(MAX_STEPS);
    const short = decideCall(callOf('x'), rulesOf({ denylist: many }));
    expect(short.decision).toBe('allow');
  });

  it('and a headless run denies a call that exceeds them', () => {
    const verdict = decideCall(callOf(text), rulesOf({ denylist: many, headless: true }));
    expect(verdict).toMatchObject({ decision: 'deny', rule: { list: 'headless' }, tooLarge: true });
  });

  it('and a deny rule that matches before they are used up still denies', () => {
    const rules = rulesOf({ denylist: [...denylist(['*a*']), ...many] });
    expect(decideCall(callOf(text), rules)).toMatchObject({ decision: 'deny', rule: { index: 0 } });
  });

  it.each<[ParameterKind, string]>([
    ['text', 'word '],
    ['command', 'echo word; '],
    ['path', 'folder/'],
    ['url', 'https://example.com/'],
  ])('and hundreds of ordinary rules about a %s of 60 KB need a fraction of them', (kind, unit) => {
    const value =
      kind === 'url' ? unit + 'page/'.repeat(6_000) : unit.repeat(Math.floor(60_000 / unit.length));
    const ordinary = Array.from({ length: 100 }, (_, n) => [
      `rm${n} *`,
      `*secret-${n}*`,
      `**/private-${n}/**`,
      `https://host-${n}.example/*`,
      `git push-${n} --force*`,
    ]).flat();
    const rules = rulesOf(
      { denylist: denylist(ordinary), allowlist: [{ tool: 't' }] },
      { kinds: { a: kind } },
    );
    const { verdict, steps } = decideCounted(callOf(value), rules);
    expect(verdict).not.toHaveProperty('tooLarge');
    expect(steps).toBeLessThan(MAX_STEPS);
  });

  it.each<ParameterKind>(['text', 'command', 'path', 'url'])(
    'however long a %s is and whatever the rules are',
    (kind) => {
      const patterns = [
        '*',
        '**/*a*/**/*b',
        '{a,b}*{c,d}*x',
        'ls *',
        'https://*/*a',
        ...[0, 1, 2].map(slow),
      ];
      const list = denylist(Array.from({ length: 480 }, (_, n) => `${n}${patterns[n % 8]!}`));
      const rules = rulesOf(
        { allowOnce: denylist(patterns), denylist: list, ask: list },
        { kinds: { a: kind }, grants: list.map((rule, n) => ({ id: String(n), ...rule })) },
      );
      for (const value of [coins(1_000_000), 'ls a;'.repeat(2_000), '../a/'.repeat(200_000)]) {
        const { steps } = decideCounted(callOf(value), rules);
        expect(steps).toBeLessThanOrEqual(MAX_STEPS);
      }
    },
  );

  it('and exact rules with large nested arguments count', () => {
    const nested = Array.from({ length: 20_000 }, (_, n) => ({ n }));
    const grants = Array.from({ length: 50 }, (_, n) => ({
      id: String(n),
      tool: 't',
      exact: { a: [...nested, n] },
    }));
    const { verdict, steps } = decideCounted(
      callOf(nested),
      rulesOf({}, { grants, builtinAllow: false }),
    );
    expect(verdict).toEqual({ decision: 'ask', tooLarge: true });
    expect(steps).toBeLessThanOrEqual(MAX_STEPS);
    const [exact] = grants;
    const same = decideCall(callOf(exact!.exact.a), rulesOf({}, { grants, builtinAllow: false }));
    expect(same.decision).toBe('allow');
  });
});

describe('the steps of reading a command', () => {
  const rules = rulesOf({ denylist: denylist(['rm *', 'curl *']) }, { kinds: { a: 'command' } });

  it.each(['npm --a x ', 'ab ', 'eval "', "'$(a)' ", 'kubectl -n x ', 'env ', 'for i do '])(
    'grow with its words and with the commands that it may run: %j',
    (unit) => {
      const { verdict } = decideCounted(callOf(unit.repeat(60_000 / unit.length)), rules);
      expect(verdict).toEqual({ decision: 'ask', tooLarge: true });
    },
  );

  it.each(['$(', '${', '"$(', '`', '<('])('are few if it repeats %j', (unit) => {
    const { commands } = readCommands(unit.repeat(30_000 / unit.length));
    expect(commands.length).toBeLessThan(1_000);
  });

  it('suffice for an ordinary script of 30 KB', () => {
    const script = Array.from({ length: 1_000 }, (_, n) => `echo "line ${n} of ${n}" >> notes`);
    expect(decideCall(callOf(script.join('\n')), rules)).not.toHaveProperty('tooLarge');
  });

  it('do not include a pattern that has been read before', () => {
    const many = denylist(Array.from({ length: 300 }, (_, n) => `program-${n} --option {a,b} x*`));
    const under = rulesOf({ denylist: many }, { kinds: { a: 'command' } });
    const first = decideCounted(callOf('ls x'), under);
    const second = decideCounted(callOf('ls y'), under);
    expect(first.verdict.decision).toBe('allow');
    expect(second.steps).toBeLessThan(first.steps / 10);
    expect(DenyPattern.of('rm *')).toBe(DenyPattern.of('rm *'));
  });
});

describe('the check of patterns takes a bounded number of steps', () => {
  it('and accepts five hundred ordinary rules', () => {
    const ordinary = Array.from({ length: 500 }, (_, n) => `src/part-${n}/**/*.{ts,tsx}`);
    expect(checkPermissions({ denylist: denylist(ordinary) })).toEqual([]);
  });

  it('and gives others their turn of the event loop in between', async () => {
    const long = Array.from({ length: 40 }, (_, n) => `${n}${' word'.repeat(180)}`);
    const rules = { denylist: denylist([...long, '!(x)']) };
    let turns = 0;
    const timer = setInterval(() => (turns += 1), 0);
    const faults = await checkPermissionsInTurn(rules);
    clearInterval(timer);
    expect(turns).toBeGreaterThanOrEqual(1);
    expect(faults).toEqual(checkPermissions(rules));
    expect(faults).toHaveLength(1);
  });

  it('and refuses patterns that exceed it together', async () => {
    const nested = Array.from({ length: 64 }, (_, n) => `${n}${'?(a)?(b)'.repeat(120)}`);
    const [fault] = checkPermissions({ denylist: denylist(nested) });
    expect(fault).toMatchObject({ path: '' });
    expect(fault?.message).toContain('too complex');
    const others = nested.map((pattern) => `x${pattern}`);
    expect(await checkPermissionsInTurn({ denylist: denylist(others) })).toEqual([fault]);
  });
});

describe('deciding many calls', () => {
  it('gives others their turn of the event loop in between', async () => {
    const many = denylist(Array.from({ length: 20 }, (_, n) => slow(n)));
    const call = callOf(`${coins(100_000)}b`);
    let turns = 0;
    const timer = setInterval(() => (turns += 1), 0);
    for (let n = 0; n < 10; n += 1) await decideInTurn(call, rulesOf({ denylist: many }));
    clearInterval(timer);
    expect(turns).toBeGreaterThanOrEqual(5);
  });
});
