/** 002: what the document warns of is solved where a tool declares what its parameters are. */
import {
  createAgentHarness,
  createDeterministicHarness,
  matchesPermission,
  type ToolDefinition,
} from '@relay/agents';
import picomatch from 'picomatch';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { verifies } from './verifies.ts';

const messages = [{ role: 'user', content: 'Begin' }];
const ran: unknown[] = [];

const bashTool: ToolDefinition = {
  name: 'bash',
  description: 'Run a command',
  schema: z.object({ command: z.string() }),
  kinds: { command: 'command' },
  execute: async ({ command }) => ({ result: ran.push(command) }),
};

const readTool: ToolDefinition = {
  name: 'read',
  description: 'Read a file',
  schema: z.object({ filePath: z.string() }),
  kinds: { filePath: 'path' },
  execute: async ({ filePath }) => ({ result: ran.push(filePath) }),
};

/** The calls that ran without an approval. */
async function unasked(
  tool: 'bash' | 'read',
  pattern: string,
  values: readonly string[],
  read: ToolDefinition = readTool,
): Promise<unknown[]> {
  ran.length = 0;
  const name = tool === 'bash' ? 'command' : 'filePath';
  const calls = values.map((value, n) => ({
    type: 'tool_call' as const,
    id: `tc-${n}`,
    name: tool,
    input: { [name]: value },
  }));
  const agent = createAgentHarness({ harness: createDeterministicHarness(calls) });
  const permissions = { allowlist: [{ tool, params: { [name]: pattern } }] };
  const tools = [bashTool, read];
  for await (const event of agent.invoke({ messages, tools, permissions })) {
    if (event.type === 'relay') event.respond({ approved: false });
  }
  return [...ran];
}

describe('a command', () => {
  test('that begins as it may does not bring another one along', async () => {
    verifies('002:security:command-injection', '002:security:text-matching-only');
    const good = ['ls', 'ls -la', 'ls /tmp'];
    const bad = [
      'ls; rm -rf /',
      'ls && rm -rf /',
      'ls || rm x',
      'ls | sh',
      'ls & rm x',
      'ls $(rm x)',
      'ls `rm x`',
      'ls\nrm x',
      'ls <(rm x)',
      'ls > /etc/passwd',
      'lsof; rm x',
    ];
    expect(await unasked('bash', 'ls*', [...good, ...bad])).toEqual(good);
    // As text it matches, as the document says: the difference is what the tool declares.
    const call = { name: 'bash', arguments: { command: 'ls; rm -rf /' } };
    expect(matchesPermission(call, { tool: 'bash', params: { command: 'ls*' } })).toBe(true);
  });
});

describe('a path', () => {
  test('that begins as it may does not lead out of there', async () => {
    verifies('002:security:path-traversal');
    const good = ['src/a.ts', 'src/a/b.ts'];
    const bad = [
      'src/../../../../etc/passwd.ts',
      'src/../secret.ts',
      'src/a/../../secret.ts',
      'src/./../secret.ts',
      'src//../../x.ts',
    ];
    expect(await unasked('read', 'src/**/*.ts', [...good, ...bad])).toEqual(good);
  });

  test('is only text to a pattern: where a tool does not declare it, nothing stops it', async () => {
    verifies('002:security:no-sandbox');
    const rule = { tool: 'read', params: { filePath: 'src/**/*.ts' } };
    const out = ['src/../secret.ts', 'src/a/../../secret.ts'];
    for (const filePath of out) {
      expect(matchesPermission({ name: 'read', arguments: { filePath } }, rule)).toBe(true);
    }
    // The path that the document names is one that picomatch does not match either.
    const named = 'src/../../../../etc/passwd.ts';
    expect(picomatch.isMatch(named, 'src/**/*.ts', { bash: true })).toBe(false);
    expect(matchesPermission({ name: 'read', arguments: { filePath: named } }, rule)).toBe(false);
    const { kinds: _, ...undeclared } = readTool;
    expect(await unasked('read', 'src/**/*.ts', out, undeclared)).toEqual(out);
    expect(await unasked('read', 'src/**/*.ts', out)).toEqual([]);
  });
});

describe('arguments that are made to cheat a pattern', () => {
  test('are neither slow to match nor waved through', async () => {
    verifies('002:security:crafted-arguments');
    const hard = ['*a*a*a*c', '*a*a*a*a*a*a*a*a*z', '@(a|aa)*@(a|aa)*@(a|aa)*c', '**/**/**/**/c'];
    const values = ['a'.repeat(50_000), `${'a/'.repeat(20_000)}b`, '/'.repeat(50_000)];
    const began = performance.now();
    for (const pattern of hard) {
      for (const command of values) {
        const call = { name: 'tool', arguments: { command } };
        expect(matchesPermission(call, { tool: 'tool', params: { command: pattern } })).toBe(false);
      }
    }
    const crafted = [
      'ls\u0000; rm x',
      'ls \u2028rm x',
      'ls \r\nrm x',
      "ls $'\\x3b' ; rm x",
      'ls ${IFS}; rm x',
      `ls ${'{'.repeat(5_000)}`,
      `ls ${'$('.repeat(2_000)}`,
    ];
    expect(await unasked('bash', 'ls*', crafted)).toEqual([]);
    const paths = ['/app/../etc/passwd', '/app/a/../../etc/passwd', '/app/a\u0000/../../etc'];
    expect(await unasked('read', '/app/**', [...paths, '/app/a'])).toEqual(['/app/a']);
    expect(performance.now() - began).toBeLessThan(15_000);
  });

  test('cannot be a property that every object inherits', () => {
    verifies('002:security:crafted-arguments');
    for (const name of ['toString', 'constructor', '__proto__', 'hasOwnProperty']) {
      const rule = {
        tool: 'bash',
        params: JSON.parse(`{"${name}":"**"}`) as Record<string, string>,
      };
      expect(matchesPermission({ name: 'bash', arguments: {} }, rule)).toBe(false);
    }
  });
});
