/** What a tool learns of the decision on its call, and tools that demand a person for single calls. */
import type { PathResolution, Tool, ToolContext } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import { ask, until } from '../support/kernel.ts';
import { decide, finished, ofType, openFixture, untilAsked, untilStored } from './fixture.ts';
import { mortal } from './stores.ts';

const answer = [text('Done.'), finish()];
const pay = (n: number) => toolCall(`call_${n}`, 'pay', { amount: n });
const allowed = { allowlist: [{ tool: 'pay' }] };

/** A tool that records who allowed its calls. */
function recorder(more: { idempotent?: boolean } = {}) {
  const seen: ToolContext['allowedBy'][] = [];
  const tool = createRecordingTool({
    name: 'pay',
    ...more,
    execute: (_input, { allowedBy }) => {
      seen.push(allowedBy);
      return {};
    },
  });
  return { tool, seen };
}

describe('a tool learns', () => {
  test('whether a rule or a grant allowed its call, or a person approved it', async () => {
    const { boot } = await openFixture();
    const { tool, seen } = recorder();
    const calls = [toolCall('call_3', 'pay', { amount: 2 }), finish()];
    const model = createScriptedModel([[pay(1), finish()], [pay(2), finish()], calls, answer]);
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel, { permissions: { allowOnce: [{ tool: 'pay' }] } });
    const [request] = await untilAsked(kernel, run.id);
    expect(request).toMatchObject({ toolCallId: 'call_2' });
    await decide(kernel, request?.approvalId, { always: true });
    await finished(kernel, run.id);
    expect(seen).toEqual(['rule', 'person', 'rule']);
  });

  test.each([
    ['rule', allowed],
    ['person', {}],
  ] as const)('after a crash that a %s allowed the first attempt', async (by, permissions) => {
    const { boot, bootWithoutCleanup, store } = await openFixture();
    const { tool, seen } = recorder({ idempotent: true });
    tool.hold();
    const doomed = mortal(store);
    const model = createScriptedModel([[pay(1), finish()], answer]);
    const first = await bootWithoutCleanup({ store: doomed.store, model, tools: [tool] });
    const run = await ask(first, { permissions });
    if (by === 'person') {
      const [request] = await untilAsked(first, run.id);
      await decide(first, request?.approvalId);
    }
    await untilStored(first, run.id, { type: 'tool.started' });
    await until(async () => tool.executions.length === 1, 'the first attempt');
    doomed.kill();
    const again = recorder({ idempotent: true });
    const kernel = await boot({ model, tools: [again.tool], restarted: true });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.started')).toHaveLength(2);
    expect(again.seen).toEqual([by]);
    expect(seen).toEqual([]);
  });

  test('that a rule allowed its call, although a person had it run again after a crash', async () => {
    const { boot, bootWithoutCleanup, store } = await openFixture();
    const { tool } = recorder();
    tool.hold();
    const doomed = mortal(store);
    const model = createScriptedModel([[pay(1), finish()], answer]);
    const first = await bootWithoutCleanup({ store: doomed.store, model, tools: [tool] });
    const run = await ask(first, { permissions: allowed });
    await until(async () => tool.executions.length === 1, 'the first attempt');
    doomed.kill();
    const again = recorder();
    const kernel = await boot({ model, tools: [again.tool], restarted: true });
    const [request] = await untilAsked(kernel, run.id);
    expect(request).toMatchObject({ kind: 'outcome' });
    await decide(kernel, request?.approvalId, { outcome: 'rerun' });
    await finished(kernel, run.id);
    expect(again.seen).toEqual(['rule']);
  });
});

describe('a tool that demands a person for some of its calls', () => {
  const guarded = (): Tool & { executions: readonly unknown[] } => ({
    ...createRecordingTool({ name: 'pay' }),
    resolvePaths: (input): Promise<PathResolution> =>
      Promise.resolve(
        input['amount'] === 1 ? { ok: true, needsApproval: 'one is special' } : { ok: true },
      ),
  });

  test('is asked about, whatever allows these calls', async () => {
    const { boot } = await openFixture();
    const tool = guarded();
    const model = createScriptedModel([
      [pay(1), pay(2), finish()],
      [toolCall('call_3', 'pay', { amount: 1 }), finish()],
      answer,
    ]);
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel, { permissions: { ...allowed, allowOnce: allowed.allowlist } });
    const [request] = await untilAsked(kernel, run.id);
    expect(request).toMatchObject({ toolCallId: 'call_1', rule: { list: 'needsApproval' } });
    expect(tool.executions).toHaveLength(1);
    await decide(kernel, request?.approvalId, { always: true });
    await until(async () => tool.executions.length === 2, 'the approved call');
    const [again] = await untilAsked(kernel, run.id);
    await decide(kernel, again?.approvalId);
    await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(3);
  });

  test('denies them in a headless run', async () => {
    const { boot } = await openFixture();
    const tool = guarded();
    const model = createScriptedModel([[pay(1), pay(2), finish()], answer]);
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel, { permissions: { ...allowed, headless: true } });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.denied')).toMatchObject([{ toolCallId: 'call_1' }]);
    expect(tool.executions).toHaveLength(1);
  });
});
