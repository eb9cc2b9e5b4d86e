/** Agents that a tool has spawned end with it, whatever happens to the tool or to the run. */
import type { AgentReport } from '@relay/core';
import { createRecordingTool, finish, text, toolCall } from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import { ask, until } from '../support/kernel.ts';
import { createScriptedAgents, endFor, resultOf, says } from './scripted-agents.ts';
import {
  aborted,
  appendWith,
  createStreamingModel,
  endOf,
  finished,
  ofType,
  openFixture,
  stopRun,
  untilStored,
} from './fixture.ts';
import { wrapStore } from './stores.ts';
import { createSpawningTool, outputs, teamCall } from './spawning-tool.ts';

const done = says('Done.');

describe('sub-agents whose parent call has ended', () => {
  test('end with the tool that does not wait for them, and so do their tools', async () => {
    const { boot } = await openFixture();
    const endless = createStreamingModel(async function* (_request, signal) {
      yield [text('On and ')];
      await aborted(signal);
    });
    let toolSignal: AbortSignal | undefined;
    const slow = createRecordingTool({
      name: 'slow',
      allowedByDefault: true,
      execute(_input, { signal }) {
        toolSignal = signal;
        return new Promise(() => undefined);
      },
    });
    const pay = createRecordingTool({ name: 'pay' });
    const enough = Promise.withResolvers<void>();
    const left: Promise<AgentReport>[] = [];
    const tool = createSpawningTool(async ({ spawn }) => {
      left.push(spawn({ prompt: 'talks', model: 'endless' }), spawn({ prompt: 'works' }));
      await enough.promise;
      return { context: 'enough' };
    });
    const model = createScriptedAgents({
      Begin: [[teamCall, finish()], done],
      works: [[toolCall('a', 'slow', {}), toolCall('b', 'pay', {}), finish()], done],
    });
    const tools = [tool, slow, pay];
    const kernel = await boot({ model, models: { endless }, tools });
    const run = await ask(kernel);
    await untilStored(kernel, run.id, { type: 'approval.requested' });
    await untilStored(kernel, run.id, { type: 'text.appended' });
    await until(async () => toolSignal !== undefined, 'the tool');
    enough.resolve();
    const events = await finished(kernel, run.id);
    expect(endless.signals[0]?.aborted).toBe(true);
    expect(toolSignal?.aborted).toBe(true);
    expect(endFor(events, 'talks')).toMatchObject({ reason: 'canceled' });
    expect(endFor(events, 'works')).toMatchObject({ reason: 'canceled' });
    expect(resultOf(events, 'a')).toMatchObject({ code: 'outcome_unknown' });
    expect(ofType(events, 'approval.closed')).toHaveLength(1);
    expect(resultOf(events, 'call_1')).toMatchObject({ context: 'enough' });
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
    // Whoever still waits for them is told.
    expect(await Promise.all(left)).toMatchObject([{ reason: 'canceled' }, { reason: 'canceled' }]);
  });

  test('end with a tool that throws, at any depth below it', async () => {
    const { boot } = await openFixture();
    const reports: string[] = [];
    const go = Promise.withResolvers<void>();
    const tool = createRecordingTool({
      name: 'team',
      allowedByDefault: true,
      async execute(input, { spawn }) {
        const { prompt } = input as { prompt: string };
        const report = spawn({ prompt });
        void report.then(({ reason }) => reports.push(`${prompt} ${reason}`));
        if (prompt !== 'x') return outputs([await report]);
        await go.promise;
        throw new Error('Changed my mind');
      },
    });
    const pay = createRecordingTool({ name: 'pay' });
    const model = createScriptedAgents({
      Begin: [[toolCall('a', 'team', { prompt: 'x' }), finish()], done],
      x: [[toolCall('b', 'team', { prompt: 'y' }), finish()], done],
      y: [[toolCall('c', 'pay', {}), finish()], done],
    });
    const kernel = await boot({ model, tools: [tool, pay] });
    const run = await ask(kernel);
    await untilStored(kernel, run.id, { type: 'approval.requested' });
    go.resolve();
    const events = await finished(kernel, run.id);
    expect(resultOf(events, 'a')).toMatchObject({ error: 'Changed my mind', code: 'tool_failed' });
    expect(ofType(events, 'agent.ended').map(({ reason }) => reason)).toEqual([
      'canceled',
      'canceled',
      'completed',
    ]);
    await until(async () => reports.length === 2, 'the reports');
    expect(reports.toSorted()).toEqual(['x canceled', 'y canceled']);
    expect(pay.executions).toEqual([]);
  });

  test('are canceled with the run, and the results of their tools are kept', async () => {
    const { boot } = await openFixture();
    const saves = createRecordingTool({
      name: 'saves',
      allowedByDefault: true,
      async execute(_input, { signal }) {
        await aborted(signal);
        // It takes longer to stop than whoever waits for it.
        await new Promise((resolve) => setTimeout(resolve, 20));
        return { context: 'saved' };
      },
    });
    let refusal: unknown;
    const tool = createSpawningTool(async ({ spawn }) => {
      try {
        return outputs([await spawn({ prompt: 'x' })]);
      } catch (error) {
        refusal = error;
        throw error;
      }
    });
    const model = createScriptedAgents({
      Begin: [[teamCall, finish()], done],
      x: [[toolCall('call_2', 'saves', {}), finish()], done],
    });
    const settings = { graceMs: 5_000 };
    const kernel = await boot({ model, tools: [tool, saves], settings });
    const run = await ask(kernel);
    await until(async () => saves.executions.length === 1, 'the tool');
    await stopRun(kernel, run.id);
    const events = await finished(kernel, run.id);
    expect(endOf(events).status).toBe('canceled');
    expect(refusal).toMatchObject({ code: 'run_canceled' });
    expect(resultOf(events, 'call_2')).toMatchObject({ type: 'tool.completed', context: 'saved' });
    expect(resultOf(events, 'call_1')).toMatchObject({ type: 'tool.failed', code: 'run_canceled' });
  });

  test('keep the results of their tools, even while the loop is blocked', async () => {
    const { boot, store } = await openFixture();
    const hold = Promise.withResolvers<void>();
    let held = false;
    const slow = wrapStore(store, async (call) => {
      const append = appendWith(call, 'tool.started');
      if (append?.events.some((event) => 'name' in event && event.name === 'look') === true) {
        held = true;
        await hold.promise;
      }
      return call.go();
    });
    const stop = Promise.withResolvers<void>();
    const saves = createRecordingTool({
      name: 'saves',
      allowedByDefault: true,
      async execute(_input, { signal }) {
        await aborted(signal);
        await stop.promise;
        return { context: 'saved' };
      },
    });
    let over = false;
    const tool = createSpawningTool(async ({ spawn }) => {
      const both = [spawn({ prompt: 'x' }), spawn({ prompt: 'y' })];
      await Promise.all(both).finally(() => (over = true));
      return {};
    });
    const look = createRecordingTool({ name: 'look', allowedByDefault: true });
    const model = createScriptedAgents({
      Begin: [[teamCall, finish()], done],
      x: [[toolCall('a', 'saves', {}), finish()], done],
      y: [
        () =>
          until(async () => saves.executions.length > 0).then(() => [
            toolCall('b', 'look', {}),
            finish(),
          ]),
        done,
      ],
    });
    const settings = { graceMs: 5_000 };
    const kernel = await boot({ store: slow, model, tools: [tool, saves, look], settings });
    const run = await ask(kernel);
    await until(async () => held, 'the loop to be held up');
    await stopRun(kernel, run.id);
    await until(async () => over, 'the tool to be over');
    hold.resolve();
    await new Promise((resolve) => setTimeout(resolve, 10));
    stop.resolve();
    const events = await finished(kernel, run.id);
    expect(resultOf(events, 'a')).toMatchObject({ type: 'tool.completed', context: 'saved' });
    expect(resultOf(events, 'b')).toMatchObject({ type: 'tool.failed', code: 'run_canceled' });
    expect(look.executions).toEqual([]);
  });

  test('are not followed by others once the run is canceled', async () => {
    const { boot } = await openFixture();
    let started = false;
    let second: Promise<AgentReport> | undefined;
    const tool = createSpawningTool(async ({ spawn, signal }) => {
      started = true;
      await aborted(signal);
      second = spawn({ prompt: 'x' });
      return outputs([await second]);
    });
    const model = createScriptedAgents({ Begin: [[teamCall, finish()], done], x: [says('X.')] });
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    await until(async () => started, 'the tool');
    await stopRun(kernel, run.id);
    const events = await finished(kernel, run.id);
    await expect(second).rejects.toMatchObject({ code: 'run_canceled' });
    expect(ofType(events, 'agent.started')).toHaveLength(1);
    expect(model.requestsFor('x')).toEqual([]);
  });
});
