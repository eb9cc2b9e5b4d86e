/** What a run may use up: whoever reaches a limit answers once more, without tools, and ends. */
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  type ScriptedTurn,
  text,
  toolCall,
} from '@relay/core/testing';
import {
  type LimitName,
  type Limits,
  type Message,
  type StoredEvent,
  textOf,
} from '@relay/protocol';
import { agentTool } from '@relay/tools';
import { describe, expect, test } from 'vitest';
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
  journal,
  lastOf,
  ofType,
  openFixture,
  untilAsked,
  untilStored,
} from './fixture.ts';
import { mortal } from './stores.ts';

const free = { allowedByDefault: true };
const price = { inputPerMillion: 1_000_000, outputPerMillion: 1_000_000 };
const look = (id: string) => toolCall(id, 'look', {});
const pay = (id: string) => toolCall(id, 'pay', {});
const used = (tokens: number) => finish({ inputTokens: tokens, outputTokens: 0 });

/** Calls a tool in every turn in which it may. */
const tireless: ScriptedTurn = ({ tools, messages }) =>
  tools.length === 0
    ? says('All I have.')
    : [look(`call_${messages.length}`), finish({ inputTokens: 8, outputTokens: 2 })];

function closingOf(messages: readonly Message[]): string {
  const last = messages.at(-1);
  return last?.role === 'system' ? textOf(last.content) : '';
}

function limitsIn(events: readonly StoredEvent[]): LimitName[] {
  return ofType(events, 'limit.reached').map(({ limit }) => limit);
}

const reachable: [string, Limits & { maxIterations?: number }, LimitName, number][] = [
  ['turns', { maxIterations: 3 }, 'iterations', 3],
  ['tokens', { tokens: 25 }, 'tokens', 3],
  ['cost', { costUsd: 25 }, 'cost', 3],
  ['tool calls', { toolCalls: 2 }, 'toolCalls', 2],
];

describe('a limit', () => {
  test.each(reachable)('of %s ends the run with a last answer', async (...given) => {
    const [, { maxIterations = 50, ...limits }, name, executed] = given;
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'look', ...free });
    const model = createScriptedModel(Array<ScriptedTurn>(20).fill(tireless));
    const kernel = await boot({ model, tools: [tool], prices: { scripted: price } });
    const run = await ask(kernel, { maxIterations, limits });
    const events = await finished(kernel, run.id);
    expect(limitsIn(events)).toEqual([name]);
    expect(tool.executions).toHaveLength(executed);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'All I have.' });
    expect(endOf(events).error).toBeUndefined();
    expect(ofType(events, 'agent.ended')).toMatchObject([{ reason: 'limit' }]);
    const requests = [...model.requests];
    expect(requests.slice(0, -1).map(({ tools }) => tools.length)).not.toContain(0);
    expect(lastOf(requests).tools).toEqual([]);
    expect(closingOf(lastOf(requests).messages)).toMatch(/no tool can be called any more/);
    expect(requests.slice(0, -1).map(({ messages }) => closingOf(messages))).not.toContain(
      closingOf(lastOf(requests).messages),
    );
  });

  test.each(reachable)('of %s reaches a sub-agent, whose answer counts', async (...given) => {
    const [, { maxIterations, ...limits }, name] = given;
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'look', ...free });
    const model = createScriptedAgents({
      Begin: [
        [delegate('a', 'x', 'looker'), finish({ inputTokens: 0, outputTokens: 0 })],
        says('Done.'),
      ],
      x: Array<ScriptedTurn>(20).fill(tireless),
    });
    const kernel = await boot({
      model,
      tools: [tool, agentTool],
      prices: { scripted: price },
      agents: [{ name: 'looker', maxIterations: maxIterations ?? 50 }],
    });
    const run = await ask(kernel, { limits });
    const events = await finished(kernel, run.id);
    const { agentId } = agentFor(events, 'x');
    expect(ofType(events, 'limit.reached')[0]).toMatchObject({ agentId, limit: name });
    expect(endFor(events, 'x')).toMatchObject({ reason: 'limit', output: 'All I have.' });
    expect(resultOf(events, 'a')).toMatchObject({
      type: 'tool.completed',
      context: 'All I have.',
      result: { reason: 'limit' },
    });
    expect(lastOf(model.requestsFor('x')).tools).toEqual([]);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
    // Turns are counted for each agent and calls only when they are made; the rest is the run's.
    const shared = name === 'tokens' || name === 'cost';
    expect(limitsIn(events)).toEqual(shared ? [name, name] : [name]);
  });

  test('lets a model that calls tools in its last turn do nothing', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'look', ...free });
    const model = createScriptedModel([
      [look('a'), finish()],
      [text('Still… '), look('b'), finish()],
    ]);
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel, { maxIterations: 1 });
    const events = await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(1);
    expect(ofType(events, 'tool.called')).toHaveLength(1);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Still… ' });
    expect(model.requests).toHaveLength(2);
  });

  test('that is reached before a crash still is afterwards, and is reported once', async () => {
    const { boot, bootWithoutCleanup, store } = await openFixture();
    const process = mortal(store);
    let held = true;
    const tool = createRecordingTool({ name: 'look', ...free });
    const model = createScriptedModel([
      [look('a'), finish()],
      () => (held ? new Promise(() => undefined) : says('Last words.')),
    ]);
    const made = { model, tools: [tool] };
    const doomed = await bootWithoutCleanup({ ...made, store: process.store });
    const run = await ask(doomed, { maxIterations: 1 });
    await untilStored(doomed, run.id, { type: 'limit.reached' });
    await until(async () => model.requests.length === 2, 'the last turn');
    process.kill();
    held = false;
    const kernel = await boot({ ...made, restarted: true });
    const events = await finished(kernel, run.id);
    expect(limitsIn(events)).toEqual(['iterations']);
    expect(lastOf(model.requests).tools).toEqual([]);
    expect(endOf(events).output).toBe('Last words.');
  });
});

describe('a limit of tool calls', () => {
  test('lets none above it through, and says so once for all of them', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'look', ...free });
    const model = createScriptedModel([
      [look('a'), look('b'), look('c'), look('d'), finish()],
      says('Enough.'),
    ]);
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel, { limits: { toolCalls: 2 } });
    const events = await finished(kernel, run.id);
    expect(tool.executions.map(({ toolCallId }) => toolCallId)).toEqual(['a', 'b']);
    expect(['c', 'd'].map((id) => resultOf(events, id))).toMatchObject([
      { type: 'tool.failed', code: 'limit_reached' },
      { type: 'tool.failed', code: 'limit_reached' },
    ]);
    expect(limitsIn(events)).toEqual(['toolCalls']);
  });

  test('of none at all lets nothing through', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'look', ...free });
    const model = createScriptedModel([[look('a'), finish()], says('Nothing.')]);
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel, { limits: { toolCalls: 0 } });
    await finished(kernel, run.id);
    expect(tool.executions).toEqual([]);
  });

  test('counts those that a person is being asked about', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([[pay('a'), pay('b'), finish()], says('Done.')]);
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel, { limits: { toolCalls: 1 } });
    const [approval] = await untilAsked(kernel, run.id, 1);
    expect(approval?.toolCallId).toBe('a');
    await decide(kernel, approval?.approvalId);
    const events = await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(1);
    expect(resultOf(events, 'b')).toMatchObject({ code: 'limit_reached' });
  });

  test('does not count what was denied', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([
      [pay('a'), finish()],
      [toolCall('b', 'pay', { other: 1 }), finish()],
      says('Done.'),
    ]);
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel, { limits: { toolCalls: 1 } });
    const [first] = await untilAsked(kernel, run.id);
    await decide(kernel, first?.approvalId, { approved: false });
    const second = await until(async () => {
      const [approval] = await untilAsked(kernel, run.id);
      return approval?.toolCallId === 'b' && approval;
    }, 'the second approval');
    await decide(kernel, second.approvalId);
    const events = await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(1);
    expect(limitsIn(events)).toEqual([]);
    expect(endOf(events).status).toBe('completed');
  });

  test('counts calls of all agents, and nothing above it ever runs', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'look', ...free });
    const many = [look('1'), look('2'), look('3'), finish()];
    const model = createScriptedAgents({
      Begin: [[delegate('a', 'x'), delegate('b', 'y'), finish()], says('Done.')],
      x: [many, says('X.')],
      y: [many, says('Y.')],
    });
    const kernel = await boot({ model, tools: [tool, agentTool] });
    const run = await ask(kernel, { limits: { toolCalls: 6 } });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.started')).toHaveLength(6);
    expect(tool.executions).toHaveLength(4);
    expect(limitsIn(events)).toEqual(['toolCalls']);
    expect(endOf(events).status).toBe('completed');
  });

  test('counts a call once, whose outcome is asked about after a crash', async () => {
    const { boot, bootWithoutCleanup, store } = await openFixture();
    const process = mortal(store);
    const tool = createRecordingTool({ name: 'pay', ...free });
    tool.hold();
    let held = true;
    const model = createScriptedAgents({
      Begin: [[delegate('a', 'x'), delegate('b', 'y'), finish()], says('Done.')],
      x: [[pay('c'), finish()], says('X.')],
      y: [() => (held ? new Promise(() => undefined) : [pay('d'), finish()]), says('Y.')],
    });
    const made = { model, tools: [tool, agentTool] };
    const doomed = await bootWithoutCleanup({ ...made, store: process.store });
    const run = await ask(doomed, { limits: { toolCalls: 4 } });
    await until(async () => tool.executions.length === 1, 'the tool');
    await until(async () => model.requestsFor('y').length === 1, 'the model');
    process.kill();
    held = false;
    tool.release();
    const kernel = await boot({ ...made, restarted: true });
    const [approval] = await untilAsked(kernel, run.id);
    expect(approval).toMatchObject({ kind: 'outcome', toolCallId: 'c' });
    await decide(kernel, approval?.approvalId, { outcome: 'completed', output: 'paid' });
    const events = await finished(kernel, run.id);
    expect(resultOf(events, 'd')).toMatchObject({ type: 'tool.completed' });
    expect(limitsIn(events)).toEqual([]);
  });
});

describe('a limit of cost', () => {
  test('needs a price, and says so before anything runs', async () => {
    const { boot } = await openFixture();
    const model = createScriptedModel([says('Free.')]);
    const kernel = await boot({ model });
    await expect(ask(kernel, { limits: { costUsd: 1 } })).rejects.toMatchObject({
      code: 'invalid_request',
      details: [{ path: 'limits.costUsd' }],
    });
    expect(model.requests).toEqual([]);
  });

  test('lets no sub-agent work whose model has no price', async () => {
    const { boot } = await openFixture();
    const model = createScriptedAgents({
      Begin: [[delegate('a', 'x', 'dear'), finish()], says('Alone.')],
      x: [says('X.')],
    });
    const agents = [{ name: 'dear', model: 'unpriced' }];
    const models = { unpriced: model };
    const prices = { scripted: { inputPerMillion: 1, outputPerMillion: 1 } };
    const kernel = await boot({ model, models, agents, tools: [agentTool], prices });
    const run = await ask(kernel, { limits: { costUsd: 1 } });
    const events = await finished(kernel, run.id);
    expect(resultOf(events, 'a')).toMatchObject({ type: 'tool.failed', code: 'invalid_request' });
    expect(model.requestsFor('x')).toEqual([]);
  });

  test('is reached at once if the model no longer has a price', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay' });
    const turns = [
      [pay('a'), used(1)],
      [pay('b'), used(1)],
      [text('Over.'), used(1)],
    ];
    const model = createScriptedModel(turns);
    const cheap = { scripted: { inputPerMillion: 1, outputPerMillion: 1 } };
    const first = await boot({ model, tools: [tool], prices: cheap });
    const run = await ask(first, { limits: { costUsd: 100 } });
    const [approval] = await untilAsked(first, run.id);
    await first.stop();
    const kernel = await boot({ model, tools: [tool] });
    await decide(kernel, approval?.approvalId);
    const [second] = await until(async () => {
      const open = await untilAsked(kernel, run.id);
      return open[0]?.toolCallId === 'b' && open;
    }, 'the second approval');
    await decide(kernel, second?.approvalId);
    const events = await finished(kernel, run.id);
    expect(limitsIn(events)).toEqual(['cost']);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Over.' });
  });
});

describe('a limit of sub-agents', () => {
  const nested = {
    Begin: [[delegate('a', 'x'), finish()], says('Done.')],
    x: [[delegate('b', 'y'), finish()], says('X.')],
    y: [says('Y.')],
  };

  test.each([
    [0, 'a', 0],
    [1, 'b', 1],
  ] as const)('in depth %i stops whoever goes beyond', async (depth, refused, spawned) => {
    const { boot } = await openFixture();
    const model = createScriptedAgents(nested);
    const kernel = await boot({ model, tools: [agentTool] });
    const run = await ask(kernel, { limits: { depth } });
    const events = await finished(kernel, run.id);
    expect(limitsIn(events)).toEqual(['depth']);
    expect(resultOf(events, refused)).toMatchObject({ code: 'limit_reached' });
    expect(ofType(events, 'agent.started')).toHaveLength(1 + spawned);
    expect(endOf(events).status).toBe('completed');
    // At the bottom nobody is even offered to delegate.
    const bottom = depth === 0 ? 'Begin' : 'x';
    expect(model.requestsFor(bottom)[0]?.tools).toEqual([]);
  });

  test('in depth is five by default', async () => {
    const { boot } = await openFixture();
    const deeper = Object.fromEntries(
      Array.from({ length: 8 }, (_, n) => [
        n === 0 ? 'Begin' : `level ${n}`,
        [[delegate(`call_${n}`, `level ${n + 1}`), finish()], says(`${n}`)],
      ]),
    );
    const kernel = await boot({ model: createScriptedAgents(deeper), tools: [agentTool] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'agent.started')).toHaveLength(6);
    expect(limitsIn(events)).toEqual(['depth']);
  });

  test('in number holds for the whole run, and is recorded once for each agent that reaches it', async () => {
    const { boot } = await openFixture();
    const model = createScriptedAgents({
      Begin: [
        [delegate('a', 'x'), delegate('b', 'x'), delegate('c', 'x'), delegate('d', 'x'), finish()],
        says('Done.'),
      ],
      x: [says('X.')],
    });
    const kernel = await boot({ model, tools: [agentTool] });
    const run = await ask(kernel, { limits: { subAgents: 2 } });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'agent.started')).toHaveLength(3);
    expect(limitsIn(events)).toEqual(['subAgents']);
    expect(['c', 'd'].map((id) => resultOf(events, id))).toMatchObject([
      { code: 'limit_reached' },
      { code: 'limit_reached' },
    ]);
    expect(ofType(events, 'agent.ended').at(-1)).toMatchObject({ reason: 'limit' });
  });

  test('on tokens prevents further sub-agents', async () => {
    const { boot } = await openFixture();
    const model = createScriptedAgents({
      Begin: [[delegate('a', 'x'), delegate('b', 'x'), used(100)], says('Alone.')],
      x: [says('X.')],
    });
    const kernel = await boot({ model, tools: [agentTool] });
    const run = await ask(kernel, { limits: { tokens: 100 } });
    const events = await finished(kernel, run.id);
    expect(model.requestsFor('x')).toEqual([]);
    expect(limitsIn(events)).toEqual(['tokens']);
    expect(resultOf(events, 'a')).toMatchObject({ code: 'limit_reached' });
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Alone.' });
    expect(await journal(kernel, run.id)).toEqual(events);
  });
});
