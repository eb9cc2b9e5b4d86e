/** A cancel, a stop of the server and a crash reach all agents of a run, at any depth. */
import { createRecordingTool, finish, text, toolCall } from '@relay/core/testing';
import { agentTool } from '@relay/tools';
import { describe, expect, test } from 'vitest';
import { ask, openApprovals, until, untilStatus } from '../support/kernel.ts';
import {
  agentFor,
  createScriptedAgents,
  delegate,
  endFor,
  resultOf,
  says,
} from './scripted-agents.ts';
import {
  aborted,
  createStreamingModel,
  decide,
  endOf,
  finished,
  journal,
  ofType,
  openFixture,
  stopRun,
  untilAsked,
  untilStored,
} from './fixture.ts';
import { mortal } from './stores.ts';

const free = { allowedByDefault: true };
const done = says('Done.');

/** A model that streams until it is stopped. */
function createEndlessModel() {
  return createStreamingModel(async function* (_request, signal) {
    yield [text('On and ')];
    await aborted(signal);
  });
}

describe('a cancel', () => {
  test('aborts the model calls of sub-agents', async () => {
    const { boot } = await openFixture();
    const endless = createEndlessModel();
    const model = createScriptedAgents({
      Begin: [[delegate('a', 'x', 'talker'), delegate('b', 'y', 'talker'), finish()], done],
    });
    const agents = [{ name: 'talker', model: 'endless' }];
    const kernel = await boot({ model, models: { endless }, tools: [agentTool], agents });
    const run = await ask(kernel);
    await untilStored(kernel, run.id, { type: 'text.appended', count: 2 });
    await stopRun(kernel, run.id);
    const events = await finished(kernel, run.id);
    expect(endless.signals.map((signal) => signal.aborted)).toEqual([true, true]);
    expect(ofType(events, 'agent.ended').map(({ reason }) => reason)).toEqual([
      'canceled',
      'canceled',
      'canceled',
    ]);
    expect(resultOf(events, 'a')).toMatchObject({ type: 'tool.failed', code: 'run_canceled' });
    expect(endOf(events).status).toBe('canceled');
    expect(model.requests).toHaveLength(1);
  });

  test('aborts their tools, keeps the results, and closes their approvals', async () => {
    const { boot } = await openFixture();
    const signals: AbortSignal[] = [];
    const listens = createRecordingTool({
      name: 'listens',
      ...free,
      async execute(_input, { signal }) {
        signals.push(signal);
        await aborted(signal);
        return { context: 'cleaned up' };
      },
    });
    const deaf = createRecordingTool({
      name: 'deaf',
      ...free,
      execute(_input, { signal }) {
        signals.push(signal);
        return new Promise(() => undefined);
      },
    });
    const pay = createRecordingTool({ name: 'pay' });
    const model = createScriptedAgents({
      Begin: [[delegate('a', 'x'), finish()], done],
      x: [[delegate('b', 'y'), toolCall('c', 'pay', {}), finish()], done],
      y: [[toolCall('d', 'listens', {}), toolCall('e', 'deaf', {}), finish()], done],
    });
    const tools = [agentTool, listens, deaf, pay];
    const kernel = await boot({ model, tools, settings: { graceMs: 50 } });
    const run = await ask(kernel);
    await until(async () => signals.length === 2, 'the tools');
    const [approval] = await untilStored(kernel, run.id, { type: 'approval.requested' });
    await stopRun(kernel, run.id);
    const events = await finished(kernel, run.id);
    expect(signals.map((signal) => signal.aborted)).toEqual([true, true]);
    expect(resultOf(events, 'd')).toMatchObject({ type: 'tool.completed', context: 'cleaned up' });
    expect(resultOf(events, 'e')).toMatchObject({ type: 'tool.failed', code: 'outcome_unknown' });
    expect(ofType(events, 'approval.closed')).toMatchObject([{ approvalId: approval?.approvalId }]);
    expect(resultOf(events, 'a')).toMatchObject({ code: 'run_canceled' });
    const ended = ofType(events, 'agent.ended').map(({ agentId }) => agentId);
    const deepestFirst = [agentFor(events, 'y'), agentFor(events, 'x')].map((each) => each.agentId);
    expect(ended.slice(0, 2)).toEqual(deepestFirst);
    await expect(decide(kernel, approval?.approvalId)).resolves.toMatchObject({
      kind: 'conflict',
    });
    expect(pay.executions).toEqual([]);
  });

  test('ends a run that waits for a person at the bottom', async () => {
    const { boot } = await openFixture();
    const pay = createRecordingTool({ name: 'pay' });
    const model = createScriptedAgents({
      Begin: [[delegate('a', 'x'), finish()], done],
      x: [[delegate('b', 'y'), finish()], done],
      y: [[toolCall('c', 'pay', {}), finish()], done],
    });
    const kernel = await boot({ model, tools: [agentTool, pay] });
    const run = await ask(kernel);
    await untilAsked(kernel, run.id);
    await stopRun(kernel, run.id);
    const events = await finished(kernel, run.id);
    expect(endOf(events).status).toBe('canceled');
    for (const id of ['c', 'b', 'a']) {
      expect(resultOf(events, id)).toMatchObject({ type: 'tool.failed', code: 'run_canceled' });
    }
    expect(pay.executions).toEqual([]);
  });

  test('that arrives while a sub-agent is being spawned stops it before its first step', async () => {
    const { boot } = await openFixture();
    const model = createScriptedAgents({
      Begin: [[delegate('a', 'x'), finish()], done],
      x: [says('X.')],
    });
    const kernel = await boot({ model, tools: [agentTool] });
    for (let n = 0; n < 10; n += 1) {
      const run = await ask(kernel);
      if (n > 0) await untilStored(kernel, run.id, { type: 'run.started' });
      await stopRun(kernel, run.id);
      expect(['canceled', 'completed']).toContain(endOf(await finished(kernel, run.id)).status);
    }
  });
});

describe('a stop of the server', () => {
  /** One sub-agent asks, one is at a tool, one is at the model. */
  function busyTree() {
    const pay = createRecordingTool({ name: 'pay' });
    const look = createRecordingTool({ name: 'look', ...free, idempotent: true });
    let stuck = true;
    const endless = createStreamingModel(async function* (_request, signal) {
      yield [text('Half')];
      if (stuck) await aborted(signal);
      else yield [text(' and whole.'), finish()];
    });
    const model = createScriptedAgents({
      Begin: [
        [delegate('a', 'Pays'), delegate('b', 'Looks'), delegate('c', 'Talks', 'talker'), finish()],
        done,
      ],
      Pays: [[toolCall('d', 'pay', {}), finish()], says('Paid.')],
      Looks: [[toolCall('e', 'look', {}), finish()], says('Looked.')],
    });
    const made = {
      model,
      models: { endless },
      tools: [agentTool, pay, look],
      agents: [{ name: 'talker', model: 'endless' }],
      settings: { graceMs: 20 },
    };
    const loosen = () => {
      stuck = false;
      look.release();
    };
    look.hold();
    return { made, pay, look, endless, loosen };
  }

  test('in the middle of a tree lets another node continue all of it', async () => {
    const { boot } = await openFixture();
    const { made, pay, look, endless, loosen } = busyTree();
    const kernel = await boot(made);
    const run = await ask(kernel);
    await untilStored(kernel, run.id, { type: 'approval.requested' });
    await untilStored(kernel, run.id, { type: 'text.appended' });
    await until(async () => look.executions.length === 1, 'the tool');
    await kernel.stop();
    expect(kernel.control.supervisor.activeRuns).toBe(0);
    const left = await journal(kernel, run.id);
    expect(ofType(left, 'agent.ended')).toEqual([]);
    expect(openApprovals(left)).toHaveLength(1);
    loosen();
    const next = await boot(made);
    const [approval] = await untilAsked(next, run.id);
    // It is the same question: nobody is asked again.
    expect(approval?.approvalId).toBe(openApprovals(left)[0]?.approvalId);
    await decide(next, approval?.approvalId);
    const events = await finished(next, run.id);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
    expect(['a', 'b', 'c'].map((id) => resultOf(events, id))).toMatchObject([
      { context: 'Paid.' },
      { context: 'Looked.' },
      { context: 'Half and whole.' },
    ]);
    expect(pay.executions).toHaveLength(1);
    expect(new Set(look.executions.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
    expect(ofType(events, 'turn.discarded')).toMatchObject([{ reason: 'crash' }]);
    expect(endless.requests).toHaveLength(2);
    expect(ofType(events, 'agent.started')).toHaveLength(4);
  });

  test('by a crash is the same to a tree', async () => {
    const { boot, bootWithoutCleanup, store } = await openFixture();
    const { made, pay, look, loosen } = busyTree();
    const process = mortal(store);
    const doomed = await bootWithoutCleanup({ ...made, store: process.store });
    const run = await ask(doomed);
    await until(async () => {
      const types = doomed.published.map(({ type }) => type);
      return types.includes('approval.requested') && types.includes('text.appended');
    }, 'the tree to be busy');
    await until(async () => look.executions.length === 1, 'the tool');
    process.kill();
    loosen();
    const next = await boot({ ...made, restarted: true });
    const [approval] = await untilAsked(next, run.id);
    await decide(next, approval?.approvalId);
    const events = await finished(next, run.id);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
    expect(endFor(events, 'Talks')).toMatchObject({ output: 'Half and whole.' });
    expect(pay.executions).toHaveLength(1);
    expect(ofType(events, 'agent.started')).toHaveLength(4);
  });

  test('with a deep call that must not run twice asks about its outcome with its path', async () => {
    const { boot, bootWithoutCleanup, store } = await openFixture();
    const pay = createRecordingTool({ name: 'pay', ...free });
    pay.hold();
    const model = createScriptedAgents({
      Begin: [[delegate('a', 'x'), finish()], done],
      x: [[delegate('b', 'y'), finish()], says('X.')],
      y: [[toolCall('c', 'pay', {}), finish()], says('Y.')],
    });
    const process = mortal(store);
    const tools = [agentTool, pay];
    const doomed = await bootWithoutCleanup({ store: process.store, model, tools });
    const run = await ask(doomed);
    await until(async () => pay.executions.length === 1, 'the tool');
    process.kill();
    const next = await boot({ model, tools, restarted: true });
    const [approval] = await untilAsked(next, run.id);
    expect(approval).toMatchObject({
      kind: 'outcome',
      toolCallId: 'c',
      agentPath: ['assistant', 'agent', 'agent'],
    });
    await untilStatus(next, run.id, 'waiting');
    await decide(next, approval?.approvalId, { outcome: 'completed', output: { paid: true } });
    const events = await finished(next, run.id);
    expect(resultOf(events, 'c')).toMatchObject({ result: { paid: true } });
    expect(resultOf(events, 'a')).toMatchObject({ context: 'X.' });
    expect(pay.executions).toHaveLength(1);
  });
});
