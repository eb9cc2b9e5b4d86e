import type { ApproverRule } from '@relay/protocol';
import { describe, expect, test } from 'vitest';
import {
  type Approver,
  describeApprovers,
  faultOfApprovers,
  isEntitled,
  isQuorum,
} from '../../src/permission/approvers.ts';
import { approverRulesFor, decideCall, type RuleSet } from '../../src/permission/decide.ts';
import { policiesOf } from '../../src/permission/policy.ts';

function rule(over: Partial<ApproverRule> = {}): ApproverRule {
  return { tool: 'deploy', quorum: 1, notRequester: false, ...over };
}

function approver(person: string, over: Partial<Approver> = {}): Approver {
  return {
    person,
    keyId: `key-${person}`,
    replaces: [],
    scopes: ['read', 'approve'],
    groups: [],
    ...over,
  };
}

const ada = approver('ada', { groups: ['release'] });
const ben = approver('ben');
const root = approver('root', { scopes: ['read', 'runs', 'worker', 'approve', 'admin'] });
const operator = approver('op', { scopes: ['read', 'runs'], groups: ['release'] });

describe('a person', () => {
  test.each([
    ['without roles, groups and keys, with the scope approve', rule(), [ada, ben, root]],
    ['by role, whose scopes are all held', rule({ roles: ['admin'] }), [root]],
    ['by one of several roles', rule({ roles: ['admin', 'approver'] }), [ada, ben, root]],
    ['by group', rule({ groups: ['release', 'ops'] }), [ada]],
    ['by key', rule({ keys: ['key-ben', 'key-op'] }), [ben]],
    ['except the requester', rule({ notRequester: true }), [ada, root]],
  ])('may decide %s', (_, each, expected) => {
    const entitled = [ada, ben, root, operator].filter((one) => isEntitled(each, one, 'ben'));
    expect(entitled).toEqual(expected);
  });

  test('may decide with a rotated key if the rule names one that it replaces', () => {
    const rotated = approver('cyd', { replaces: ['key-newer', 'key-old'] });
    for (const id of ['key-cyd', 'key-newer', 'key-old']) {
      expect(isEntitled(rule({ keys: [id] }), rotated, '')).toBe(true);
      expect(isEntitled(rule({ keys: [id] }), { ...rotated, scopes: [] }, '')).toBe(false);
    }
    const old = approver('cyd', { keyId: 'key-old' });
    expect(isEntitled(rule({ keys: ['key-newer'] }), old, '')).toBe(false);
  });

  test('counts once towards the quorum, with however many keys', () => {
    const two = rule({ quorum: 2 });
    expect(isQuorum(two, [ada, { ...ada, keyId: 'another' }], '')).toBe(false);
    expect(isQuorum(two, [ada, ben], '')).toBe(true);
    expect(isQuorum(two, [ada, operator], '')).toBe(false);
  });
});

test('who may decide is said in words', () => {
  const release = rule({ groups: ['release', 'ops'], quorum: 2, notRequester: true });
  expect(describeApprovers(release)).toBe(
    '2 persons in the group release or ops, other than the person who started the run',
  );
  expect(describeApprovers(rule())).toBe('a person with the scope approve');
});

test.each([
  ['an unknown key', rule({ keys: ['key-ada', 'gone'] }), 'keys[1]', 'No such key'],
  ['a key that may not approve', rule({ keys: ['key-op'] }), 'keys[0]', 'lacks the scope approve'],
  [
    'fewer persons than the quorum',
    rule({ keys: ['key-ada', 'ada-2'], quorum: 2 }),
    'quorum',
    'one person',
  ],
])('a rule with %s can never be met', (_, each, path, message) => {
  const known = new Map(
    [ada, ben, operator, { ...ada, keyId: 'ada-2' }].map((one) => [one.keyId ?? '', one]),
  );
  const fault = faultOfApprovers(each, known);
  expect(fault?.path).toBe(path);
  expect(fault?.message).toContain(message);
  expect(faultOfApprovers(rule({ keys: ['key-ada', 'key-ben'], quorum: 2 }), known)).toBe(
    undefined,
  );
});

const record = { id: '', version: 1, at: 0, by: { type: 'key', id: '', name: '' } } as const;
const lists = { allow: [], deny: [], ask: [] };

function policies(approvers: readonly ApproverRule[], own: readonly ApproverRule[] = []) {
  return policiesOf(
    [
      { ...record, agent: null, rules: { ...lists, approvers: [...approvers] } },
      { ...record, agent: 'assistant', rules: { ...lists, approvers: [...own] } },
    ],
    'assistant',
  );
}

describe('the rule about a call', () => {
  const push = rule({ tool: 'bash', params: { command: 'git push*' } });
  const kinds = { command: 'command', target: 'path' } as const;

  function find(approvers: readonly ApproverRule[], name: string, args: Record<string, unknown>) {
    const call = { toolCallId: '', name, arguments: args };
    return approverRulesFor(call, { policies: policies(approvers), kinds });
  }

  test.each([
    ['git push'],
    ['git push origin main'],
    ['sudo git push'],
    ['git -C . push'],
    ['git --no-pager -c a.b=c push origin'],
    ['ls; git push --force'],
    ['bash -c "git push"'],
    ['echo $(git push)'],
    ['$x push'],
    ['eval "$y"'],
  ])('for `git push*` is about `%s`', (command) => {
    expect(find([push], 'bash', { command })).toEqual([push]);
  });

  test.each([['git status'], ['echo git-push'], ['ls']])(
    'for `git push*` is not about `%s`',
    (command) => {
      expect(find([push], 'bash', { command })).toEqual([]);
    },
  );

  test('is the first that matches, and of another tool or agent never', () => {
    const prod = rule({ params: { env: 'prod' }, quorum: 2 });
    const other = rule({ agent: 'other', quorum: 3 });
    const any = rule({ quorum: 1 });
    expect(find([other, prod, any], 'deploy', { env: 'prod' })).toEqual([prod]);
    expect(find([other, prod, any], 'deploy', { env: 'test' })).toEqual([any]);
    expect(find([other, prod], 'deploy', { env: 'test' })).toEqual([]);
    expect(find([prod, any], 'read', { env: 'prod' })).toEqual([]);
  });

  test('matches a value that patterns cannot read', () => {
    const prod = rule({ params: { env: 'prod' } });
    expect(find([prod], 'deploy', { env: ['prod'] })).toEqual([prod]);
    expect(find([prod], 'deploy', {})).toEqual([]);
  });

  test('does not hide a later one behind a call that cannot be read', () => {
    const weak = rule({ tool: 'bash', params: { command: 'ls*' } });
    const strict = { ...push, quorum: 2 };
    const rest = rule({ tool: 'bash', quorum: 3 });
    const found = (command: string) => find([weak, strict, rest], 'bash', { command });
    expect(found('ls')).toEqual([weak]);
    expect(found('git push')).toEqual([strict]);
    expect(found('eval "$y"')).toEqual([weak, strict, rest]);
  });

  test('of all agents comes before that of one agent, which cannot weaken it', () => {
    const strict = rule({ quorum: 2 });
    const weak = rule({ quorum: 1 });
    const call = { toolCallId: '', name: 'deploy', arguments: {} };
    expect(approverRulesFor(call, { policies: policies([strict], [weak]) })).toEqual([strict]);
    expect(approverRulesFor(call, { policies: policies([], [weak]) })).toEqual([weak]);
  });
});

describe('a call with approvers', () => {
  const call = { toolCallId: '', name: 'deploy', arguments: { env: 'prod' } };

  function decide(approvers: ApproverRule, over: Partial<RuleSet>) {
    return decideCall(call, {
      permissions: {},
      usedOnce: [],
      grants: [],
      builtinAllow: false,
      policies: policies([approvers]),
      requester: ben,
      ...over,
    }).decision;
  }

  const two = rule({ quorum: 2 });
  const release = rule({ groups: ['release'] });
  const allowing = { permissions: { allowlist: [{ tool: 'deploy' }] } };
  const once = { permissions: { allowOnce: [{ tool: 'deploy' }] } };
  const grantBy = (...approvers: readonly Approver[]) => ({
    grants: [{ id: 'g', tool: 'deploy', approvers }],
  });

  test.each([
    ['by rules of a request of another person', release, allowing, 'ask'],
    ['once by a request of another person', release, once, 'ask'],
    ['by rules of a request of an approver', release, { ...allowing, requester: ada }, 'allow'],
    ['by a request of one of two approvers', two, { ...allowing, requester: ada }, 'ask'],
    [
      'by a request if the requester may not decide',
      rule({ notRequester: true }),
      { ...allowing, requester: ada },
      'ask',
    ],
    ['by a request of an unknown person', rule(), { ...allowing, requester: undefined }, 'ask'],
    ['by default', rule(), { builtinAllow: true }, 'ask'],
    ['by a grant of another person', release, grantBy(ben), 'ask'],
    ['by a grant of an approver', release, grantBy(ada), 'allow'],
    ['by a grant of one of two approvers', two, grantBy(ada), 'ask'],
    ['by a grant of both approvers', two, grantBy(ada, ben), 'allow'],
    ['by a grant of the requester', rule({ notRequester: true }), grantBy(ben), 'ask'],
    ['by a grant without persons', rule(), { grants: [{ id: 'g', tool: 'deploy' }] }, 'ask'],
  ] as const)('is allowed %s only if they suffice', (_, approvers, over, expected) => {
    expect(decide(approvers, over as Partial<RuleSet>)).toBe(expected);
  });

  test('is allowed by the policy, and denied by anyone', () => {
    const [first] = policies([two]);
    const allowed = [{ ...first!, allow: [{ tool: 'deploy' }] }];
    expect(decide(two, { policies: allowed })).toBe('allow');
    expect(decide(two, { permissions: { denylist: [{ tool: 'deploy' }] } })).toBe('deny');
  });

  test('is not covered, together with other commands, by rules that do not count', () => {
    const push = rule({ tool: 'bash', params: { command: 'git push*' }, groups: ['release'] });
    const line = { toolCallId: '', name: 'bash', arguments: { command: 'ls && git push' } };
    const verdict = decideCall(line, {
      permissions: {
        allowlist: [
          { tool: 'bash', params: { command: 'ls*' } },
          { tool: 'bash', params: { command: 'git push' } },
        ],
      },
      usedOnce: [],
      grants: [],
      builtinAllow: false,
      policies: policies([push]),
      requester: ben,
      kinds: { command: 'command' },
    });
    expect(verdict.decision).toBe('ask');
  });
});
