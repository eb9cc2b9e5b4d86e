import { createScriptedModel, finish, text } from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import {
  createAgentHarness,
  createDeterministicHarness,
  defineAgent,
  type InvokeOptions,
  RelayError,
} from '../src/index.ts';
import {
  bash,
  messages,
  only,
  readAll,
  says,
  shell,
  textOf,
  turns,
  typesOf,
} from './support/fixtures.ts';

describe('an invocation', () => {
  test('emits events from its start to its one end', async () => {
    const harness = createDeterministicHarness(
      turns([says('Let me see.'), bash('tc-1', 'ls')], [says('Done.')]),
    );
    const { tool } = shell();
    const permissions = { allowlist: [{ tool: 'bash' }] };
    const agent = createAgentHarness({ harness });
    const events = await readAll(agent.invoke({ messages, tools: [tool], permissions }));
    expect(typesOf(events)).toEqual([
      'harness_start',
      'text',
      'tool_call',
      'usage',
      'tool_result',
      'text',
      'usage',
      'harness_end',
    ]);
    const { runId, agentId } = only(events, 'harness_start')[0] ?? {};
    for (const event of events) expect(event).toMatchObject({ runId, agentId });
    expect(events.at(-1)).toMatchObject({ reason: 'completed', iterations: 2 });
  });

  test('can be read with next()', async () => {
    const harness = createDeterministicHarness([says('Hello')]);
    const stream = createAgentHarness({ harness }).invoke({ messages });
    expect((await stream.next()).value?.type).toBe('harness_start');
    expect((await stream.next()).value).toMatchObject({ type: 'text', content: 'Hello' });
    expect((await stream.next()).value?.type).toBe('usage');
    expect((await stream.next()).value?.type).toBe('harness_end');
    expect(await stream.next()).toEqual({ done: true, value: undefined });
    expect(await stream.next()).toEqual({ done: true, value: undefined });
  });

  test('starts when it is first read', async () => {
    const model = createScriptedModel([[text('Hi'), finish()]]);
    const stream = createAgentHarness({ harness: model }).invoke({ messages });
    await new Promise((resolve) => setTimeout(resolve, 10));
    expect(model.requests).toHaveLength(0);
    await readAll(stream);
    expect(model.requests).toHaveLength(1);
  });

  test('shares nothing with another invocation', async () => {
    const harness = createDeterministicHarness([says('Hello')]);
    const agent = createAgentHarness({ harness });
    const [one, other] = await Promise.all([1, 2].map(() => readAll(agent.invoke({ messages }))));
    expect(one?.[0]?.runId).not.toBe(other?.[0]?.runId);
    expect([textOf(one ?? []), textOf(other ?? [])]).toEqual(['Hello', 'Hello']);
  });

  test('does not wait for a slow reader', async () => {
    const { tool, ran } = shell();
    const harness = createDeterministicHarness(turns([bash('tc-1', 'ls')], [bash('tc-2', 'pwd')]));
    const permissions = { allowlist: [{ tool: 'bash' }] };
    const stream = createAgentHarness({ harness }).invoke({ messages, tools: [tool], permissions });
    await stream.next();
    await expect.poll(() => ran).toEqual(['ls', 'pwd']);
    expect(await readAll(stream)).not.toHaveLength(0);
  });

  test('emits an error and ends if the model fails', async () => {
    const harness = createScriptedModel([new Error('Out of order')]);
    const events = await readAll(createAgentHarness({ harness }).invoke({ messages }));
    expect(typesOf(events)).toEqual(['harness_start', 'error', 'harness_end']);
    expect(only(events, 'error')[0]?.message).toContain('Out of order');
    expect(only(events, 'harness_end')[0]?.reason).toBe('failed');
  });

  test('retries a temporary failure of a provider and discards its text', async () => {
    let attempts = 0;
    const harness = createDeterministicHarness([says('Right')]);
    const failing = createDeterministicHarness([
      says('Wrong'),
      { type: 'error', message: 'Overloaded', retryable: true },
    ]);
    const events = await readAll(
      createAgentHarness({
        harness: {
          stream: (request, signal) =>
            ((attempts += 1) === 1 ? failing : harness).stream(request, signal),
        },
      }).invoke({ messages }),
    );
    const [wrong] = only(events, 'text');
    expect(only(events, 'text_discard').map(({ id }) => id)).toEqual([wrong?.id]);
    expect(only(events, 'text').map(({ content }) => content)).toEqual(['Wrong', 'Right']);
    expect(only(events, 'harness_end')[0]?.reason).toBe('completed');
  });
});

describe('the model request', () => {
  test('has the messages after the instructions of the agent and the invocation', async () => {
    const model = createScriptedModel([[text('Hi'), finish()]]);
    const agent = defineAgent({ name: 'clerk', instructions: 'You are a clerk.' });
    const stream = createAgentHarness({ harness: model }).invoke({
      messages: [{ role: 'user', content: 'Hello' }],
      agent,
      system: 'Be brief.',
    });
    await readAll(stream);
    expect(model.requests[0]?.messages).toEqual([
      { role: 'system', content: 'You are a clerk.\n\nBe brief.' },
      { role: 'user', content: 'Hello' },
    ]);
  });

  test('has the tools of the agent and the invocation, each once', async () => {
    const model = createScriptedModel([[finish()]]);
    const { tool } = shell();
    const agents = [defineAgent({ name: 'clerk', tools: [tool, 'bash'] })];
    const loop = createAgentHarness({ harness: model, agents });
    await readAll(loop.invoke({ messages, agent: 'clerk', tools: [tool, 'bash'] }));
    expect(model.requests[0]?.tools.map(({ name }) => name)).toEqual(['bash']);
    expect(model.requests[0]?.tools[0]?.inputSchema).toMatchObject({ type: 'object' });
  });
});

describe('an invalid option', () => {
  const harness = createDeterministicHarness([says('Hello')]);
  const agent = createAgentHarness({ harness });
  const { tool } = shell();

  test.each<[string, Partial<InvokeOptions>, object]>([
    ['no messages', { messages: [] }, { code: 'invalid_request' }],
    ['an unknown agent', { agent: 'nobody' }, { code: 'unknown_agent' }],
    ['an unknown tool', { tools: ['nothing'] }, { code: 'unknown_tool' }],
    ['no turns at all', { maxIterations: 0 }, { code: 'invalid_request' }],
    ['turns that cannot be counted', { maxIterations: Number.NaN }, { code: 'invalid_request' }],
    ['half a turn', { maxIterations: 1.5 }, { code: 'invalid_request' }],
    ['a limit below zero', { limits: { toolCalls: -1 } }, { code: 'invalid_request' }],
    ['a cost without a price', { limits: { costUsd: 1 } }, { code: 'invalid_request' }],
    [
      'a deny rule with a pattern that is refused',
      { permissions: { denylist: [{ tool: 'bash', params: { command: '!x' } }] } },
      { code: 'invalid_pattern' },
    ],
  ])('shows before anything runs: %s', (_what, options, error) => {
    const invoke = () => agent.invoke({ messages, ...options });
    expect(invoke).toThrow(RelayError);
    expect(invoke).toThrow(expect.objectContaining(error));
  });

  test('is reported with its path', () => {
    const limits = { tokens: 1, unknown: 2 };
    expect(() => agent.invoke({ messages, limits })).toThrow('limits.unknown: Unknown field');
    expect(() => agent.invoke({ messages, maxIterations: -1 })).toThrow('maxIterations: Must be');
  });

  test('such as two tools or two agents with one name is a TypeError', () => {
    const other = { ...tool, description: 'Another' };
    expect(() => agent.invoke({ messages, tools: [tool, other] })).toThrow('Two tools are named');
    const clerk = defineAgent({ name: 'clerk' });
    expect(() =>
      createAgentHarness({ harness, agents: [clerk] }).invoke({
        messages,
        agent: defineAgent({ name: 'clerk' }),
      }),
    ).toThrow('Two agents are named clerk');
  });

  test('in the agents or limits of a harness is reported when it is created', () => {
    const agents = [defineAgent({ name: 'one', handoffs: ['nobody'] })];
    expect(() => createAgentHarness({ harness, agents })).toThrow('which does not exist');
    expect(() => createAgentHarness({ harness, limits: { depth: 99 } })).toThrow('limits.depth');
  });

  test('leaves the harness usable', async () => {
    expect(() => agent.invoke({ messages: [] })).toThrow(RelayError);
    expect(textOf(await readAll(agent.invoke({ messages })))).toBe('Hello');
  });
});
