/** Due work of one tenant does not delay that of another, and a pause delays only its own tenant. */
import type { ApprovalRecord } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { ask, until, untilStatus } from '../support/kernel.ts';
import { decide, openFixture, untilAsked } from './fixture.ts';

test('a restart resumes decided runs although a paused tenant has more of them than a scan returns', async () => {
  const { store, boot } = await openFixture();
  const tool = createRecordingTool({ name: 'pay' });
  const model = createScriptedModel([
    [toolCall('call_1', 'pay', {}), finish()],
    [text('Done.'), finish()],
  ]);
  const before = await boot({ model, tools: [tool] });
  const paused = await store.ensureTenant({ id: uuidv7(), name: 'paused', at: Date.now() });
  const held: string[] = [];
  for (let n = 0; n < 1_010; n += 1) {
    const { id } = await ask({ ...before, tenantId: paused.id });
    held.push(id);
  }
  const own = await ask(before);
  const [approval] = await untilAsked(before, own.id);
  await until(async () => {
    const { waiting } = await store.tenant(paused.id).countOpenRuns({});
    return waiting === held.length;
  }, 'the approvals of all runs');
  await before.stop();

  await store.tenant(paused.id).updateTenant({ pausedAt: Date.now() });
  const approvals: ApprovalRecord[] = [];
  for (let n = 0; n < held.length; n += 200) {
    const last = approvals.at(-1);
    const page = {
      limit: 200,
      ...(last === undefined ? {} : { before: { at: last.requestedAt, id: last.id } }),
    };
    approvals.push(
      ...(await store.tenant(paused.id).listApprovals({ status: 'pending' }, page)).items,
    );
  }
  expect(approvals).toHaveLength(held.length);
  for (const { id } of approvals) await decide({ ...before, tenantId: paused.id }, id);
  await decide(before, approval?.approvalId);

  const after = await boot({ model, tools: [tool], restarted: true });
  await untilStatus(after, own.id, 'completed');
  expect(tool.executions).toHaveLength(1);
  await store.tenant(paused.id).updateTenant({ pausedAt: null });
  await until(async () => {
    const { waiting, running, queued } = await store.tenant(paused.id).countOpenRuns({});
    return waiting + running + queued === 0;
  }, 'the runs of the tenant that was paused');
  expect(tool.executions).toHaveLength(1_011);
}, 60_000);
