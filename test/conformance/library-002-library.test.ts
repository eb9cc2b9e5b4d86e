/** 002: what the document says of the harness and the orchestrator, beside its examples. */
import {
  type AgentEvent,
  AgentOrchestrator,
  createAgentHarness,
  createDeterministicHarness,
  type EventStream,
  matchesPermission,
  type Permissions,
  type RelayEvent,
  type ScriptedEvent,
  type ToolContext,
  type ToolDefinition,
} from '@relay/agents';
import { describe, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { verifies } from './verifies.ts';

const messages = [{ role: 'user', content: 'Begin' }];

function bash(id: string, command: string): ScriptedEvent {
  return { type: 'tool_call', id, name: 'bash', input: { command } };
}

/** An agent whose model makes these calls, a turn each, with a tool that remembers what ran. */
function createFixture(...turns: readonly (readonly ScriptedEvent[])[]) {
  const ran: string[] = [];
  const contexts: ToolContext[] = [];
  const bashTool: ToolDefinition = {
    name: 'bash',
    description: 'Run a command',
    schema: z.object({ command: z.string() }),
    execute: async ({ command }, context) => {
      ran.push(command);
      contexts.push(context);
      return { context: `$ ${command}`, result: { code: 0 } };
    },
  };
  const responses = turns.map((events) => ({ events }));
  const harness = createDeterministicHarness({ responses }, { relayTimeoutMs: Infinity });
  return { agent: createAgentHarness({ harness }), tools: [bashTool], ran, contexts };
}

async function nextRelay(stream: EventStream<AgentEvent>): Promise<RelayEvent> {
  for (;;) {
    const { value } = await stream.next();
    if (value === undefined) throw new Error('There is no relay');
    if (value.type === 'relay') return value;
  }
}

async function readOn(stream: EventStream<AgentEvent>): Promise<AgentEvent[]> {
  const events: AgentEvent[] = [];
  for await (const event of stream) events.push(event);
  return events;
}

describe('the harness', () => {
  test('asks about every call if there are no permissions', async () => {
    verifies('002:overview:default-ask');
    for (const permissions of [undefined, {}, { allowlist: [] }]) {
      const { agent, tools, ran } = createFixture([bash('tc-1', 'ls'), bash('tc-2', 'pwd')]);
      const rules = permissions === undefined ? {} : { permissions };
      const asked: string[] = [];
      for await (const event of agent.invoke({ messages, tools, ...rules })) {
        if (event.type !== 'relay') continue;
        asked.push(event.toolCallId);
        event.respond({ approved: false });
      }
      expect(asked).toEqual(['tc-1', 'tc-2']);
      expect(ran).toEqual([]);
    }
  });

  test('yields a relay with the call and respond, and resumes when that is called', async () => {
    verifies('002:flow:relay-event-shape', '002:flow:respond-resumes');
    const { agent, tools, ran } = createFixture(
      [bash('tc-1', 'ls')],
      [{ type: 'text', content: 'Done' }],
    );
    const stream = agent.invoke({ messages, tools });
    const relay = await nextRelay(stream);
    expect(relay).toMatchObject({
      type: 'relay',
      kind: 'permission',
      toolCallId: 'tc-1',
      tool: 'bash',
      params: { command: 'ls' },
    });
    expect(relay.respond).toBeTypeOf('function');
    expect(ran).toEqual([]);
    relay.respond({ approved: true });
    const rest = await readOn(stream);
    expect(ran).toEqual(['ls']);
    expect(rest.map(({ type }) => type)).toEqual(['tool_result', 'text', 'usage', 'harness_end']);
  });

  test('waits without an answer, and no time passes the call through', async () => {
    verifies('002:relay:waits-without-respond');
    vi.useFakeTimers();
    try {
      const { agent, tools, ran } = createFixture([bash('tc-1', 'ls')]);
      const stream = agent.invoke({ messages, tools });
      const relay = await nextRelay(stream);
      let frames = 0;
      const reading = (async () => {
        for await (const _ of stream) frames += 1;
      })();
      await vi.advanceTimersByTimeAsync(10 * 365 * 24 * 60 * 60 * 1000);
      expect({ frames, ran }).toEqual({ frames: 0, ran: [] });
      expect(vi.getTimerCount()).toBe(0);
      relay.respond({ approved: true });
      await reading;
      expect(ran).toEqual(['ls']);
    } finally {
      vi.useRealTimers();
    }
  });

  test('may be answered later, outside the body of the loop', async () => {
    verifies('002:relay:respond-later');
    const { agent, tools, ran } = createFixture([bash('tc-1', 'ls'), bash('tc-2', 'pwd')]);
    const open: RelayEvent[] = [];
    const reading = (async () => {
      for await (const event of agent.invoke({ messages, tools })) {
        if (event.type === 'relay') open.push(event);
      }
    })();
    await expect.poll(() => open.length).toBe(2);
    for (const { respond } of open.toReversed()) {
      await new Promise((resolve) => setTimeout(resolve, 5));
      respond({ approved: true });
    }
    await reading;
    expect(ran).toEqual(['pwd', 'ls']);
  });

  test('gives a tool its arguments and a context, and takes context and result from it', async () => {
    verifies('002:execution:arguments-and-context', '002:execution:returns-context-result');
    const { agent, tools, ran, contexts } = createFixture([bash('tc-1', 'ls -la')]);
    const permissions: Permissions = { allowlist: [{ tool: 'bash' }] };
    const events = await readOn(agent.invoke({ messages, tools, permissions }));
    expect(ran).toEqual(['ls -la']);
    const { runId, agentId } = events[0] ?? {};
    expect(contexts[0]).toMatchObject({
      runId,
      agentId,
      toolCallId: 'tc-1',
      idempotencyKey: expect.any(String),
      signal: expect.any(AbortSignal),
      progress: expect.any(Function),
      spawn: expect.any(Function),
      ask: expect.any(Function),
    });
    const results = events.flatMap((event) => (event.type === 'tool_result' ? [event.output] : []));
    expect(results).toEqual([{ context: '$ ls -la', result: { code: 0 } }]);
  });

  test('adds tool and params to the allowlist when the answer is for always', async () => {
    verifies('002:response:always');
    const { agent, tools, ran } = createFixture(
      [bash('tc-1', 'git *')],
      [bash('tc-2', 'git *')],
      [bash('tc-3', 'git push')],
    );
    const permissions: Permissions = { allowlist: [] };
    const asked: string[] = [];
    for await (const event of agent.invoke({ messages, tools, permissions })) {
      if (event.type !== 'relay') continue;
      asked.push(event.toolCallId);
      event.respond(asked.length === 1 ? { approved: true, always: true } : { approved: false });
    }
    // As a literal, not as the pattern that it looks like.
    expect(permissions.allowlist).toEqual([{ tool: 'bash', exact: { command: 'git *' } }]);
    expect(asked).toEqual(['tc-1', 'tc-3']);
    expect(ran).toEqual(['git *', 'git *']);
  });

  test('ends on a deterministic harness once all relays are answered', async () => {
    verifies('002:testing:ends');
    const { agent, tools, ran } = createFixture(
      [bash('tc-1', 'a'), bash('tc-2', 'b')],
      [bash('tc-3', 'c')],
      [{ type: 'text', content: 'Done' }],
    );
    const events: AgentEvent[] = [];
    for await (const event of agent.invoke({ messages, tools })) {
      events.push(event);
      if (event.type === 'relay') event.respond({ approved: event.toolCallId !== 'tc-2' });
    }
    expect(ran.toSorted()).toEqual(['a', 'c']);
    expect(events.at(-1)).toMatchObject({ type: 'harness_end', reason: 'completed' });
  });
});

describe('the orchestrator', () => {
  test('manages the relays of several agents, each answered by its id', async () => {
    verifies(
      '002:orchestrator:many-agents',
      '002:orchestrator:resolve-approve',
      '002:orchestrator:resolve-deny',
      '002:orchestrator:resolve-own-agent',
    );
    const { agent, tools, ran } = createFixture([bash('tc-1', 'ls')]);
    const orchestrator = new AgentOrchestrator(agent);
    const ids = [1, 2, 3].map(() => orchestrator.spawn({ messages, tools }));
    const open = new Map<string, string>();
    const outputs = new Map<string, unknown>();
    for await (const { agentId, event } of orchestrator.events()) {
      if (event.type === 'tool_result') outputs.set(agentId, event.output);
      if (event.type !== 'relay') continue;
      open.set(agentId, event.id);
      if (open.size < ids.length) continue;
      const [first = '', second = '', third = ''] = ids.map((id) => open.get(id));
      expect(orchestrator.resolveRelay(second, { approved: true })).toBe(true);
      // Only the second agent has gone on: the others still have their relays.
      expect(orchestrator.resolveRelay(second, { approved: true })).toBe(false);
      expect(orchestrator.resolveRelay(first, { approved: false, reason: 'No' })).toBe(true);
      expect(orchestrator.resolveRelay(third, { approved: false })).toBe(true);
    }
    expect(ran).toEqual(['ls']);
    expect(ids.map((id) => outputs.get(id))).toEqual([
      { status: 'denied', reason: 'No' },
      { context: '$ ls', result: { code: 0 } },
      { status: 'denied' },
    ]);
  });

  test('supports always', async () => {
    verifies('002:response:always-orchestrator');
    const { agent, tools, ran } = createFixture([bash('tc-1', 'ls')], [bash('tc-2', 'ls')]);
    const orchestrator = new AgentOrchestrator(agent);
    const agentId = orchestrator.spawn({ messages, tools });
    let asked = 0;
    for await (const { event } of orchestrator.events()) {
      if (event.type !== 'relay') continue;
      asked += 1;
      orchestrator.resolveRelay(event.id, { approved: true, always: true });
    }
    expect({ asked, ran }).toEqual({ asked: 1, ran: ['ls', 'ls'] });
    expect(orchestrator.getPermissions(agentId).allowlist).toEqual([
      { tool: 'bash', exact: { command: 'ls' } },
    ]);
  });

  test('changes the permissions of one agent and of no other', async () => {
    verifies('002:dynamic:own-agent');
    const { agent, tools } = createFixture([bash('tc-1', 'ls')], [bash('tc-2', 'ls')]);
    const orchestrator = new AgentOrchestrator(agent);
    const permissions: Permissions = { allowlist: [] };
    const [one = '', other = ''] = [1, 2].map(() =>
      orchestrator.spawn({ messages, tools, permissions }),
    );
    const asked: string[] = [];
    for await (const { agentId, event } of orchestrator.events()) {
      if (event.type !== 'relay') continue;
      asked.push(`${agentId} ${event.toolCallId}`);
      orchestrator.updatePermissions(one, { allowlist: [{ tool: 'bash' }] });
      orchestrator.resolveRelay(event.id, { approved: true });
    }
    expect(asked.toSorted()).toEqual([`${one} tc-1`, `${other} tc-1`, `${other} tc-2`].toSorted());
    expect(orchestrator.getPermissions(one).allowlist).toEqual([{ tool: 'bash' }]);
    expect(orchestrator.getPermissions(other).allowlist).toEqual([]);
  });
});

describe('matching', () => {
  test('coerces scalars to text; only they match', () => {
    verifies('002:match:coerced');
    const matches = (value: unknown, pattern: string) =>
      matchesPermission(
        { name: 'read', arguments: { value } },
        { tool: 'read', params: { value: pattern } },
      );
    expect(matches(100, '100')).toBe(true);
    expect(matches(1.5, '1.*')).toBe(true);
    expect(matches(-0, '0')).toBe(true);
    expect(matches(true, 'true')).toBe(true);
    expect(matches(false, '{true,false}')).toBe(true);
    expect(matches('text', 'te*')).toBe(true);
    // A deliberate difference: what has no text of its own matches nothing, not even everything.
    for (const value of [null, undefined, ['a'], [], {}, { toString: () => 'a' }]) {
      for (const pattern of ['**', '*', 'null', 'a', '[object Object]', 'undefined']) {
        expect(matches(value, pattern)).toBe(false);
      }
    }
  });
});
