/**
 * 002: the code examples of the document up to its patterns, as they stand there, and run. What they
 * leave open is filled in around them; where a loop has no body, it gets one that remembers. None of
 * them needs a cast or knows an `any`.
 */
import type {
  AgentEvent,
  PermissionResponse,
  Permissions,
  ScriptedEvent,
  ToolDefinition,
  ToolPermission,
} from '@relay/agents';
import { afterEach, describe, expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import {
  agentFor,
  asking,
  bash,
  bashTool,
  forget,
  messages,
  questions,
  ran,
} from './library-002-scene.ts';
import { verifies } from './verifies.ts';

afterEach(forget);

const relays = (events: readonly AgentEvent[]) => events.filter(({ type }) => type === 'relay');

describe('the structure', () => {
  test('is that of the types', () => {
    verifies('002:structure:tool-permission', '002:structure:permissions', '002:response:type');
    // oxfmt-ignore
    {
      interface ToolPermission {
        tool: string;                           // Tool name (exact match)
        params?: Record<string, string>;        // param name → glob pattern
      }

      interface Permissions {
        allowlist?: ToolPermission[];   // Always allowed
        allowOnce?: ToolPermission[];   // Allowed once, then removed
        deny?: Array<{                  // Explicitly denied tool calls
          toolCallId: string;
          reason?: string;
        }>;
      }

      type PermissionResponse =
        | { approved: true; always?: boolean }   // Approve this call (optionally add to allowlist)
        | { approved: false; reason?: string };  // Deny with optional reason

      // Whatever is written by the document's types is taken by ours.
      expectTypeOf<ToolPermission>().toExtend<OurToolPermission>();
      expectTypeOf<Permissions>().toExtend<OurPermissions>();
      expectTypeOf<PermissionResponse>().toExtend<OurPermissionResponse>();
    }
  });
});

type OurToolPermission = ToolPermission;
type OurPermissions = Permissions;
type OurPermissionResponse = PermissionResponse;

describe('basic usage', () => {
  test('allow all calls to a tool', async () => {
    verifies('002:usage:invoke-parameters', '002:usage:invoke-async-iterable');
    const agent = agentFor(bash('tc-1', 'ls'), bash('tc-2', 'rm -rf /'), bash('tc-3', 'a | b'));
    const events: AgentEvent[] = [];
    // oxfmt-ignore
    {
      const permissions: Permissions = {
        allowlist: [
          { tool: "bash" }  // All bash calls allowed
        ]
      };

      for await (const event of agent.invoke({
        model: "glm-4.7",
        messages,
        tools: [bashTool],
        permissions
      })) {
        // Agent can call bash freely, no relay events
        events.push(event);
      }
    }
    expect(relays(events)).toEqual([]);
    expect(ran).toEqual(['ls', 'rm -rf /', 'a | b']);
    expect(events.map(({ type }) => type).at(-1)).toBe('harness_end');
  });

  test('allow specific parameters', async () => {
    verifies('002:usage:param-pattern');
    // oxfmt-ignore
    const permissions: Permissions = {
      allowlist: [
        { 
          tool: "bash",
          params: { 
            command: "ls*"  // Only allow bash commands starting with "ls"
          }
        }
      ]
    };
    const agent = agentFor(bash('tc-1', 'ls -la'), bash('tc-2', 'cat ls'));
    const asked: string[] = [];
    for await (const event of agent.invoke({ messages, tools: [bashTool], permissions })) {
      if (event.type !== 'relay') continue;
      asked.push(event.toolCallId);
      event.respond({ approved: false });
    }
    expect(ran).toEqual(['ls -la']);
    expect(asked).toEqual(['tc-2']);
  });

  test('multiple parameter patterns', async () => {
    verifies('002:params:example', '002:params:all-must-match', '002:params:exact-number');
    // oxfmt-ignore
    const permissions: Permissions = {
      allowlist: [
        {
          tool: "read",
          params: {
            filePath: "src/**/*.ts",  // Must be a .ts file in src/
            limit: "100"              // Must request exactly 100 lines
          }
        }
      ]
    };
    const readTool: ToolDefinition = {
      name: 'read',
      description: 'Read a file',
      schema: z.object({ filePath: z.string(), limit: z.number() }),
      execute: async ({ filePath, limit }) => {
        ran.push(`${filePath} ${limit}`);
        return { context: '' };
      },
    };
    const inputs = [
      { filePath: 'src/a/b.ts', limit: 100 },
      { filePath: 'src/a/b.ts', limit: 1000 },
      { filePath: 'lib/b.ts', limit: 100 },
    ];
    const agent = agentFor(
      ...inputs.map(
        (input, n) => ({ type: 'tool_call', id: `tc-${n}`, name: 'read', input }) as const,
      ),
    );
    const asked: unknown[] = [];
    for await (const event of agent.invoke({ messages, tools: [readTool], permissions })) {
      if (event.type !== 'relay') continue;
      asked.push(event.params);
      event.respond({ approved: false });
    }
    expect(ran).toEqual(['src/a/b.ts 100']);
    expect(asked).toEqual(inputs.slice(1));
  });
});

describe('handling relay events', () => {
  test('the loop approves and denies as the user says', async () => {
    verifies('002:relay:example', '002:relay:respond-types', '002:relay:model-optional');
    const agent = agentFor(bash('tc-1', 'ls'), bash('tc-2', 'rm'));
    const tools = [bashTool];
    const permissions: Permissions = {};
    const askUser = asking([true, false]);
    const results: unknown[] = [];
    // oxfmt-ignore
    for await (const event of agent.invoke({ messages, tools, permissions })) {
      if (event.type === "relay" && event.kind === "permission") {
        console.log(`Agent wants to call ${event.tool} with`, event.params);
        
        const approved = await askUser(`Allow ${event.tool}?`);
        
        event.respond({
          approved,
          reason: approved ? undefined : "User denied"
        });
      }
      if (event.type === 'tool_result') results.push(event.output);
    }
    expect(questions).toEqual(['Allow bash?', 'Allow bash?']);
    expect(ran).toEqual(['ls']);
    expect(results).toEqual([{ context: '$ ls' }, { status: 'denied', reason: 'User denied' }]);
  });
});

describe('common patterns', () => {
  /** What happens to a call under these permissions: it runs, is denied, or is asked about. */
  async function fate(permissions: Permissions, call: ScriptedEvent): Promise<unknown> {
    const tools = [bashTool, { ...bashTool, name: 'read', schema: z.looseObject({}) }];
    const agent = agentFor(call);
    for await (const event of agent.invoke({ messages, tools, permissions })) {
      if (event.type === 'relay') return 'asked';
      if (event.type === 'tool_result') return event.output.status ?? 'ran';
    }
    return 'nothing';
  }

  const read = (filePath: string): ScriptedEvent => ({
    type: 'tool_call',
    id: 'tc-1',
    name: 'read',
    input: { filePath },
  });

  test('read-only', async () => {
    verifies('002:common:read-only', '002:common:any-rule');
    // oxfmt-ignore
    const permissions: Permissions = 
    {
      allowlist: [
        { tool: "read" },  // Allow all reads
        { tool: "bash", params: { command: "ls*" } },  // Allow ls only
        { tool: "bash", params: { command: "cat *" } }  // Allow cat only
      ]
    };
    expect(await fate(permissions, read('/etc/hosts'))).toBe('ran');
    expect(await fate(permissions, bash('tc-1', 'ls -la'))).toBe('ran');
    expect(await fate(permissions, bash('tc-1', 'cat a'))).toBe('ran');
    expect(await fate(permissions, bash('tc-1', 'rm a'))).toBe('asked');
  });

  test('a directory', async () => {
    verifies('002:common:directory');
    // oxfmt-ignore
    const permissions: Permissions = 
    {
      allowlist: [
        { tool: "read", params: { filePath: "/app/data/**" } },
        { tool: "bash", params: { command: "ls /app/data*" } }
      ]
    };
    expect(await fate(permissions, read('/app/data/a/b.csv'))).toBe('ran');
    expect(await fate(permissions, read('/app/secret'))).toBe('asked');
    expect(await fate(permissions, bash('tc-1', 'ls /app/data/a'))).toBe('ran');
    expect(await fate(permissions, bash('tc-1', 'ls /app'))).toBe('asked');
  });

  test('some commands', async () => {
    verifies('002:common:extglob', '002:common:extglob-others');
    // oxfmt-ignore
    const permissions: Permissions = 
    {
      allowlist: [
        { tool: "bash", params: { command: "@(ls|cat|grep|find|head|tail) *" } }
      ]
    };
    for (const name of ['ls', 'cat', 'grep', 'find', 'head', 'tail']) {
      expect(await fate(permissions, bash('tc-1', `${name} x`))).toBe('ran');
    }
    for (const command of ['rm x', 'ls', 'lsx y']) {
      expect(await fate(permissions, bash('tc-1', command))).toBe('asked');
    }
  });

  test('all but one call', async () => {
    verifies('002:common:deny-one', '002:flow:deny-result');
    // oxfmt-ignore
    const permissions: Permissions = 
    {
      allowlist: [{ tool: "bash" }],
      deny: [
        { toolCallId: "tc-123", reason: "This specific call looks suspicious" }
      ]
    };
    expect(await fate(permissions, bash('tc-122', 'ls'))).toBe('ran');
    expect(await fate(permissions, bash('tc-123', 'ls'))).toBe('denied');
    for await (const event of agentFor(bash('tc-123', 'ls')).invoke({
      messages,
      tools: [bashTool],
      permissions,
    })) {
      if (event.type !== 'tool_result') continue;
      expect(event.id).toBe('tc-123');
      expect(event.output).toEqual({
        status: 'denied',
        reason: 'This specific call looks suspicious',
      });
    }
    expect(ran).toEqual(['ls']);
  });

  test('once', async () => {
    verifies('002:common:allow-once', '002:structure:allow-once-removed');
    // oxfmt-ignore
    const permissions: Permissions = 
    {
      allowOnce: [
        { tool: "bash", params: { command: "rm -rf /tmp/cache" } }
      ]
    };
    // After first match, this rule is removed
    expect(await fate(permissions, bash('tc-1', 'rm -rf /tmp/cache'))).toBe('ran');
    expect(permissions.allowOnce).toEqual([]);
    expect(await fate(permissions, bash('tc-1', 'rm -rf /tmp/cache'))).toBe('asked');
    expect(ran).toEqual(['rm -rf /tmp/cache']);
  });
});
