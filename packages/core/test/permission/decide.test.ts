import { describe, expect, it } from 'vitest';
import { decideCall, type RuleSet } from '../../src/permission/decide.ts';

const call = (command: string, toolCallId = 'tc-1') => ({
  toolCallId,
  name: 'bash',
  arguments: { command },
});
const rules = (some: Partial<RuleSet>): RuleSet => ({
  permissions: {},
  usedOnce: [],
  grants: [],
  builtinAllow: false,
  ...some,
});
const ls = { tool: 'bash', params: { command: 'ls*' } };
const everything = { tool: 'bash' };

describe('a decision', () => {
  it('asks if no rule matches', () => {
    expect(decideCall(call('ls'), rules({}))).toEqual({ decision: 'ask' });
    expect(decideCall(call('rm x'), rules({ permissions: { allowlist: [ls] } }))).toEqual({
      decision: 'ask',
    });
  });

  it('denies by the id of the call before anything else, with the reason given', () => {
    const permissions = {
      allowlist: [everything],
      denylist: [everything],
      deny: [
        { toolCallId: 'tc-0' },
        { toolCallId: 'tc-1', reason: 'This specific call looks suspicious' },
      ],
    };
    expect(decideCall(call('ls'), rules({ permissions, builtinAllow: true }))).toEqual({
      decision: 'deny',
      rule: { list: 'deny', index: 1, source: 'request' },
      reason: 'This specific call looks suspicious',
    });
    expect(decideCall(call('ls', 'tc-0'), rules({ permissions }))).toEqual({
      decision: 'deny',
      rule: { list: 'deny', index: 0, source: 'request' },
    });
    expect(
      decideCall(call('ls', 'tc-2'), rules({ permissions: { ...permissions, denylist: [] } })),
    ).toEqual({
      decision: 'allow',
      rule: { list: 'allowlist', index: 0, source: 'request' },
    });
  });

  it('lets a denylist beat every kind of allow', () => {
    const verdict = decideCall(
      call('rm -r /home/me/.ssh'),
      rules({
        permissions: {
          allowlist: [everything],
          allowOnce: [everything],
          denylist: [ls, { tool: 'bash', params: { command: 'rm *' } }],
        },
        grants: [{ id: 'g-1', tool: 'bash', exact: { command: 'rm -r /home/me/.ssh' } }],
        builtinAllow: true,
      }),
    );
    expect(verdict).toEqual({
      decision: 'deny',
      rule: { list: 'denylist', index: 1, source: 'request' },
    });
  });

  it('names the first of the standing rules: the list, then grants, then the tool itself', () => {
    const grants = [
      { id: 'g-1', tool: 'bash', params: { command: 'cat *' } },
      { id: 'g-2', tool: 'bash', params: { command: 'ls*' } },
    ];
    const all = rules({
      permissions: { allowlist: [{ tool: 'read' }, ls], allowOnce: [everything] },
      grants,
      builtinAllow: true,
    });
    expect(decideCall(call('ls'), all)).toEqual({
      decision: 'allow',
      rule: { list: 'allowlist', index: 1, source: 'request' },
    });
    expect(decideCall(call('ls'), { ...all, permissions: { allowOnce: [everything] } })).toEqual({
      decision: 'allow',
      rule: { list: 'grants', index: 1, source: 'grant', id: 'g-2' },
    });
    expect(decideCall(call('rm x'), all)).toEqual({
      decision: 'allow',
      rule: { list: 'builtin', index: 0, source: 'builtin' },
    });
  });

  it('takes the first allow-once that matches and is not used up, in source order', () => {
    const permissions = { allowOnce: [{ tool: 'read' }, everything, ls, ls] };
    const picked = (usedOnce: readonly number[]) => {
      const verdict = decideCall(call('ls'), rules({ permissions, usedOnce }));
      return verdict.decision === 'allow' ? verdict.rule.index : verdict.decision;
    };
    expect(picked([])).toBe(1);
    expect(picked([1])).toBe(2);
    expect(picked([2])).toBe(1);
    expect(picked([1, 2])).toBe(3);
    expect(picked([1, 2, 3])).toBe('ask');
  });

  it('applies an exact grant to that call alone, including stars', () => {
    const granted = rules({
      grants: [{ id: 'g-1', tool: 'bash', exact: { command: 'rm -rf ./tmp/*' } }],
    });
    expect(decideCall(call('rm -rf ./tmp/*'), granted).decision).toBe('allow');
    expect(decideCall(call('rm -rf ./tmp/x'), granted).decision).toBe('ask');
  });

  it('applies a grant without parameters to the whole tool, and to no other', () => {
    const granted = rules({ grants: [{ id: 'g-1', tool: 'bash' }] });
    expect(decideCall(call('anything'), granted).decision).toBe('allow');
    expect(decideCall({ ...call('anything'), name: 'read' }, granted).decision).toBe('ask');
  });

  it('does not change its input', () => {
    const set = rules({ permissions: { allowOnce: [everything] } });
    const before = structuredClone(set);
    decideCall(call('ls'), set);
    expect(set).toEqual(before);
  });
});
