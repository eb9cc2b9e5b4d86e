/** A server that is stopped lets go of its runs in good order; the next one takes them up. */
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  ManualClock,
  text,
  toolCall,
} from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import { ask, openApprovals, until } from '../support/kernel.ts';
import {
  aborted,
  createStreamingModel,
  decide,
  endOf,
  finished,
  journal,
  ofType,
  openFixture,
  untilAsked,
  untilStored,
} from './fixture.ts';

const answer = [text('Done.'), finish()];
const free = { allowedByDefault: true };

describe('a graceful stop', () => {
  test('lets a running tool finish, keeps its result and yields', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay', ...free });
    tool.hold();
    const model = createScriptedModel([[toolCall('call_1', 'pay', {}), finish()], answer]);
    const kernel = await boot({ model, tools: [tool], settings: { stopTimeoutMs: 60_000 } });
    const run = await ask(kernel);
    await until(async () => tool.executions.length === 1, 'the tool');
    const stopped = kernel.stop();
    tool.release();
    await stopped;
    expect(kernel.control.supervisor.activeRuns).toBe(0);
    expect(ofType(await journal(kernel, run.id), 'tool.completed')).toHaveLength(1);
    expect(model.requests).toHaveLength(1);
    // The lease was given back: nobody has to reclaim anything.
    const next = await boot({ model, tools: [tool] });
    const events = await finished(next, run.id);
    expect(tool.executions).toHaveLength(1);
    expect(ofType(events, 'approval.requested')).toEqual([]);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
  });

  test('does not wait for a tool beyond its grace, whose outcome is then unknown', async () => {
    const { boot } = await openFixture();
    let signal: AbortSignal | undefined;
    const deaf = new Promise<never>(() => undefined);
    const tool = createRecordingTool({
      name: 'pay',
      ...free,
      execute(_input, context) {
        signal = context.signal;
        return deaf;
      },
    });
    const model = createScriptedModel([[toolCall('call_1', 'pay', {}), finish()], answer]);
    const kernel = await boot({ model, tools: [tool], settings: { stopTimeoutMs: 20 } });
    const run = await ask(kernel);
    await until(async () => signal !== undefined, 'the tool');
    await kernel.stop();
    expect(signal?.aborted).toBe(true);
    const again = createRecordingTool({ name: 'pay', ...free });
    const next = await boot({ model, tools: [again] });
    const [approval] = await untilAsked(next, run.id);
    expect(approval?.kind).toBe('outcome');
    await decide(next, approval?.approvalId, { outcome: 'completed', output: 'paid' });
    await finished(next, run.id);
    expect(again.executions).toEqual([]);
  });

  test('waits longer than the grace period only for tools that cannot run again', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const pay = createRecordingTool({ name: 'pay', ...free });
    const look = createRecordingTool({ name: 'look', ...free, idempotent: true });
    const survey = createRecordingTool({
      name: 'survey',
      ...free,
      execute: async (_input, { ask: askPerson }) => {
        await askPerson({ prompt: 'Size?', schema: { type: 'object' } });
        return {};
      },
    });
    pay.hold();
    look.hold();
    const calls = ['pay', 'look', 'survey'].map((name) => toolCall(`call_${name}`, name, {}));
    const model = createScriptedModel([[...calls, finish()], answer]);
    const settings = { graceMs: 100, stopTimeoutMs: 10_000 };
    const kernel = await boot({ model, tools: [pay, look, survey], clock, settings });
    const { supervisor } = kernel.control;
    const run = await ask(kernel);
    await untilStored(kernel, run.id, { type: 'approval.requested' });
    expect(supervisor.toolsToWaitFor).toEqual([{ runId: run.id, name: 'pay' }]);
    const stopped = kernel.stop();
    await clock.advance(9_000);
    expect(supervisor.activeRuns).toBe(1);
    pay.release();
    await stopped;
    const events = await journal(kernel, run.id);
    expect(ofType(events, 'tool.completed')).toMatchObject([{ name: 'pay' }]);
  });

  test('keeps its lease while its tool has time to finish', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const tool = createRecordingTool({ name: 'pay', ...free });
    tool.hold();
    const model = createScriptedModel([[toolCall('call_1', 'pay', {}), finish()], answer]);
    const settings = { leaseTtlMs: 3_000, stopTimeoutMs: 10_000 };
    const made = { model, tools: [tool], clock, settings };
    const kernel = await boot(made);
    const next = await boot(made);
    const run = await ask(kernel);
    await until(async () => tool.executions.length === 1, 'the tool');
    const stopped = kernel.stop();
    for (let second = 0; second < 8; second += 1) {
      await clock.advance(1_000);
      // The renewal is stored before the clock goes on, however slow the disk is.
      await kernel.store.ping();
    }
    tool.release();
    await stopped;
    expect(ofType(await journal(kernel, run.id), 'approval.requested')).toEqual([]);
    await clock.advance(2_000);
    const events = await finished(next, run.id);
    expect(tool.executions).toHaveLength(1);
    expect(ofType(events, 'approval.requested')).toEqual([]);
    expect(ofType(events, 'tool.completed')).toHaveLength(1);
  });

  test('aborts the model, and the next node discards the partial answer', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(
      async function* (_request, signal) {
        yield [text('Half')];
        await aborted(signal);
      },
      () => [[text('Whole.'), finish()]],
    );
    const kernel = await boot({ model });
    const run = await ask(kernel);
    await untilStored(kernel, run.id, { type: 'text.appended' });
    await kernel.stop();
    expect(model.signals[0]?.aborted).toBe(true);
    expect(ofType(await journal(kernel, run.id), 'run.ended')).toEqual([]);
    const next = await boot({ model });
    const events = await finished(next, run.id);
    const [started] = ofType(events, 'turn.started');
    expect(ofType(events, 'turn.discarded')).toMatchObject([{ after: started?.seq }]);
    expect(endOf(events).output).toBe('Whole.');
  });

  test('does not wait for a model that does not listen', async () => {
    const { boot } = await openFixture();
    const deaf = Promise.withResolvers<void>();
    const model = createStreamingModel(
      async function* () {
        yield [text('La la ')];
        await deaf.promise;
        yield [text('la.'), finish()];
      },
      () => [[text('Well.'), finish()]],
    );
    const kernel = await boot({ model });
    const run = await ask(kernel);
    await untilStored(kernel, run.id, { type: 'text.appended' });
    const stopped = kernel.stop();
    try {
      await until(async () => kernel.control.supervisor.activeRuns === 0, 'the model to be left');
    } finally {
      deaf.resolve();
    }
    await stopped;
    const next = await boot({ model });
    expect(endOf(await finished(next, run.id)).output).toBe('Well.');
  });

  test('leaves decisions that arrive meanwhile to the next node', async () => {
    const { boot } = await openFixture();
    const slow = createRecordingTool({ name: 'slow', ...free });
    const tool = createRecordingTool({ name: 'pay' });
    slow.hold();
    const model = createScriptedModel([
      [toolCall('call_s', 'slow', {}), toolCall('call_1', 'pay', {}), finish()],
      answer,
    ]);
    const tools = [slow, tool];
    const kernel = await boot({ model, tools, settings: { stopTimeoutMs: 60_000 } });
    const run = await ask(kernel);
    await until(async () => slow.executions.length === 1, 'the slow tool');
    const [approval] = openApprovals(await journal(kernel, run.id));
    const stopped = kernel.stop();
    expect(await decide(kernel, approval?.approvalId)).toMatchObject({ kind: 'decided' });
    slow.release();
    await stopped;
    expect(tool.executions).toEqual([]);
    const next = await boot({ model, tools });
    const events = await finished(next, run.id);
    expect(tool.executions).toHaveLength(1);
    expect(slow.executions).toHaveLength(1);
    expect(ofType(events, 'approval.decided')).toHaveLength(1);
  });

  test('activates no new runs, and those that are stored are driven later', async () => {
    const { boot } = await openFixture();
    const model = createScriptedModel([answer]);
    const kernel = await boot({ model });
    await kernel.stop();
    const run = await ask(kernel);
    expect(kernel.control.supervisor.activeRuns).toBe(0);
    expect(model.requests).toEqual([]);
    const next = await boot({ model });
    expect(endOf(await finished(next, run.id)).status).toBe('completed');
  });

  test('at any point of many runs loses none, and runs no tool twice', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay', ...free });
    const model = createScriptedModel([
      [text('One. '), toolCall('call_1', 'pay', {}), finish()],
      [text('Two. '), toolCall('call_2', 'pay', {}), finish()],
      answer,
    ]);
    const ids: string[] = [];
    for (let round = 0; round < 8; round += 1) {
      const kernel = await boot({ model, tools: [tool], settings: { maxActiveRuns: 3 } });
      const runs = await Promise.all(Array.from({ length: 5 }, () => ask(kernel)));
      ids.push(...runs.map(({ id }) => id));
      for (let turns = 0; turns < round * 3; turns += 1) await new Promise(setImmediate);
      await kernel.stop();
    }
    const kernel = await boot({ model, tools: [tool] });
    for (const id of ids) {
      const events = await finished(kernel, id);
      expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
      expect(ofType(events, 'approval.requested')).toEqual([]);
    }
    expect(tool.executions).toHaveLength(ids.length * 2);
  });
});
