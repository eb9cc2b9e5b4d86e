/** Which calls run without asking, which are refused, and which a person is asked about. */
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import type { Permissions } from '@relay/protocol';
import { describe, expect, test } from 'vitest';
import { type AskOptions, ask } from '../support/kernel.ts';
import {
  decide,
  finished,
  journal,
  lastOf,
  ofType,
  openFixture,
  resultsIn,
  untilAsked,
} from './fixture.ts';
import { mortal } from './stores.ts';

const pay = (amount: number | string) => ({ amount });
const answer = [text('Done.'), finish()];

/** One turn that pays the given amounts, and what became of it. */
async function paying(
  permissions: Permissions,
  { amounts = [1], allowed = false }: { amounts?: readonly number[]; allowed?: boolean } = {},
) {
  const { boot } = await openFixture();
  const tool = createRecordingTool({ name: 'pay', allowedByDefault: allowed });
  const calls = amounts.map((amount, n) => toolCall(`call_${n + 1}`, 'pay', pay(amount)));
  const model = createScriptedModel([[...calls, finish()], answer]);
  const kernel = await boot({ model, tools: [tool] });
  const run = await ask(kernel, { permissions });
  return { kernel, run, tool, model };
}

const any = { tool: 'pay' };
const only = (amount: string) => ({ tool: 'pay', params: { amount } });

describe('a rule', () => {
  test.each<[string, Permissions, { list: string; index: number; source: string }]>([
    [
      'the allowlist',
      { allowlist: [only('2'), only('1')] },
      { list: 'allowlist', index: 1, source: 'request' },
    ],
    ['allow-once', { allowOnce: [only('?')] }, { list: 'allowOnce', index: 0, source: 'request' }],
  ])('of %s lets a call through, and the journal says which', async (_what, permissions, rule) => {
    const { kernel, run, tool } = await paying(permissions);
    const events = await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(1);
    expect(ofType(events, 'tool.started')).toMatchObject([{ rule }]);
    expect(ofType(events, 'approval.requested')).toEqual([]);
  });

  test('built into the tool lets a call through', async () => {
    const { kernel, run, tool } = await paying({}, { allowed: true });
    const events = await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(1);
    expect(ofType(events, 'tool.started')).toMatchObject([
      { rule: { list: 'builtin', source: 'builtin' } },
    ]);
  });

  test.each<[string, Permissions]>([
    ['there is none', {}],
    ['none is about this tool', { allowlist: [{ tool: 'look' }, { tool: 'PAY' }] }],
    ['none is about these arguments', { allowlist: [only('2')], allowOnce: [only('3')] }],
    [
      'one names a parameter that is not there',
      { allowlist: [{ tool: 'pay', params: { amount: '1', to: '*' } }] },
    ],
  ])('is missing where %s: a person is asked, and nothing runs', async (_what, permissions) => {
    const { kernel, run, tool } = await paying(permissions);
    const [approval] = await untilAsked(kernel, run.id);
    expect(tool.executions).toEqual([]);
    expect(approval).toMatchObject({ kind: 'permission', tool: 'pay', params: pay(1) });
    const events = await journal(kernel, run.id);
    expect(ofType(events, 'tool.started')).toEqual([]);
    expect(ofType(events, 'run.suspended')).toMatchObject([
      { approvalIds: [approval?.approvalId] },
    ]);
  });

  test('that denies a call by its id passes its reason to the model, and the run continues', async () => {
    const { kernel, run, tool, model } = await paying(
      { deny: [{ toolCallId: 'call_2', reason: 'Too much' }], allowlist: [any] },
      { amounts: [1, 2, 3] },
    );
    const events = await finished(kernel, run.id);
    expect(tool.executions.map(({ toolCallId }) => toolCallId)).toEqual(['call_1', 'call_3']);
    expect(ofType(events, 'tool.denied')).toMatchObject([
      { toolCallId: 'call_2', status: 'denied', rule: { list: 'deny', index: 0 } },
    ]);
    const results = resultsIn(lastOf(model.requests)).map((each) => JSON.parse(String(each)));
    expect(results[1]).toEqual({ status: 'denied', reason: 'Too much' });
  });

  test.each<[string, Permissions, boolean]>([
    ['the allowlist', { allowlist: [any] }, false],
    ['allow-once', { allowOnce: [any] }, false],
    ['what is built into the tool', {}, true],
    ['all of them together', { allowlist: [any], allowOnce: [any] }, true],
  ])('of the denylist beats %s', async (_what, permissions, allowed) => {
    const { kernel, run, tool } = await paying(
      { ...permissions, denylist: [only('1')] },
      { allowed },
    );
    const events = await finished(kernel, run.id);
    expect(tool.executions).toEqual([]);
    expect(ofType(events, 'tool.denied')).toMatchObject([
      { status: 'denied', rule: { list: 'denylist', index: 0, source: 'request' } },
    ]);
    expect(ofType(events, 'approval.requested')).toEqual([]);
  });

  test('of the denylist takes precedence over a permanent approval', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([[toolCall('call_1', 'pay', pay(1)), finish()], answer]);
    const kernel = await boot({ model, tools: [tool] });
    const first = await ask(kernel);
    const [approval] = await untilAsked(kernel, first.id);
    await decide(kernel, approval?.approvalId, { always: true });
    await finished(kernel, first.id);
    const { conversationId } = first;
    const permissions = { denylist: [only('1')] };
    const second = await ask(kernel, { conversationId, permissions });
    const events = await finished(kernel, second.id);
    expect(ofType(events, 'tool.denied')).toHaveLength(1);
    expect(tool.executions).toHaveLength(1);
  });
});

describe('an allow-once rule', () => {
  test('is used up by one of two calls that match it at the same time', async () => {
    const { kernel, run, tool } = await paying({ allowOnce: [any] }, { amounts: [1, 2] });
    const [approval] = await untilAsked(kernel, run.id);
    expect(tool.executions.map(({ toolCallId }) => toolCallId)).toEqual(['call_1']);
    expect(approval?.toolCallId).toBe('call_2');
  });

  test('written twice lets two calls through, each by its own rule', async () => {
    const { kernel, run, tool } = await paying(
      { allowOnce: [any, only('1'), any] },
      { amounts: [1, 2, 1, 4] },
    );
    const [approval] = await untilAsked(kernel, run.id);
    expect(approval?.toolCallId).toBe('call_4');
    expect(tool.executions).toHaveLength(3);
    const started = ofType(await journal(kernel, run.id), 'tool.started');
    expect(started.map(({ rule }) => rule?.index)).toEqual([0, 2, 1]);
  });

  test('is not used up where a standing rule allows already', async () => {
    const { kernel, run, tool } = await paying(
      { allowOnce: [any], allowlist: [only('1')] },
      { amounts: [1, 2, 3] },
    );
    const [approval] = await untilAsked(kernel, run.id);
    expect(tool.executions.map(({ toolCallId }) => toolCallId)).toEqual(['call_1', 'call_2']);
    expect(approval?.toolCallId).toBe('call_3');
  });

  const twice = (ids: readonly [string, string]) =>
    createScriptedModel([
      [toolCall(ids[0], 'pay', pay(1)), finish()],
      [toolCall(ids[1], 'pay', pay(1)), finish()],
      answer,
    ]);
  const once: AskOptions = { permissions: { allowOnce: [any] } };

  test('stays used up in the next turn', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay' });
    const kernel = await boot({ model: twice(['call_1', 'call_2']), tools: [tool] });
    const run = await ask(kernel, once);
    const [approval] = await untilAsked(kernel, run.id);
    expect(approval?.toolCallId).toBe('call_2');
    expect(tool.executions).toHaveLength(1);
  });

  test('stays used up after a crash while its call ran', async () => {
    const { boot, bootWithoutCleanup, store } = await openFixture();
    const tool = createRecordingTool({ name: 'pay', idempotent: true });
    tool.hold();
    const doomed = mortal(store);
    const model = twice(['call_1', 'call_2']);
    const first = await bootWithoutCleanup({ store: doomed.store, model, tools: [tool] });
    const run = await ask(first, once);
    await expect.poll(() => tool.executions.length).toBe(1);
    doomed.kill();
    tool.release();
    const kernel = await boot({ model, tools: [tool], restarted: true });
    const [approval] = await untilAsked(kernel, run.id);
    expect(approval?.toolCallId).toBe('call_2');
    const calls = tool.executions.map(({ toolCallId }) => toolCallId);
    expect(calls).toEqual(['call_1', 'call_1']);
  });
});
