/**
 * A decision resumes its run: where the deciding node can take the run, the decision, the lease and what
 * follows from the decision are one commit. Otherwise the decision waits in the inbox. Either way it
 * counts once, and nothing starts before it is stored (E2, E7).
 */
import type { Append, SystemStore } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  ManualClock,
  text,
  toolCall,
} from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import { ask, person, until } from '../support/kernel.ts';
import { decide, endOf, finished, ofType, openFixture, untilAsked } from './fixture.ts';
import { type StoreCall, wrapStore } from './stores.ts';

const answer = [text('Done.'), finish()];

/** A suspended run, and a kernel on a store that can be observed from here on. */
async function askedToPay(turns = [[toolCall('call_1', 'pay', { amount: 1 }), finish()], answer]) {
  const { store, boot } = await openFixture();
  let intercept: (call: StoreCall) => Promise<unknown> = (call) => call.go();
  const watched = wrapStore(store, (call) => intercept(call));
  const tool = createRecordingTool({ name: 'pay' });
  const model = createScriptedModel(turns);
  const clock = new ManualClock();
  const made = { model, tools: [tool], clock };
  const kernel = await boot({ ...made, store: watched });
  const run = await ask(kernel);
  const [approval] = await untilAsked(kernel, run.id);
  await until(async () => kernel.control.supervisor.activeRuns === 0, 'the suspension');
  return {
    kernel,
    store,
    run,
    tool,
    model,
    approvalId: approval?.approvalId ?? '',
    ref: { tenantId: kernel.tenantId, runId: run.id },
    bootAnother: () => boot(made),
    intercept: (by: typeof intercept) => (intercept = by),
  };
}

const writing = new Set<string>(['append', 'decideApproval', 'claimRun', 'releaseRun']);

/** Records the writes that concern runs. */
function recordWrites(writes: string[]) {
  return (call: StoreCall) => {
    if (writing.has(call.method)) {
      const append = call.method === 'append' ? (call.args[0] as Append) : undefined;
      writes.push([call.method, ...(append?.events.map(({ type }) => type) ?? [])].join(' '));
    }
    return call.go();
  };
}

describe('a decision on a run that this node can take', () => {
  test('is stored with the lease and the intent, in one commit before the tool starts', async () => {
    const { kernel, run, tool, approvalId, intercept } = await askedToPay();
    const writes: string[] = [];
    tool.hold();
    intercept(recordWrites(writes));
    expect(await decide(kernel, approvalId)).toMatchObject({ kind: 'decided' });
    await until(async () => tool.executions.length === 1, 'the tool');
    expect(writes).toEqual(['append run.resumed approval.decided tool.started']);
    tool.release();
    expect(endOf(await finished(kernel, run.id)).status).toBe('completed');
    expect(writes.filter((write) => !write.startsWith('append'))).toEqual([]);
  });

  test('that denies is acknowledged when it is stored, before the model answers', async () => {
    const held = Promise.withResolvers<void>();
    const { kernel, run, tool, approvalId, model } = await askedToPay([
      [toolCall('call_1', 'pay', { amount: 1 }), finish()],
      async () => {
        await held.promise;
        return answer;
      },
    ] as never);
    expect(await decide(kernel, approvalId, { approved: false })).toMatchObject({
      kind: 'decided',
    });
    await until(async () => model.requests.length === 2, 'the model to be called');
    held.resolve();
    await finished(kernel, run.id);
    expect(tool.executions).toEqual([]);
  });

  test('calls no model before it is stored', async () => {
    const { kernel, run, approvalId, model, intercept } = await askedToPay();
    const held = Promise.withResolvers<void>();
    let isHeld = false;
    intercept(async (call) => {
      if (call.method === 'append' && !isHeld) {
        isHeld = true;
        await held.promise;
      }
      return call.go();
    });
    const deciding = decide(kernel, approvalId, { approved: false });
    await until(async () => isHeld, 'the commit');
    expect(model.requests).toHaveLength(1);
    held.resolve();
    expect(await deciding).toMatchObject({ kind: 'decided' });
    await finished(kernel, run.id);
    expect(model.requests).toHaveLength(2);
  });

  test('that is posted several times at once counts once', async () => {
    const { kernel, run, tool, approvalId } = await askedToPay();
    const outcomes = await Promise.all(
      Array.from({ length: 8 }, async () => (await decide(kernel, approvalId)).kind),
    );
    expect(outcomes.toSorted()).toEqual(['decided', ...Array<string>(7).fill('duplicate')]);
    const events = await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(1);
    expect(ofType(events, 'approval.decided')).toHaveLength(1);
  });

  test('counts once among two nodes that decide at the same time', async () => {
    const { kernel, run, tool, approvalId, bootAnother } = await askedToPay();
    const other = await bootAnother();
    const outcomes = await Promise.all([
      decide(kernel, approvalId),
      decide(other, approvalId, { approved: false }),
    ]);
    expect(outcomes.map(({ kind }) => kind).toSorted()).toEqual(['conflict', 'decided']);
    const events = await finished(kernel, run.id);
    const approved = outcomes[0].kind === 'decided';
    expect(tool.executions).toHaveLength(approved ? 1 : 0);
    expect(ofType(events, 'approval.decided')).toMatchObject([{ approved }]);
  });
});

describe('a decision whose run cannot be taken', () => {
  type Prepared = Awaited<ReturnType<typeof askedToPay>>;

  /** What comes between the load of the run and its first commit. */
  async function decideWhile(
    { kernel, approvalId, intercept }: Prepared,
    happens: () => Promise<unknown>,
  ) {
    const writes: string[] = [];
    const record = recordWrites(writes);
    let isFirst = true;
    intercept(async (call) => {
      if (call.method === 'append' && isFirst) {
        isFirst = false;
        await happens();
      }
      return record(call);
    });
    return { outcome: await decide(kernel, approvalId), writes };
  }

  const holdLease = (store: SystemStore, runId: string, until: number) =>
    store.claimRun(runId, { owner: 'another node', now: 0, until });

  test('waits in the inbox for the node that has claimed the run', async () => {
    const prepared = await askedToPay();
    const { store, run, tool, ref } = prepared;
    const tenant = store.tenant(ref.tenantId);
    const { outcome, writes } = await decideWhile(prepared, () =>
      holdLease(store, run.id, Number.MAX_SAFE_INTEGER),
    );
    expect(outcome).toMatchObject({ kind: 'decided' });
    expect(writes.slice(0, 2)).toEqual([
      'append run.resumed approval.decided tool.started',
      'decideApproval',
    ]);
    expect(await tenant.readInbox(run.id)).toMatchObject([{ command: { kind: 'decision' } }]);
    expect(await tenant.readApproval(prepared.approvalId)).toMatchObject({ status: 'approved' });
    expect(tool.executions).toEqual([]);
  });

  test('does not overtake a cancellation that was accepted before', async () => {
    const prepared = await askedToPay();
    const { kernel, store, run, tool, ref } = prepared;
    const command = { kind: 'cancel', reason: 'Enough', by: person } as const;
    const queued = { id: 'cancel-1', command };
    const { outcome } = await decideWhile(prepared, () =>
      store.tenant(ref.tenantId).postRunCommand(run.id, queued),
    );
    expect(outcome).toMatchObject({ kind: 'decided' });
    expect(endOf(await finished(kernel, run.id)).status).toBe('canceled');
    expect(tool.executions).toEqual([]);
  });

  test('is stored while its tenant is paused, and applied afterwards', async () => {
    const { kernel, run, tool, approvalId, ref, intercept } = await askedToPay();
    const { supervisor } = kernel.control;
    const writes: string[] = [];
    intercept(recordWrites(writes));
    supervisor.setPaused(ref.tenantId, true);
    expect(await decide(kernel, approvalId)).toMatchObject({ kind: 'decided' });
    expect(writes).toEqual(['decideApproval']);
    supervisor.setPaused(ref.tenantId, false);
    supervisor.wake(ref);
    await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(1);
  });

  test('is stored while no slot is free', async () => {
    const { kernel, run, tool, approvalId, intercept } = await askedToPay();
    const { supervisor } = kernel.control;
    const writes: string[] = [];
    let reserved = 0;
    while (supervisor.reserve()) reserved += 1;
    intercept(recordWrites(writes));
    expect(await decide(kernel, approvalId)).toMatchObject({ kind: 'decided' });
    expect(writes).toEqual(['decideApproval']);
    while (reserved-- > 0) supervisor.cancelReservation();
    await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(1);
  });

  test('is stored although the server stops while the run is loaded', async () => {
    const { kernel, store, run, tool, approvalId, ref, intercept } = await askedToPay();
    let stopping: Promise<void> | undefined;
    intercept((call) => {
      if (call.method === 'readEvents') stopping ??= kernel.stop();
      return call.go();
    });
    expect(await decide(kernel, approvalId)).toMatchObject({ kind: 'decided' });
    await stopping;
    expect(stopping).toBeDefined();
    expect(tool.executions).toEqual([]);
    expect(await store.tenant(ref.tenantId).readInbox(run.id)).toHaveLength(1);
  });

  test('is stored by the second attempt if the store fails the first', async () => {
    const prepared = await askedToPay();
    const { kernel, run, tool } = prepared;
    const { outcome, writes } = await decideWhile(prepared, async () => {
      throw new Error('The disk is gone for a moment');
    });
    expect(outcome).toMatchObject({ kind: 'decided' });
    expect(writes.slice(0, 2)).toEqual(['decideApproval', 'claimRun']);
    await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(1);
  });
});
