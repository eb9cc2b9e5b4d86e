/** 002: which calls a rule speaks about, as text. */
import {
  matchesPermission,
  matchesPermissions,
  type Permissions,
  type ToolPermission,
} from '@relay/agents';
import { decideCall } from '@relay/core';
import { describe, expect, test } from 'vitest';
import { verifies } from './verifies.ts';

function bash(command: unknown) {
  return { name: 'bash', arguments: { command } };
}

function read(args: Record<string, unknown>) {
  return { name: 'read', arguments: args };
}

/** The values, among these, that a pattern allows for a parameter. */
function matched(pattern: string, values: readonly string[]): string[] {
  const rule = { tool: 'any', params: { value: pattern } };
  return values.filter((value) => matchesPermission({ name: 'any', arguments: { value } }, rule));
}

/** What happens to a call under these permissions, and no others. */
function decision(call: { name: string; arguments: Record<string, unknown> }, rules: Permissions) {
  return decideCall(
    { toolCallId: 'call_1', ...call },
    { permissions: rules, usedOnce: [], grants: [], builtinAllow: false },
  ).decision;
}

describe('the table of patterns', () => {
  test('ls* matches what starts with ls', () => {
    verifies('002:glob:star-suffix');
    const yes = ['ls', 'ls -la', 'ls /tmp'];
    expect(matched('ls*', [...yes, 'l', 'cat ls', ' ls', 'LS'])).toEqual(yes);
  });

  test('*.txt matches names that end in .txt', () => {
    verifies('002:glob:star-prefix');
    const yes = ['file.txt', 'data.txt'];
    expect(matched('*.txt', [...yes, 'file.txt.gz', 'filetxt', 'file.md'])).toEqual(yes);
  });

  test('src/**/*.ts matches any .ts file under src, at any depth', () => {
    verifies('002:glob:globstar');
    const yes = ['src/a.ts', 'src/a/b.ts', 'src/a/b/c.ts', 'src/a/b/c/d/e.test.ts'];
    const no = [
      'src/a.js',
      'src/a.tsx',
      'lib/a.ts',
      'src.ts',
      'a/src/b.ts',
      '/src/a.ts',
      'srca.ts',
    ];
    expect(matched('src/**/*.ts', [...yes, ...no])).toEqual(yes);
  });

  test('{read,write} matches either, and nothing else', () => {
    verifies('002:glob:braces');
    const yes = ['read', 'write'];
    const no = ['readwrite', 'rea', 'reads', 'read,write', 'Read', '', 'execute'];
    expect(matched('{read,write}', [...yes, ...no])).toEqual(yes);
  });

  test('file[0-9].txt matches one digit', () => {
    verifies('002:glob:class');
    const yes = Array.from({ length: 10 }, (_, digit) => `file${digit}.txt`);
    const no = ['filea.txt', 'file.txt', 'file10.txt', 'file-.txt', 'file[0-9]xtxt'];
    expect(matched('file[0-9].txt', [...yes, ...no])).toEqual(yes);
  });
});

describe('matchesPermission', () => {
  test('is exported and answers with a boolean', () => {
    verifies('002:match:exported');
    expect(matchesPermission(bash('ls'), { tool: 'bash' })).toBe(true);
    expect(matchesPermission(bash('ls'), { tool: 'read' })).toBe(false);
  });

  test('wants the exact name of the tool', () => {
    verifies('002:match:tool-exact');
    for (const tool of ['Bash', 'BASH', 'bash ', ' bash', 'bas', 'bashx', 'bash2', '']) {
      expect(matchesPermission(bash('ls'), { tool })).toBe(false);
      expect(matchesPermission({ ...bash('ls'), name: tool }, { tool: 'bash' })).toBe(false);
    }
  });

  test('takes the name of the tool for no pattern', () => {
    verifies('002:match:tool-no-pattern');
    for (const tool of ['b*', '*', '**', 'bas?', 'bas[h]', '{bash,read}', '@(bash)']) {
      expect(matchesPermission(bash('ls'), { tool })).toBe(false);
      expect(matchesPermission({ name: tool }, { tool })).toBe(true);
    }
  });

  test('allows all calls of a tool with a rule that has no params', () => {
    verifies('002:match:no-params');
    for (const command of ['ls', 'rm -rf /', '', 'a\nb', 7, null, undefined, ['ls'], {}]) {
      expect(matchesPermission(bash(command), { tool: 'bash' })).toBe(true);
    }
    expect(matchesPermission({ name: 'bash' }, { tool: 'bash' })).toBe(true);
    expect(matchesPermission({ name: 'read' }, { tool: 'bash' })).toBe(false);
  });

  test('wants all params to match, and one that does not is enough to reject', () => {
    verifies('002:match:all-params', '002:match:pattern-mismatch', '002:params:all-must-match');
    const rule = { tool: 'copy', params: { from: '/a/*', to: '/b/*', mode: 'fast' } };
    const good = { from: '/a/x', to: '/b/x', mode: 'fast' };
    expect(matchesPermission({ name: 'copy', arguments: good }, rule)).toBe(true);
    for (const wrong of [{ from: '/c/x' }, { to: '/c/x' }, { mode: 'slow' }]) {
      const call = { name: 'copy', arguments: { ...good, ...wrong } };
      expect(matchesPermission(call, rule)).toBe(false);
    }
  });

  test('allows under ls* only commands that start with ls', () => {
    verifies('002:usage:param-pattern');
    const rule = { tool: 'bash', params: { command: 'ls*' } };
    for (const command of ['ls', 'ls -la', 'lsof']) {
      expect(matchesPermission(bash(command), rule)).toBe(true);
    }
    for (const command of ['rm -rf /', 'cat ls', ' ls', 'echo; ls', 'l', '']) {
      expect(matchesPermission(bash(command), rule)).toBe(false);
    }
  });

  test('wants a .ts file in src and exactly 100 lines, in the example with two patterns', () => {
    verifies('002:params:example', '002:params:exact-number');
    const rule: ToolPermission = {
      tool: 'read',
      params: { filePath: 'src/**/*.ts', limit: '100' },
    };
    const filePath = 'src/lib/a.ts';
    expect(matchesPermission(read({ filePath, limit: 100 }), rule)).toBe(true);
    for (const limit of [1000, 10, 1, 0, 100.5, -100, 1100]) {
      expect(matchesPermission(read({ filePath, limit }), rule)).toBe(false);
    }
    for (const other of ['lib/a.ts', 'src/a.js', 'src']) {
      expect(matchesPermission(read({ filePath: other, limit: 100 }), rule)).toBe(false);
    }
    expect(matchesPermission(read({ filePath }), rule)).toBe(false);
    expect(matchesPermission(read({ limit: 100 }), rule)).toBe(false);
  });

  test('rejects a call that lacks a param of the rule', () => {
    verifies('002:match:missing-param');
    const rule = { tool: 'bash', params: { command: '*' } };
    for (const args of [{}, { cmd: 'ls' }, { Command: 'ls' }, { command: undefined }]) {
      expect(matchesPermission({ name: 'bash', arguments: args }, rule)).toBe(false);
    }
  });

  test('rejects a call without arguments under a rule with params', () => {
    verifies('002:match:no-arguments');
    const rule = { tool: 'bash', params: { command: '*' } };
    expect(matchesPermission({ name: 'bash' }, rule)).toBe(false);
  });

  test('does not look at params that the rule does not name', () => {
    verifies('002:match:extra-params-ignored');
    const rule = { tool: 'bash', params: { command: 'ls*' } };
    for (const extra of [{ cwd: '/' }, { cwd: null, env: { A: 1 } }, { list: [1] }]) {
      const call = { name: 'bash', arguments: { command: 'ls', ...extra } };
      expect(matchesPermission(call, rule)).toBe(true);
    }
  });

  test('is text matching: as text, ls* matches "ls; rm -rf /"', () => {
    verifies('002:security:text-matching-only');
    const rule = { tool: 'bash', params: { command: 'ls*' } };
    expect(matchesPermission(bash('ls; rm -rf /'), rule)).toBe(true);
  });
});

describe('matchesPermissions', () => {
  test('takes a name with arguments, and the permissions', () => {
    verifies('002:flow:matcher-input');
    const rule = { tool: 'bash', params: { command: 'ls*' } };
    for (const permissions of [{ allowlist: [rule] }, { allowOnce: [rule] }]) {
      expect(matchesPermissions(bash('ls'), permissions)).toBe(true);
      expect(matchesPermissions(bash('rm'), permissions)).toBe(false);
    }
    for (const nothing of [{}, { allowlist: [] }, { allowOnce: [] }]) {
      expect(matchesPermissions(bash('ls'), nothing)).toBe(false);
    }
  });
});

describe('the common patterns', () => {
  const allowed = (rules: Permissions, commands: readonly string[]) =>
    commands.filter((command) => decision(bash(command), rules) === 'allow');
  const asked = (rules: Permissions, commands: readonly string[]) =>
    commands.filter((command) => decision(bash(command), rules) === 'ask');

  const readOnly: Permissions = {
    allowlist: [
      { tool: 'read' },
      { tool: 'bash', params: { command: 'ls*' } },
      { tool: 'bash', params: { command: 'cat *' } },
    ],
  };

  test('read only: read, "ls…" and "cat …" are allowed, other commands are asked about', () => {
    verifies('002:common:read-only', '002:common:any-rule');
    const yes = ['ls', 'ls -la', 'cat a.txt', 'cat a b'];
    const no = ['cat', 'rm x', 'echo ls', 'concat x', 'tac x'];
    expect(allowed(readOnly, [...yes, ...no])).toEqual(yes);
    expect(asked(readOnly, [...yes, ...no])).toEqual(no);
    expect(decision(read({ filePath: '/etc/passwd' }), readOnly)).toBe('allow');
    expect(decision({ name: 'write', arguments: {} }, readOnly)).toBe('ask');
  });

  test('one directory: it is allowed, others are asked about', () => {
    verifies('002:common:directory');
    const rules: Permissions = {
      allowlist: [
        { tool: 'read', params: { filePath: '/app/data/**' } },
        { tool: 'bash', params: { command: 'ls /app/data*' } },
      ],
    };
    for (const filePath of ['/app/data/a', '/app/data/a/b/c.txt']) {
      expect(decision(read({ filePath }), rules)).toBe('allow');
    }
    for (const filePath of ['/app/secret', '/app', '/etc/passwd', '/app/database/x', 'data/a']) {
      expect(decision(read({ filePath }), rules)).toBe('ask');
    }
    const yes = ['ls /app/data', 'ls /app/data/a'];
    const no = ['ls /app', 'ls', 'ls /', 'rm /app/data'];
    expect(allowed(rules, [...yes, ...no])).toEqual(yes);
    expect(asked(rules, [...yes, ...no])).toEqual(no);
  });

  const six: Permissions = {
    allowlist: [{ tool: 'bash', params: { command: '@(ls|cat|grep|find|head|tail) *' } }],
  };

  test('six commands: each is allowed with arguments', () => {
    verifies('002:common:extglob');
    const yes = ['ls -la', 'cat a', 'grep -r x src', 'find . -name x', 'head -1 a', 'tail -f a'];
    expect(allowed(six, yes)).toEqual(yes);
  });

  test('six commands: another one, or one without arguments, is not', () => {
    verifies('002:common:extglob-others');
    const no = ['rm x', 'ls', 'cat', 'lscat x', 'ls|cat x', 'xls y', '@(ls) x', 'sudo ls x'];
    expect(allowed(six, no)).toEqual([]);
    expect(asked(six, no)).toEqual(no);
  });
});
