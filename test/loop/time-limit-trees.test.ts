/** The time of a run is that of all its agents: each stops, and answers once more. */
import type { AgentReport } from '@relay/core';
import { createRecordingTool, finish, ManualClock, toolCall } from '@relay/core/testing';
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
  createEndlessModel,
  expectTimeOver,
  finalAnswer,
  limits,
  untilAsleep,
  untilSuspended,
} from './time-limit-fixture.ts';
import {
  aborted,
  createStreamingModel,
  finished,
  ofType,
  openFixture,
  untilAsked,
  untilStored,
} from './fixture.ts';

const free = { allowedByDefault: true };

describe('when the time is over for a tree', () => {
  test('every agent stops and answers once more, from the bottom up', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const endless = createEndlessModel();
    const pay = createRecordingTool({ name: 'pay' });
    const slow = createRecordingTool({ name: 'slow', ...free });
    slow.hold();
    const model = createScriptedAgents({
      Begin: [[delegate('a', 'Middle'), delegate('b', 'Talks', 'talker'), finish()], finalAnswer],
      Middle: [[delegate('c', 'Deep'), toolCall('d', 'slow', {}), finish()], says('Middle.')],
      Deep: [[toolCall('e', 'pay', {}), finish()], says('Deep.')],
    });
    const agents = [{ name: 'talker', model: 'endless' }];
    const tools = [agentTool, pay, slow];
    const kernel = await boot({ model, models: { endless }, agents, tools, clock });
    const run = await ask(kernel, { limits });
    await untilStored(kernel, run.id, { type: 'approval.requested' });
    await untilStored(kernel, run.id, { type: 'text.appended' });
    await until(async () => slow.executions.length === 1, 'the tool');
    await untilAsleep(clock);
    await clock.advance(10_000);
    const events = await finished(kernel, run.id);
    expectTimeOver(events);
    expect(ofType(events, 'limit.reached').map(({ limit }) => limit)).toEqual(
      Array(4).fill('time'),
    );
    expect(endFor(events, 'Deep')).toMatchObject({ reason: 'limit', output: 'Deep.' });
    expect(endFor(events, 'Middle')).toMatchObject({ reason: 'limit', output: 'Middle.' });
    expect(endFor(events, 'Talks')).toMatchObject({ reason: 'limit', output: 'Too late.' });
    expect(ofType(events, 'turn.discarded')).toMatchObject([
      { agentId: agentFor(events, 'Talks').agentId, reason: 'limit' },
    ]);
    expect(resultOf(events, 'a')).toMatchObject({
      context: 'Middle.',
      result: { reason: 'limit' },
    });
    expect(ofType(events, 'approval.closed')).toHaveLength(1);
  });

  test('a tree that waits at its bottom wakes as a whole', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const pay = createRecordingTool({ name: 'pay' });
    const model = createScriptedAgents({
      Begin: [[delegate('a', 'x'), finish()], finalAnswer],
      x: [[delegate('b', 'y'), finish()], says('X.')],
      y: [[toolCall('c', 'pay', {}), finish()], says('Y.')],
    });
    const kernel = await boot({ model, tools: [agentTool, pay], clock });
    const run = await ask(kernel, { limits });
    await untilAsked(kernel, run.id);
    await untilSuspended(kernel);
    await clock.advance(12_000);
    const events = await finished(kernel, run.id);
    expectTimeOver(events);
    expect(ofType(events, 'agent.ended').map(({ reason }) => reason)).toEqual(
      Array(3).fill('limit'),
    );
    expect(pay.executions).toEqual([]);
  });

  test('a tool that spawns in a loop can spawn no more agents', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const refused: unknown[] = [];
    const tool = createRecordingTool({
      name: 'team',
      ...free,
      async execute(_input, { spawn, signal }) {
        const first = spawn({ prompt: 'x' });
        await aborted(signal);
        // It heard that the time is over, and does not care.
        for (let n = 0; n < 3; n += 1) {
          await spawn({ prompt: 'x' }).then(
            (report: AgentReport) => refused.push(report.reason),
            (error: { code: string }) => refused.push(error.code),
          );
        }
        return { context: (await first).reason };
      },
    });
    const model = createScriptedAgents({
      Begin: [[toolCall('a', 'team', {}), finish()], finalAnswer],
      x: [says('X.')],
    });
    const settings = { graceMs: 60_000 };
    const kernel = await boot({ model, tools: [tool], clock, settings });
    const run = await ask(kernel, { limits });
    await until(async () => tool.executions.length === 1, 'the tool');
    await untilStored(kernel, run.id, { type: 'agent.ended' });
    await untilAsleep(clock);
    await clock.advance(10_000);
    const events = await finished(kernel, run.id);
    expect(refused).toEqual(['limit_reached', 'limit_reached', 'limit_reached']);
    expect(ofType(events, 'agent.started')).toHaveLength(2);
    expectTimeOver(events);
  });

  test('agents of a deaf tool end with it', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const tool = createRecordingTool({
      name: 'team',
      ...free,
      async execute(_input, { spawn }) {
        await spawn({ prompt: 'x', model: 'stuck' });
        return new Promise(() => undefined);
      },
    });
    // Not even its last answer comes.
    const stuck = createStreamingModel(async function* (_request, signal) {
      await aborted(signal);
      yield [];
    });
    const model = createScriptedAgents({
      Begin: [[toolCall('a', 'team', {}), finish()], finalAnswer],
    });
    const settings = { graceMs: 500 };
    const kernel = await boot({ model, models: { stuck }, tools: [tool], clock, settings });
    const run = await ask(kernel, { limits });
    await until(async () => stuck.requests.length === 1, 'the model');
    await untilAsleep(clock);
    await clock.advance(10_000);
    await until(async () => stuck.requests.length === 2, 'the last turn');
    await untilAsleep(clock);
    await clock.advance(500);
    const events = await finished(kernel, run.id);
    expect(endFor(events, 'x')).toMatchObject({ reason: 'canceled' });
    expect(stuck.signals.map((signal) => signal.aborted)).toEqual([true, true]);
    expect(resultOf(events, 'a')).toMatchObject({ code: 'outcome_unknown' });
    expectTimeOver(events);
  });
});
