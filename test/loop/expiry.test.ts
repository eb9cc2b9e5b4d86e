/** An approval that nobody answers in time: its call does not run, and the run goes on. */
import type { SystemStore } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  ManualClock,
  text,
  toolCall,
} from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import { ask, type Kernel, openApprovals, person, until } from '../support/kernel.ts';
import {
  appendWith,
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
import { wrapStore } from './stores.ts';

const approvalTtlMs = 60_000;
const answer = [text('Done.'), finish()];
const pay = (n: number) => toolCall(`call_${n}`, 'pay', { amount: n });

async function askedToPay(calls = 1) {
  const fixture = await openFixture();
  const clock = new ManualClock();
  const tool = createRecordingTool({ name: 'pay' });
  const payments = Array.from({ length: calls }, (_, n) => pay(n + 1));
  const model = createScriptedModel([[...payments, finish()], answer]);
  const kernel = await fixture.boot({ model, tools: [tool], clock, settings: { approvalTtlMs } });
  const run = await ask(kernel);
  const approvals = await untilAsked(kernel, run.id, calls);
  await parked(kernel);
  return { ...fixture, kernel, clock, tool, model, run, approvals };
}

const parked = (kernel: Kernel) =>
  until(async () => kernel.control.supervisor.activeRuns === 0, 'the run to be suspended');

/** A store in which somebody's approval is stored just before the approval would expire. */
function decidedInTime(inner: SystemStore, clock: ManualClock, kernelOf: () => Kernel) {
  const decided: string[] = [];
  const store = wrapStore(inner, async (call) => {
    const append = appendWith(call, 'approval.expired');
    const [closure] = append?.closeApprovals ?? [];
    if (append !== undefined && closure !== undefined) {
      const { approvalId } = closure;
      const { runId } = append;
      const { tenantId, control } = kernelOf();
      const command = { kind: 'decision', approvalId, approved: true, always: false } as const;
      const at = clock.now() - 1;
      const queued = { id: 'mail', command: { ...command, reason: null, by: person } };
      const decision = {
        approvalId,
        runId,
        status: 'approved',
        at,
        by: person,
        answer: '',
      } as const;
      if (await inner.tenant(tenantId).decideApproval({ ...decision, reason: null, queued })) {
        decided.push(approvalId);
        control.supervisor.wake({ tenantId, runId });
      }
    }
    return call.go();
  });
  return { store, decided };
}

describe('an approval without an answer', () => {
  test('expires at its time: the tool does not run, the model reads it, the run continues', async () => {
    const { kernel, clock, tool, model, run, approvals, store } = await askedToPay();
    const ref = { tenantId: kernel.tenantId, runId: run.id };
    await clock.advance(approvalTtlMs - 1);
    kernel.control.supervisor.wake(ref);
    await parked(kernel);
    expect(openApprovals(await journal(kernel, run.id))).toHaveLength(1);
    await clock.advance(1);
    kernel.control.supervisor.wake(ref);
    const events = await finished(kernel, run.id);
    expect(tool.executions).toEqual([]);
    expect(ofType(events, 'approval.expired')).toHaveLength(1);
    expect(ofType(events, 'tool.denied')).toMatchObject([{ status: 'expired' }]);
    const [read] = resultsIn(lastOf(model.requests));
    expect(JSON.parse(String(read))).toMatchObject({ status: 'expired' });
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
    const approval = await store
      .tenant(kernel.tenantId)
      .readApproval(approvals[0]?.approvalId ?? '');
    expect(approval).toMatchObject({ status: 'expired', decidedBy: { type: 'timeout' } });
  });

  test('is found by the scan, without a wake-up', async () => {
    const { kernel, clock, tool, run } = await askedToPay(2);
    await clock.advance(approvalTtlMs);
    const events = await until(async () => {
      await clock.advance(1_000);
      const found = await journal(kernel, run.id);
      return found.at(-1)?.type === 'run.ended' && found;
    }, 'the end');
    expect(ofType(events, 'approval.expired')).toHaveLength(2);
    expect(tool.executions).toEqual([]);
  });

  test('leaves alone what was approved in time', async () => {
    const { kernel, clock, tool, model, run, approvals } = await askedToPay(2);
    await decide(kernel, approvals[1]?.approvalId);
    await untilStored(kernel, run.id, { type: 'tool.completed' });
    await untilAsked(kernel, run.id, 1);
    await clock.advance(approvalTtlMs);
    kernel.control.supervisor.wake({ tenantId: kernel.tenantId, runId: run.id });
    await finished(kernel, run.id);
    expect(tool.executions.map(({ toolCallId }) => toolCallId)).toEqual(['call_2']);
    const read = resultsIn(lastOf(model.requests)).map((each) => JSON.parse(String(each)));
    expect(read).toMatchObject([{ status: 'expired' }, { result: { ran: 'pay' } }]);
  });

  test('expires while a sibling tool is running', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const tool = createRecordingTool({ name: 'pay' });
    const slow = createRecordingTool({ name: 'slow', allowedByDefault: true });
    slow.hold();
    const model = createScriptedModel([[toolCall('call_s', 'slow', {}), pay(1), finish()], answer]);
    const kernel = await boot({ model, tools: [tool, slow], clock, settings: { approvalTtlMs } });
    const run = await ask(kernel);
    await until(async () => slow.executions.length === 1, 'the slow tool');
    // The two of the supervisor, and the one that waits for the expiry.
    await until(async () => clock.sleepers === 3, 'the loop to wait');
    await clock.advance(approvalTtlMs);
    await untilStored(kernel, run.id, { type: 'tool.denied' });
    expect(ofType(await journal(kernel, run.id), 'tool.completed')).toEqual([]);
    await until(async () => clock.sleepers === 2, 'the timer to be gone');
    slow.release();
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.denied')).toMatchObject([{ status: 'expired', name: 'pay' }]);
    expect(ofType(events, 'tool.completed')).toMatchObject([{ name: 'slow' }]);
    expect(tool.executions).toEqual([]);
  });

  test('cannot be decided after its time, even before the run has expired it', async () => {
    const { kernel, clock, tool, run, approvals } = await askedToPay();
    const approvalId = approvals[0]?.approvalId;
    await kernel.stop();
    await clock.advance(approvalTtlMs);
    expect(await decide(kernel, approvalId, { always: true })).toMatchObject({
      kind: 'conflict',
    });
    expect(ofType(await journal(kernel, run.id), 'approval.decided')).toEqual([]);
    expect(tool.executions).toEqual([]);
  });

  test('stays expired whatever is decided later', async () => {
    const { kernel, clock, tool, run, approvals } = await askedToPay();
    await clock.advance(approvalTtlMs);
    kernel.control.supervisor.wake({ tenantId: kernel.tenantId, runId: run.id });
    const events = await finished(kernel, run.id);
    for (const approved of [true, false]) {
      expect(
        await decide(kernel, approvals[0]?.approvalId, { approved, always: true }),
      ).toMatchObject({
        kind: 'conflict',
        approval: { status: 'expired' },
      });
    }
    expect(await journal(kernel, run.id)).toEqual(events);
    expect(tool.executions).toEqual([]);
    const next = await ask(kernel, { conversationId: run.conversationId });
    await untilAsked(kernel, next.id);
  });

  test('counts as decided if it was decided in time and applied late', async () => {
    const { boot, kernel, clock, tool, model, run, approvals } = await askedToPay();
    await kernel.stop();
    expect(await decide(kernel, approvals[0]?.approvalId)).toMatchObject({ kind: 'decided' });
    await clock.advance(10 * approvalTtlMs);
    const later = await boot({ model, tools: [tool], clock, restarted: true });
    const events = await finished(later, run.id);
    expect(ofType(events, 'approval.expired')).toEqual([]);
    expect(tool.executions).toHaveLength(1);
  });

  test('counts as decided if the decision was stored just before the expiry', async () => {
    const fixture = await openFixture();
    const clock = new ManualClock();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([[pay(1), finish()], answer]);
    const { store, decided } = decidedInTime(fixture.store, clock, () => kernel);
    const kernel = await fixture.boot({
      store,
      model,
      tools: [tool],
      clock,
      settings: { approvalTtlMs },
    });
    const run = await ask(kernel);
    await untilAsked(kernel, run.id);
    await parked(kernel);
    await clock.advance(approvalTtlMs);
    kernel.control.supervisor.wake({ tenantId: kernel.tenantId, runId: run.id });
    const events = await finished(kernel, run.id);
    expect(decided).toHaveLength(1);
    expect(ofType(events, 'approval.expired')).toEqual([]);
    expect(ofType(events, 'approval.decided')).toMatchObject([{ approved: true }]);
    expect(tool.executions).toHaveLength(1);
  });

  test('expires by the real clock too', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([[pay(1), finish()], answer]);
    const kernel = await boot({ model, tools: [tool], settings: { approvalTtlMs: 20 } });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.denied')).toMatchObject([{ status: 'expired' }]);
    expect(tool.executions).toEqual([]);
  });
});
