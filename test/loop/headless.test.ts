/** A run that nobody watches: whatever a person would be asked about is denied, and it goes on. */
import type { ToolContext } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import type { Permissions } from '@relay/protocol';
import { describe, expect, test } from 'vitest';
import { ask, until } from '../support/kernel.ts';
import { finished, ofType, openFixture } from './fixture.ts';
import { mortal } from './stores.ts';

type Execute = (context: ToolContext) => Promise<unknown>;

async function fixture(wish: { execute?: Execute; allowed?: boolean } = {}) {
  const opened = await openFixture();
  const { execute = async () => 'paid', allowed = false } = wish;
  const tool = createRecordingTool({
    name: 'pay',
    allowedByDefault: allowed,
    execute: async (_input, context) => ({ result: await execute(context) }),
  });
  const model = createScriptedModel([
    [toolCall('call_1', 'pay', { amount: 1 }), toolCall('call_2', 'pay', { amount: 2 }), finish()],
    [text('Done.'), finish()],
  ]);
  return { ...opened, tool, model };
}

const headless: Permissions = { headless: true };

describe('a headless run', () => {
  test('requests no approval: what no rule allows is denied, and the model reads why', async () => {
    const { boot, tool, model } = await fixture();
    const kernel = await boot({ model, tools: [tool] });
    const permissions = { ...headless, allowlist: [{ tool: 'pay', params: { amount: '2' } }] };
    const events = await finished(kernel, (await ask(kernel, { permissions })).id);
    expect(ofType(events, 'approval.requested')).toEqual([]);
    expect(ofType(events, 'tool.denied')).toMatchObject([
      {
        toolCallId: 'call_1',
        rule: { list: 'headless', source: 'request' },
        reason: 'The run is headless: it has no approver',
      },
    ]);
    expect(tool.executions.map(({ input }) => input)).toEqual([{ amount: 2 }]);
    expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain('The run is headless');
  });

  test('declines what a tool asks a person', async () => {
    const question = { prompt: 'Sure?', schema: { type: 'boolean' } };
    const { boot, tool, model } = await fixture({
      allowed: true,
      execute: (context) => context.ask(question),
    });
    const kernel = await boot({ model, tools: [tool] });
    const events = await finished(kernel, (await ask(kernel, { permissions: headless })).id);
    expect(ofType(events, 'approval.requested')).toEqual([]);
    expect(ofType(events, 'tool.failed')).toMatchObject([
      { error: 'The run is headless: it has no approver' },
      { error: 'The run is headless: it has no approver' },
    ]);
  });

  test('takes an outcome that a crash left unknown for a failure', async () => {
    const { store, boot, bootWithoutCleanup, tool, model } = await fixture({
      allowed: true,
      execute: () => new Promise<never>(() => undefined),
    });
    const dying = mortal(store);
    const first = await bootWithoutCleanup({ store: dying.store, model, tools: [tool] });
    const run = await ask(first, { permissions: headless });
    await until(async () => tool.executions.length === 2, 'both to start');
    dying.kill();
    const second = await boot({ model, tools: [tool], restarted: true });
    const events = await finished(second, run.id);
    expect(ofType(events, 'approval.requested')).toEqual([]);
    expect(ofType(events, 'tool.failed')).toMatchObject([
      { code: 'outcome_unknown' },
      { code: 'outcome_unknown' },
    ]);
    expect(tool.executions).toHaveLength(2);
  });
});
