import { describe, expect, it } from 'vitest';
import { decideCall, type RuleSet } from '../../src/permission/decide.ts';
import type { ParameterKind } from '../../src/permission/match.ts';

const bash = (command: unknown, more: Record<string, unknown> = {}) => ({
  toolCallId: 'tc-1',
  name: 'bash',
  arguments: { command, ...more },
});
const rule = (command: string) => ({ tool: 'bash', params: { command } });
const ruleSet = (permissions: RuleSet['permissions'], more: Partial<RuleSet> = {}): RuleSet => ({
  permissions,
  usedOnce: [],
  grants: [],
  builtinAllow: false,
  kinds: { command: 'command' },
  ...more,
});
const denylist = ['rm *', 'curl *'].map(rule);
const cases = ruleSet({
  allowlist: ['ls *', 'cat *', 'echo *', 'git log*'].map(rule),
  denylist,
});
const on = (command: unknown, rules = cases): string => decideCall(bash(command), rules).decision;

describe('several rules about one command', () => {
  const allowlist = [rule('ls *'), rule('cat *')];
  const verdict = (command: string, rules: RuleSet) => decideCall(bash(command), rules);

  it('cover it together, and the one that matches the whole line is named', () => {
    expect(verdict('cat a | ls b', ruleSet({ allowlist }))).toEqual({
      decision: 'allow',
      rule: { list: 'allowlist', index: 1, source: 'request' },
    });
    const grants = [{ id: 'g-1', tool: 'bash', params: { command: 'wc*' } }];
    expect(verdict('cat a | wc', ruleSet({ allowlist }, { grants }))).toEqual({
      decision: 'allow',
      rule: { list: 'allowlist', index: 1, source: 'request' },
    });
    expect(verdict('wc a | cat b', ruleSet({ allowlist }, { grants }))).toEqual({
      decision: 'allow',
      rule: { list: 'grants', index: 0, source: 'grant', id: 'g-1' },
    });
  });

  it('never allow what the text of none of them matches', () => {
    const literal = ruleSet({ allowlist: [rule('git status'), rule('git diff')] });
    expect(verdict('git status', literal).decision).toBe('allow');
    expect(verdict('git status; git diff', literal).decision).toBe('ask');
    expect(verdict('(ls a)', ruleSet({ allowlist })).decision).toBe('ask');
  });

  it('count only if their other parameters hold', () => {
    const kinds: Record<string, ParameterKind> = { command: 'command', cwd: 'path' };
    const inside = { tool: 'bash', params: { command: 'cat *', cwd: '/app/**' } };
    const rules = ruleSet({ allowlist: [rule('ls *'), inside] }, { kinds });
    const at = (cwd: string) => decideCall(bash('ls a | cat b', { cwd }), rules).decision;
    expect(at('/app/x')).toBe('allow');
    expect(at('/etc')).toBe('ask');
    expect(at('/app/../etc')).toBe('ask');
  });

  it('cover a line together with an allow-once rule, but two allow-once rules do not', () => {
    const allowOnce = [rule('mkdir *'), rule('touch *')];
    const rules = ruleSet({ allowlist, allowOnce });
    expect(verdict('mkdir a && ls b', rules)).toEqual({
      decision: 'allow',
      rule: { list: 'allowOnce', index: 0, source: 'request' },
    });
    expect(verdict('mkdir a && touch b', rules).decision).toBe('ask');
    expect(verdict('ls a && touch b', rules).decision).toBe('ask');
    expect(verdict('mkdir a && ls b', { ...rules, usedOnce: [0] }).decision).toBe('ask');
  });
});

describe('an exact rule', () => {
  const command = 'curl $(cat url) > "/tmp/x" # for once';

  it('allows that call, whatever it contains', () => {
    const grants = [{ id: 'g-1', tool: 'bash', exact: { command } }];
    expect(on(command, ruleSet({}, { grants }))).toBe('allow');
    expect(on(`${command} `, ruleSet({}, { grants }))).toBe('ask');
    expect(on(command, ruleSet({ denylist }, { grants }))).toBe('deny');
    const exact = { tool: 'bash', exact: { command } };
    expect(on(command, ruleSet({ allowlist: [exact] }))).toBe('allow');
    expect(on('ls', ruleSet({ allowlist: [exact] }))).toBe('ask');
    expect(on('ls', ruleSet({ allowOnce: [exact] }))).toBe('ask');
  });

  it('denies that call and no other', () => {
    const exact = { tool: 'bash', exact: { command: 'ls a' } };
    const rules = ruleSet({ allowlist: [{ tool: 'bash' }], denylist: [exact] });
    expect(on('ls a', rules)).toBe('deny');
    expect(on('ls b', rules)).toBe('allow');
  });

  it('covers no part of another call', () => {
    const grants = [{ id: 'g-1', tool: 'bash', exact: { command: 'touch x' } }];
    expect(on('ls a; touch x', ruleSet({ allowlist: [rule('ls *')] }, { grants }))).toBe('ask');
  });
});

describe('sensitive parameters', () => {
  const rules = ruleSet({ allowlist: [rule('ls *')] }, { sensitive: ['env'] });

  it('are not allowed by a rule that names only others', () => {
    expect(decideCall(bash('ls a'), rules).decision).toBe('allow');
    expect(decideCall(bash('ls a', { env: 'PATH=/tmp' }), rules).decision).toBe('ask');
    expect(decideCall(bash('ls a', { other: 'x' }), rules).decision).toBe('allow');
  });

  it('are allowed by a rule that names them, or by one for the whole tool', () => {
    const named = { tool: 'bash', params: { command: 'ls *', env: 'LANG=*' } };
    const call = bash('ls a', { env: 'LANG=C' });
    expect(decideCall(call, { ...rules, permissions: { allowlist: [named] } }).decision).toBe(
      'allow',
    );
    const whole = { allowlist: [{ tool: 'bash' }] };
    expect(decideCall(call, { ...rules, permissions: whole }).decision).toBe('allow');
  });
});

describe('without kinds', () => {
  it('everything is text, as the seed documents it', () => {
    const { kinds: _, ...text } = cases;
    expect(on('ls x; curl y', text)).toBe('allow');
    expect(on('ls x; curl y', { ...cases, kinds: { command: 'text' } })).toBe('allow');
    expect(on('ls x; curl y', { ...cases, kinds: { other: 'command' } })).toBe('allow');
  });
});
