import { describe, expect, it } from 'vitest';
import { decideCall, type Grant, type RuleSet } from '../../src/permission/decide.ts';

const call = (command: string) => ({ toolCallId: 'c', name: 'bash', arguments: { command } });
const rules = (grants: Grant[], some: Partial<RuleSet> = {}): RuleSet => ({
  permissions: {},
  usedOnce: [],
  grants,
  builtinAllow: false,
  ...some,
});
const standing: Grant = { id: 'standing', tool: 'bash', params: { command: 'ls*' } };
const counted: Grant = { id: 'counted', tool: 'bash', params: { command: 'ls*' }, usesLeft: 2 };
const kinds = { command: 'command' } as const;

describe('a grant with a number of uses', () => {
  it('allows the call, and is marked as counted', () => {
    expect(decideCall(call('ls'), rules([counted]))).toEqual({
      decision: 'allow',
      rule: { list: 'grants', index: 0, source: 'grant', id: 'counted', counted: true },
    });
  });

  it.each<[string, RuleSet]>([
    ['a standing grant', rules([counted, standing])],
    ['an allowlist', rules([counted], { permissions: { allowlist: [{ tool: 'bash' }] } })],
    ['the tool itself', rules([counted], { builtinAllow: true })],
  ])('is spared where %s allows the call too', (_what, set) => {
    const verdict = decideCall(call('ls'), set);
    expect(verdict).toMatchObject({ decision: 'allow' });
    expect(verdict).not.toHaveProperty('rule.counted');
  });

  it('is used before an allow-once rule', () => {
    const permissions = { allowOnce: [{ tool: 'bash' }] };
    expect(decideCall(call('ls'), rules([counted], { permissions }))).toMatchObject({
      rule: { id: 'counted' },
    });
  });

  it('never beats a denial', () => {
    const permissions = { denylist: [{ tool: 'bash', params: { command: 'ls *' } }] };
    expect(decideCall(call('ls -la'), rules([counted, standing], { permissions, kinds }))).toEqual({
      decision: 'deny',
      rule: { list: 'denylist', index: 0, source: 'request' },
    });
  });

  it('does not cover a part of a command for another rule, because that use would not be counted', () => {
    const cat: Grant = { id: 'cat', tool: 'bash', params: { command: 'cat *' } };
    const line = call('cat a && ls');
    const pattern: Grant = { id: 'line', tool: 'bash', params: { command: 'cat *' } };
    expect(decideCall(line, rules([pattern, cat, counted], { kinds }))).toEqual({
      decision: 'ask',
    });
    expect(decideCall(line, rules([pattern, cat, standing], { kinds }))).toMatchObject({
      decision: 'allow',
    });
  });
});
