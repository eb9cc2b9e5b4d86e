/** A process that dies or stops while a tool waits for the agents that it has spawned. */
import type { AgentReport } from '@relay/core';
import { createRecordingTool, finish, type RecordingTool, toolCall } from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import { ask, type Kernel, until } from '../support/kernel.ts';
import {
  agentFor,
  type ScriptedAgents,
  createScriptedAgents,
  endFor,
  resultOf,
  says,
} from './scripted-agents.ts';
import {
  appendWith,
  decide,
  endOf,
  finished,
  journal,
  ofType,
  openFixture,
  type LoopFixture,
  untilAsked,
  untilStored,
} from './fixture.ts';
import { mortal, wrapStore } from './stores.ts';
import { createSpawningTool, outputs, teamCall } from './spawning-tool.ts';

const done = says('Done.');
/** It can be run again. */
const again = { idempotent: true };

interface Tree {
  readonly model: ScriptedAgents;
  readonly tools: readonly RecordingTool[];
}

/** Runs until `ready`, dies there, and goes on in another process. */
async function dieWhen(
  { bootWithoutCleanup, boot, store }: LoopFixture,
  { model, tools }: Tree,
  ready: (doomed: Kernel, runId: string) => Promise<unknown>,
) {
  const process = mortal(store);
  const doomed = await bootWithoutCleanup({ store: process.store, model, tools });
  const run = await ask(doomed);
  await ready(doomed, run.id);
  process.kill();
  const next = await boot({ model, tools, restarted: true });
  return { next, run };
}

describe('a crash while an idempotent tool waits for its agents', () => {
  test('finds them again, in their order, wherever each one was', async () => {
    const fixture = await openFixture();
    const effect = createRecordingTool({ name: 'effect', allowedByDefault: true });
    const reports: AgentReport[][] = [];
    const tool = createSpawningTool(async ({ spawn }) => {
      const each = await Promise.all(['x', 'y', 'z'].map((prompt) => spawn({ prompt })));
      reports.push(each);
      return outputs(each);
    }, again);
    let held = true;
    const model = createScriptedAgents({
      Begin: [[teamCall, finish()], done],
      // One is over, one is at the model, one waits for a person.
      x: [[toolCall('a', 'effect', {}), finish()], says('X')],
      y: [() => (held ? new Promise(() => undefined) : says('Y'))],
      z: [[toolCall('b', 'pay', {}), finish()], says('Z')],
    });
    const pay = createRecordingTool({ name: 'pay' });
    const tree = { model, tools: [tool, effect, pay] };
    const { next, run } = await dieWhen(fixture, tree, async (doomed, runId) => {
      await untilStored(doomed, runId, { type: 'agent.ended' });
      await untilStored(doomed, runId, { type: 'approval.requested' });
      await until(async () => model.requestsFor('y').length === 1, 'the model');
      held = false;
    });
    await untilStored(next, run.id, { type: 'agent.ended', count: 2 });
    const [approval] = ofType(await journal(next, run.id), 'approval.requested');
    await decide(next, approval?.approvalId);
    const events = await finished(next, run.id);
    expect(resultOf(events, 'call_1')).toMatchObject({ context: 'X Y Z' });
    expect(ofType(events, 'agent.started')).toHaveLength(4);
    expect(effect.executions).toHaveLength(1);
    expect(pay.executions).toHaveLength(1);
    expect(tool.executions).toHaveLength(2);
    expect(new Set(tool.executions.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
    // The report of one that was over before the crash says all that it would have said.
    expect(reports).toEqual([
      [
        {
          agentId: agentFor(events, 'x').agentId,
          agent: 'agent',
          reason: 'completed',
          output: 'X',
          usage: { inputTokens: 6, outputTokens: 4 },
        },
        expect.objectContaining({ output: 'Y' }),
        expect.objectContaining({ output: 'Z' }),
      ],
    ]);
  });

  test('spawns the agents that it had not spawned yet, and none twice', async () => {
    const fixture = await openFixture();
    const tool = createSpawningTool(async ({ spawn }) => {
      const reports: AgentReport[] = [];
      for (const prompt of ['x', 'y', 'z']) reports.push(await spawn({ prompt }));
      return outputs(reports);
    }, again);
    let held = true;
    const model = createScriptedAgents({
      Begin: [[teamCall, finish()], done],
      x: [says('X')],
      y: [() => (held ? new Promise(() => undefined) : says('Y'))],
      z: [says('Z')],
    });
    const { next, run } = await dieWhen(fixture, { model, tools: [tool] }, async () => {
      await until(async () => model.requestsFor('y').length === 1, 'the model');
      held = false;
    });
    const events = await finished(next, run.id);
    expect(resultOf(events, 'call_1')).toMatchObject({ context: 'X Y Z' });
    expect(
      ofType(events, 'agent.started').map(({ spawned }) => [spawned?.nth, spawned?.task]),
    ).toEqual([
      [undefined, undefined],
      [1, 'x'],
      [2, 'y'],
      [3, 'z'],
    ]);
    expect(model.requestsFor('x')).toHaveLength(1);
  });

  test('reports again an agent that had failed', async () => {
    const fixture = await openFixture();
    const tool = createSpawningTool(async ({ spawn }) => {
      const { reason, error } = await spawn({ prompt: 'nobody plays this' });
      await spawn({ prompt: 'x' });
      return { context: `${reason} ${error?.code}` };
    }, again);
    let held = true;
    const model = createScriptedAgents({
      Begin: [[teamCall, finish()], done],
      x: [() => (held ? new Promise(() => undefined) : says('X'))],
    });
    const { next, run } = await dieWhen(fixture, { model, tools: [tool] }, async () => {
      await until(async () => model.requestsFor('x').length === 1, 'the model');
      held = false;
    });
    const events = await finished(next, run.id);
    expect(resultOf(events, 'call_1')).toMatchObject({ context: 'failed provider_rejected' });
    expect(ofType(events, 'agent.started')).toHaveLength(3);
  });

  test('resumes nested sub-agents from their last state', async () => {
    const fixture = await openFixture();
    const tool = createRecordingTool({
      name: 'team',
      allowedByDefault: true,
      idempotent: true,
      execute: async (input, { spawn }) =>
        outputs([await spawn({ prompt: (input as { prompt: string }).prompt })]),
    });
    let held = true;
    const model = createScriptedAgents({
      Begin: [[toolCall('a', 'team', { prompt: 'x' }), finish()], done],
      x: [[toolCall('b', 'team', { prompt: 'y' }), finish()], says('X')],
      y: [() => (held ? new Promise(() => undefined) : says('Y'))],
    });
    const { next, run } = await dieWhen(fixture, { model, tools: [tool] }, async () => {
      await until(async () => model.requestsFor('y').length === 1, 'the model');
      held = false;
    });
    const events = await finished(next, run.id);
    expect(resultOf(events, 'b')).toMatchObject({ context: 'Y' });
    expect(resultOf(events, 'a')).toMatchObject({ context: 'X' });
    expect(ofType(events, 'agent.started')).toHaveLength(3);
  });
});

describe('the report of a sub-agent', () => {
  test('is stored before the tool receives it', async () => {
    const { boot, store } = await openFixture();
    const hold = Promise.withResolvers<void>();
    let held = false;
    const slow = wrapStore(store, async (call) => {
      if (appendWith(call, 'agent.ended') !== undefined && !held) {
        held = true;
        await hold.promise;
      }
      return call.go();
    });
    const heard: string[] = [];
    const tool = createSpawningTool(async ({ spawn }) => {
      const report = await spawn({ prompt: 'x' });
      heard.push(report.output);
      return outputs([report]);
    }, again);
    const model = createScriptedAgents({ Begin: [[teamCall, finish()], done], x: [says('X')] });
    const kernel = await boot({ store: slow, model, tools: [tool] });
    const run = await ask(kernel);
    await until(async () => held, 'the end to be on its way');
    await new Promise((resolve) => setTimeout(resolve, 10));
    expect(heard).toEqual([]);
    hold.resolve();
    await finished(kernel, run.id);
    expect(heard).toEqual(['X']);
  });
});

describe('a crash while another tool waits for its agents', () => {
  async function interrupted(fixture: LoopFixture) {
    const pay = createRecordingTool({ name: 'pay' });
    const tool = createSpawningTool(async ({ spawn }) =>
      outputs([await spawn({ prompt: 'x' }), await spawn({ prompt: 'y' })]),
    );
    const model = createScriptedAgents({
      Begin: [[teamCall, finish()], done],
      x: [says('X')],
      y: [[toolCall('b', 'pay', {}), finish()], says('Y')],
    });
    const tree = { model, tools: [tool, pay] };
    const { next, run } = await dieWhen(fixture, tree, (doomed, runId) =>
      untilStored(doomed, runId, { type: 'approval.requested' }),
    );
    const [approval] = await untilAsked(next, run.id);
    return { next, run, approval, tool, pay, model };
  }

  test('asks about the outcome, and ends the agents that were still at work', async () => {
    const { next, run, approval, tool, pay } = await interrupted(await openFixture());
    expect(approval).toMatchObject({ kind: 'outcome', toolCallId: 'call_1', tool: 'team' });
    const parked = await journal(next, run.id);
    expect(endFor(parked, 'x')).toMatchObject({ reason: 'completed' });
    expect(endFor(parked, 'y')).toMatchObject({ reason: 'canceled' });
    expect(ofType(parked, 'approval.closed')).toHaveLength(1);
    await decide(next, approval?.approvalId, { outcome: 'completed', output: 'It is done' });
    const events = await finished(next, run.id);
    expect(resultOf(events, 'call_1')).toMatchObject({ result: 'It is done' });
    expect(tool.executions).toHaveLength(1);
    expect(pay.executions).toEqual([]);
  });

  test('ends the call as an error after an approver denies', async () => {
    const { next, run, approval } = await interrupted(await openFixture());
    await decide(next, approval?.approvalId, { approved: false });
    const events = await finished(next, run.id);
    expect(resultOf(events, 'call_1')).toMatchObject({ code: 'tool_failed' });
    expect(endOf(events).status).toBe('completed');
  });

  test('reuses the finished sub-agents after an approver chooses to run the call again', async () => {
    const { next, run, approval, tool, pay, model } = await interrupted(await openFixture());
    await decide(next, approval?.approvalId, { outcome: 'rerun' });
    const [, , asked] = await untilStored(next, run.id, { type: 'approval.requested', count: 3 });
    expect(asked).toMatchObject({ kind: 'permission', tool: 'pay' });
    await decide(next, asked?.approvalId);
    const events = await finished(next, run.id);
    expect(resultOf(events, 'call_1')).toMatchObject({ type: 'tool.completed', context: 'X Y' });
    expect(tool.executions).toHaveLength(2);
    expect(pay.executions).toHaveLength(1);
    expect(model.requestsFor('x')).toHaveLength(1);
    expect(ofType(events, 'agent.started').map(({ spawned }) => spawned?.nth)).toEqual([
      undefined,
      1,
      2,
      2,
    ]);
  });
});

describe('a stop of the server while a tool waits for its agents', () => {
  test('lets the next one find them, if the tool is idempotent', async () => {
    const { boot } = await openFixture();
    const pay = createRecordingTool({ name: 'pay' });
    const tool = createSpawningTool(
      async ({ spawn }) => outputs([await spawn({ prompt: 'x' })]),
      again,
    );
    const model = createScriptedAgents({
      Begin: [[teamCall, finish()], done],
      x: [[toolCall('b', 'pay', {}), finish()], says('X')],
    });
    const made = { model, tools: [tool, pay], settings: { graceMs: 20 } };
    const kernel = await boot(made);
    const run = await ask(kernel);
    const [approval] = await untilStored(kernel, run.id, { type: 'approval.requested' });
    await kernel.stop();
    const next = await boot(made);
    await until(async () => tool.executions.length === 2, 'the tool to be taken up');
    await decide(next, approval?.approvalId);
    const events = await finished(next, run.id);
    expect(resultOf(events, 'call_1')).toMatchObject({ context: 'X' });
    expect(ofType(events, 'agent.started')).toHaveLength(2);
    expect(ofType(events, 'approval.requested')).toHaveLength(1);
    expect(pay.executions).toHaveLength(1);
  });
});
