import { describe, expect, it } from 'vitest';
import { decideCall, type RuleSet } from '../../src/permission/decide.ts';
import type { ParameterKind } from '../../src/permission/match.ts';

const LARGE = 131_072;
const HUGE = 1_048_576;

const rules = (kind: ParameterKind): RuleSet => ({
  permissions: {
    allowlist: [{ tool: 't', params: { a: 'ls *' } }, { tool: 't' }],
    denylist: ['rm *', 'curl *', '*a*b*c*d'].map((a) => ({ tool: 't', params: { a } })),
  },
  usedOnce: [],
  grants: [],
  builtinAllow: true,
  kinds: { a: kind },
});

function cost(text: string, kind: ParameterKind): number {
  const start = performance.now();
  decideCall({ toolCallId: 'tc-1', name: 't', arguments: { a: text } }, rules(kind));
  return performance.now() - start;
}

describe('a long parameter is decided quickly', () => {
  it.each([
    '$(',
    '`',
    '"',
    "'",
    '(',
    '{ ',
    '{',
    '[',
    '${',
    '$((',
    '((',
    '<(',
    '"$(',
    '\\',
    '\\\n',
    '\n',
    '\t',
    '#',
    '# \n',
    'a;',
    'ab ',
    'a=b ',
    'a[',
    '>',
    '<<E\n',
    "$'",
    "$'\\x41",
    '\0',
    '\u00a0',
    '😀',
    "'' ",
    'sudo ',
    'sudo -u ',
    'env $a ',
    'eval ',
    'eval "',
    "bash -c '",
    'find . -exec ',
    '-exec ',
    'xargs sh -c ',
    'npm --a x ',
    'git -C x ',
    'gcloud --a ',
    'docker --a container ',
    'for i do ',
    'case a in a) ',
    'f() ',
    'a/',
    '{a,',
    "'$(a)' ",
    'ssh h "a b" ',
    '1',
    '-',
    '=',
    ']',
    'a]=',
    '&&',
    '$a',
    'é',
    '\ud800',
  ])('a command that repeats %j', (unit) => {
    // Bounds that a busy machine keeps; quadratic work would take minutes.
    expect(cost(unit.repeat(LARGE / unit.length), 'command')).toBeLessThan(3_000);
  });

  it.each(['$(', "bash -c '", 'sudo -u ', 'for i do ', 'a;'])('a megabyte of %j', (unit) => {
    expect(cost(unit.repeat(HUGE / unit.length), 'command')).toBeLessThan(8_000);
  });

  it.each(['../', './', '/', 'a/', 'a/../', '\\', 'é', '~', '\0'])(
    'a path that repeats %j',
    (unit) => {
      expect(cost(unit.repeat(LARGE / unit.length), 'path')).toBeLessThan(4_000);
    },
  );

  it.each(['/', '../', '%2e%2e/', '@', ':', '.', 'a', '?', '#', '%25'])(
    'a URL that repeats %j',
    (unit) => {
      const text = `https://example.com/${unit.repeat(LARGE / unit.length)}`;
      expect(cost(text, 'url')).toBeLessThan(4_000);
      expect(cost(`https://${unit.repeat(LARGE / unit.length)}`, 'url')).toBeLessThan(4_000);
    },
  );

  it('a command that a thousand rules match', () => {
    const many = Array.from({ length: 1_000 }, (_, at) => ({
      tool: 't',
      params: { a: at % 2 === 0 ? `ls*${'?'.repeat(at % 7)}` : 'ls *' },
    }));
    const command = `${Array.from({ length: 1_200 }, (_, at) => `ls ${at}`).join(';')}; nothing`;
    const start = performance.now();
    const verdict = decideCall(
      { toolCallId: 'tc-1', name: 't', arguments: { a: command } },
      { ...rules('command'), permissions: { allowlist: many }, builtinAllow: false },
    );
    expect(verdict.decision).toBe('ask');
    expect(performance.now() - start).toBeLessThan(4_000);
  });
});
