/**
 * A run that waits for a person holds nothing (E5), and no wake-up is lost. The clock stands still
 * in most of these tests: looking around by the clock can repair nothing there.
 */
import type { Append } from '@relay/core';
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
import { decide, endOf, finished, journal, ofType, openScene, untilAsked } from './scene.ts';
import { wrapStore } from './stores.ts';

const answer = [text('Done.'), finish()];
const pay = (n: number) => toolCall(`call_${n}`, 'pay', { amount: n });

describe('a run that waits', () => {
  test('holds no place in the supervisor and no timer, and wakes by a decision', async () => {
    const { boot } = await openScene();
    const clock = new ManualClock();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([[pay(1), finish()], answer]);
    const kernel = await boot({ model, tools: [tool], clock });
    const { supervisor } = kernel.control;
    await until(async () => clock.sleepers === 2, 'the supervisor’s own timers');
    const run = await ask(kernel);
    const [approval] = await untilAsked(kernel, run.id);
    await until(async () => supervisor.activeRuns === 0, 'the place to be free');
    expect(clock.sleepers).toBe(2);
    await decide(kernel, approval?.approvalId);
    await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(1);
    await until(async () => supervisor.activeRuns === 0, 'the place to be free');
    expect(clock.sleepers).toBe(2);
  });

  test('does not keep others from running, however many wait', async () => {
    const { boot } = await openScene();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([[pay(1), finish()], answer]);
    const clock = new ManualClock();
    const settings = { maxActiveRuns: 1 };
    const kernel = await boot({ model, tools: [tool], clock, settings });
    const waiting = await Promise.all([1, 2, 3, 4].map(() => ask(kernel)));
    for (const { id } of waiting) await untilAsked(kernel, id);
    const permissions = { allowlist: [{ tool: 'pay' }] };
    const free = await ask(kernel, { permissions });
    expect(endOf(await finished(kernel, free.id)).status).toBe('completed');
    expect(tool.executions).toHaveLength(1);
  });

  test('goes back to sleep when it is woken for nothing, without a trace', async () => {
    const { boot } = await openScene();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([[pay(1), finish()], answer]);
    const kernel = await boot({ model, tools: [tool], clock: new ManualClock() });
    const { supervisor } = kernel.control;
    const run = await ask(kernel);
    const [approval] = await untilAsked(kernel, run.id);
    const before = await journal(kernel, run.id);
    for (let times = 0; times < 5; times += 1) {
      supervisor.wake({ tenantId: kernel.tenantId, runId: run.id });
      expect(supervisor.activeRuns).toBe(1);
      await until(async () => supervisor.activeRuns === 0, 'sleep');
    }
    expect(await journal(kernel, run.id)).toEqual(before);
    await decide(kernel, approval?.approvalId);
    expect(ofType(await finished(kernel, run.id), 'run.suspended')).toHaveLength(1);
  });

  test('that is looked at for nothing is given back as one that waits', async () => {
    const { boot, store } = await openScene();
    const released: unknown[] = [];
    const watched = wrapStore(store, (call) => {
      const append = call.method === 'append' ? (call.args[0] as Append) : undefined;
      if (append?.release === true) released.push(append.progress?.status);
      return call.go();
    });
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([[toolCall('call_1', 'pay', {}), finish()]]);
    const kernel = await boot({ store: watched, model, tools: [tool] });
    const run = await ask(kernel);
    await untilAsked(kernel, run.id);
    const { supervisor } = kernel.control;
    await until(async () => supervisor.activeRuns === 0, 'the run to be parked');
    supervisor.wake({ tenantId: kernel.tenantId, runId: run.id });
    await until(async () => released.length === 2 && supervisor.activeRuns === 0, 'another look');
    expect(released).toEqual(['waiting', 'waiting']);
  });

  test.each(['before', 'after'] as const)(
    'hears of a decision that comes just %s its lease is given back',
    async (when) => {
      const scene = await openScene();
      const tool = createRecordingTool({ name: 'pay' });
      const model = createScriptedModel([[pay(1), pay(2), finish()], answer]);
      let second: string | undefined;
      const store = wrapStore(scene.store, async (call) => {
        const releases = call.method === 'append' && (call.args[0] as Append).release === true;
        const now = releases ? second : undefined;
        if (now !== undefined) second = undefined;
        if (now !== undefined && when === 'before') await decide(kernel, now);
        const value = await call.go();
        if (now !== undefined && when === 'after') await decide(kernel, now);
        return value;
      });
      const clock = new ManualClock();
      const kernel = await scene.boot({ store, model, tools: [tool], clock });
      const run = await ask(kernel);
      const approvals = await untilAsked(kernel, run.id, 2);
      await until(async () => kernel.control.supervisor.activeRuns === 0, 'the first rest');
      second = approvals[1]?.approvalId;
      await decide(kernel, approvals[0]?.approvalId);
      const events = await finished(kernel, run.id);
      expect(second).toBeUndefined();
      expect(ofType(events, 'approval.decided')).toHaveLength(2);
      expect(tool.executions).toHaveLength(2);
    },
  );

  test('hears of a decision that comes while its drain takes a last look', async () => {
    const scene = await openScene();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([[pay(1), finish()], answer]);
    let parked = false;
    let decided = false;
    const store = wrapStore(scene.store, async (call) => {
      const value = await call.go();
      if (call.method === 'append' && (call.args[0] as Append).release === true) parked = true;
      if (call.method === 'readInbox' && parked && !decided) {
        decided = true;
        const approvalIds = ofType(kernel.published, 'approval.requested').map(
          ({ approvalId }) => approvalId,
        );
        await decide(kernel, approvalIds[0]);
      }
      return value;
    });
    const kernel = await scene.boot({ store, model, tools: [tool], clock: new ManualClock() });
    const run = await ask(kernel);
    await finished(kernel, run.id);
    expect(decided).toBe(true);
    expect(tool.executions).toHaveLength(1);
  });

  test('is never forgotten: many runs, decided at random moments, all end', async () => {
    const scene = await openScene();
    const random = randomNumbers(20_261_115);
    const decisions: Promise<unknown>[] = [];
    const later = (then: () => Promise<unknown>) => {
      const moment = Math.floor(random() * 6);
      if (moment === 0) return then();
      if (moment === 1) return Promise.resolve().then(then);
      if (moment === 2) return new Promise(setImmediate).then(then);
      return new Promise((resolve) => setTimeout(resolve, random() * 6)).then(then);
    };
    const store = wrapStore(scene.store, async (call) => {
      const value = await call.go();
      if (call.method !== 'append') return value;
      const { approvals = [], runId } = call.args[0] as Append;
      for (const { id } of approvals) decisions.push(later(() => decide(kernel, id)));
      if (random() < 0.3) kernel.control.supervisor.wake({ tenantId: kernel.tenantId, runId });
      return value;
    });
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([
      [pay(1), pay(2), finish()],
      [pay(3), finish()],
      [pay(4), pay(5), pay(6), finish()],
      answer,
    ]);
    const settings = { maxActiveRuns: 8 };
    const clock = new ManualClock();
    const kernel = await scene.boot({ store, model, tools: [tool], clock, settings });
    const runs = await Promise.all(Array.from({ length: 60 }, () => ask(kernel)));
    for (const { id } of runs) {
      const events = await finished(kernel, id);
      expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
      expect(ofType(events, 'approval.decided')).toHaveLength(6);
    }
    await Promise.all(decisions);
    expect(tool.executions).toHaveLength(60 * 6);
    expect(kernel.warnings).toEqual([]);
  });
});

/** The same numbers every time (mulberry32). */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
