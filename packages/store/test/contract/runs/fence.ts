import type { Append, SystemStore } from '@relay/core';
import { expect, test } from 'vitest';
import {
  cancelCommand,
  clock,
  delta,
  ending,
  newApproval,
  newRun,
  noon,
  started,
  step,
  useStore,
} from '../fixtures.ts';
import type { Open, TestRun } from '../fixtures.ts';
import { uuidv7 } from 'uuidv7';

export function fenceTests(open: Open): void {
  const { system, tenant: newTenant } = useStore(open);

  const stale: Record<string, (run: TestRun, store: SystemStore) => Promise<Partial<Append>>> = {
    'an older epoch': async () => ({ epoch: 0 }),
    'an epoch that was never given': async () => ({ epoch: 2 }),
    'a seq that is behind the journal': async () => ({ afterSeq: 0 }),
    'a seq beyond the journal': async () => ({ afterSeq: 2 }),
    'a run that was never made': async () => ({ runId: uuidv7() }),
    'a lease that was given back': async (run, store) => {
      await store.releaseRun(run.id, 1);
      return {};
    },
    'a lease that was given back in a step': async (run) => {
      await run.tenant.append(step(run, { events: [], release: true }));
      return {};
    },
    'a lease that was given back and taken by another': async (run, store) => {
      await store.releaseRun(run.id, 1);
      await store.claimRun(run.id, { owner: 'node-2', now: noon, until: noon + 15_000 });
      return {};
    },
    'a lease that ran out and was taken by another': async (run, store) => {
      const now = noon + 15_000;
      await store.claimRun(run.id, { owner: 'node-2', now, until: now + 15_000 });
      return {};
    },
    'a lease that was reclaimed': async (run, store) => {
      await store.releaseAllLeases();
      expect(await run.tenant.readRun(run.id)).toMatchObject({ epoch: 1 });
      return {};
    },
    'a run that is over': async (run) => {
      await run.tenant.append(ending(run, { events: [] }));
      return {};
    },
  };

  for (const [name, make] of Object.entries(stale)) {
    test(`${name} is fenced out, and nothing at all is stored`, async () => {
      const tenant = newTenant();
      const run = await newRun(tenant);
      const open = newApproval(run);
      const queued = cancelCommand('stop');
      await tenant.append(step(run, { events: [], approvals: [open] }));
      const isOver = name === 'a run that is over';
      if (!isOver) await tenant.postRunCommand(run.id, queued);
      const over = await make(run, system());
      const before = await snapshotOf(run, open.id);
      const requested = newApproval(run);

      const outcome = await tenant.append(
        step(run, {
          events: [delta('x'), started],
          progress: { status: 'failed', checkpoint: 'c', snapshot: 's', snapshotSeq: 3 },
          approvals: [requested],
          closeApprovals: [
            { approvalId: open.id, status: 'closed', at: noon, by: clock, reason: 'r' },
          ],
          consumeCommands: [queued.id],
          release: true,
          ...over,
        }),
      );

      expect(outcome).toBe('fenced');
      expect(await snapshotOf(run, open.id)).toEqual(before);
      expect(await tenant.readApproval(requested.id)).toBeUndefined();
      expect(await tenant.countEndedRuns(run.conversationId)).toBe(isOver ? 1 : 0);
    });
  }

  async function snapshotOf(run: TestRun, approvalId: string) {
    return {
      run: await run.tenant.readRun(run.id),
      events: await run.tenant.readEvents(run.id, { after: 0, limit: 100 }),
      approval: await run.tenant.readApproval(approvalId),
      queued: await run.tenant.readInbox(run.id),
    };
  }

  test('the holder of an expired lease can write until another node claims the run', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant, { lease: { owner: 'node-1', until: noon } });
    expect(await tenant.append(step(run, { at: noon + 60_000 }))).toBe('committed');
  });

  test('of 50 steps that follow the same seq one is stored', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const outcomes = await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        tenant.append(step(run, { events: [delta(`writer ${i}`)], approvals: [newApproval(run)] })),
      ),
    );
    expect(outcomes.filter((outcome) => outcome === 'committed')).toHaveLength(1);
    const winner = outcomes.indexOf('committed');
    const events = await tenant.readEvents(run.id, { after: 1, limit: 100 });
    expect(events).toMatchObject([{ text: `writer ${winner}`, seq: 2 }]);
  });

  test('the next holder goes on under its own epoch', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    await system().releaseRun(run.id, 1);
    const claim = { owner: 'node-2', now: noon, until: noon + 15_000 };
    expect(await system().claimRun(run.id, claim)).toMatchObject({ epoch: 2 });
    expect(await tenant.append(step(run, { epoch: 2 }))).toBe('committed');
    expect(await tenant.append(step(run, { epoch: 1, afterSeq: 2 }))).toBe('fenced');
    expect(await tenant.append(step(run, { epoch: 2, afterSeq: 2 }))).toBe('committed');
  });

  test('a step that cannot be stored leaves nothing behind, and the run goes on', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const approval = newApproval(run);
    await tenant.append(step(run, { events: [], approvals: [approval] }));
    const taken = tenant.append(step(run, { approvals: [newApproval(run), approval] }));
    await expect(taken).rejects.toMatchObject({ code: 'storage_failed' });
    expect(await tenant.readRun(run.id)).toMatchObject({ lastSeq: 1 });
    expect(await tenant.append(step(run))).toBe('committed');
  });
}
