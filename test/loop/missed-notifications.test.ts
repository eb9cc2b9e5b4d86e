/** Moments that pass while something else is going on, and words that nobody passed on. */
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import { ask, person, until } from '../support/kernel.ts';
import { appendWith, finished, ofType, openFixture, untilAsked, untilStored } from './fixture.ts';
import { wrapStore } from './stores.ts';

const answer = [text('Done.'), finish()];

describe('a missed notification', () => {
  test('does not delay an expiry that falls into a commit', async () => {
    const fixture = await openFixture();
    const quick = createRecordingTool({ name: 'quick', allowedByDefault: true });
    const long = createRecordingTool({ name: 'long', allowedByDefault: true });
    const pay = createRecordingTool({ name: 'pay' });
    let stalled = false;
    const store = wrapStore(fixture.store, async (call) => {
      if (!stalled && appendWith(call, 'tool.completed') !== undefined) {
        stalled = true;
        await new Promise((resolve) => setTimeout(resolve, 300));
      }
      return call.go();
    });
    quick.hold();
    long.hold();
    const model = createScriptedModel([
      [toolCall('c1', 'quick'), toolCall('c2', 'long'), toolCall('c3', 'pay'), finish()],
      answer,
    ]);
    const settings = { approvalTtlMs: 150 };
    const kernel = await fixture.boot({ store, model, tools: [quick, long, pay], settings });
    const run = await ask(kernel);
    await untilStored(kernel, run.id, { type: 'approval.requested' });
    quick.release();
    // While `long` is still at work nothing else would wake the run.
    await untilStored(kernel, run.id, { type: 'approval.expired' });
    expect(long.executions).toHaveLength(1);
    long.release();
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.denied')).toMatchObject([{ toolCallId: 'c3', status: 'expired' }]);
    expect(pay.executions).toEqual([]);
  });

  test('of an answer shortly before the expiry does not lose the answer', async () => {
    const fixture = await openFixture();
    const long = createRecordingTool({ name: 'long', allowedByDefault: true });
    const pay = createRecordingTool({ name: 'pay' });
    long.hold();
    const model = createScriptedModel([
      [toolCall('c1', 'long'), toolCall('c2', 'pay'), finish()],
      answer,
    ]);
    const settings = { approvalTtlMs: 200 };
    const kernel = await fixture.boot({ model, tools: [long, pay], settings });
    const run = await ask(kernel);
    const [raised] = await untilStored(kernel, run.id, { type: 'approval.requested' });
    const approvalId = raised?.approvalId ?? '';
    // As another node would: stored, and this one hears of it only when it looks.
    const command = { kind: 'decision', approvalId, approved: true, always: false } as const;
    const decided = await fixture.store.tenant(kernel.tenantId).decideApproval({
      approvalId,
      runId: run.id,
      status: 'approved',
      at: Date.now(),
      by: person,
      reason: null,
      answer: '{}',
      queued: { id: 'mail', command: { ...command, reason: null, by: person } },
    });
    expect(decided).toBe(true);
    await until(async () => pay.executions.length === 1, 'the payment');
    long.release();
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'approval.expired')).toEqual([]);
    expect(ofType(events, 'approval.requested')).toHaveLength(1);
    expect(long.executions).toHaveLength(1);
  });
});

describe('a paused tenant', () => {
  test('applies a cancel that another node accepted', async () => {
    const fixture = await openFixture();
    const pay = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([[toolCall('c1', 'pay'), finish()], answer]);
    const kernel = await fixture.boot({ model, tools: [pay] });
    const run = await ask(kernel);
    await untilAsked(kernel, run.id);
    const tenant = fixture.store.tenant(kernel.tenantId);
    await tenant.updateTenant({ pausedAt: Date.now() });
    await until(async () => kernel.control.supervisor.isPaused(kernel.tenantId), 'the pause');
    await tenant.postRunCommand(run.id, {
      id: 'stop',
      command: { kind: 'cancel', reason: 'Enough', by: person },
    });
    const events = await finished(kernel, run.id);
    expect(events.at(-1)).toMatchObject({ status: 'canceled' });
    expect(pay.executions).toEqual([]);
  });
});
