/** Calls that demand a person, in runs: `permissions.ask`, and tools with `needsApproval`. */
import { postToolResult } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import { agentTool } from '@relay/tools';
import { describe, expect, test } from 'vitest';
import { ask, type Kernel, openApprovals, openClientCalls, until } from '../support/kernel.ts';
import { decide, finished, journal, ofType, openFixture } from './fixture.ts';
import { createScriptedAgents, delegate, says } from './scripted-agents.ts';

const pay = (n: number) => toolCall(`call_${n}`, 'pay', { amount: 1 });
const rule = { list: 'ask', index: 0, source: 'request' } as const;
const permissions = { allowlist: [{ tool: 'pay' }], ask: [{ tool: 'pay' }] };

/** The open approval of a call, once the run has asked for it. */
function asked(kernel: Kernel, runId: string, toolCallId: string) {
  return until(
    async () =>
      openApprovals(await journal(kernel, runId)).find((each) => each.toolCallId === toolCallId),
    `the approval of ${toolCallId}`,
  );
}

describe('an ask rule', () => {
  test('asks for each call although “always” made a grant for it', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([
      [pay(1), finish()],
      [pay(2), finish()],
      [text('Done.'), finish()],
    ]);
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel, { permissions });
    const first = await asked(kernel, run.id, 'call_1');
    expect(first).toMatchObject({ rule });
    expect(tool.executions).toEqual([]);
    await decide(kernel, first.approvalId, { always: true });
    const second = await asked(kernel, run.id, 'call_2');
    expect(second).toMatchObject({ rule });
    expect(tool.executions).toHaveLength(1);
    await decide(kernel, second.approvalId);
    await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(2);
  });

  test('holds for sub-agents', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay', allowedByDefault: true });
    const model = createScriptedAgents({
      Begin: [[delegate('call_1', 'x'), finish()], says('Done.')],
      x: [[toolCall('sub_1', 'pay', { amount: 1 }), finish()], says('Paid.')],
    });
    const kernel = await boot({ model, tools: [tool, agentTool] });
    const run = await ask(kernel, { permissions });
    const request = await asked(kernel, run.id, 'sub_1');
    expect(request).toMatchObject({ rule });
    expect(tool.executions).toEqual([]);
    await decide(kernel, request.approvalId);
    await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(1);
  });

  test('asks before a function tool starts, so that no client can run it', async () => {
    const { boot } = await openFixture();
    const model = createScriptedModel([
      [toolCall('call_1', 'delete_user', { id: 'u_1' }), finish()],
      [text('Done.'), finish()],
    ]);
    const kernel = await boot({ model });
    const functions = [{ name: 'delete_user', inputSchema: { type: 'object' } }];
    const run = await ask(kernel, {
      tools: ['delete_user'],
      functions,
      permissions: { ask: [{ tool: 'delete_user', params: { id: 'u_*' } }] },
    });
    const { approvalId } = await asked(kernel, run.id, 'call_1');
    expect(openClientCalls(await journal(kernel, run.id))).toEqual([]);
    await decide(kernel, approvalId);
    await until(
      async () => openClientCalls(await journal(kernel, run.id)).length === 1,
      'the call',
    );
    const ref = { tenantId: kernel.tenantId, runId: run.id, toolCallId: 'call_1' };
    await postToolResult(kernel.control, ref, { output: 'gone', failed: false });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.started')).toMatchObject([{ via: 'client', approvalId }]);
  });

  test('is a denial in a headless run, of a function tool with needsApproval too', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([
      [pay(1), toolCall('call_2', 'delete_user', {}), finish()],
      [text('Done.'), finish()],
    ]);
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel, {
      tools: ['pay', 'delete_user'],
      functions: [{ name: 'delete_user', inputSchema: { type: 'object' }, needsApproval: true }],
      permissions: { ...permissions, headless: true },
    });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.denied').map(({ toolCallId }) => toolCallId)).toEqual([
      'call_1',
      'call_2',
    ]);
    expect(ofType(events, 'tool.started')).toEqual([]);
  });
});

describe('a tool with needsApproval', () => {
  test('asks for each call, also where the allowlist, a grant or a policy allows it', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay', needsApproval: true });
    const model = createScriptedModel([
      [pay(1), finish()],
      [pay(2), finish()],
      [text('Done.'), finish()],
    ]);
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel, { permissions: { allowlist: [{ tool: 'pay' }] } });
    for (const n of [1, 2]) {
      const request = await asked(kernel, run.id, `call_${n}`);
      expect(request).toMatchObject({ rule: { list: 'needsApproval' } });
      expect(tool.executions).toHaveLength(n - 1);
      await decide(kernel, request.approvalId, { always: true });
    }
    await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(2);
  });
});
