/** Sub-agents: what they work by, what they read, and what they bring back to whoever called them. */
import { ProviderFailure } from '@relay/core';
import { createRecordingTool, finish, text, toolCall } from '@relay/core/testing';
import type { StoredEvent } from '@relay/protocol';
import { agentTool, defineDelegatingTool } from '@relay/tools';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { ask, until } from '../support/kernel.ts';
import {
  agentFor,
  createScriptedAgents,
  delegate,
  endFor,
  resultOf,
  says,
} from './scripted-agents.ts';
import {
  decide,
  endOf,
  finished,
  lastOf,
  ofType,
  openFixture,
  resultsIn,
  untilAsked,
  untilStored,
} from './fixture.ts';

const free = { allowedByDefault: true };
const done = says('Done.');

function rootOf(events: readonly StoredEvent[]): string {
  return (
    ofType(events, 'agent.started').find(({ spawned }) => spawned === undefined)?.agentId ?? ''
  );
}

describe('a sub-agent', () => {
  test('lives in its parent’s run, and its answer is the result of the call', async () => {
    const { boot } = await openFixture();
    const model = createScriptedAgents({
      Begin: [[text('I ask. '), delegate('call_1', 'Look it up'), finish()], done],
      'Look it up': [says('It is blue.')],
    });
    const kernel = await boot({ model, tools: [agentTool] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    const rootId = rootOf(events);
    const started = agentFor(events, 'Look it up');
    expect(started).toMatchObject({
      parentId: rootId,
      name: 'agent',
      model: 'scripted',
      spawned: { toolCallId: 'call_1', nth: 1, task: 'Look it up', tools: ['agent'] },
    });
    expect(ofType(events, 'tool.started')[0]).toMatchObject({
      agentId: rootId,
      toolCallId: 'call_1',
      via: 'agent',
    });
    expect(endFor(events, 'Look it up')).toMatchObject({
      parentId: rootId,
      reason: 'completed',
      iterations: 1,
      output: 'It is blue.',
    });
    expect(resultOf(events, 'call_1')).toMatchObject({
      type: 'tool.completed',
      agentId: rootId,
      context: 'It is blue.',
      result: {
        agentId: started.agentId,
        agent: 'agent',
        reason: 'completed',
        output: 'It is blue.',
      },
    });
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
  });

  test('reads its task and nothing else; its parent reads the answer and nothing else', async () => {
    const { boot } = await openFixture();
    const look = createRecordingTool({ name: 'look', ...free });
    const model = createScriptedAgents({
      Begin: [[text('Secret. '), delegate('call_1', 'Look'), finish()], done],
      Look: [[text('Looking. '), toolCall('call_2', 'look', {}), finish()], says('Seen.')],
    });
    const kernel = await boot({ model, tools: [agentTool, look] });
    const run = await ask(kernel, { system: 'Be brief.' });
    await finished(kernel, run.id);
    expect(model.requestsFor('Look').map(({ messages }) => messages)).toEqual([
      [{ role: 'user', content: 'Look' }],
      [
        { role: 'user', content: 'Look' },
        expect.objectContaining({ role: 'assistant', content: 'Looking. ' }),
        expect.objectContaining({ role: 'tool', tool_call_id: 'call_2' }),
      ],
    ]);
    expect(lastOf(model.requestsFor('Begin')).messages).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Begin' },
      expect.objectContaining({ role: 'assistant', content: 'Secret. ' }),
      { role: 'tool', tool_call_id: 'call_1', content: 'Seen.' },
    ]);
  });

  test('of a name has its own model, tools and instructions', async () => {
    const { boot } = await openFixture();
    const look = createRecordingTool({ name: 'look', ...free });
    const pay = createRecordingTool({ name: 'pay', ...free });
    const asked = createScriptedAgents({
      Begin: [[delegate('call_1', 'Look', 'scout'), finish()], done],
    });
    const small = createScriptedAgents({ Look: [says('Seen.')] });
    const kernel = await boot({
      model: asked,
      models: { small },
      tools: [agentTool, look, pay],
      agents: [
        {
          name: 'scout',
          model: 'small',
          tools: ['look'],
          instructions: 'You look at things.',
          maxIterations: 3,
        },
      ],
    });
    const run = await ask(kernel, { system: 'Be brief.' });
    const events = await finished(kernel, run.id);
    expect(agentFor(events, 'Look')).toMatchObject({
      name: 'scout',
      model: 'small',
      spawned: { tools: ['look'], system: 'You look at things.', maxIterations: 3 },
    });
    expect(small.requests).toMatchObject([
      {
        model: 'small',
        messages: [
          { role: 'system', content: 'You look at things.' },
          { role: 'user', content: 'Look' },
        ],
        tools: [expect.objectContaining({ name: 'look' })],
      },
    ]);
    expect(resultOf(events, 'call_1')).toMatchObject({ result: { agent: 'scout' } });
  });

  test('has its parent’s tools, and cannot call others', async () => {
    const { boot } = await openFixture();
    const look = createRecordingTool({ name: 'look', ...free });
    const pay = createRecordingTool({ name: 'pay', ...free });
    const model = createScriptedAgents({
      Begin: [[delegate('call_1', 'Pay'), finish()], done],
      Pay: [[toolCall('call_2', 'pay', {}), finish()], says('I cannot.')],
    });
    const kernel = await boot({ model, tools: [agentTool, look, pay] });
    const run = await ask(kernel, { tools: ['agent', 'look'] });
    const events = await finished(kernel, run.id);
    const [request] = model.requestsFor('Pay');
    expect(request?.tools.map(({ name }) => name)).toEqual(['agent', 'look']);
    expect(resultOf(events, 'call_2')).toMatchObject({ code: 'unknown_tool' });
    expect(pay.executions).toEqual([]);
  });

  test.each([
    ['an unknown agent', 'nobody', 'unknown_agent'],
    ['an agent whose model nobody offers', 'dreamer', 'unknown_model'],
  ])('that would be %s is an error of the tool, and the parent goes on', async (...given) => {
    const [, name, code] = given;
    const { boot } = await openFixture();
    const model = createScriptedAgents({
      Begin: [[delegate('call_1', 'Dream', name), finish()], done],
    });
    const agents = [{ name: 'dreamer', model: 'gone' }];
    const kernel = await boot({ model, models: {}, tools: [agentTool], agents });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(resultOf(events, 'call_1')).toMatchObject({ type: 'tool.failed', code });
    expect(ofType(events, 'agent.started')).toHaveLength(1);
    expect(ofType(events, 'tool.started')).toEqual([]);
    expect(endOf(events).status).toBe('completed');
  });

  test('whose provider fails is an error of the tool, and the parent continues', async () => {
    const { boot } = await openFixture();
    const model = createScriptedAgents({
      Begin: [[delegate('call_1', 'Fail'), delegate('call_2', 'Work'), finish()], done],
      Fail: [new ProviderFailure('No credit', { retryable: false })],
      Work: [says('Worked.')],
    });
    const kernel = await boot({ model, tools: [agentTool] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    const error = { code: 'provider_rejected', message: 'No credit' };
    expect(endFor(events, 'Fail')).toMatchObject({ reason: 'failed', error });
    expect(resultOf(events, 'call_1')).toMatchObject({ error: 'No credit', code: error.code });
    expect(resultOf(events, 'call_2')).toMatchObject({ context: 'Worked.' });
    expect(ofType(events, 'run.errored')).toEqual([]);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
  });

  test('may be a tool of its own, with a schema, and is asked about if it is not allowed', async () => {
    const { boot } = await openFixture();
    const review = defineDelegatingTool({
      name: 'review',
      description: 'Has a file reviewed',
      schema: z.object({ file: z.string() }),
      delegates: ({ file }) => ({ prompt: `Review ${file}`, instructions: 'Be strict.' }),
    });
    const model = createScriptedAgents({
      Begin: [[toolCall('call_1', 'review', { file: 'a.ts' }), finish()], done],
      'Review a.ts': [says('Fine.')],
    });
    const kernel = await boot({ model, tools: [review] });
    const run = await ask(kernel);
    const [approval] = await untilAsked(kernel, run.id);
    expect(approval).toMatchObject({ tool: 'review', params: { file: 'a.ts' } });
    expect(model.requestsFor('Review a.ts')).toEqual([]);
    await decide(kernel, approval?.approvalId);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.started')).toMatchObject([
      { approvalId: approval?.approvalId, via: 'agent' },
    ]);
    expect(agentFor(events, 'Review a.ts').spawned?.system).toBe('Be strict.');
    expect(resultOf(events, 'call_1')).toMatchObject({ context: 'Fine.' });
  });

  test('whose tool cannot say what there is to do fails as a tool, not as a run', async () => {
    const { boot } = await openFixture();
    const broken = defineDelegatingTool({
      name: 'broken',
      description: 'Never knows what to do',
      schema: z.object({}),
      ...free,
      delegates() {
        throw new Error('No idea');
      },
    });
    const model = createScriptedAgents({
      Begin: [[toolCall('call_1', 'broken', {}), delegate('call_2', 'Work'), finish()], done],
      Work: [says('Worked.')],
    });
    const kernel = await boot({ model, tools: [broken, agentTool] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(resultOf(events, 'call_1')).toMatchObject({ type: 'tool.failed', error: 'No idea' });
    expect(resultOf(events, 'call_2')).toMatchObject({ context: 'Worked.' });
    expect(endOf(events).status).toBe('completed');
  });
});

describe('several sub-agents', () => {
  test('run side by side: one that waits delays no other', async () => {
    const { boot } = await openFixture();
    const slow = createRecordingTool({ name: 'slow', ...free });
    slow.hold();
    const think = Promise.withResolvers<void>();
    const model = createScriptedAgents({
      Begin: [
        [delegate('a', 'Slow'), delegate('b', 'Thinks'), delegate('c', 'Quick'), finish()],
        done,
      ],
      Slow: [[toolCall('d', 'slow', {}), finish()], says('At last.')],
      Thinks: [() => think.promise.then(() => says('Thought.'))],
      Quick: [says('Quick.')],
    });
    const kernel = await boot({ model, tools: [agentTool, slow] });
    const run = await ask(kernel);
    const [first] = await untilStored(kernel, run.id, { type: 'agent.ended' });
    expect(first).toMatchObject({ output: 'Quick.' });
    await until(async () => slow.executions.length === 1, 'the held tool');
    think.resolve();
    const ends = await untilStored(kernel, run.id, { type: 'agent.ended', count: 2 });
    expect(ends[1]).toMatchObject({ output: 'Thought.' });
    slow.release();
    const events = await finished(kernel, run.id);
    // The model reads the results in the order of its calls, whatever order they came in.
    expect(resultsIn(lastOf(model.requestsFor('Begin')))).toEqual([
      'At last.',
      'Thought.',
      'Quick.',
    ]);
    expect(endOf(events).output).toBe('Done.');
  });

  test('mix their text in the journal, and each text stays whole', async () => {
    const { boot } = await openFixture();
    const words = (name: string) => [
      ...Array.from({ length: 50 }, (_, n) => text(`${name}${n} `)),
      finish(),
    ];
    const names = ['x', 'y', 'z'];
    const model = createScriptedAgents({
      Begin: [[...names.map((name) => delegate(`call_${name}`, name)), finish()], done],
      ...Object.fromEntries(names.map((name) => [name, [words(name)]])),
    });
    const kernel = await boot({ model, tools: [agentTool] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    for (const name of names) {
      const { agentId } = agentFor(events, name);
      const pieces = ofType(events, 'text.appended').filter((event) => event.agentId === agentId);
      const whole = pieces.map((piece) => piece.text).join('');
      expect(whole).toBe(Array.from({ length: 50 }, (_, n) => `${name}${n} `).join(''));
      expect(resultOf(events, `call_${name}`)).toMatchObject({ context: whole });
    }
  });

  test('may all call their tools by the same id: each gets its own', async () => {
    const { boot } = await openFixture();
    const look = createRecordingTool({ name: 'look', ...free });
    const turns = [[toolCall('call_1', 'look', {}), finish()], says('Seen.')];
    const model = createScriptedAgents({
      Begin: [
        [delegate('call_1', 'x'), delegate('call_2', 'y'), finish()],
        [toolCall('call_1', 'look', {}), finish()],
        done,
      ],
      x: turns,
      y: turns,
    });
    const kernel = await boot({ model, tools: [agentTool, look] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    const calls = ofType(events, 'tool.called').filter(({ name }) => name === 'look');
    expect(calls.map(({ providerCallId }) => providerCallId)).toEqual([
      'call_1',
      'call_1',
      'call_1',
    ]);
    expect(look.executions).toHaveLength(3);
    expect(new Set(look.executions.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(3);
    for (const name of ['x', 'y']) {
      const { agentId } = agentFor(events, name);
      const own = calls.find((call) => call.agentId === agentId)?.toolCallId;
      expect(lastOf(model.requestsFor(name)).messages.at(-1)).toMatchObject({ tool_call_id: own });
    }
  });

  test('use up tokens and money together, and each knows its own part', async () => {
    const { boot } = await openFixture();
    const used = (inputTokens: number, outputTokens: number) =>
      finish({ inputTokens, outputTokens });
    const model = createScriptedAgents({
      Begin: [
        [delegate('a', 'x'), delegate('b', 'y', 'scout'), used(100, 10)],
        [text('.'), used(200, 20)],
      ],
      x: [[text('X.'), used(1000, 1)]],
    });
    const small = createScriptedAgents({ y: [[text('Y.'), used(5000, 5)]] });
    const kernel = await boot({
      model,
      models: { small },
      prices: {
        scripted: { inputPerMillion: 10, outputPerMillion: 100 },
        small: { inputPerMillion: 1, outputPerMillion: 2 },
      },
      agents: [{ name: 'scout', model: 'small' }],
      tools: [agentTool],
    });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(endFor(events, 'x')?.usage).toEqual({
      inputTokens: 1000,
      outputTokens: 1,
      costUsd: expect.closeTo(0.0101, 10),
    });
    expect(endFor(events, 'y')?.usage).toMatchObject({ costUsd: expect.closeTo(0.00501, 10) });
    const { usage } = endOf(events);
    expect(usage).toMatchObject({ inputTokens: 6300, outputTokens: 36 });
    expect(usage.costUsd).toBeCloseTo(0.003 + 0.003 + 0.0101 + 0.00501, 10);
  });
});
