import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decideCall, type RuleSet } from '../../src/permission/decide.ts';
import { matchesPermissions, type ParameterKind } from '../../src/permission/match.ts';

const SIGNS = Array.from(';&|(){}[]<>$`"\'\\#!~*?=, \t\n\r');
const SHELL =
  'ls |cat a|echo b|git log|rm x|rm|x|-r|--|$(|${x|$((|))|<(|<<E\n|\nE\n|2>&1|>/dev/null|$\'|$"|$x|$?|' +
  'A=b |a[|]=|=(|if |then |fi|for i in |do |done|case a in a) |;; esac|[[ | ]]|sudo |env |timeout 5 |' +
  'xargs |eval |bash -c |find . -exec |\\\n';
const OTHER = '\0|\u00a0|\u2028|\ufeff|😀|\ud800|é|..|/|src|https://|@|.com';
const PIECES = [...SIGNS, ...SHELL.split('|'), ...OTHER.split('|')];
const pieces = fc.array(fc.constantFrom(...PIECES), { maxLength: 16 }).map((all) => all.join(''));
const value = fc.oneof({ weight: 4, arbitrary: pieces }, fc.string({ unit: 'binary' }));
const pattern = fc.oneof(
  fc.constantFrom('*', '**', 'ls *', 'ls*', 'cat *', 'echo *', 'git log*', 'src/**', 'https://*'),
  pieces,
);
const kind = fc.constantFrom<ParameterKind>('command', 'path', 'url', 'text');

const ruleSet = (permissions: RuleSet['permissions'], more: Partial<RuleSet> = {}): RuleSet => ({
  permissions,
  usedOnce: [],
  grants: [],
  builtinAllow: false,
  ...more,
});
const rule = (a: string) => ({ tool: 't', params: { a } });
const call = (a: unknown) => ({ toolCallId: 'tc-1', name: 't', arguments: { a } });

describe('whatever a parameter holds', () => {
  it('a decision is made without throwing', () => {
    fc.assert(
      fc.property(fc.oneof(value, fc.anything()), pattern, pattern, kind, (a, allow, deny, as) => {
        const kinds = { a: as };
        decideCall(
          call(a),
          ruleSet({ allowlist: [rule(allow)], denylist: [rule(deny)] }, { kinds }),
        );
        decideCall(call(a), ruleSet({ denylist: [rule(deny)] }, { kinds, builtinAllow: true }));
      }),
      { numRuns: 5_000 },
    );
  });

  it('what it is declared to be allows nothing that its text does not', () => {
    let allowed = 0;
    fc.assert(
      fc.property(value, fc.array(pattern, { maxLength: 3 }), kind, (a, patterns, as) => {
        const permissions = { allowlist: patterns.map(rule), allowOnce: [rule('cat *')] };
        const verdict = decideCall(call(a), ruleSet(permissions, { kinds: { a: as } }));
        if (verdict.decision !== 'allow') return;
        allowed += 1;
        expect(matchesPermissions(call(a), permissions)).toBe(true);
      }),
      { numRuns: 10_000 },
    );
    expect(allowed).toBeGreaterThan(100);
  });

  it('what it is declared to be lets nothing pass that a deny rule stops by its text', () => {
    fc.assert(
      fc.property(value, pattern, kind, (a, deny, as) => {
        const permissions = { allowlist: [{ tool: 't' }], denylist: [rule(deny)] };
        const byText = decideCall(call(a), ruleSet(permissions)).decision;
        const declared = decideCall(call(a), ruleSet(permissions, { kinds: { a: as } })).decision;
        if (byText === 'deny') expect(declared).toBe('deny');
      }),
      { numRuns: 5_000 },
    );
  });
});

describe('a denied command', () => {
  const kinds = { a: 'command' as const };
  const allowlist = ['ls*', 'cat*', 'echo*', 'git log*'].map(rule);
  const denying = ruleSet({ allowlist, denylist: [rule('rm *')] }, { kinds });
  const asking = ruleSet({ allowlist }, { kinds });
  const everything = ruleSet({ allowlist: [{ tool: 't' }], denylist: [rule('rm *')] }, { kinds });
  const word = fc.constantFrom('a', '-l', '"b c"', "'d; e'", '2>&1', '>/dev/null', '*.ts', '$?');
  const harmless = fc
    .tuple(fc.constantFrom('ls', 'cat', 'echo', 'git log'), fc.array(word, { maxLength: 4 }))
    .map(([name, words]) => [name, ...words].join(' '));
  const joint = fc.constantFrom(';', '; ', ' && ', '|', ' | ', '\n', ' || ', '&', ' |& ', ';\n');
  const hidden = fc.constantFrom(
    'rm x',
    '(rm x)',
    '{ rm x; }',
    '/bin/rm x',
    'r\\m x',
    '"rm" x',
    'sudo rm x',
    'A=b rm x',
    '! rm x',
    '$(rm x)',
    '`rm x`',
    'echo "$(rm x)"',
    '>f rm x',
    'env A=b rm x',
    'rm\tx',
    'rm',
  );

  it('is never allowed for being joined with allowed ones', () => {
    let joined = 0;
    fc.assert(
      fc.property(harmless, joint, hidden, fc.option(fc.tuple(joint, harmless)), (...parts) => {
        const [first, sign, denied, rest] = parts;
        const line = first + sign + denied + (rest ?? []).join('');
        if (decideCall(call(first), asking).decision === 'allow') joined += 1;
        expect(decideCall(call(line), denying).decision).toBe('deny');
        expect(decideCall(call(line), asking).decision).toBe('ask');
        expect(decideCall(call(line), everything).decision).toBe('deny');
      }),
      { numRuns: 3_000 },
    );
    expect(joined).toBeGreaterThan(500);
  });

  it('is never allowed for what stands around it', () => {
    fc.assert(
      fc.property(pieces, pieces, (before, after) => {
        // A line of its own is a command unless a quote, a comment or a document swallows it; then
        // it may be mentioned, but a rule about it must still have been looked at.
        const line = `${before}\nrm x\n${after}`;
        expect(decideCall(call(line), asking).decision).toBe('ask');
      }),
      { numRuns: 3_000 },
    );
  });
});
