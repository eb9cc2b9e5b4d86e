/** A tenant's standing rules at the gate, and calls that a person has denied before. */
import { recordDecision } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import type { PolicyRules } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { describe, expect, test } from 'vitest';
import { ask, type Kernel, person } from '../support/kernel.ts';
import { decide, finished, ofType, openFixture, untilAsked, untilStored } from './fixture.ts';

const pay = (n: number, amount = 1) => toolCall(`call_${n}`, 'pay', { amount });

async function fixture(amounts: readonly number[] = [1]) {
  const opened = await openFixture();
  const tool = createRecordingTool({ name: 'pay' });
  const model = createScriptedModel([
    ...amounts.map((amount, n) => [pay(n + 1, amount), finish()]),
    [text('Done.'), finish()],
  ]);
  const kernel = await opened.boot({ model, tools: [tool] });
  return { ...opened, kernel, tool, model };
}

const versions = new WeakMap<Kernel, number>();

async function set(kernel: Kernel, rules: Partial<PolicyRules>, agent: string | null = null) {
  const version = (versions.get(kernel) ?? 0) + 1;
  versions.set(kernel, version);
  const put = await kernel.store.tenant(kernel.tenantId).policies.put({
    id: uuidv7(),
    agent,
    version,
    rules: { allow: [], deny: [], ask: [], approvers: [], ...rules },
    at: 0,
    by: person,
  });
  expect(put).toBe(true);
}

const anyPay = [{ tool: 'pay' }];

describe('a policy', () => {
  test('lets allowed calls run', async () => {
    const { kernel, tool } = await fixture();
    await set(kernel, { allow: anyPay });
    const events = await finished(kernel, (await ask(kernel)).id);
    const rule = { list: 'allow', index: 0, source: 'policy', id: '*@1' };
    expect(ofType(events, 'tool.started')).toMatchObject([{ rule }]);
    expect(tool.executions).toHaveLength(1);
  });

  test('denies what a request allows', async () => {
    const { kernel, tool } = await fixture();
    await set(kernel, { deny: anyPay });
    const run = await ask(kernel, { permissions: { allowlist: anyPay } });
    const rule = { list: 'deny', source: 'policy' };
    expect(ofType(await finished(kernel, run.id), 'tool.denied')).toMatchObject([{ rule }]);
    expect(tool.executions).toEqual([]);
  });

  test('requires an approval for what a request and a grant allow', async () => {
    const { kernel, tool } = await fixture();
    await set(kernel, { ask: anyPay });
    await kernel.store.tenant(kernel.tenantId).addGrant({
      id: uuidv7(),
      tool: 'pay',
      scope: 'tenant',
      scopeId: kernel.tenantId,
      createdAt: 0,
      createdBy: person,
    });
    const run = await ask(kernel, { permissions: { allowlist: anyPay } });
    const [approval] = await untilAsked(kernel, run.id);
    expect(tool.executions).toEqual([]);
    await decide(kernel, approval?.approvalId);
    await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(1);
  });

  test('of another agent does not apply', async () => {
    const { kernel, tool } = await fixture();
    await set(kernel, { deny: anyPay }, 'somebody else');
    const run = await ask(kernel, { permissions: { allowlist: anyPay } });
    await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(1);
  });

  test('holds for the very next call, also of a run that is going on', async () => {
    const { kernel, tool } = await fixture([1, 2]);
    const run = await ask(kernel);
    const [first] = await untilAsked(kernel, run.id);
    await set(kernel, { deny: [{ tool: 'pay', params: { amount: '2' } }] });
    await decide(kernel, first?.approvalId);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.denied')).toMatchObject([{ toolCallId: 'call_2' }]);
    expect(tool.executions.map(({ input }) => input)).toEqual([{ amount: 1 }]);
  });

  test('rejects the approval of a call that it denies now, and leaves the approval pending', async () => {
    const { kernel, tool } = await fixture();
    const run = await ask(kernel);
    const [approval] = await untilAsked(kernel, run.id);
    await set(kernel, { deny: anyPay });
    await expect(decide(kernel, approval?.approvalId)).rejects.toMatchObject({
      code: 'denied_by_rule',
    });
    const input = { amount: 7 };
    await expect(decide(kernel, approval?.approvalId, { input })).rejects.toMatchObject({
      code: 'denied_by_rule',
    });
    await decide(kernel, approval?.approvalId, { approved: false });
    await finished(kernel, run.id);
    expect(tool.executions).toEqual([]);
  });
});

describe('a call that a person has denied', () => {
  const no = (
    kernel: Kernel,
    approvalId: string | undefined,
    { reason }: { reason?: string } = { reason: 'Too much' },
  ) =>
    recordDecision(kernel.control, kernel.tenantId, {
      approvalId: approvalId ?? '',
      approved: false,
      always: false,
      reason: reason ?? null,
      by: person,
    });

  test('is asked about again if it is repeated unchanged, and the approval shows the denial', async () => {
    const { kernel, tool, model } = await fixture([1, 1, 1, 2]);
    const run = await ask(kernel);
    const [first] = await untilAsked(kernel, run.id);
    await no(kernel, first?.approvalId);
    const [, second] = await untilStored(kernel, run.id, { type: 'approval.requested', count: 2 });
    await no(kernel, second?.approvalId, {});
    const [, , third] = await untilStored(kernel, run.id, { type: 'approval.requested', count: 3 });
    await decide(kernel, third?.approvalId);
    // Another call has no denial to show.
    const asked = await untilStored(kernel, run.id, { type: 'approval.requested', count: 4 });
    await decide(kernel, asked.at(-1)?.approvalId);
    const events = await finished(kernel, run.id);
    const denials = ofType(events, 'approval.decided').filter(({ approved }) => !approved);
    expect(ofType(events, 'approval.requested').map(({ earlierDenial }) => earlierDenial)).toEqual([
      undefined,
      { at: denials[0]?.at, by: person, reason: 'Too much' },
      { at: denials[1]?.at, by: person },
      undefined,
    ]);
    const stored = await kernel.store
      .tenant(kernel.tenantId)
      .readApproval(second?.approvalId ?? '');
    expect(stored?.earlierDenial).toEqual(second?.earlierDenial);
    expect(ofType(events, 'tool.denied').map(({ reason }) => reason)).toEqual([
      'Too much',
      undefined,
    ]);
    expect(tool.executions.map(({ input }) => input)).toEqual([{ amount: 1 }, { amount: 2 }]);
    expect(model.requests).toHaveLength(5);
  });

  test('is asked about only as often as the limit of turns allows', async () => {
    const { kernel, tool } = await fixture(Array.from({ length: 20 }, () => 1));
    const run = await ask(kernel, { maxIterations: 3 });
    for (let count = 1; count <= 3; count += 1) {
      const asked = await untilStored(kernel, run.id, { type: 'approval.requested', count });
      await no(kernel, asked.at(-1)?.approvalId);
    }
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'approval.requested')).toHaveLength(3);
    expect(ofType(events, 'limit.reached')).toMatchObject([{ limit: 'iterations' }]);
    expect(tool.executions).toEqual([]);
  });

  test('is denied without asking once a deny rule matches it', async () => {
    const { kernel } = await fixture([1, 1]);
    const run = await ask(kernel);
    const [first] = await untilAsked(kernel, run.id);
    await set(kernel, { deny: anyPay });
    await no(kernel, first?.approvalId);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'approval.requested')).toHaveLength(1);
    expect(ofType(events, 'tool.denied')).toHaveLength(2);
  });

  test('runs if a rule allows it by then', async () => {
    const { kernel, tool } = await fixture([1, 2, 1]);
    const run = await ask(kernel);
    const [first] = await untilAsked(kernel, run.id);
    await no(kernel, first?.approvalId);
    const [, second] = await untilStored(kernel, run.id, { type: 'approval.requested', count: 2 });
    await set(kernel, { allow: anyPay });
    await decide(kernel, second?.approvalId);
    await finished(kernel, run.id);
    expect(tool.executions.map(({ input }) => input)).toEqual([{ amount: 2 }, { amount: 1 }]);
  });

  test('is asked about again in another run', async () => {
    const { kernel } = await fixture([1]);
    const run = await ask(kernel);
    const [first] = await untilAsked(kernel, run.id);
    await no(kernel, first?.approvalId);
    await finished(kernel, run.id);
    const other = await openFixture();
    const model = createScriptedModel([
      [pay(1), finish()],
      [text('Done.'), finish()],
    ]);
    const tools = [createRecordingTool({ name: 'pay' })];
    const again = await other.boot({ model, tools, store: kernel.store });
    const { id } = await ask(again, { conversationId: run.conversationId });
    expect(await untilAsked(again, id)).toHaveLength(1);
  });
});
