/** What demands a person, whatever allows the call: `permissions.ask`, and `needsApproval` of a tool. */
import { describe, expect, it } from 'vitest';
import { decideCall, type RuleSet } from '../../src/permission/decide.ts';
import { checkPermissions } from '../../src/permission/match.ts';

const call = (command = 'ls') => ({ toolCallId: 'call_1', name: 'bash', arguments: { command } });
const bash = { tool: 'bash' };

/** Everything that could allow the call does. */
const rules = (over: Partial<RuleSet> = {}, ask?: RuleSet['permissions']['ask']): RuleSet => ({
  permissions: { allowlist: [bash], allowOnce: [bash], ...(ask === undefined ? {} : { ask }) },
  usedOnce: [],
  grants: [
    { id: 'g', tool: 'bash', exact: { command: 'ls' } },
    { id: 'h', tool: 'bash', usesLeft: 1 },
  ],
  policies: [{ id: '*@1', allow: [bash], deny: [], ask: [], approvers: [] }],
  builtinAllow: true,
  ...over,
});

describe('an ask rule of the request', () => {
  it('demands a person, whatever allows the call', () => {
    expect(decideCall(call(), rules({}, [{ tool: 'read' }, bash]))).toEqual({
      decision: 'ask',
      rule: { list: 'ask', index: 1, source: 'request' },
    });
  });

  it('concerns the calls that it matches', () => {
    const ask = [{ tool: 'bash', params: { command: 'rm *' } }];
    expect(decideCall(call('rm -r x'), rules({}, ask)).decision).toBe('ask');
    expect(decideCall(call('ls'), rules({}, ask)).decision).toBe('allow');
  });

  it('matches like a deny rule: also inside a longer command, and what it cannot read', () => {
    const kinds = { command: 'command' } as const;
    const ask = [{ tool: 'bash', params: { command: 'rm *' } }];
    for (const command of ['ls; rm -r x', 'ls && sudo rm -r x', 'eval "$x"']) {
      expect(decideCall(call(command), rules({ kinds }, ask)).decision, command).toBe('ask');
    }
    expect(decideCall(call('ls'), rules({ kinds }, ask)).decision).toBe('allow');
  });

  it('does not beat a deny rule, by pattern or by id, of the request or the policy', () => {
    const ask = [bash];
    const denials: RuleSet[] = [
      { ...rules({}, ask), permissions: { ask, denylist: [bash] } },
      { ...rules({}, ask), permissions: { ask, deny: [{ toolCallId: 'call_1' }] } },
      rules({ policies: [{ id: '*@1', allow: [], deny: [bash], ask: [], approvers: [] }] }, ask),
    ];
    for (const denied of denials) expect(decideCall(call(), denied).decision).toBe('deny');
  });

  it('is a denial in a headless run', () => {
    const permissions = { allowlist: [bash], ask: [bash], headless: true };
    expect(decideCall(call(), rules({ permissions }))).toMatchObject({
      decision: 'deny',
      rule: { list: 'headless' },
    });
  });

  it('is refused with a malformed pattern, which is named', () => {
    const ask = [{ tool: 'bash', params: { command: '!rm' } }];
    expect(checkPermissions({ ask })).toMatchObject([{ path: 'ask[0].params.command' }]);
    expect(checkPermissions({ ask: [{ tool: '*' }] })).toMatchObject([{ path: 'ask[0].tool' }]);
  });
});

describe('a tool with needsApproval', () => {
  it('demands a person for one call, and the rule says why', () => {
    expect(decideCall(call(), rules({ needsApproval: 'it can start programs' }))).toEqual({
      decision: 'ask',
      rule: {
        list: 'needsApproval',
        index: 0,
        source: 'builtin',
        reason: 'it can start programs',
      },
    });
  });

  it('demands a person for each call, whatever allows it', () => {
    expect(decideCall(call(), rules({ needsApproval: true }))).toEqual({
      decision: 'ask',
      rule: { list: 'needsApproval', index: 0, source: 'builtin' },
    });
  });

  it('is denied where a rule denies, and in a headless run', () => {
    const denied = { needsApproval: true, permissions: { denylist: [bash] } };
    expect(decideCall(call(), rules(denied)).decision).toBe('deny');
    const headless = { needsApproval: true, permissions: { allowlist: [bash], headless: true } };
    expect(decideCall(call(), rules(headless)).decision).toBe('deny');
  });
});
