/** A decision is made once: the first answer counts, whoever else answers and however often. */
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import { ask } from '../support/kernel.ts';
import { decide, finished, ofType, openFixture, stopRun, untilAsked } from './fixture.ts';

async function askedToPay() {
  const fixture = await openFixture();
  const tool = createRecordingTool({ name: 'pay' });
  const model = createScriptedModel([
    [toolCall('call_1', 'pay', { amount: 1 }), finish()],
    [text('Done.'), finish()],
  ]);
  const kernel = await fixture.boot({ model, tools: [tool] });
  const run = await ask(kernel);
  const [approval] = await untilAsked(kernel, run.id);
  return { ...fixture, kernel, run, tool, approvalId: approval?.approvalId ?? '' };
}

describe('a decision', () => {
  test('is repeated without effect, also when the run is over', async () => {
    const { kernel, run, tool, approvalId } = await askedToPay();
    expect(await decide(kernel, approvalId)).toMatchObject({ kind: 'decided' });
    expect(await decide(kernel, approvalId)).toMatchObject({
      kind: 'duplicate',
      approval: { status: 'approved' },
    });
    const events = await finished(kernel, run.id);
    expect(await decide(kernel, approvalId)).toMatchObject({ kind: 'duplicate' });
    expect(tool.executions).toHaveLength(1);
    expect(ofType(events, 'approval.decided')).toHaveLength(1);
  });

  test.each([
    ['a denial', false],
    ['an approval', true],
  ])('stands although it is contradicted: %s', async (_what, approved) => {
    const { kernel, run, tool, approvalId } = await askedToPay();
    await decide(kernel, approvalId, { approved });
    expect(await decide(kernel, approvalId, { approved: !approved })).toMatchObject({
      kind: 'conflict',
      approval: { status: approved ? 'approved' : 'denied' },
    });
    const events = await finished(kernel, run.id);
    expect(await decide(kernel, approvalId, { approved: !approved })).toMatchObject({
      kind: 'conflict',
    });
    expect(tool.executions).toHaveLength(approved ? 1 : 0);
    expect(ofType(events, 'approval.decided')).toMatchObject([{ approved }]);
  });

  test('that comes too late with “always” makes no grant', async () => {
    const { kernel, run, tool, approvalId } = await askedToPay();
    await decide(kernel, approvalId, { approved: false });
    await decide(kernel, approvalId, { always: true });
    await finished(kernel, run.id);
    const next = await ask(kernel, { conversationId: run.conversationId });
    await untilAsked(kernel, next.id);
    expect(tool.executions).toEqual([]);
  });

  test('wins alone among fifty that race, and the tool runs once or not at all', async () => {
    const { kernel, run, tool, approvalId } = await askedToPay();
    const wishes = Array.from({ length: 50 }, (_, n) => n % 2 === 0);
    const outcomes = await Promise.all(
      wishes.map((approved, n) =>
        decide(kernel, approvalId, { approved, by: { type: 'key', id: `${n}`, name: `p${n}` } }),
      ),
    );
    const winner = outcomes.findIndex(({ kind: made }) => made === 'decided');
    expect(outcomes.filter(({ kind: made }) => made === 'decided')).toHaveLength(1);
    for (const [n, outcome] of outcomes.entries()) {
      if (n === winner) continue;
      expect(outcome.kind).toBe(wishes[n] === wishes[winner] ? 'duplicate' : 'conflict');
    }
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'approval.decided')).toMatchObject([
      { approved: wishes[winner], by: { name: `p${winner}` } },
    ]);
    expect(tool.executions).toHaveLength(wishes[winner] ? 1 : 0);
  });

  test('of fifty that all approve runs the tool once', async () => {
    const { kernel, run, tool, approvalId } = await askedToPay();
    const outcomes = await Promise.all(
      Array.from({ length: 50 }, () => decide(kernel, approvalId)),
    );
    expect(outcomes.filter(({ kind: made }) => made === 'decided')).toHaveLength(1);
    expect(outcomes.filter(({ kind: made }) => made === 'duplicate')).toHaveLength(49);
    const events = await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(1);
    expect(ofType(events, 'tool.started')).toHaveLength(1);
  });

  test('about an unknown approval is missing, and so is one by another tenant', async () => {
    const { kernel, store, tool, approvalId } = await askedToPay();
    expect(await decide(kernel, kernel.tenantId)).toEqual({ kind: 'missing' });
    const other = await store.ensureTenant({ id: approvalId, name: 'other', at: 0 });
    expect(await decide({ ...kernel, tenantId: other.id }, approvalId)).toEqual({
      kind: 'missing',
    });
    expect(tool.executions).toEqual([]);
  });

  test('after the run was canceled does not count', async () => {
    const { kernel, run, tool, approvalId } = await askedToPay();
    await stopRun(kernel, run.id);
    await finished(kernel, run.id);
    expect(await decide(kernel, approvalId)).toMatchObject({
      kind: 'conflict',
      approval: { status: 'closed' },
    });
    expect(tool.executions).toEqual([]);
  });

  test('that races with a cancel ends the run once, and the tool runs at most once', async () => {
    for (let round = 0; round < 10; round += 1) {
      const { kernel, run, tool, approvalId } = await askedToPay();
      const [outcome] = await Promise.all([decide(kernel, approvalId), stopRun(kernel, run.id)]);
      const events = await finished(kernel, run.id);
      const started = ofType(events, 'tool.started').length;
      expect(tool.executions).toHaveLength(started);
      expect(started).toBeLessThanOrEqual(outcome.kind === 'decided' ? 1 : 0);
    }
  });
});
