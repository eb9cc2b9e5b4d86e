/** Before an approval expires its run says so, once, whether it is parked, at work or on its way back. */
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  ManualClock,
  text,
  toolCall,
} from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import { ask, type Kernel, until } from '../support/kernel.ts';
import {
  appendWith,
  decide,
  finished,
  journal,
  ofType,
  openFixture,
  untilAsked,
  untilStored,
} from './fixture.ts';
import { mortal, wrapStore } from './stores.ts';

const approvalTtlMs = 60_000;
const warnsAfterMs = 54_000;
const answer = [text('Done.'), finish()];
const pay = (n: number) => toolCall(`call_${n}`, 'pay', { amount: n });
const script = (calls = 1) =>
  createScriptedModel([[...Array.from({ length: calls }, (_, n) => pay(n + 1)), finish()], answer]);

const parked = (kernel: Kernel) =>
  until(async () => kernel.control.supervisor.activeRuns === 0, 'the run to be suspended');

async function askedToPay(options: { calls?: number; ttlMs?: number } = {}) {
  const { calls = 1, ttlMs = approvalTtlMs } = options;
  const fixture = await openFixture();
  const clock = new ManualClock();
  const tool = createRecordingTool({ name: 'pay' });
  const settings = { approvalTtlMs: ttlMs };
  const kernel = await fixture.boot({ model: script(calls), tools: [tool], clock, settings });
  const run = await ask(kernel);
  const approvals = await untilAsked(kernel, run.id, calls);
  await parked(kernel);
  const wake = () => kernel.control.supervisor.wake({ tenantId: kernel.tenantId, runId: run.id });
  const read = () => fixture.store.tenant(kernel.tenantId).readRun(run.id);
  return { ...fixture, kernel, clock, tool, run, approvals, settings, wake, read };
}

describe('the warning before an expiry', () => {
  test('comes when a tenth of the time is left, found by the scan', async () => {
    const { kernel, clock, run, approvals, read } = await askedToPay();
    const asked = Date.parse(approvals[0]?.at ?? '');
    expect(await read()).toMatchObject({ status: 'waiting', wakeAt: asked + warnsAfterMs });
    await clock.advance(warnsAfterMs - 1_500);
    expect(ofType(await journal(kernel, run.id), 'approval.expiring')).toEqual([]);
    let looks = 0;
    const [warning] = await until(async () => {
      // Past the warning and not as far as the end, however slow the store is: the supervisor's two
      // timers are there again when it has looked.
      if (looks < 5 && clock.sleepers === 2) {
        looks += 1;
        await clock.advance(1_000);
      }
      const found = ofType(await journal(kernel, run.id), 'approval.expiring');
      return found.length > 0 && found;
    }, 'the warning');
    expect(warning).toMatchObject({
      approvalId: approvals[0]?.approvalId,
      toolCallId: 'call_1',
      expiresAt: approvals[0]?.expiresAt,
    });
    await parked(kernel);
    expect(await read()).toMatchObject({ status: 'waiting', wakeAt: asked + approvalTtlMs });
  });

  test('comes at most ten minutes before the end', async () => {
    const day = 24 * 60 * 60_000;
    const { read, approvals } = await askedToPay({ ttlMs: day });
    const asked = Date.parse(approvals[0]?.at ?? '');
    expect(await read()).toMatchObject({ wakeAt: asked + day - 600_000 });
  });

  test('comes once, however often the run is woken, and the run stays suspended', async () => {
    const { kernel, clock, run, wake, tool } = await askedToPay();
    await clock.advance(warnsAfterMs);
    for (let look = 0; look < 5; look += 1) {
      wake();
      await parked(kernel);
      await clock.advance(1_000);
    }
    const events = await journal(kernel, run.id);
    expect(ofType(events, 'approval.expiring')).toHaveLength(1);
    expect(ofType(events, 'run.resumed')).toEqual([]);
    expect(tool.executions).toEqual([]);
    await clock.advance(1_000);
    wake();
    const ended = await finished(kernel, run.id);
    expect(ofType(ended, 'approval.expiring')).toHaveLength(1);
    expect(ofType(ended, 'approval.expired')).toHaveLength(1);
  });

  test('leaves time to answer: an approval after it runs the tool', async () => {
    const { kernel, clock, run, approvals, wake, tool } = await askedToPay();
    await clock.advance(warnsAfterMs);
    wake();
    await untilStored(kernel, run.id, { type: 'approval.expiring' });
    await decide(kernel, approvals[0]?.approvalId);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'approval.expired')).toEqual([]);
    expect(tool.executions).toHaveLength(1);
  });

  test('is not given for an answered approval, nor twice for a sibling', async () => {
    const { kernel, clock, run, approvals, wake } = await askedToPay({ calls: 3 });
    await decide(kernel, approvals[0]?.approvalId, { approved: false });
    await untilAsked(kernel, run.id, 2);
    await parked(kernel);
    await clock.advance(warnsAfterMs);
    wake();
    const warned = await untilStored(kernel, run.id, { type: 'approval.expiring', count: 2 });
    expect(warned.map(({ approvalId }) => approvalId)).toEqual(
      approvals.slice(1).map(({ approvalId }) => approvalId),
    );
    await decide(kernel, approvals[1]?.approvalId);
    await untilAsked(kernel, run.id, 1);
    await decide(kernel, approvals[2]?.approvalId);
    expect(ofType(await finished(kernel, run.id), 'approval.expiring')).toHaveLength(2);
  });

  test('comes while a sibling tool is running, without a scan', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const tool = createRecordingTool({ name: 'pay' });
    const slow = createRecordingTool({ name: 'slow', allowedByDefault: true });
    slow.hold();
    const model = createScriptedModel([[toolCall('call_s', 'slow', {}), pay(1), finish()], answer]);
    const kernel = await boot({ model, tools: [tool, slow], clock, settings: { approvalTtlMs } });
    const run = await ask(kernel);
    await until(async () => clock.sleepers === 3, 'the loop to wait');
    await clock.advance(warnsAfterMs);
    const [warning] = await untilStored(kernel, run.id, { type: 'approval.expiring' });
    await until(async () => clock.sleepers === 3, 'the loop to wait for the expiry');
    await clock.advance(approvalTtlMs - warnsAfterMs);
    await untilStored(kernel, run.id, { type: 'approval.expired' });
    slow.release();
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'approval.expiring')).toEqual([warning]);
  });

  test('comes late if no node was running in time, and not at all after the expiry', async () => {
    const { kernel, clock, run, boot, settings } = await askedToPay();
    await kernel.stop();
    await clock.advance(warnsAfterMs + 3_000);
    const tools = [createRecordingTool({ name: 'pay' })];
    const second = await boot({ model: script(), tools, clock, settings, restarted: true });
    await untilStored(second, run.id, { type: 'approval.expiring' });
    const other = await ask(second);
    await untilAsked(second, other.id);
    await parked(second);
    await second.stop();
    await clock.advance(approvalTtlMs);
    const third = await boot({ model: script(), tools, clock, settings, restarted: true });
    const events = await finished(third, other.id);
    expect(ofType(events, 'approval.expired')).toHaveLength(1);
    expect(ofType(events, 'approval.expiring')).toEqual([]);
  });

  test.each(['before', 'after'] as const)(
    'comes once although the process dies %s it is stored',
    async (when) => {
      const fixture = await openFixture();
      const clock = new ManualClock();
      const tools = [createRecordingTool({ name: 'pay' })];
      const settings = { approvalTtlMs };
      const dying = mortal(fixture.store);
      let died = false;
      const store = wrapStore(dying.store, async (call) => {
        if (appendWith(call, 'approval.expiring') === undefined) return call.go();
        died = true;
        if (when === 'before') dying.kill();
        const stored = call.go();
        dying.kill();
        return stored;
      });
      const first = await fixture.bootWithoutCleanup({
        store,
        model: script(),
        tools,
        clock,
        settings,
      });
      const run = await ask(first);
      await untilAsked({ ...first, store: fixture.store }, run.id);
      await parked(first);
      await clock.advance(warnsAfterMs);
      first.control.supervisor.wake({ tenantId: first.tenantId, runId: run.id });
      await until(async () => died, 'the crash');
      const second = await fixture.boot({
        model: script(),
        tools,
        clock,
        settings,
        restarted: true,
      });
      await untilStored(second, run.id, { type: 'approval.expiring' });
      second.control.supervisor.wake({ tenantId: second.tenantId, runId: run.id });
      await parked(second);
      await clock.advance(approvalTtlMs - warnsAfterMs);
      second.control.supervisor.wake({ tenantId: second.tenantId, runId: run.id });
      const events = await finished(second, run.id);
      expect(ofType(events, 'approval.expiring')).toHaveLength(1);
    },
  );
});
