/** A cancel reaches whatever is going on, and the run ends exactly once. */
import { cancelRun, ProviderFailure } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  ManualClock,
  text,
  toolCall,
} from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import { ask, person, until } from '../support/kernel.ts';
import {
  aborted,
  appendWith,
  createStreamingModel,
  endOf,
  finished,
  journal,
  ofType,
  openFixture,
  stopRun,
  untilAsked,
  untilStored,
} from './fixture.ts';
import { wrapStore } from './stores.ts';

const answer = [text('Done.'), finish()];
const pay = (n: number) => toolCall(`call_${n}`, 'pay', { amount: n });

describe('a cancel', () => {
  test('while the model streams aborts it, and keeps the partial text', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(async function* (_request, signal) {
      yield [text('To begin ')];
      await aborted(signal);
      yield [text('with')];
    });
    const kernel = await boot({ model });
    const run = await ask(kernel);
    await untilStored(kernel, run.id, { type: 'text.appended' });
    expect(model.signals[0]?.aborted).toBe(false);
    expect(await stopRun(kernel, run.id)).toBe(true);
    const events = await finished(kernel, run.id);
    expect(model.signals[0]?.aborted).toBe(true);
    expect(endOf(events)).toMatchObject({ status: 'canceled', output: 'To begin ' });
    expect(ofType(events, 'agent.ended')).toMatchObject([{ reason: 'canceled' }]);
    expect(model.requests).toHaveLength(1);
  });

  test('while the model speaks ends the run although the model does not listen', async () => {
    const { boot } = await openFixture();
    const deaf = Promise.withResolvers<void>();
    const model = createStreamingModel(async function* () {
      yield [text('La la ')];
      await deaf.promise;
      yield [text('la.'), finish()];
    });
    const kernel = await boot({ model });
    const run = await ask(kernel);
    await untilStored(kernel, run.id, { type: 'text.appended' });
    await stopRun(kernel, run.id);
    try {
      expect(endOf(await finished(kernel, run.id))).toMatchObject({ status: 'canceled' });
    } finally {
      deaf.resolve();
    }
  });

  test('during the backoff of a provider does not wait for its end', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const busy = new ProviderFailure('Busy', { retryable: true, retryAfterMs: 30_000 });
    const model = createScriptedModel([busy]);
    const kernel = await boot({ model, clock });
    const run = await ask(kernel);
    await until(async () => clock.sleepers === 3, 'the pause');
    await stopRun(kernel, run.id);
    expect(endOf(await finished(kernel, run.id)).status).toBe('canceled');
    expect(model.requests).toHaveLength(1);
  });

  test.each([
    ['an error of its own', 'Stopped in the middle', () => new Error('Stopped in the middle')],
    ['the reason of its signal', 'Enough', (signal: AbortSignal) => signal.reason as Error],
  ])('while a tool runs aborts it: it throws %s', async (_, text, errorOf) => {
    const { boot } = await openFixture();
    let seen: AbortSignal | undefined;
    const tool = createRecordingTool({
      name: 'pay',
      allowedByDefault: true,
      async execute(_input, { signal }) {
        seen = signal;
        await aborted(signal);
        throw errorOf(signal);
      },
    });
    const model = createScriptedModel([[pay(1), finish()], answer]);
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    await until(async () => seen !== undefined, 'the tool');
    expect(seen?.aborted).toBe(false);
    await stopRun(kernel, run.id);
    const events = await finished(kernel, run.id);
    expect(seen?.aborted).toBe(true);
    expect(ofType(events, 'tool.failed')).toMatchObject([
      {
        toolCallId: 'call_1',
        error: `${text}; the call had begun and may have taken effect, or may still do so`,
      },
    ]);
    expect(endOf(events).status).toBe('canceled');
    expect(model.requests).toHaveLength(1);
  });

  test('keeps the result of a tool that ends within the grace period', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({
      name: 'pay',
      allowedByDefault: true,
      async execute(_input, { signal }) {
        await aborted(signal);
        return { context: 'paid half' };
      },
    });
    const model = createScriptedModel([[pay(1), finish()], answer]);
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    await until(async () => tool.executions.length === 1, 'the tool');
    await stopRun(kernel, run.id);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.completed')).toMatchObject([{ context: 'paid half' }]);
    expect(endOf(events).status).toBe('canceled');
  });

  test('abandons a tool that ignores it after the grace period, with an unknown outcome', async () => {
    const { boot } = await openFixture();
    const deaf = Promise.withResolvers<void>();
    const tool = createRecordingTool({
      name: 'pay',
      allowedByDefault: true,
      execute: () => deaf.promise.then(() => ({ context: 'too late' })),
    });
    const clock = new ManualClock();
    const model = createScriptedModel([[pay(1), finish()], answer]);
    const settings = { graceMs: 5_000 };
    const kernel = await boot({ model, tools: [tool], clock, settings });
    const run = await ask(kernel);
    await until(async () => tool.executions.length === 1, 'the tool');
    await stopRun(kernel, run.id);
    await until(async () => clock.sleepers === 3, 'the grace');
    await clock.advance(4_999);
    expect(ofType(await journal(kernel, run.id), 'run.ended')).toEqual([]);
    await clock.advance(1);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.failed')).toMatchObject([{ code: 'outcome_unknown' }]);
    expect(endOf(events).status).toBe('canceled');
    await until(async () => clock.sleepers === 2, 'the timer to be gone');
    deaf.resolve();
    await until(async () => kernel.control.supervisor.activeRuns === 0, 'rest');
    expect(await journal(kernel, run.id)).toEqual(events);
  });

  test('does not let a tool begin whose intent was on its way to the store', async () => {
    const fixture = await openFixture();
    const hold = Promise.withResolvers<void>();
    let held = false;
    let noticed = false;
    const store = wrapStore(fixture.store, async (call) => {
      if (appendWith(call, 'tool.started') !== undefined) {
        held = true;
        await hold.promise;
      }
      const value = await call.go();
      if (call.method === 'readInbox' && (value as unknown[]).length > 0) noticed = true;
      return value;
    });
    const tool = createRecordingTool({ name: 'pay', allowedByDefault: true });
    const model = createStreamingModel(() => [[pay(1), finish()]]);
    const kernel = await fixture.boot({ store, model, tools: [tool] });
    const run = await ask(kernel);
    await until(async () => held, 'the intent');
    await stopRun(kernel, run.id);
    await until(async () => noticed, 'the cancel to be noticed');
    hold.resolve();
    const events = await finished(kernel, run.id);
    expect(endOf(events).status).toBe('canceled');
    expect(tool.executions).toEqual([]);
  });

  test('while a person is asked closes the approvals and settles the calls', async () => {
    const { boot, store } = await openFixture();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([[text('May I? '), pay(1), pay(2), finish()], answer]);
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    const approvals = await untilAsked(kernel, run.id, 2);
    expect(await stopRun(kernel, run.id, 'No time')).toBe(true);
    const events = await finished(kernel, run.id);
    const ids = approvals.map(({ approvalId }) => approvalId);
    expect(ofType(events, 'approval.closed').map(({ approvalId }) => approvalId)).toEqual(ids);
    expect(ofType(events, 'tool.failed')).toMatchObject([
      { toolCallId: 'call_1', code: 'run_canceled', error: 'No time' },
      { toolCallId: 'call_2', code: 'run_canceled' },
    ]);
    for (const approvalId of ids) {
      const approval = await store.tenant(kernel.tenantId).readApproval(approvalId);
      expect(approval).toMatchObject({ status: 'closed', decidedBy: { type: 'system' } });
    }
    expect(endOf(events)).toMatchObject({ status: 'canceled', output: 'May I? ' });
    expect(tool.executions).toEqual([]);
  });

  test('in the midst of it all settles each call by what it was at', async () => {
    const { boot } = await openFixture();
    const deaf = new Promise<never>(() => undefined);
    const tools = [
      createRecordingTool({ name: 'pay' }),
      createRecordingTool({ name: 'quick', allowedByDefault: true }),
      createRecordingTool({ name: 'deaf', allowedByDefault: true, execute: () => deaf }),
    ];
    const calls = ['pay', 'quick', 'deaf'].map((name) => toolCall(`call_${name}`, name, {}));
    const model = createScriptedModel([[...calls, finish()], answer]);
    const kernel = await boot({ model, tools, settings: { graceMs: 20 } });
    const run = await ask(kernel);
    await untilStored(kernel, run.id, { type: 'tool.completed' });
    await stopRun(kernel, run.id);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.completed')).toMatchObject([{ name: 'quick' }]);
    expect(ofType(events, 'tool.failed')).toMatchObject([
      { name: 'pay', code: 'run_canceled' },
      { name: 'deaf', code: 'outcome_unknown' },
    ]);
    expect(ofType(events, 'approval.closed')).toHaveLength(1);
  });

  test('of a queued run ends it at once, without a slot and without a model call', async () => {
    const { boot } = await openFixture();
    const gate = Promise.withResolvers<void>();
    const model = createStreamingModel(async function* () {
      await gate.promise;
      yield [finish()];
    });
    const clock = new ManualClock();
    const kernel = await boot({ model, clock, settings: { maxActiveRuns: 1 } });
    const [first, second, third] = [await ask(kernel), await ask(kernel), await ask(kernel)];
    expect(await stopRun(kernel, second.id)).toBe(true);
    const events = await finished(kernel, second.id);
    expect(endOf(events)).toMatchObject({ status: 'canceled', output: '' });
    expect(model.requests).toHaveLength(1);
    gate.resolve();
    for (const { id } of [first, third]) {
      expect(endOf(await finished(kernel, id)).status).toBe('completed');
    }
    expect(model.requests).toHaveLength(2);
    expect(await journal(kernel, second.id)).toEqual(events);
  });

  test('that comes twice, or ten times at once, ends the run once with the first reason', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([[pay(1), finish()], answer]);
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    await untilAsked(kernel, run.id);
    await stopRun(kernel, run.id, 'First');
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, n) => stopRun(kernel, run.id, `Later ${n}`)),
    );
    expect(answers).not.toContain(false);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'run.ended')).toHaveLength(1);
    expect(ofType(events, 'approval.closed')).toMatchObject([{ reason: 'First' }]);
  });

  test('after the end changes nothing, and is false for an unknown run', async () => {
    const { boot, store } = await openFixture();
    const kernel = await boot({ model: createScriptedModel([answer]) });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(await stopRun(kernel, run.id)).toBe(true);
    expect(await journal(kernel, run.id)).toEqual(events);
    expect(endOf(events).status).toBe('completed');
    expect(await stopRun(kernel, kernel.tenantId)).toBe(false);
    const other = await store.ensureTenant({ id: run.id, name: 'other', at: 0 });
    const ref = { tenantId: other.id, runId: run.id };
    expect(await cancelRun(kernel.control, ref, { reason: 'Mine', by: person })).toBe(false);
  });

  test('at any point of a run ends it once, with every call settled', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay', allowedByDefault: true });
    const model = createScriptedModel([[text('a'), pay(1), finish()], [pay(2), finish()], answer]);
    const kernel = await boot({ model, tools: [tool] });
    for (let moment = 0; moment < 40; moment += 1) {
      const run = await ask(kernel);
      for (let turns = 0; turns < moment; turns += 1) await Promise.resolve();
      if (moment > 20) await new Promise(setImmediate);
      expect(await stopRun(kernel, run.id)).toBe(true);
      const events = await finished(kernel, run.id);
      expect(['canceled', 'completed']).toContain(endOf(events).status);
    }
  });
});
