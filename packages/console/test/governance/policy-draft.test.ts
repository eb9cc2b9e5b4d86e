import { describe, expect, it } from 'vitest';
import { addressOfRule } from '../../src/call/rule-address.ts';
import {
  changesText,
  combine,
  countChanges,
  issuesByRule,
  jsonOf,
  linesOf,
  parseRules,
  type Rules,
} from '../../src/pages/policy/draft.ts';

const none: Rules = { deny: [], ask: [], allow: [], approvers: [] };
const press = { tool: 'send_note', params: { to: 'press' } };
const remove = { tool: 'bash', params: { command: 'rm *' } };
const push = { tool: 'bash', params: { command: 'git push*' } };

describe('A draft of the policy', () => {
  it('counts a changed rule as removed and added, whatever the order of its keys', () => {
    const before = { ...none, deny: [press], ask: [push] };
    const after = {
      ...none,
      deny: [{ params: { to: 'press' }, tool: 'send_note' }],
      ask: [remove],
    };
    expect(countChanges(before, after)).toEqual({ added: 1, removed: 1 });
    expect(changesText(countChanges(before, after))).toBe('1 added, 1 removed');
  });

  it('counts rules that occur twice', () => {
    expect(countChanges({ ...none, deny: [press] }, { ...none, deny: [press, press] })).toEqual({
      added: 1,
      removed: 0,
    });
  });

  it('says so if only the order of rules has changed', () => {
    const changes = countChanges(
      { ...none, deny: [press, remove] },
      { ...none, deny: [remove, press] },
    );
    expect(changesText(changes)).toBe('order changed');
  });

  it('makes its own changes to what somebody else has saved meanwhile', () => {
    const base = { ...none, deny: [press], ask: [push] };
    const mine = { ...none, deny: [press, remove], ask: [] };
    const theirs = { ...none, deny: [], ask: [push, press] };
    expect(combine(base, mine, theirs)).toEqual({ ...none, deny: [remove], ask: [press] });
  });

  it('does not add a rule again that both have added', () => {
    const theirs = { ...none, deny: [remove] };
    expect(combine(none, { ...none, deny: [press, remove] }, theirs).deny).toEqual([remove, press]);
  });

  it('has one line per rule for a comparison', () => {
    expect(linesOf({ ...none, deny: [press], ask: [{ tool: 'read' }] })).toBe(
      'deny  send_note {"params":{"to":"press"}}\nask  read\n',
    );
  });

  it('is the same after it was shown as JSON and read again', () => {
    const rules = {
      ...none,
      deny: [press],
      approvers: [{ tool: 'x', quorum: 2, notRequester: true }],
    };
    expect(parseRules(jsonOf(rules))).toEqual(rules);
  });

  it.each([
    ['{', /not JSON/],
    ['[]', /object with the lists/],
    ['{"denied": []}', /no list "denied"/],
    ['{"deny": {}}', /deny must be a list/],
    ['{"ask": [{"tool": "a"}, {"params": {}}]}', /ask\[1\]/],
    ['{"ask": [{"tool": "a", "params": {"to": 5}}]}', /ask\[0\] has "params"/],
    ['{"deny": [{"tool": "a", "exact": "x"}]}', /deny\[0\] has "exact"/],
    ['{"approvers": [{"tool": "a", "roles": "admin"}]}', /approvers\[0\] has "roles"/],
  ])('says what is wrong with the text %s', (text, problem) => {
    expect(parseRules(text)).toEqual({ problem: expect.stringMatching(problem) });
  });

  it('puts the problems that the server names at their rules', () => {
    const issues = issuesByRule([
      { path: 'deny[1].params.to', message: 'Empty' },
      { path: 'approvers[0]', message: 'Requires the scope approve' },
      { path: 'version', message: 'Required' },
    ]);
    expect([...issues.byRule]).toEqual([
      ['deny[1]', [{ path: 'params.to', message: 'Empty' }]],
      ['approvers[0]', [{ path: '', message: 'Requires the scope approve' }]],
    ]);
    expect(issues.others).toEqual([{ path: 'version', message: 'Required' }]);
  });
});

describe('The address of a rule', () => {
  it('names the list, the number, the agent and the version', () => {
    expect(addressOfRule({ list: 'ask', index: 2, source: 'policy', id: '*@7' })).toEqual({
      href: '/policy?list=ask&rule=3&version=7',
      label: 'Policy, ask rule 3',
    });
    expect(addressOfRule({ list: 'deny', index: 0, source: 'policy', id: 'a@b@1' })).toEqual({
      href: '/policy?list=deny&rule=1&agent=a%40b&version=1',
      label: 'Policy for a@b, deny rule 1',
    });
  });

  it('is that of the grant if a grant decides', () => {
    expect(addressOfRule({ list: 'grants', index: 0, source: 'grant', id: 'g1' })?.href).toBe(
      '/policy/grants?grant=g1',
    );
  });

  it('does not exist for rules of a request or a tool', () => {
    expect(addressOfRule({ list: 'denylist', index: 0, source: 'request' })).toBeUndefined();
    expect(addressOfRule({ list: 'builtin', index: 0, source: 'builtin' })).toBeUndefined();
  });
});
