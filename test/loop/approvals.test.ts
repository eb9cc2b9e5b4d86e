import type { Append } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import { ask, openApprovals, until, untilStatus } from '../support/kernel.ts';
import {
  appendWith,
  decide,
  endOf,
  finished,
  journal,
  lastOf,
  ofType,
  openScene,
  resultsIn,
  untilAsked,
  untilStored,
} from './scene.ts';
import { wrapStore } from './stores.ts';

const answer = [text('Done.'), finish()];
const pay = (n: number, input: unknown = { amount: n }) => toolCall(`call_${n}`, 'pay', input);

describe('undecided calls', () => {
  test('of a turn are raised together, in the commit that completes the turn', async () => {
    const { boot, store } = await openScene();
    const appends: Append[] = [];
    const watched = wrapStore(store, (call) => {
      const append = appendWith(call, 'approval.requested');
      if (append !== undefined) appends.push(append);
      return call.go();
    });
    const tools = [
      createRecordingTool({ name: 'pay' }),
      createRecordingTool({ name: 'look', allowedByDefault: true }),
    ];
    const model = createScriptedModel([
      [pay(1), toolCall('call_x', 'look', {}), pay(2), pay(3), finish()],
      answer,
    ]);
    const kernel = await boot({ store: watched, model, tools });
    const run = await ask(kernel);
    await untilAsked(kernel, run.id, 3);
    expect(appends).toHaveLength(1);
    const types = appends[0]?.events.map(({ type }) => type) ?? [];
    expect(types.filter((type) => type === 'approval.requested')).toHaveLength(3);
    expect(types.filter((type) => type === 'tool.called')).toHaveLength(4);
    expect(types).toContain('turn.completed');
    expect(types).toContain('tool.started');
    expect(appends[0]?.approvals).toHaveLength(3);
  });

  test('are each decided on their own: an approved one starts while its sibling waits', async () => {
    const { boot, store } = await openScene();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([[pay(1), pay(2), finish()], answer]);
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    const [first, second] = await untilAsked(kernel, run.id, 2);
    await decide(kernel, second?.approvalId);
    await untilStored(kernel, run.id, { type: 'tool.completed' });
    expect(tool.executions.map(({ toolCallId }) => toolCallId)).toEqual(['call_2']);
    const [still] = await untilAsked(kernel, run.id, 1);
    expect(still?.approvalId).toBe(first?.approvalId);
    const { tenantId } = kernel;
    // The answer was taken once: nothing is left that would wake the run again and again.
    expect(await store.tenant(tenantId).readInbox(run.id)).toEqual([]);
    expect(await store.tenant(tenantId).readApproval(first?.approvalId ?? '')).toMatchObject({
      status: 'pending',
    });
    expect(model.requests).toHaveLength(1);
    await decide(kernel, first?.approvalId);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'run.suspended')).toHaveLength(2);
    expect(ofType(events, 'run.resumed')).toHaveLength(2);
    expect(tool.executions).toHaveLength(2);
    expect(model.requests).toHaveLength(2);
  });

  test('start when they are approved, although a sibling tool is still running', async () => {
    const { boot } = await openScene();
    const tool = createRecordingTool({ name: 'pay' });
    const slow = createRecordingTool({ name: 'slow', allowedByDefault: true });
    slow.hold();
    const model = createScriptedModel([
      [toolCall('call_s', 'slow', {}), pay(1), pay(2), finish()],
      answer,
    ]);
    const kernel = await boot({ model, tools: [tool, slow] });
    const run = await ask(kernel);
    await until(async () => slow.executions.length === 1, 'the slow tool');
    const raised = openApprovals(await journal(kernel, run.id));
    expect(raised).toHaveLength(2);
    await decide(kernel, raised[0]?.approvalId);
    await until(async () => tool.executions.length === 1, 'the approved one');
    await decide(kernel, raised[1]?.approvalId, { approved: false });
    await untilStored(kernel, run.id, { type: 'tool.denied' });
    await untilStored(kernel, run.id, { type: 'tool.completed' });
    expect(ofType(await journal(kernel, run.id), 'tool.completed')).toMatchObject([
      { name: 'pay' },
    ]);
    slow.release();
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'run.suspended')).toEqual([]);
    expect(tool.executions).toHaveLength(1);
  });

  test('are denied with a reason that the model reads, and the run goes on', async () => {
    const { boot } = await openScene();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([[pay(1), pay(2), finish()], answer]);
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    const [first, second] = await untilAsked(kernel, run.id, 2);
    await decide(kernel, first?.approvalId, { approved: false, reason: 'Not on a Sunday' });
    await decide(kernel, second?.approvalId, { approved: false });
    const events = await finished(kernel, run.id);
    expect(tool.executions).toEqual([]);
    expect(ofType(events, 'approval.decided')).toMatchObject([
      { approved: false, reason: 'Not on a Sunday', by: { type: 'key', name: 'ada' } },
      { approved: false },
    ]);
    const read = resultsIn(lastOf(model.requests)).map((each) => JSON.parse(String(each)));
    expect(read).toEqual([{ status: 'denied', reason: 'Not on a Sunday' }, { status: 'denied' }]);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
  });

  test('that are approved run exactly as they were shown, on record of whoever approved', async () => {
    const { boot } = await openScene();
    const tool = createRecordingTool({ name: 'pay' });
    const input = { to: 'Zoë \u0000', amounts: [1, { deep: null }], z: 1, a: -0.5 };
    const model = createScriptedModel([[pay(1, input), finish()], answer]);
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    const [approval] = await untilAsked(kernel, run.id);
    expect(approval?.params).toEqual(input);
    await decide(kernel, approval?.approvalId, { reason: 'Fine' });
    const events = await finished(kernel, run.id);
    expect(tool.executions.map(({ input: ran }) => ran)).toEqual([input]);
    expect(ofType(events, 'tool.started')).toMatchObject([
      { input, approvalId: approval?.approvalId },
    ]);
    const stored = await untilStatus(kernel, run.id, 'completed');
    expect(JSON.parse(stored.outputJson ?? '')).toMatchObject({
      approvals: [{ toolCallId: 'call_1', action: 'approve', by: 'ada', reason: 'Fine' }],
    });
  });

  test('of a tool that is gone when they are approved fail, and the run goes on', async () => {
    const { boot } = await openScene();
    const tools = [createRecordingTool({ name: 'pay' })];
    const model = createScriptedModel([[pay(1), finish()], answer]);
    const kernel = await boot({ model, tools });
    const run = await ask(kernel);
    const [approval] = await untilAsked(kernel, run.id);
    tools.pop();
    await decide(kernel, approval?.approvalId);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.failed')).toMatchObject([{ code: 'unknown_tool' }]);
    expect(endOf(events).status).toBe('completed');
  });
});

describe('“always”', () => {
  test('grants exactly that call for its conversation, and no other', async () => {
    const { boot } = await openScene();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([
      async ({ messages }) => {
        const last = messages.findLast(({ role }) => role === 'user');
        return [toolCall('call_1', 'pay', String(last?.content)), finish()];
      },
      answer,
    ]);
    const kernel = await boot({ model, tools: [tool] });
    const request = (input: string, conversationId?: string) =>
      ask(kernel, {
        messages: [{ role: 'user', content: input }],
        ...(conversationId === undefined ? {} : { conversationId }),
      });
    const first = await request('{"to":"*","amount":7}');
    const [approval] = await untilAsked(kernel, first.id);
    await decide(kernel, approval?.approvalId, { always: true });
    expect(ofType(await finished(kernel, first.id), 'approval.decided')).toMatchObject([
      { approved: true, always: true },
    ]);
    const { conversationId } = first;

    // The same call, however it is written.
    const same = await request('{ "amount": 7.0, "to": "*" }', conversationId);
    const events = await finished(kernel, same.id);
    expect(ofType(events, 'approval.requested')).toEqual([]);
    expect(ofType(events, 'tool.started')).toMatchObject([{ rule: { list: 'grants' } }]);
    expect(tool.executions).toHaveLength(2);

    for (const other of [
      '{"to":"ben","amount":7}',
      '{"to":"*","amount":8}',
      '{"to":"*"}',
      '{"to":"*","amount":"7"}',
      '{"to":"*","amount":7,"twice":true}',
    ]) {
      const run = await request(other, conversationId);
      await untilAsked(kernel, run.id);
    }
    const elsewhere = await request('{"to":"*","amount":7}');
    await untilAsked(kernel, elsewhere.id);
    expect(tool.executions).toHaveLength(2);
  });

  test('with a denial grants nothing', async () => {
    const { boot } = await openScene();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([[pay(1), finish()], answer]);
    const kernel = await boot({ model, tools: [tool] });
    const first = await ask(kernel);
    const [approval] = await untilAsked(kernel, first.id);
    await decide(kernel, approval?.approvalId, { approved: false, always: true });
    await finished(kernel, first.id);
    const second = await ask(kernel, { conversationId: first.conversationId });
    await untilAsked(kernel, second.id);
    expect(tool.executions).toEqual([]);
  });
});
