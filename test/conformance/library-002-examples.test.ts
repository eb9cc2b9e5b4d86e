/**
 * 002: the code examples of the document, as they stand there, and run. What they leave open is filled
 * in around them; where a loop has no body, it gets one that remembers. None of them needs a cast or
 * knows an `any`.
 */
import assert from 'node:assert';
import fs from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type AgentEvent,
  type AgentMessage,
  AgentOrchestrator,
  createAgentHarness,
  createDeterministicHarness,
  type PermissionResponse,
  type Permissions,
  registerModel,
  type ScriptedEvent,
  type ToolDefinition,
  type ToolPermission,
} from '@relay/agents';
import { afterEach, describe, expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import {
  agentFor,
  scriptedAnswers,
  bash,
  bashTool,
  reset,
  messages,
  questions,
  ran,
  scripted,
} from './library-002-fixture.ts';
import { verifies } from './verifies.ts';

afterEach(reset);

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
    const askUser = scriptedAnswers([true, false]);
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

describe('using the orchestrator', () => {
  test('one loop answers for the agent that was spawned', async () => {
    verifies(
      '002:orchestrator:construct',
      '002:orchestrator:spawn',
      '002:orchestrator:spawn-returns-id',
      '002:orchestrator:events',
      '002:orchestrator:respond-stripped',
      '002:orchestrator:relay-id',
      '002:orchestrator:empty-allowlist',
    );
    registerModel('glm-4.7', scripted(bash('tc-1', 'ls'), bash('tc-2', 'rm')));
    const askUser = scriptedAnswers([true, false]);
    const received: AgentMessage[] = [];
    let spawned = '';
    // oxfmt-ignore
    {
      const orchestrator = new AgentOrchestrator();

      const agentId = orchestrator.spawn({
        model: "glm-4.7",
        messages,
        tools: [bashTool],
        permissions: { allowlist: [] }  // No auto-approvals
      });
      spawned = agentId;

      for await (const { agentId, event } of orchestrator.events()) {
        received.push({ agentId, event });
        if (event.type === "relay" && event.kind === "permission") {
          const approved = await askUser(`Allow ${event.tool}?`);
          
          orchestrator.resolveRelay(event.id, {
            approved,
            reason: approved ? undefined : "User denied"
          });
        }
      }
    }
    expect(spawned).toEqual(expect.any(String));
    expect(new Set(received.map(({ agentId }) => agentId))).toEqual(new Set([spawned]));
    const shown = received.filter(({ event }) => event.type === 'relay').map(({ event }) => event);
    expect(shown).toHaveLength(2);
    for (const relay of shown) {
      expect(relay).toMatchObject({ id: expect.any(String) });
      expect(relay).not.toHaveProperty('respond');
    }
    expect(ran).toEqual(['ls']);
  });
});

describe('deriving permissions from tool definitions', () => {
  test('the read tool reads, and proposes the rule for what it reads', async () => {
    verifies(
      '002:derive:tool-definition',
      '002:derive:example',
      '002:derive:returns-rule',
      '002:derive:suggests',
      '002:derive:context-only',
    );
    // oxfmt-ignore
    const readTool: ToolDefinition = {
      name: "read",
      description: "Read a file",
      schema: z.object({ filePath: z.string() }),
      execute: async ({ filePath }) => {
        const content = await fs.readFile(filePath, "utf-8");
        return { context: content };
      },
      derivePermission: (params) => ({
        tool: "read",
        params: { filePath: params.filePath as string }
      })
    };
    const folder = await fs.mkdtemp(join(tmpdir(), 'relay-read-'));
    const filePath = join(folder, 'file.txt');
    await fs.writeFile(filePath, 'What is in it');
    const call = (id: string): ScriptedEvent => ({
      type: 'tool_call',
      id,
      name: 'read',
      input: { filePath },
    });
    const permissions: Permissions = { allowlist: [] };
    const outputs: unknown[] = [];
    const suggested: (ToolPermission | undefined)[] = [];
    const agent = agentFor(call('tc-1'), call('tc-2'));
    for await (const event of agent.invoke({ messages, tools: [readTool], permissions })) {
      if (event.type === 'tool_result') outputs.push(event.output);
      if (event.type !== 'relay') continue;
      suggested.push(event.suggestedRule);
      // As the document says: the suggestion becomes a rule of the allowlist.
      if (event.suggestedRule !== undefined) permissions.allowlist?.push(event.suggestedRule);
      event.respond({ approved: true });
    }
    await fs.rm(folder, { recursive: true });
    expect(suggested).toEqual([{ tool: 'read', params: { filePath } }]);
    expect(outputs).toEqual([{ context: 'What is in it' }, { context: 'What is in it' }]);
  });
});

describe('dynamic permissions', () => {
  /** The example, with an agent whose model makes these calls and a user with these answers. */
  async function runExample(calls: readonly ScriptedEvent[], answers: readonly string[]) {
    registerModel('glm-4.7', scripted(...calls));
    const askUser = scriptedAnswers(answers);
    const asked: string[] = [];
    const denied: string[] = [];
    let rules: readonly ToolPermission[] = [];
    // oxfmt-ignore
    {
      const orchestrator = new AgentOrchestrator();
      orchestrator.spawn({ model: 'glm-4.7', messages, tools: [bashTool, anyTool] });

      for await (const { agentId, event } of orchestrator.events()) {
        if (event.type === 'relay') asked.push(event.toolCallId);
        if (event.type === 'tool_result' && event.output.status === 'denied') denied.push(event.id);
        if (event.type === "relay" && event.kind === "permission") {
          const approved = await askUser(`Allow ${event.tool}? (always/once/no)`);
          
          if (approved === "always") {
            // Add to allowlist
            orchestrator.updatePermissions(agentId, {
              allowlist: [
                ...orchestrator.getPermissions(agentId).allowlist,
                { tool: event.tool, params: event.params }
              ]
            });
          }
          
          orchestrator.resolveRelay(event.id, { approved: approved !== "no" });
        }
        rules = orchestrator.getPermissions(agentId).allowlist;
      }
    }
    return { asked, denied, rules };
  }

  const anyTool: ToolDefinition = {
    name: 'any',
    description: 'Takes any arguments',
    schema: z.looseObject({}),
    execute: async (input) => {
      ran.push(JSON.stringify(input));
      return { context: '' };
    },
  };

  test('always, once and no mean what they say', async () => {
    verifies(
      '002:dynamic:example',
      '002:dynamic:get-permissions',
      '002:dynamic:allowlist-spreadable',
      '002:dynamic:update-permissions',
      '002:dynamic:event-as-rule',
      '002:dynamic:takes-effect',
    );
    const { asked, denied, rules } = await runExample(
      [
        bash('tc-1', 'git status'),
        bash('tc-2', 'git status'),
        bash('tc-3', 'git push'),
        bash('tc-4', 'git push'),
        bash('tc-5', 'git push'),
        bash('tc-6', 'git status'),
      ],
      ['always', 'once', 'no', 'once'],
    );
    // "always" holds for the call that it was said to; "once" and "no" hold for one call.
    expect(asked).toEqual(['tc-1', 'tc-3', 'tc-4', 'tc-5']);
    expect(denied).toEqual(['tc-4']);
    expect(ran).toEqual(['git status', 'git status', 'git push', 'git push', 'git status']);
    expect(rules).toEqual([{ tool: 'bash', params: { command: 'git status' } }]);
  });

  test.each([
    ['a negated pattern', '!x'],
    ['an unclosed class', 'grep ['],
    ['an unclosed group', '@(a'],
    ['a class that is empty', 'a[z-a]'],
    ['a range', 'touch {1..100000}'],
    ['no text', ''],
    ['more than 1 KiB', 'x'.repeat(5_000)],
    ['a NUL', 'a\u0000b'],
    ['a lone surrogate', 'a\ud800'],
    ['a line break', 'a\n[b'],
    ['a valid pattern that is no plain text', 'file[0-9].txt'],
  ])('always holds for a call with %s', async (_what, command) => {
    verifies('002:dynamic:any-params', '002:dynamic:event-as-rule');
    const other = `${command}other`;
    const calls = [bash('tc-1', command), bash('tc-2', command), bash('tc-3', other)];
    const { asked, denied } = await runExample(calls, ['always', 'no']);
    expect(asked).toEqual(['tc-1', 'tc-3']);
    expect(denied).toEqual(['tc-3']);
    expect(ran).toEqual([command, command]);
  });

  test.each([
    ['a number', { value: 100 }, { value: 101 }],
    ['null', { value: null }, { value: 'null' }],
    ['a list', { value: ['a'] }, { value: 'a' }],
    ['an object', { value: { a: 1 }, text: '*' }, { value: { a: 1 }, text: 'b' }],
    ['nothing', {}, undefined],
  ])('always holds for a call whose argument is %s', async (_what, input, other) => {
    verifies('002:dynamic:any-params');
    const call = (id: string, params: Record<string, unknown>) =>
      ({ type: 'tool_call', id, name: 'any', input: params }) as const;
    const calls = [call('tc-1', input), call('tc-2', input)];
    if (other !== undefined) calls.push(call('tc-3', other));
    const { asked } = await runExample(calls, ['always', 'no']);
    expect(asked).toEqual(other === undefined ? ['tc-1'] : ['tc-1', 'tc-3']);
    expect(ran).toEqual([JSON.stringify(input), JSON.stringify(input)]);
  });

  test('the permission map can be changed in place while the agent runs', async () => {
    verifies('002:dynamic:mutate-map', '002:dynamic:takes-effect');
    registerModel(
      'glm-4.7',
      scripted(...['a', 'b', 'c', 'd'].map((command) => bash(`tc-${command}`, command))),
    );
    const orchestrator = new AgentOrchestrator();
    const agentId = orchestrator.spawn({ model: 'glm-4.7', messages, tools: [bashTool] });
    const rule = (command: string) => ({ tool: 'bash', params: { command } });
    const asked: string[] = [];
    const denied: unknown[] = [];
    for await (const { event } of orchestrator.events()) {
      if (event.type === 'tool_result' && event.output.status === 'denied') denied.push(event.id);
      if (event.type !== 'relay') continue;
      asked.push(event.toolCallId);
      const permissions = orchestrator.getPermissions(agentId);
      permissions.allowlist.push(rule('b'));
      permissions.allowOnce.push(rule('c'));
      permissions.deny.push({ toolCallId: 'tc-d' });
      orchestrator.resolveRelay(event.id, { approved: true });
    }
    expect(asked).toEqual(['tc-a']);
    expect(ran).toEqual(['a', 'b', 'c']);
    expect(denied).toEqual(['tc-d']);
    expect(orchestrator.getPermissions(agentId).allowOnce).toEqual([]);
  });
});

describe('testing permissions', () => {
  test('the relay of a dangerous command is yielded, and the test ends', async () => {
    verifies(
      '002:testing:deterministic-harness',
      '002:testing:tool-call-event',
      '002:testing:create-agent-harness',
      '002:testing:relay-yielded',
    );
    // oxfmt-ignore
    {
      const mockProvider = createDeterministicHarness([
        { type: "tool_call", id: "tc-1", name: "bash", input: { command: "rm -rf /" } }
      ]);

      const agent = createAgentHarness({ harness: mockProvider });

      const events = [];
      for await (const event of agent.invoke({
        messages,
        tools: [bashTool],
        permissions: { allowlist: [{ tool: "bash", params: { command: "ls*" } }] }
      })) {
        events.push(event);
      }

      // Assert relay event was yielded
      assert(events.some(e => e.type === "relay"));
    }
    expect(ran).toEqual([]);
  });
});
