/** Agents that give work to others, and hand conversations over. */
import { createScriptedModel, finish, text } from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import {
  agentTool,
  type AgentReport,
  createAgentHarness,
  defineAgent,
  type Guardrail,
  RelayError,
  type ToolDefinition,
} from '../src/index.ts';
import {
  bash,
  harnessWith,
  delegate,
  handOff,
  messages,
  next,
  only,
  outputsOf,
  readAll,
  says,
  shell,
  textOf,
  turns,
} from './support/fixtures.ts';

const starts = (events: Parameters<typeof only>[0]) => only(events, 'harness_start');

describe('a sub-agent', () => {
  test('performs a task in the same run and returns its answer', async () => {
    const { tool, ran } = shell();
    const harness = harnessWith({
      root: turns([delegate('tc-1', 'helper', 'Look around')], [says('It says: fine')]),
      helper: turns([bash('tc-1', 'ls')], [says('All is fine')]),
    });
    const agents = [defineAgent({ name: 'helper', model: 'helper', tools: [tool] })];
    const agent = createAgentHarness({ harness, agents });
    const permissions = { allowlist: [{ tool: 'bash' }] };
    const events = await readAll(agent.invoke({ messages, tools: [agentTool], permissions }));
    const [root, helper] = starts(events);
    expect(helper).toMatchObject({ runId: root?.runId, parentId: root?.agentId });
    expect(outputsOf(events)['tc-1']).toMatchObject({
      context: 'All is fine',
      result: { agent: 'helper', agentId: helper?.agentId, reason: 'completed' },
    });
    expect(ran).toEqual(['ls']);
    expect(only(events, 'harness_end').map(({ agentId }) => agentId)).toEqual([
      helper?.agentId,
      root?.agentId,
    ]);
  });

  test('three levels down relays to the same reader, with its agent path', async () => {
    const { tool, ran } = shell();
    const harness = harnessWith({
      root: turns([delegate('tc-1', 'a')], [says('root')]),
      a: turns([delegate('tc-1', 'b')], [says('a')]),
      b: turns([delegate('tc-1', 'c')], [says('b')]),
      c: turns([bash('tc-1', 'deep')], [says('c')]),
    });
    const agents = ['a', 'b', 'c'].map((name) =>
      defineAgent({ name, model: name, tools: name === 'c' ? [tool] : [agentTool] }),
    );
    const agent = createAgentHarness({ harness, agents });
    const stream = agent.invoke({ messages, tools: [agentTool] });
    const relay = await next(stream, 'relay');
    expect(relay).toMatchObject({ tool: 'bash', params: { command: 'deep' } });
    expect(relay.agentPath).toEqual(['assistant', 'a', 'b', 'c']);
    expect(relay.parentId).toBeDefined();
    relay.respond({ approved: true });
    const rest = await readAll(stream);
    expect(ran).toEqual(['deep']);
    expect(only(rest, 'text').map(({ content }) => content)).toEqual(['c', 'b', 'a', 'root']);
  });

  test('reads the reason of a denial and continues', async () => {
    const { tool, ran } = shell();
    const harness = harnessWith({
      root: turns([delegate('tc-1', 'helper')], [says('root')]),
      helper: turns([bash('tc-1', 'rm')], [says('Then not')]),
    });
    const agents = [defineAgent({ name: 'helper', model: 'helper', tools: [tool] })];
    const agent = createAgentHarness({ harness, agents });
    const denial = { approved: false, reason: 'Not that' };
    const events = await readAll(agent.invoke({ messages, tools: [agentTool] }), denial);
    expect(ran).toEqual([]);
    expect(outputsOf(events)).toMatchObject({ 'tc-1': { context: 'Then not' } });
    expect(only(events, 'tool_result')[0]?.output).toEqual({
      status: 'denied',
      reason: 'Not that',
    });
  });

  test('shares the rules: "always" applies to all agents', async () => {
    const { tool, ran } = shell();
    const harness = harnessWith({
      root: turns([delegate('tc-1', 'one')], [delegate('tc-2', 'two')], [bash('tc-3', 'ls')]),
      one: turns([bash('tc-1', 'ls')]),
      two: turns([bash('tc-1', 'ls')]),
    });
    const agents = ['one', 'two'].map((name) => defineAgent({ name, model: name, tools: [tool] }));
    const agent = createAgentHarness({ harness, agents });
    const events = await readAll(agent.invoke({ messages, tools: [agentTool, tool] }), {
      approved: true,
      always: true,
    });
    expect(only(events, 'relay')).toHaveLength(1);
    expect(ran).toEqual(['ls', 'ls', 'ls']);
  });

  test('runs in parallel with others, and a waiting one blocks none', async () => {
    const { tool, ran } = shell();
    const harness = harnessWith({
      root: turns([delegate('tc-1', 'asks'), delegate('tc-2', 'works')], [says('Both')]),
      asks: turns([bash('tc-1', 'rm')]),
      works: turns([bash('tc-1', 'ls')], [bash('tc-2', 'ls -l')], [says('worked')]),
    });
    const agents = ['asks', 'works'].map((name) =>
      defineAgent({ name, model: name, tools: [tool] }),
    );
    const agent = createAgentHarness({ harness, agents });
    const permissions = { allowlist: [{ tool: 'bash', params: { command: 'ls*' } }] };
    const stream = agent.invoke({ messages, tools: [agentTool], permissions });
    const relay = await next(stream, 'relay');
    await expect.poll(() => ran).toEqual(['ls', 'ls -l']);
    relay.respond({ approved: false });
    expect(textOf(await readAll(stream))).toContain('Both');
  });

  test('without a name has the configuration of its parent', async () => {
    const model = createScriptedModel([[text('Alone'), finish()]]);
    const spawning: ToolDefinition = {
      name: 'ask',
      description: 'Asks',
      schema: z.object({}),
      execute: async (_input, { spawn }) => ({ context: (await spawn({ prompt: 'Who?' })).output }),
    };
    const root = turns([{ type: 'tool_call', id: 'tc-1', name: 'ask', input: {} }], [says('Done')]);
    const scripted = harnessWith({ root });
    const agent = createAgentHarness({
      harness: {
        stream(request, signal) {
          const found = request.messages.some(({ content }) => content === 'Who?');
          return (found ? model : (scripted.resolve?.('root') ?? model)).stream(request, signal);
        },
      },
    });
    const permissions = { allowlist: [{ tool: 'ask' }] };
    const events = await readAll(agent.invoke({ messages, tools: [spawning], permissions }));
    expect(model.requests[0]).toMatchObject({
      messages: [{ role: 'user', content: 'Who?' }],
      tools: [{ name: 'ask' }],
    });
    expect(outputsOf(events)['tc-1']).toEqual({ context: 'Alone' });
  });

  test('ends when the reader leaves the run', async () => {
    const harness = harnessWith({
      root: turns([delegate('tc-1', 'helper')]),
      helper: turns([bash('tc-1', 'sleep')]),
    });
    let aborted = false;
    const { tool } = shell(
      (_command, { signal }) =>
        new Promise((resolve) => {
          signal.addEventListener('abort', () => {
            aborted = true;
            resolve({});
          });
        }),
    );
    const agents = [defineAgent({ name: 'helper', model: 'helper', tools: [tool] })];
    const agent = createAgentHarness({ harness, agents });
    const permissions = { allowlist: [{ tool: 'bash' }] };
    for await (const event of agent.invoke({ messages, tools: [agentTool], permissions })) {
      if (event.type === 'tool_call' && event.name === 'bash') break;
    }
    expect(aborted).toBe(true);
  });
});

describe('ctx.spawn', () => {
  function spawning(work: Parameters<typeof shell>[0]) {
    const { tool } = shell(work);
    const harness = harnessWith({
      root: turns([bash('tc-1', 'go')], [says('Done')]),
      helper: turns([says('Helped')]),
      failing: [{ type: 'error', message: 'Out of order' }],
    });
    const agents = ['helper', 'failing'].map((name) =>
      defineAgent({ name, model: name, tools: [] }),
    );
    const agent = createAgentHarness({ harness, agents });
    return agent.invoke({
      messages,
      tools: [tool],
      permissions: { allowlist: [{ tool: 'bash' }] },
    });
  }

  test('returns the answer, the status and the usage of the agent', async () => {
    const reports: AgentReport[] = [];
    const events = await readAll(
      spawning(async (_command, { spawn }) => {
        reports.push(
          ...(await Promise.all([1, 2].map(() => spawn({ prompt: 'x', agent: 'helper' })))),
        );
        return { result: reports.map(({ output }) => output) };
      }),
    );
    expect(reports).toMatchObject([
      { agent: 'helper', reason: 'completed', output: 'Helped', usage: { inputTokens: 0 } },
      { agent: 'helper', reason: 'completed', output: 'Helped' },
    ]);
    expect(outputsOf(events)['tc-1']).toEqual({ result: ['Helped', 'Helped'] });
    expect(starts(events)).toHaveLength(3);
  });

  test('reports a failed agent to the tool', async () => {
    const events = await readAll(
      spawning(async (_command, { spawn }) => {
        const { reason, error } = await spawn({ prompt: 'x', agent: 'failing' });
        return { result: { reason, error } };
      }),
    );
    expect(outputsOf(events)['tc-1']).toMatchObject({
      result: { reason: 'failed', error: { message: 'Out of order' } },
    });
    expect(events.at(-1)).toMatchObject({ reason: 'completed' });
  });

  test('rejects unknown agents and calls that have ended', async () => {
    let kept: ((task: { prompt: string }) => Promise<AgentReport>) | undefined;
    const events = await readAll(
      spawning(async (_command, { spawn }) => {
        kept = spawn;
        await spawn({ prompt: 'x', agent: 'nobody' });
        return {};
      }),
    );
    expect(outputsOf(events)['tc-1']).toMatchObject({
      status: 'error',
      error: 'There is no agent named nobody',
    });
    await expect(kept?.({ prompt: 'Too late' })).rejects.toThrow(RelayError);
  });
});

describe('a handoff', () => {
  const harness = harnessWith({
    front: turns([says('One moment. '), handOff('tc-1', 'billing')], [says('unused')]),
    billing: turns([says('unused')], [says('Billing here.')]),
  });
  const billing = defineAgent({ name: 'billing', model: 'billing', instructions: 'You bill.' });
  const front = defineAgent({ name: 'front', model: 'front', handoffs: [billing] });

  test('continues the conversation with another agent', async () => {
    const agent = createAgentHarness({ harness });
    const events = await readAll(agent.invoke({ messages, agent: front }));
    expect(only(events, 'handoff')).toMatchObject([{ from: 'front', to: 'billing' }]);
    expect(only(events, 'relay')).toEqual([]);
    expect(textOf(events)).toBe('One moment. Billing here.');
    // It is the same agent in the tree, under another name.
    expect(starts(events)).toHaveLength(1);
    expect(only(events, 'harness_end')).toMatchObject([{ reason: 'completed', iterations: 2 }]);
  });

  test('can go back and forth between agents that name each other', async () => {
    const agents = [
      defineAgent({ name: 'ping', model: 'ping', handoffs: ['pong'] }),
      defineAgent({ name: 'pong', model: 'pong', handoffs: ['ping'] }),
    ];
    const script = turns(
      [handOff('tc-1', 'pong')],
      [handOff('tc-2', 'ping')],
      [handOff('tc-3', 'pong')],
      [says('Enough')],
    );
    const agent = createAgentHarness({
      harness: harnessWith({ ping: script, pong: script }),
      agents,
    });
    const events = await readAll(agent.invoke({ messages, agent: 'ping' }));
    expect(only(events, 'handoff').map(({ to }) => to)).toEqual(['pong', 'ping', 'pong']);
    expect(textOf(events)).toBe('Enough');
  });

  test('to an agent that is not listed is an error for the model', async () => {
    const agent = createAgentHarness({
      harness: harnessWith({
        front: turns([handOff('tc-1', 'nobody')], [says('Sorry')]),
        billing: [],
      }),
    });
    const events = await readAll(agent.invoke({ messages, agent: front }));
    expect(outputsOf(events)['tc-1']).toMatchObject({
      status: 'error',
      code: 'tool_input_invalid',
    });
    expect(only(events, 'handoff')).toEqual([]);
    expect(textOf(events)).toBe('Sorry');
  });
});

describe('a guardrail', () => {
  const refusing = (word: string): Guardrail => ({
    name: `no ${word}`,
    check: (said) =>
      said.includes(word) ? { ok: false, reason: `It says ${word}` } : { ok: true },
  });

  test('on the input prevents the model call', async () => {
    const model = createScriptedModel([[text('Hi'), finish()]]);
    const agent = defineAgent({ name: 'guarded', guardrails: { input: [refusing('Begin')] } });
    const events = await readAll(
      createAgentHarness({ harness: model }).invoke({ messages, agent }),
    );
    expect(only(events, 'error')[0]).toMatchObject({ code: 'guardrail_tripped' });
    expect(only(events, 'harness_end')[0]?.reason).toBe('failed');
    expect(model.requests).toHaveLength(0);
  });

  test('on the output discards the answer', async () => {
    const model = createScriptedModel([[text('A secret'), finish()]]);
    const agent = defineAgent({ name: 'guarded', guardrails: { output: [refusing('secret')] } });
    const events = await readAll(
      createAgentHarness({ harness: model }).invoke({ messages, agent }),
    );
    expect(only(events, 'text_discard')).toHaveLength(1);
    expect(only(events, 'error')[0]?.message).toContain('It says secret');
  });

  test('that throws rejects', async () => {
    const model = createScriptedModel([[text('Hi'), finish()]]);
    const broken: Guardrail = {
      name: 'broken',
      check: () => {
        throw new Error('Out of order');
      },
    };
    const agent = defineAgent({ name: 'guarded', guardrails: { input: [broken] } });
    const events = await readAll(
      createAgentHarness({ harness: model }).invoke({ messages, agent }),
    );
    expect(only(events, 'error')[0]?.message).toContain('Out of order');
  });
});
