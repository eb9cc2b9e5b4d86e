/**
 * What TypeScript knows. Everything here is checked by the compiler; running it shows only that it is
 * there. The examples of the document stand in test/conformance, without a cast and without an `any`.
 */
import type { AttachmentPart } from '@relay/protocol';
import { describe, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import {
  type AgentEvent,
  type AgentHarness,
  type AgentMessage,
  AgentOrchestrator,
  type CompletePermissions,
  createAgentHarness,
  createChatCompletionsModel,
  createDeterministicHarness,
  defineTool,
  type EventStream,
  type Harness,
  type InvokeOptions,
  type Permissions,
  type RelayEvent,
  type RelayResponse,
  type ScriptedEvent,
  type ToolContext,
  type ToolDefinition,
  type ToolOutput,
  type ToolPermission,
  type ToolResultOutput,
} from '../src/index.ts';

const agent = createAgentHarness({ harness: createDeterministicHarness([]) });
const orchestrator = new AgentOrchestrator();
const relay: RelayEvent = {
  type: 'relay',
  kind: 'permission',
  runId: 'run',
  agentId: 'agent',
  id: 'relay',
  toolCallId: 'tc-1',
  tool: 'bash',
  params: { command: 'ls', limit: 1 },
  display: { text: '', flags: [] },
  agentPath: ['assistant'],
  respond: () => undefined,
};
const messages = [{ role: 'user', content: 'Begin' }];

/** Only for the compiler: it is never called. */
function checked(_code: () => unknown): void {}

describe('an invocation', () => {
  test('is a stream of events that are discriminated by their type', () => {
    expectTypeOf(agent.invoke).returns.toEqualTypeOf<EventStream<AgentEvent>>();
    checked(async () => {
      for await (const event of agent.invoke({ messages })) {
        expectTypeOf(event).toEqualTypeOf<AgentEvent>();
        expectTypeOf(event).not.toBeAny();
        if (event.type === 'text') expectTypeOf(event.content).toBeString();
        if (event.type === 'tool_call') expectTypeOf(event.input).toBeUnknown();
        if (event.type === 'tool_result')
          expectTypeOf(event.output).toEqualTypeOf<ToolResultOutput>();
        if (event.type === 'harness_end') expectTypeOf(event.iterations).toBeNumber();
        if (event.type === 'relay' && event.kind === 'permission') {
          expectTypeOf(event.params).toEqualTypeOf<Record<string, unknown>>();
          expectTypeOf(event.suggestedRule).toEqualTypeOf<ToolPermission | undefined>();
        }
      }
    });
    expectTypeOf<Extract<AgentEvent, { type: 'text' }>>().not.toBeNever();
    expectTypeOf<Extract<AgentEvent, { type: 'reasoning' }>>().not.toBeNever();
  });

  test('requires only messages, whose role can be a plain string', () => {
    expectTypeOf({ messages }).toExtend<InvokeOptions>();
    expectTypeOf<{ tools: [] }>().not.toExtend<InvokeOptions>();
    expectTypeOf<{ messages: { role: string }[] }>().not.toExtend<InvokeOptions>();
    // @ts-expect-error A misspelt option is a mistake.
    checked(() => agent.invoke({ messages, permision: {} }));
  });

  test('accepts permissions as literals', () => {
    const written = { allowlist: [{ tool: 'bash', params: { command: 'ls*' } }] };
    expectTypeOf(written).toExtend<Permissions>();
    const wrong = { allowlist: [{ tool: 'a', params: { n: 1 } }] };
    // @ts-expect-error A pattern is a text.
    checked(() => agent.invoke({ messages, permissions: wrong }));
    // @ts-expect-error A denial is of a call.
    checked(() => agent.invoke({ messages, permissions: { deny: [{ tool: 'bash' }] } }));
  });
});

describe('an answer', () => {
  test('can be a literal or a plain boolean', () => {
    const approved = Math.random() > 2;
    checked(() => relay.respond({ approved, reason: approved ? undefined : 'No' }));
    checked(() => relay.respond({ approved: true, always: true }));
    checked(() => relay.respond({ approved: false }));
    expectTypeOf(relay.respond).parameters.toEqualTypeOf<[RelayResponse]>();
    // @ts-expect-error It must say whether.
    checked(() => relay.respond({}));
    // @ts-expect-error Yes is no answer.
    checked(() => relay.respond({ approved: 'yes' }));
  });
});

describe('the orchestrator', () => {
  test('emits relays without respond', () => {
    expectTypeOf(orchestrator.events).returns.toEqualTypeOf<EventStream<AgentMessage>>();
    checked(async () => {
      for await (const { agentId, event } of orchestrator.events()) {
        expectTypeOf(agentId).toBeString();
        if (event.type !== 'relay') continue;
        expectTypeOf(event).not.toHaveProperty('respond');
        expectTypeOf(orchestrator.resolveRelay(event.id, { approved: true })).toBeBoolean();
      }
    });
    expectTypeOf(orchestrator.spawn).returns.toBeString();
  });

  test('returns all lists, and accepts the params of a relay', () => {
    expectTypeOf(orchestrator.getPermissions).returns.toEqualTypeOf<CompletePermissions>();
    expectTypeOf<CompletePermissions['allowlist']>().toEqualTypeOf<ToolPermission[]>();
    expectTypeOf<CompletePermissions['denylist']>().toEqualTypeOf<ToolPermission[]>();
    checked(() =>
      orchestrator.updatePermissions('a', {
        allowlist: [
          ...orchestrator.getPermissions('a').allowlist,
          { tool: relay.tool, params: relay.params },
        ],
      }),
    );
    // @ts-expect-error A rule has a tool.
    checked(() => orchestrator.updatePermissions('a', { allowlist: [{ params: {} }] }));
  });

  test('takes an optional agent harness', () => {
    expectTypeOf(AgentOrchestrator).toBeConstructibleWith();
    expectTypeOf(AgentOrchestrator).toBeConstructibleWith(agent);
  });
});

describe('a tool', () => {
  test('infers its input from its schema', () => {
    defineTool({
      name: 'typed',
      description: 'Typed',
      schema: z.object({ path: z.string(), limit: z.number().default(1) }),
      execute: async (input, context) => {
        expectTypeOf(input).toEqualTypeOf<{ path: string; limit: number }>();
        expectTypeOf(context).toEqualTypeOf<ToolContext>();
        return { context: input.path };
      },
      derivePermission: (input) => ({ tool: 'typed', params: { path: input.path } }),
    });
    expectTypeOf<ToolOutput>().toEqualTypeOf<{
      readonly context?: string | undefined;
      readonly result?: unknown;
      readonly attachments?: readonly AttachmentPart[] | undefined;
    }>();
  });

  test('can be passed as a definition with any schema', () => {
    const definition = {
      name: 'a',
      description: 'A',
      schema: z.object({ n: z.number() }),
      execute: async ({ n }: { n: number }) => ({ result: n }),
    };
    const typed: ToolDefinition<typeof definition.schema> = definition;
    const plain: ToolDefinition = definition;
    checked(() => agent.invoke({ messages, tools: [definition, typed, plain, 'b'] }));
    checked(() => agent.invoke({ messages, tools: [defineTool(definition)] }));
  });
});

describe('a harness', () => {
  test('is a script, a model of a provider, or anything that streams', () => {
    expectTypeOf(createDeterministicHarness).returns.toEqualTypeOf<Harness>();
    expectTypeOf(createChatCompletionsModel).returns.toExtend<Harness>();
    const own: Harness = {
      async *stream({ model }, signal) {
        expectTypeOf(signal).toEqualTypeOf<AbortSignal>();
        yield [{ type: 'text', text: model }];
        yield [{ type: 'finish', reason: 'stop', usage: { inputTokens: 1, outputTokens: 1 } }];
      },
    };
    expectTypeOf(createAgentHarness({ harness: own })).toEqualTypeOf<AgentHarness>();
  });

  test('accepts scripted events as literals', () => {
    const call = { type: 'tool_call', id: 'tc-1', name: 'bash', input: { command: 'ls' } } as const;
    expectTypeOf(call).toExtend<ScriptedEvent>();
    // @ts-expect-error A call has an id.
    checked(() => createDeterministicHarness([{ type: 'tool_call', name: 'bash', input: {} }]));
  });
});
