import { RelayError, type Permissions } from '@relay/protocol';
import { describe, expect, test } from 'vitest';
import { AgentRules, checkRules } from '../src/rules.ts';

function errorOf(act: () => unknown): RelayError {
  try {
    act();
  } catch (error) {
    if (error instanceof RelayError) return error;
    throw error;
  }
  throw new Error('Nothing was thrown');
}

describe('AgentRules', () => {
  test('read the current state of the permissions object', () => {
    const permissions: Permissions = {};
    const rules = new AgentRules(permissions);
    expect(rules.current()).toEqual({});
    permissions.allowlist = [{ tool: 'bash' }];
    expect(rules.current().allowlist).toEqual([{ tool: 'bash' }]);
    permissions.allowlist.push({ tool: 'read' });
    expect(rules.current().allowlist).toHaveLength(2);
    delete permissions.allowlist;
    expect(rules.current()).toEqual({});
  });

  test('are at most 500, and "always" adds none beyond that', () => {
    const named = (count: number) =>
      Array.from({ length: count }, (_, n) => ({ tool: `tool-${n}`, params: { a: 'x' } }));
    const error = errorOf(() => new AgentRules({ denylist: named(250), allowlist: named(251) }));
    expect(error).toMatchObject({ code: 'invalid_request' });
    expect(error.message).toContain('501 rules; at most 500');
    const full = new AgentRules({ allowlist: named(500) });
    full.allowAlways('bash', { command: 'ls' });
    expect(full.current().allowlist).toHaveLength(500);
  });

  test('complete() returns all lists', () => {
    const rules = new AgentRules({ denylist: [{ tool: 'bash' }] });
    expect(rules.complete()).toEqual({
      allowlist: [],
      allowOnce: [],
      deny: [],
      denylist: [{ tool: 'bash' }],
    });
  });

  test('complete() returns the lists themselves, also those that were missing', () => {
    const permissions: Permissions = { allowlist: [{ tool: 'bash' }] };
    const rules = new AgentRules(permissions);
    rules.complete().allowlist.push({ tool: 'read' });
    rules.complete().denylist.push({ tool: 'rm' });
    expect(permissions.allowlist).toEqual([{ tool: 'bash' }, { tool: 'read' }]);
    expect(rules.current().denylist).toEqual([{ tool: 'rm' }]);
    // Replaced lists are the agent's own.
    rules.replace({ allowlist: [] });
    rules.complete().allowlist.push({ tool: 'write' });
    expect(rules.current().allowlist).toEqual([{ tool: 'write' }]);
    expect(permissions.allowlist).toEqual([{ tool: 'bash' }, { tool: 'read' }]);
  });

  test('complete() has lists of its own for an object that cannot be extended', () => {
    const rules = new AgentRules(Object.freeze({}));
    rules.complete().allowlist.push({ tool: 'read' });
    expect(rules.complete().allowlist).toEqual([{ tool: 'read' }]);
  });

  test('useOnce removes the rule from the permissions object', () => {
    const permissions: Permissions = {
      allowOnce: [{ tool: 'a' }, { tool: 'b' }, { tool: 'c' }],
    };
    new AgentRules(permissions).useOnce(1);
    expect(permissions.allowOnce).toEqual([{ tool: 'a' }, { tool: 'c' }]);
  });
});

describe('always', () => {
  test('adds the exact call to the allowlist of the object', () => {
    const permissions: Permissions = {};
    const rules = new AgentRules(permissions);
    const params = { command: 'ls *', deep: { list: [1, null] } };
    rules.allowAlways('bash', params);
    params.command = 'changed later';
    expect(permissions.allowlist).toEqual([
      { tool: 'bash', exact: { command: 'ls *', deep: { list: [1, null] } } },
    ]);
  });

  test('adds the same call once', () => {
    const permissions: Permissions = { allowlist: [{ tool: 'bash', params: { a: '1', b: '2' } }] };
    const rules = new AgentRules(permissions);
    rules.allowAlways('bash', { a: '1', b: '2' });
    rules.allowAlways('bash', { b: '2', a: '1' });
    rules.allowAlways('bash', { a: '1' });
    expect(permissions.allowlist?.map(({ exact }) => exact)).toEqual([
      undefined,
      { a: '1', b: '2' },
      { a: '1' },
    ]);
  });

  test('can apply to one agent only', () => {
    const permissions: Permissions = { allowlist: [{ tool: 'read' }] };
    const [one, other] = [1, 2].map(() => new AgentRules(permissions, { privateAlways: true }));
    one?.allowAlways('bash', { command: 'ls' });
    expect(one?.complete().allowlist).toEqual([
      { tool: 'read' },
      { tool: 'bash', exact: { command: 'ls' } },
    ]);
    expect(other?.complete().allowlist).toEqual([{ tool: 'read' }]);
    expect(permissions.allowlist).toEqual([{ tool: 'read' }]);
  });

  test('adds to the own list after it was replaced', () => {
    const permissions: Permissions = {};
    const rules = new AgentRules(permissions);
    rules.replace({ allowlist: [] });
    rules.allowAlways('bash', {});
    expect(rules.current().allowlist).toEqual([{ tool: 'bash', exact: {} }]);
    expect(permissions).toEqual({});
  });
});

const invalidPatterns = ['', '!ls', '!(ls)', 'ls [a', '{a,b', '{1..100000}', 'x'.repeat(2_000)];

describe('an update', () => {
  test('replaces the given lists, and neither the others nor the object', () => {
    const permissions: Permissions = { allowlist: [{ tool: 'a' }], denylist: [{ tool: 'd' }] };
    const rules = new AgentRules(permissions);
    rules.replace({ allowlist: [{ tool: 'b' }], deny: [{ toolCallId: 'tc-1' }] });
    expect(rules.complete()).toEqual({
      allowlist: [{ tool: 'b' }],
      allowOnce: [],
      deny: [{ toolCallId: 'tc-1' }],
      denylist: [{ tool: 'd' }],
    });
    expect(permissions).toMatchObject({ allowlist: [{ tool: 'a' }], denylist: [{ tool: 'd' }] });
    rules.replace({ allowlist: undefined });
    expect(rules.complete().allowlist).toEqual([{ tool: 'b' }]);
  });

  test('converts the scalars of a call to text', () => {
    const rules = new AgentRules({});
    rules.replace({
      allowlist: [{ tool: 'read', params: { filePath: 'a.ts', limit: 100, all: true } }],
    });
    expect(rules.current().allowlist).toEqual([
      { tool: 'read', params: { filePath: 'a.ts', limit: '100', all: 'true' } },
    ]);
  });

  test.each([[null], [['a']], [{ a: 1 }]])('takes a rule with the value %j literally', (value) => {
    const rules = new AgentRules({});
    const params = { value, pattern: '*' };
    rules.replace({ allowlist: [{ tool: 'bash', params }] });
    expect(rules.current().allowlist).toEqual([{ tool: 'bash', exact: params }]);
  });

  test('changes nothing if a value is not JSON', () => {
    const rules = new AgentRules({ allowlist: [{ tool: 'read' }] });
    const params = { value: undefined };
    const update = { allowlist: [{ tool: 'bash' }, { tool: 'bash', params }] };
    expect(errorOf(() => rules.replace(update)).code).toBe('invalid_request');
    expect(rules.current().allowlist).toEqual([{ tool: 'read' }]);
  });

  test('rejects invalid patterns of deny rules, and accepts them in allow rules', () => {
    const rules = new AgentRules({});
    for (const command of invalidPatterns) {
      const rule = { tool: 'bash', params: { command } };
      const error = errorOf(() => rules.replace({ denylist: [rule] }));
      expect(error.code).toBe('invalid_pattern');
      expect(error.message).toContain('permissions.denylist[0].params.command');
      for (const list of ['allowlist', 'allowOnce'] as const) {
        rules.replace({ [list]: [rule] });
        expect(rules.current()[list]).toEqual([rule]);
      }
    }
    expect(rules.complete().denylist).toEqual([]);
  });

  test('keeps exact rules unchanged', () => {
    const rules = new AgentRules({});
    const exact = { command: '!not a pattern', list: [1] };
    rules.replace({ allowlist: [{ tool: 'bash', exact }] });
    expect(rules.current().allowlist).toEqual([{ tool: 'bash', exact }]);
  });
});

describe('checkRules', () => {
  test('reports the path of an invalid rule', () => {
    const wrong = [
      [{ denylist: [{ tool: 'bash', params: { command: '!x' } }] }, 'denylist[0].params.command'],
      [{ denylist: [{ tool: 'a' }, { tool: '' }] }, 'denylist[1].tool'],
      [{ denylist: [{ tool: '*' }] }, 'denylist[0].tool'],
      [{ deny: [{ reason: 'No id' }] }, 'deny[0].toolCallId'],
      [{ allowed: [] }, 'allowed'],
      [{ allowlist: [{ tool: 'a', params: { limit: 100 } }] }, 'allowlist[0].params.limit'],
    ] as const;
    for (const [permissions, path] of wrong) {
      const error = errorOf(() => checkRules(permissions as unknown as Permissions));
      expect(['invalid_pattern', 'invalid_request']).toContain(error.code);
      expect(error.details?.[0]?.path).toBe(`permissions.${path}`);
    }
    expect(() => new AgentRules({ denylist: [{ tool: 'a', params: { x: '!' } }] })).toThrow(
      RelayError,
    );
  });
});
