/** What a policy adds: the tenant's own word, above that of any caller. */
import type { PolicyRules } from '@relay/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decideCall, type RuleSet } from '../../src/permission/decide.ts';
import type { Policy } from '../../src/permission/policy.ts';

const call = (command = 'ls', name = 'bash') => ({
  toolCallId: 'call_1',
  name,
  arguments: { command },
});

const policy = (rules: Partial<PolicyRules>, id = '*@1'): Policy => ({
  id,
  allow: [],
  deny: [],
  ask: [],
  approvers: [],
  ...rules,
});

function rules(over: Partial<RuleSet> & { policies: Policy[] }): RuleSet {
  return { permissions: {}, usedOnce: [], grants: [], builtinAllow: false, ...over };
}

const bash = { tool: 'bash' };
const everything: Partial<RuleSet> = {
  permissions: { allowlist: [bash], allowOnce: [bash] },
  grants: [{ id: 'g', tool: 'bash', exact: { command: 'ls' } }],
  builtinAllow: true,
};

describe('a policy', () => {
  it('allows what it lists, and names itself', () => {
    const verdict = decideCall(call(), rules({ policies: [policy({ allow: [bash] })] }));
    expect(verdict).toEqual({
      decision: 'allow',
      rule: { list: 'allow', index: 0, source: 'policy', id: '*@1' },
    });
  });

  it('denies what it lists, whatever else allows it', () => {
    const policies = [policy({ deny: [{ tool: 'x' }, bash], allow: [bash] })];
    expect(decideCall(call(), rules({ ...everything, policies }))).toEqual({
      decision: 'deny',
      rule: { list: 'deny', index: 1, source: 'policy', id: '*@1' },
    });
  });

  it('requires an approval, whatever else allows it', () => {
    const policies = [policy({ ask: [bash], allow: [bash] })];
    expect(decideCall(call(), rules({ ...everything, policies }))).toEqual({
      decision: 'ask',
      rule: { list: 'ask', index: 0, source: 'policy', id: '*@1' },
    });
  });

  it('denies where it also asks', () => {
    const policies = [policy({ ask: [bash] }), policy({ deny: [bash] }, 'assistant@2')];
    expect(decideCall(call(), rules({ policies }))).toMatchObject({
      decision: 'deny',
      rule: { id: 'assistant@2' },
    });
  });

  it('can be narrowed by the request', () => {
    const policies = [policy({ allow: [bash] })];
    const permissions = { denylist: [bash] };
    expect(decideCall(call(), rules({ permissions, policies }))).toMatchObject({
      decision: 'deny',
      rule: { source: 'request' },
    });
  });

  it('is used before rules that are used up', () => {
    const policies = [policy({ allow: [bash] })];
    const grants = [{ id: 'g', tool: 'bash', usesLeft: 1 }];
    const permissions = { allowOnce: [bash] };
    expect(decideCall(call(), rules({ grants, permissions, policies }))).toMatchObject({
      rule: { source: 'policy' },
    });
  });

  describe('of commands', () => {
    const kinds = { command: 'command' } as const;
    const ask = [{ tool: 'bash', params: { command: 'rm *' } }];

    it.each(['rm x', 'ls; rm x', 'ls && /bin/rm x', 'sudo rm x', '"rm" x'])(
      'finds what it asks about in %s as it finds what it denies',
      (command) => {
        const permissions = { allowlist: [bash] };
        const asked = rules({ permissions, kinds, policies: [policy({ ask })] });
        expect(decideCall(call(command), asked)).toMatchObject({
          decision: 'ask',
          rule: { list: 'ask' },
        });
        const denied = rules({ permissions, kinds, policies: [policy({ deny: ask })] });
        expect(decideCall(call(command), denied).decision).toBe('deny');
      },
    );

    it('asks if an ask rule cannot read the command', () => {
      const permissions = { allowlist: [bash] };
      const asked = rules({ permissions, kinds, policies: [policy({ ask })] });
      expect(decideCall(call('echo $(cat x'), asked).decision).toBe('ask');
      expect(decideCall(call('ls'), asked).decision).toBe('allow');
    });

    it('covers a line together with the request and with grants', () => {
      const allowlist = [{ tool: 'bash', params: { command: 'ls *' } }];
      const allow = [{ tool: 'bash', params: { command: 'cat *' } }];
      const together = rules({ permissions: { allowlist }, kinds, policies: [policy({ allow })] });
      expect(decideCall(call('ls a && cat b'), together).decision).toBe('allow');
      expect(decideCall(call('ls a && cat b && rm c'), together).decision).toBe('ask');
    });
  });

  it('is never widened by a caller: with whatever rules, what it denies or asks stays so', () => {
    const rule = fc.record({
      tool: fc.constantFrom('bash', 'read'),
      params: fc.option(fc.constantFrom({ command: '*' }, { command: 'ls' }), { nil: undefined }),
    });
    const list = fc.array(rule.map(({ tool, params }) => (params ? { tool, params } : { tool })));
    fc.assert(
      fc.property(list, list, list, (allowlist, allowOnce, granted) => {
        const given = {
          permissions: { allowlist, allowOnce },
          grants: granted.map((each, n) => ({ id: `${n}`, ...each })),
          builtinAllow: true,
        };
        const deny = rules({ ...given, policies: [policy({ deny: [bash] })] });
        const ask = rules({ ...given, policies: [policy({ ask: [bash] })] });
        expect(decideCall(call(), deny).decision).toBe('deny');
        expect(decideCall(call(), ask).decision).toBe('ask');
      }),
    );
  });
});
