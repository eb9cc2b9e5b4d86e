/** Handing the conversation over: the same agent of the tree goes on under another name. */
import type { AgentDefinition, ModelRequest } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  type ScriptedTurn,
  text,
  toolCall,
} from '@relay/core/testing';
import type { StoredEvent } from '@relay/protocol';
import { agentTool } from '@relay/tools';
import { describe, expect, test } from 'vitest';
import { ask, type KernelOptions, until } from '../support/kernel.ts';
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
  resultsIn,
  untilAsked,
  untilStored,
} from './fixture.ts';
import { mortal } from './stores.ts';

const to = (agent: string, id = 'call_1') => toolCall(id, 'handoff', { agent });
const look = () => createRecordingTool({ name: 'look', allowedByDefault: true });

const expert: AgentDefinition = {
  name: 'expert',
  description: 'Knows it all',
  model: 'big',
  tools: ['look'],
  instructions: 'You are the expert.',
  handoffs: ['clerk'],
};
const clerk: AgentDefinition = {
  name: 'clerk',
  instructions: 'You are the clerk.',
  handoffs: ['expert'],
};
const agents = [expert, clerk];

/** The root agent's model, and that of the expert. Turns are counted in the whole conversation. */
function scripted(first: readonly ScriptedTurn[], later: readonly ScriptedTurn[]) {
  const small = createScriptedModel(first);
  const big = createScriptedModel(later);
  return { model: small, models: { big }, big };
}

function toolNames({ tools }: ModelRequest): string[] {
  return tools.map(({ name }) => name);
}

function typesAfterCall(events: readonly StoredEvent[], toolCallId: string): string[] {
  const from = events.findIndex(
    (event) => event.type === 'tool.started' && event.toolCallId === toolCallId,
  );
  return events.slice(from + 1).map(({ type }) => type);
}

describe('a handoff', () => {
  test('gives the next turn another name, model, tools and instructions', async () => {
    const { boot } = await openFixture();
    const { model, models, big } = scripted(
      [[text('Let me fetch someone. '), to('expert'), finish()]],
      [[], says('Here I am.')],
    );
    const kernel = await boot({ model, models, agents, tools: [look(), agentTool] });
    const run = await ask(kernel, { system: 'Be brief.', handoffs: ['expert'] });
    const events = await finished(kernel, run.id);
    expect(toolNames(lastOf(model.requests))).toEqual(['look', 'agent', 'handoff']);
    expect(big.requests).toHaveLength(1);
    expect(lastOf(big.requests)).toMatchObject({
      model: 'big',
      messages: [
        { role: 'system', content: 'You are the expert.' },
        { role: 'user', content: 'Begin' },
        { role: 'assistant', content: 'Let me fetch someone. ' },
        { role: 'tool', tool_call_id: 'call_1', content: 'Handed off to expert' },
      ],
    });
    expect(toolNames(lastOf(big.requests))).toEqual(['look', 'handoff']);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Here I am.' });
  });

  test('is stored as the end of the call, the handoff and the switch, in this order', async () => {
    const { boot } = await openFixture();
    const { model, models } = scripted([[to('expert'), finish()]], [[], says('Here.')]);
    const kernel = await boot({ model, models, agents, tools: [look()] });
    const run = await ask(kernel, { handoffs: ['expert'] });
    const events = await finished(kernel, run.id);
    expect(typesAfterCall(events, 'call_1').slice(0, 4)).toEqual([
      'tool.completed',
      'agent.handed-off',
      'agent.switched',
      'turn.started',
    ]);
    const [root] = ofType(events, 'agent.started');
    expect(ofType(events, 'agent.handed-off')).toMatchObject([
      { agentId: root?.agentId, from: 'assistant', to: 'expert' },
    ]);
    expect(ofType(events, 'agent.switched')).toMatchObject([
      {
        agentId: root?.agentId,
        name: 'expert',
        model: 'big',
        tools: ['look'],
        system: 'You are the expert.',
        handoffs: ['clerk'],
      },
    ]);
    expect(ofType(events, 'agent.started')).toHaveLength(1);
    expect(ofType(events, 'agent.ended')).toMatchObject([{ agentId: root?.agentId }]);
  });

  test('keeps the model and the tools if the other agent has none of its own', async () => {
    const { boot } = await openFixture();
    const model = createScriptedModel([[to('clerk'), finish()], says('Here.')]);
    const kernel = await boot({ model, models: {}, agents, tools: [look()] });
    const run = await ask(kernel, { handoffs: ['clerk', 'expert'] });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'agent.switched')[0]).toMatchObject({
      model: 'scripted',
      tools: ['look'],
    });
    expect(toolNames(lastOf(model.requests))).toEqual(['look', 'handoff']);
  });

  test('lists the handoff targets and their descriptions for the model', async () => {
    const { boot } = await openFixture();
    const model = createScriptedModel([says('No need.')]);
    const kernel = await boot({ model, agents });
    const run = await ask(kernel, { handoffs: ['expert', 'clerk'] });
    await finished(kernel, run.id);
    const [offered] = lastOf(model.requests).tools;
    expect(offered?.description).toContain('- expert: Knows it all\n- clerk');
    expect(offered?.inputSchema).toMatchObject({
      properties: { agent: { enum: ['expert', 'clerk'] } },
    });
  });

  test('is not offered to an agent without targets, and cannot be called', async () => {
    const { boot } = await openFixture();
    const model = createScriptedModel([[to('expert'), finish()], says('Alone.')]);
    const kernel = await boot({ model, agents, tools: [look()] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(toolNames(lastOf(model.requests))).toEqual(['look']);
    expect(resultOf(events, 'call_1')).toMatchObject({ code: 'unknown_tool' });
    expect(ofType(events, 'agent.switched')).toEqual([]);
  });

  test.each([
    ['one who may not be handed to', { agent: 'clerk' }],
    ['one who does not exist', { agent: 'nobody' }],
    ['nobody at all', {}],
    ['something that is no name', { agent: 7 }],
  ])('to %s is an error in the arguments', async (...given) => {
    const [, input] = given;
    const { boot } = await openFixture();
    const model = createScriptedModel([
      [toolCall('call_1', 'handoff', input), finish()],
      says('I stay.'),
    ]);
    const kernel = await boot({ model, agents });
    const run = await ask(kernel, { handoffs: ['expert'] });
    const events = await finished(kernel, run.id);
    expect(resultOf(events, 'call_1')).toMatchObject({ code: 'tool_input_invalid' });
    expect(ofType(events, 'tool.started')).toEqual([]);
    expect(endOf(events).output).toBe('I stay.');
  });

  const refusals: [string, Partial<KernelOptions>][] = [
    ['has vanished', { agents: [] }],
    ['has a model that nobody offers', { agents, models: {} }],
  ];
  test.each(refusals)(
    'to an agent that %s is refused, and the agent continues',
    async (...given) => {
      const [, options] = given;
      const { boot } = await openFixture();
      const model = createScriptedModel([[to('expert'), finish()], says('I stay.')]);
      const kernel = await boot({ model, ...options });
      const run = await ask(kernel, { handoffs: ['expert'] });
      const events = await finished(kernel, run.id);
      expect(resultOf(events, 'call_1')).toMatchObject({ code: 'handoff_refused' });
      expect(ofType(events, 'agent.switched')).toEqual([]);
      expect(endOf(events)).toMatchObject({ status: 'completed', output: 'I stay.' });
    },
  );

  test('to one without a price is refused, where the cost is limited', async () => {
    const { boot } = await openFixture();
    const model = createScriptedModel([[to('expert'), finish()], says('I stay.')]);
    const prices = { scripted: { inputPerMillion: 1, outputPerMillion: 1 } };
    const kernel = await boot({ model, models: { big: model }, agents, prices });
    const run = await ask(kernel, { handoffs: ['expert'], limits: { costUsd: 1 } });
    const events = await finished(kernel, run.id);
    expect(resultOf(events, 'call_1')).toMatchObject({ code: 'handoff_refused' });
  });

  test('waits for the calls beside it: those that run and those that are asked about', async () => {
    const { boot } = await openFixture();
    const slow = createRecordingTool({ name: 'slow', allowedByDefault: true });
    slow.hold();
    const pay = createRecordingTool({ name: 'pay' });
    const { model, models, big } = scripted(
      [[toolCall('a', 'slow', {}), to('expert'), toolCall('b', 'pay', {}), finish()]],
      [[], says('Here.')],
    );
    const kernel = await boot({ model, models, agents, tools: [slow, pay, look()] });
    const run = await ask(kernel, { handoffs: ['expert'] });
    await until(async () => slow.executions.length === 1, 'the tool');
    slow.release();
    const [approval] = await untilAsked(kernel, run.id);
    expect(ofType(await journal(kernel, run.id), 'agent.switched')).toEqual([]);
    // The call was made with the root agent's tools: it runs, though the expert has not got it.
    await decide(kernel, approval?.approvalId);
    const events = await finished(kernel, run.id);
    expect(pay.executions).toHaveLength(1);
    expect(resultsIn(lastOf(big.requests))).toEqual([
      JSON.stringify({ result: { ran: 'slow' } }),
      'Handed off to expert',
      JSON.stringify({ result: { ran: 'pay' } }),
    ]);
    expect(endOf(events).output).toBe('Here.');
  });

  test('twice in one turn counts once, and the second call fails', async () => {
    const { boot } = await openFixture();
    const { model, models } = scripted(
      [[to('expert', 'a'), to('clerk', 'b'), finish()]],
      [[], says('Here.')],
    );
    const kernel = await boot({ model, models, agents, tools: [look()] });
    const run = await ask(kernel, { handoffs: ['expert', 'clerk'] });
    const events = await finished(kernel, run.id);
    expect(resultOf(events, 'a')).toMatchObject({ type: 'tool.completed' });
    expect(resultOf(events, 'b')).toMatchObject({ code: 'handoff_refused' });
    expect(ofType(events, 'agent.switched')).toMatchObject([{ name: 'expert' }]);
  });

  test('an invalid handoff does not block a second one', async () => {
    const { boot } = await openFixture();
    const model = createScriptedModel([[to('ghost', 'a'), to('clerk', 'b'), finish()], says('.')]);
    const kernel = await boot({ model, agents, models: {} });
    const run = await ask(kernel, { handoffs: ['ghost', 'clerk'] });
    const events = await finished(kernel, run.id);
    expect(resultOf(events, 'a')).toMatchObject({ code: 'handoff_refused' });
    expect(ofType(events, 'agent.switched')).toMatchObject([{ name: 'clerk' }]);
  });

  test('back and forth ends with the turns that the run has', async () => {
    const { boot } = await openFixture();
    let turn = 0;
    const pingPong: ScriptedTurn = ({ tools, messages }) => {
      if (tools.length === 0) return says('Enough.');
      turn += 1;
      const isClerk = JSON.stringify(messages[0]).includes('clerk');
      return [to(isClerk ? 'expert' : 'clerk', `call_${turn}`), finish()];
    };
    const model = createScriptedModel(Array<ScriptedTurn>(20).fill(pingPong));
    const kernel = await boot({ model, models: { big: model }, agents });
    const run = await ask(kernel, { handoffs: ['clerk'], maxIterations: 6 });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'agent.handed-off').map((event) => event.to)).toEqual([
      'clerk',
      'expert',
      'clerk',
      'expert',
      'clerk',
      'expert',
    ]);
    expect(ofType(events, 'limit.reached')).toMatchObject([{ limit: 'iterations' }]);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Enough.' });
  });

  test('inside a sub-agent changes that one alone, and its report names the last', async () => {
    const { boot } = await openFixture();
    const pay = createRecordingTool({ name: 'pay' });
    const big = createScriptedAgents({ x: [[], [toolCall('c', 'pay', {}), finish()], says('X.')] });
    const model = createScriptedAgents({
      Begin: [[delegate('a', 'x', 'clerk'), finish()], says('Done.')],
      x: [[to('expert', 'b'), finish()]],
    });
    const staff = [{ ...expert, tools: ['pay'] }, clerk];
    const tools = [agentTool, pay];
    const kernel = await boot({ model, models: { big }, agents: staff, tools });
    const run = await ask(kernel);
    const [approval] = await untilAsked(kernel, run.id);
    expect(approval?.agentPath).toEqual(['assistant', 'expert']);
    await decide(kernel, approval?.approvalId);
    const events = await finished(kernel, run.id);
    const { agentId, parentId } = agentFor(events, 'x');
    expect(ofType(events, 'agent.switched')).toMatchObject([{ agentId, parentId, name: 'expert' }]);
    expect(resultOf(events, 'a')).toMatchObject({ context: 'X.', result: { agent: 'expert' } });
    expect(endFor(events, 'x')).toMatchObject({ iterations: 3 });
    expect(lastOf(model.requestsFor('Begin')).model).toBe('scripted');
  });

  test('is read back after a crash, with the profile that it was made with', async () => {
    const { boot, bootWithoutCleanup, store } = await openFixture();
    const process = mortal(store);
    const pay = createRecordingTool({ name: 'pay' });
    const made = () =>
      scripted(
        [[to('expert'), finish()]],
        [[], [toolCall('call_2', 'pay', {}), finish()], says('Paid.')],
      );
    const staff = [{ ...expert, tools: ['pay'] }, clerk];
    const first = made();
    const doomed = await bootWithoutCleanup({
      store: process.store,
      model: first.model,
      models: first.models,
      agents: staff,
      tools: [pay],
    });
    const run = await ask(doomed, { handoffs: ['expert'], tools: [] });
    await untilStored(doomed, run.id, { type: 'approval.requested' });
    process.kill();
    // The expert is another one by now: this run goes on with the one that it was handed to.
    const changed = [{ ...expert, model: 'huge', tools: [], instructions: 'Changed.' }, clerk];
    const second = made();
    const { model, models } = second;
    const kernel = await boot({ model, models, agents: changed, tools: [pay], restarted: true });
    const [approval] = await untilAsked(kernel, run.id);
    await decide(kernel, approval?.approvalId);
    const events = await finished(kernel, run.id);
    expect(pay.executions).toHaveLength(1);
    expect(lastOf(second.big.requests)).toMatchObject({ model: 'big' });
    expect(lastOf(second.big.requests).messages[0]).toMatchObject({ content: expert.instructions });
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Paid.' });
  });
});
