/** The time of a run, waiting included: when it is over everyone stops, and answers once more. */
import { ProviderFailure } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  ManualClock,
  text,
  toolCall,
} from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import { ask, until } from '../support/kernel.ts';
import { resultOf, says } from './scripted-agents.ts';
import {
  createEndlessModel,
  expectTimeOver,
  isFinalTurn,
  finalAnswer,
  limits,
  untilAsleep,
  untilSuspended,
} from './time-limit-fixture.ts';
import {
  aborted,
  createStreamingModel,
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

function fail(error: Error): never {
  throw error;
}

function stopped(signal: AbortSignal | undefined): Promise<void> {
  return signal === undefined ? new Promise(() => undefined) : aborted(signal);
}

describe('when the time is over', () => {
  test('a model that streams endlessly is stopped, and its text is discarded', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const model = createEndlessModel();
    const kernel = await boot({ model, tools: [createRecordingTool({ name: 'look' })], clock });
    const run = await ask(kernel, { limits });
    await untilStored(kernel, run.id, { type: 'text.appended' });
    await untilAsleep(clock);
    await clock.advance(9_000);
    expect(model.signals[0]?.aborted).toBe(false);
    await clock.advance(1_000);
    const events = await finished(kernel, run.id);
    expect(model.signals[0]?.aborted).toBe(true);
    const [started] = ofType(events, 'turn.started');
    expect(ofType(events, 'turn.discarded')).toMatchObject([
      { reason: 'limit', textId: started?.textId, after: started?.seq },
    ]);
    expectTimeOver(events);
    expect(model.requests).toHaveLength(2);
    expect(lastOf(model.requests).messages.at(-1)).toMatchObject({ role: 'system' });
  });

  test('a model without output is stopped without an event', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const look = createRecordingTool({ name: 'look' });
    const model = createStreamingModel(
      async function* (_request, signal) {
        await aborted(signal);
        yield [];
      },
      () => [finalAnswer],
    );
    const kernel = await boot({ model, tools: [look], clock });
    const run = await ask(kernel, { limits });
    await untilAsleep(clock);
    await clock.advance(10_000);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'turn.discarded')).toEqual([]);
    expectTimeOver(events);
  });

  test('a wait for a provider to recover is over too', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const busy = new ProviderFailure('Busy', { retryable: true, retryAfterMs: 50_000 });
    const model = createScriptedModel([
      (request) => (isFinalTurn(request) ? finalAnswer : fail(busy)),
    ]);
    const kernel = await boot({ model, tools: [createRecordingTool({ name: 'look' })], clock });
    const run = await ask(kernel, { limits });
    await until(async () => clock.sleepers >= 4, 'the pause');
    await clock.advance(10_000);
    expectTimeOver(await finished(kernel, run.id));
  });

  test('a tool that observes its signal ends by itself, and its result is kept', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const tool = createRecordingTool({
      name: 'slow',
      ...free,
      async execute(_input, { signal }) {
        await aborted(signal);
        return { context: 'half of it' };
      },
    });
    const model = createScriptedModel([[toolCall('a', 'slow', {}), finish()], finalAnswer]);
    const kernel = await boot({ model, tools: [tool], clock });
    const run = await ask(kernel, { limits });
    await until(async () => tool.executions.length === 1, 'the tool');
    await untilAsleep(clock);
    await clock.advance(10_000);
    const events = await finished(kernel, run.id);
    expect(resultOf(events, 'a')).toMatchObject({ type: 'tool.completed', context: 'half of it' });
    expectTimeOver(events);
  });

  test('a tool that throws when it is stopped fails by the limit', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const tool = createRecordingTool({ name: 'slow', ...free });
    tool.hold();
    const model = createScriptedModel([[toolCall('a', 'slow', {}), finish()], finalAnswer]);
    const kernel = await boot({ model, tools: [tool], clock });
    const run = await ask(kernel, { limits });
    await until(async () => tool.executions.length === 1, 'the tool');
    await untilAsleep(clock);
    await clock.advance(10_000);
    const events = await finished(kernel, run.id);
    expect(resultOf(events, 'a')).toMatchObject({ type: 'tool.failed', code: 'limit_reached' });
    expectTimeOver(events);
  });

  test('a tool that ignores its signal is abandoned after the grace period', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const deaf = Promise.withResolvers<{ context: string }>();
    const tool = createRecordingTool({ name: 'slow', ...free, execute: () => deaf.promise });
    const model = createScriptedModel([[toolCall('a', 'slow', {}), finish()], finalAnswer]);
    const kernel = await boot({ model, tools: [tool], clock, settings: { graceMs: 500 } });
    const run = await ask(kernel, { limits });
    await until(async () => tool.executions.length === 1, 'the tool');
    await untilAsleep(clock);
    await clock.advance(10_000);
    await untilStored(kernel, run.id, { type: 'limit.reached' });
    expect(resultOf(await journal(kernel, run.id), 'a')).toBeUndefined();
    await untilAsleep(clock);
    await clock.advance(500);
    const events = await finished(kernel, run.id);
    // It may have had its effect.
    expect(resultOf(events, 'a')).toMatchObject({ type: 'tool.failed', code: 'outcome_unknown' });
    expectTimeOver(events);
    deaf.resolve({ context: 'at last' });
    expect(await journal(kernel, run.id)).toEqual(events);
  });

  test('a suspended run is resumed, and its approval is closed', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([[toolCall('a', 'pay', {}), finish()], finalAnswer]);
    const kernel = await boot({ model, tools: [tool], clock });
    const run = await ask(kernel, { limits });
    const [approval] = await untilAsked(kernel, run.id);
    await untilSuspended(kernel);
    await clock.advance(8_000);
    expect(kernel.control.supervisor.activeRuns).toBe(0);
    await clock.advance(4_000);
    const events = await finished(kernel, run.id);
    expectTimeOver(events);
    expect(ofType(events, 'approval.closed')).toMatchObject([{ approvalId: approval?.approvalId }]);
    expect(resultOf(events, 'a')).toMatchObject({ type: 'tool.failed', code: 'limit_reached' });
    expect(ofType(events, 'run.resumed')).toHaveLength(1);
    const closed = await kernel.store
      .tenant(kernel.tenantId)
      .readApproval(approval?.approvalId ?? '');
    expect(closed).toMatchObject({ status: 'closed' });
    await expect(decide(kernel, approval?.approvalId)).resolves.toMatchObject({
      kind: 'conflict',
    });
    expect(tool.executions).toEqual([]);
  });

  test('a decision after the deadline starts nothing', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([[toolCall('a', 'pay', {}), finish()], finalAnswer]);
    const made = { model, tools: [tool], clock };
    const first = await boot(made);
    const run = await ask(first, { limits });
    const [approval] = await untilAsked(first, run.id);
    await first.stop();
    await clock.advance(20_000);
    // The server was down at the end of the time; somebody decided on another node since.
    await decide({ ...first }, approval?.approvalId);
    const kernel = await boot(made);
    const events = await finished(kernel, run.id);
    expect(tool.executions).toEqual([]);
    expect(ofType(events, 'approval.decided')).toHaveLength(1);
    expect(resultOf(events, 'a')).toMatchObject({ code: 'limit_reached' });
    expectTimeOver(events);
  });

  test('calls that the model has just made do not start', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const tool = createRecordingTool({ name: 'look', ...free });
    const go = Promise.withResolvers<void>();
    const model = createScriptedModel([
      (request) =>
        isFinalTurn(request)
          ? finalAnswer
          : go.promise.then(() => [toolCall('a', 'look', {}), finish()]),
      finalAnswer,
    ]);
    const kernel = await boot({ model, tools: [tool], clock });
    const run = await ask(kernel, { limits });
    await untilAsleep(clock);
    go.resolve();
    await clock.advance(10_000);
    const events = await finished(kernel, run.id);
    expect(tool.executions.length).toBe(ofType(events, 'tool.completed').length);
    expect(endOf(events).status).toBe('completed');
  });

  test('after a crash an idempotent tool is not started once more', async () => {
    const { boot, bootWithoutCleanup, store } = await openFixture();
    const clock = new ManualClock();
    const process = mortal(store);
    const tool = createRecordingTool({ name: 'look', ...free, idempotent: true });
    tool.hold();
    const model = createScriptedModel([[toolCall('a', 'look', {}), finish()], finalAnswer]);
    const made = { model, tools: [tool], clock };
    const doomed = await bootWithoutCleanup({ ...made, store: process.store });
    const run = await ask(doomed, { limits });
    await until(async () => tool.executions.length === 1, 'the tool');
    process.kill();
    await clock.advance(20_000);
    const kernel = await boot({ ...made, restarted: true });
    const events = await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(1);
    expect(resultOf(events, 'a')).toMatchObject({ type: 'tool.failed', code: 'outcome_unknown' });
    expect(ofType(events, 'approval.requested')).toEqual([]);
    expectTimeOver(events);
  });

  test('a last answer that does not end is cut off', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const model = createStreamingModel(async function* (request, signal) {
      yield [text(isFinalTurn(request) ? 'In short' : 'On and ')];
      await aborted(signal);
    });
    const kernel = await boot({ model, tools: [createRecordingTool({ name: 'look' })], clock });
    const run = await ask(kernel, { limits });
    await untilStored(kernel, run.id, { type: 'text.appended' });
    await untilAsleep(clock);
    await clock.advance(10_000);
    await untilStored(kernel, run.id, { type: 'text.appended', count: 2 });
    await untilAsleep(clock);
    await clock.advance(120_000);
    const events = await finished(kernel, run.id);
    expect(model.signals.map((signal) => signal.aborted)).toEqual([true, true]);
    expectTimeOver(events, 'In short');
  });

  test('an answer that was complete just in time is an answer', async () => {
    const { boot } = await openFixture();
    const begin = Date.parse('2026-01-01T00:00:00Z');
    let now = begin;
    const clock = { now: () => now, sleep: (_ms: number, signal?: AbortSignal) => stopped(signal) };
    const model = createStreamingModel(function* () {
      yield says('In time.');
      now = begin + 10_000;
    });
    const kernel = await boot({ model, clock });
    const run = await ask(kernel, { limits });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'limit.reached')).toEqual([]);
    expect(ofType(events, 'agent.ended')).toMatchObject([{ reason: 'completed' }]);
    expect(endOf(events).output).toBe('In time.');
  });
});
