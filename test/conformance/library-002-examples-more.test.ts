/**
 * 002: the code examples of the document about the orchestrator, tool definitions and tests, as they
 * stand there, and run.
 */
import assert from 'node:assert';
import fs from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type AgentMessage,
  AgentOrchestrator,
  createAgentHarness,
  createDeterministicHarness,
  type Permissions,
  registerModel,
  type ScriptedEvent,
  type ToolDefinition,
  type ToolPermission,
} from '@relay/agents';
import { afterEach, describe, expect, test } from 'vitest';
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
  scripted,
} from './library-002-scene.ts';
import { verifies } from './verifies.ts';

afterEach(forget);

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
    const askUser = asking([true, false]);
    const told: AgentMessage[] = [];
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
        told.push({ agentId, event });
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
    expect(new Set(told.map(({ agentId }) => agentId))).toEqual(new Set([spawned]));
    const shown = told.filter(({ event }) => event.type === 'relay').map(({ event }) => event);
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
  test('always, once and no mean what they say', async () => {
    verifies(
      '002:dynamic:example',
      '002:dynamic:get-permissions',
      '002:dynamic:allowlist-spreadable',
      '002:dynamic:update-permissions',
      '002:dynamic:event-as-rule',
      '002:dynamic:takes-effect',
    );
    registerModel(
      'glm-4.7',
      scripted(
        bash('tc-1', 'git status'),
        bash('tc-2', 'git status'),
        bash('tc-3', 'git push'),
        bash('tc-4', 'git push'),
      ),
    );
    const askUser = asking(['always', 'once', 'no']);
    let rules: readonly ToolPermission[] = [];
    // oxfmt-ignore
    {
      const orchestrator = new AgentOrchestrator();
      orchestrator.spawn({ model: 'glm-4.7', messages, tools: [bashTool] });

      for await (const { agentId, event } of orchestrator.events()) {
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
    // The second status is not asked about; the first push runs, the second does not.
    expect(questions).toHaveLength(3);
    expect(ran).toEqual(['git status', 'git status', 'git push']);
    expect(rules).toEqual([{ tool: 'bash', params: { command: 'git status' } }]);
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
