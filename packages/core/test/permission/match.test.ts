import type { Permissions } from '@relay/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  checkPermissions,
  matchesDenial,
  matchesPermission,
  matchesPermissions,
} from '../../src/permission/match.ts';

const bash = (command: unknown) => ({ name: 'bash', arguments: { command } });

describe('a permission matches a tool call', () => {
  it('by the exact name of the tool, never by a pattern', () => {
    expect(matchesPermission(bash('ls'), { tool: 'bash' })).toBe(true);
    expect(matchesPermission(bash('ls'), { tool: 'Bash' })).toBe(false);
    expect(matchesPermission(bash('ls'), { tool: '*' })).toBe(false);
    expect(matchesPermission({ name: 'bash' }, { tool: 'bash' })).toBe(true);
  });

  it('when every named parameter matches', () => {
    const rule = { tool: 'read', params: { filePath: 'src/**/*.ts', limit: '100' } };
    const read = (args: Record<string, unknown>) => ({ name: 'read', arguments: args });
    expect(matchesPermission(read({ filePath: 'src/a.ts', limit: 100 }), rule)).toBe(true);
    expect(matchesPermission(read({ filePath: 'src/a.ts', limit: 101 }), rule)).toBe(false);
    expect(matchesPermission(read({ filePath: 'lib/a.ts', limit: 100 }), rule)).toBe(false);
    expect(matchesPermission(read({ filePath: 'src/a.ts' }), rule)).toBe(false);
    expect(matchesPermission({ name: 'read' }, rule)).toBe(false);
  });

  it('with numbers, booleans and bigints as their text', () => {
    for (const [value, pattern] of [
      [100, '1*'],
      [true, 'true'],
      [12n, '12'],
      [1.5, '1.5'],
      [-0, '0'],
    ]) {
      const rule = { tool: 'bash', params: { command: String(pattern) } };
      expect(matchesPermission(bash(value), rule)).toBe(true);
    }
  });

  it('but never null, an array, an object or nothing', () => {
    for (const value of [null, undefined, ['ls'], [], { a: 1 }, {}, new String('ls'), () => 'ls']) {
      for (const pattern of ['*', '**', 'ls', 'null', 'undefined', '\\[object Object\\]']) {
        const rule = { tool: 'bash', params: { command: pattern } };
        expect(matchesPermission(bash(value), rule)).toBe(false);
        expect(matchesDenial(bash(value), rule)).toBe(false);
      }
    }
  });

  it('by own properties only', () => {
    const rule = { tool: 'bash', params: { command: '*' } };
    const inherited = Object.create({ command: 'ls' }) as Record<string, unknown>;
    expect(matchesPermission({ name: 'bash', arguments: inherited }, rule)).toBe(false);
    for (const name of ['constructor', 'toString', '__proto__']) {
      const params = Object.fromEntries([[name, '*']]);
      expect(matchesPermission(bash('ls'), { tool: 'bash', params })).toBe(false);
    }
    const params = JSON.parse('{"__proto__":"l*"}') as Record<string, string>;
    const args = JSON.parse('{"__proto__":"ls"}') as Record<string, unknown>;
    expect(matchesPermission({ name: 'bash', arguments: args }, { tool: 'bash', params })).toBe(
      true,
    );
  });

  it('and never throws', () => {
    fc.assert(
      fc.property(fc.anything(), fc.anything(), (args, pattern) => {
        const call = { name: 'bash', arguments: args as Record<string, unknown> };
        const params = { a: pattern, command: '*' } as Record<string, string>;
        matchesPermission(call, { tool: 'bash', params });
        matchesDenial(call, { tool: 'bash', params });
        matchesPermission(call, { tool: 'bash', exact: params });
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('a set of permissions matches a tool call', () => {
  const call = (name: string, args: Record<string, unknown>) => ({ name, arguments: args });
  const onlyLs: Permissions = { allowlist: [{ tool: 'bash', params: { command: 'ls*' } }] };
  const readers: Permissions = {
    allowlist: [
      { tool: 'read' },
      { tool: 'bash', params: { command: 'ls*' } },
      { tool: 'bash', params: { command: 'cat *' } },
    ],
  };
  const folder: Permissions = {
    allowlist: [
      { tool: 'read', params: { filePath: '/app/data/**' } },
      { tool: 'bash', params: { command: 'ls /app/data*' } },
    ],
  };
  const commands: Permissions = {
    allowlist: [{ tool: 'bash', params: { command: '@(ls|cat|grep|find|head|tail) *' } }],
  };
  const once: Permissions = {
    allowOnce: [{ tool: 'bash', params: { command: 'rm -rf /tmp/cache' } }],
  };

  it.each([
    ['only ls', onlyLs, call('bash', { command: 'ls -la' }), true],
    ['only ls', onlyLs, call('bash', { command: 'rm -rf /' }), false],
    ['readers', readers, call('read', { filePath: '/any' }), true],
    ['readers', readers, call('bash', { command: 'ls' }), true],
    ['readers', readers, call('bash', { command: 'cat a.txt' }), true],
    ['readers', readers, call('bash', { command: 'cat' }), false],
    ['readers', readers, call('write', { filePath: '/any' }), false],
    ['one folder', folder, call('read', { filePath: '/app/data/a/b' }), true],
    ['one folder', folder, call('read', { filePath: '/app/secret' }), false],
    ['one folder', folder, call('bash', { command: 'ls /app/data/a' }), true],
    ['one folder', folder, call('bash', { command: 'ls /app' }), false],
    ['some commands', commands, call('bash', { command: 'grep -r x src' }), true],
    ['some commands', commands, call('bash', { command: 'rm x' }), false],
    ['once', once, call('bash', { command: 'rm -rf /tmp/cache' }), true],
    ['once', once, call('bash', { command: 'rm -rf /tmp' }), false],
    ['nothing', {}, call('bash', { command: 'ls' }), false],
  ])('%s: %#', (_, permissions, toolCall, expected) => {
    expect(matchesPermissions(toolCall, permissions)).toBe(expected);
  });

  it('unless a rule denies it, hidden names and line breaks included', () => {
    const permissions: Permissions = {
      allowlist: [{ tool: 'bash' }],
      denylist: [{ tool: 'bash', params: { command: 'rm *' } }],
    };
    expect(matchesPermissions(bash('ls'), permissions)).toBe(true);
    expect(matchesPermissions(bash('rm x'), permissions)).toBe(false);
    expect(matchesPermissions(bash('rm -r /home/me/.ssh\n'), permissions)).toBe(false);
  });
});

describe('an exact rule', () => {
  const grant = {
    tool: 'bash',
    exact: { command: 'rm -rf ./tmp/*', options: { cwd: '/', env: ['A'] } },
  };

  it('matches the same call, whatever the order of its keys', () => {
    const args = { options: { env: ['A'], cwd: '/' }, command: 'rm -rf ./tmp/*' };
    expect(matchesPermission({ name: 'bash', arguments: args }, grant)).toBe(true);
  });

  it.each([
    { command: 'rm -rf ./tmp/x', options: { cwd: '/', env: ['A'] } },
    { command: 'rm -rf ./tmp/*' },
    { command: 'rm -rf ./tmp/*', options: { cwd: '/', env: ['A'] }, more: true },
    { command: 'rm -rf ./tmp/*', options: { cwd: '/', env: ['A', 'B'] } },
    { command: ['rm -rf ./tmp/*'], options: { cwd: '/', env: ['A'] } },
    {},
  ])('does not match %j', (args) => {
    expect(matchesPermission({ name: 'bash', arguments: args }, grant)).toBe(false);
  });

  it('distinguishes numbers from texts, and tools from each other', () => {
    expect(
      matchesPermission({ name: 'a', arguments: { n: '1' } }, { tool: 'a', exact: { n: 1 } }),
    ).toBe(false);
    expect(
      matchesPermission({ name: 'a', arguments: { n: 1 } }, { tool: 'b', exact: { n: 1 } }),
    ).toBe(false);
    expect(matchesPermission({ name: 'a' }, { tool: 'a', exact: {} })).toBe(true);
  });

  it('must match besides the patterns of the rule', () => {
    const rule = { tool: 'bash', exact: { command: 'ls *' } };
    for (const matches of [matchesPermission, matchesDenial]) {
      expect(matches(bash('ls *'), rule)).toBe(true);
      expect(matches(bash('ls x'), rule)).toBe(false);
      expect(matches(bash('ls *'), { ...rule, params: { command: 'cat *' } })).toBe(false);
    }
    const permissions = { allowlist: [rule] } as Permissions;
    expect(matchesPermissions(bash('rm x'), permissions)).toBe(false);
    expect(matchesPermissions(bash('ls *'), permissions)).toBe(true);
  });

  it('does not match circular arguments', () => {
    const args: Record<string, unknown> = {};
    args['self'] = args;
    expect(matchesPermission({ name: 'a', arguments: args }, { tool: 'a', exact: args })).toBe(
      false,
    );
  });
});

describe('checking permissions', () => {
  it('lists every refused pattern with the path of its field', () => {
    const faults = checkPermissions({
      allowlist: [{ tool: 'bash', params: { command: '!x' } }, { tool: 'read' }],
      allowOnce: [{ tool: 'bash', params: { command: 'ls*', 'other name': '' } }],
      denylist: [{ tool: 'read', params: { a: '[', b: '{1..9}' } }],
    });
    expect(faults.map((fault) => fault.path)).toEqual([
      'allowlist[0].params.command',
      'allowOnce[0].params["other name"]',
      'denylist[0].params.a',
      'denylist[0].params.b',
    ]);
    expect(faults[0]?.message).toMatch(/negated/);
  });

  it('returns nothing for valid patterns', () => {
    expect(checkPermissions({})).toEqual([]);
    expect(
      checkPermissions({ allowlist: [{ tool: 'bash', params: { command: '@(ls|cat) *' } }] }),
    ).toEqual([]);
  });
});
