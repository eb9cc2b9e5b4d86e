import { expect, test } from 'vitest';
import type { EventOf } from '@relay/protocol';
import type { TenantStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import {
  delta,
  ending,
  messageCommand,
  newApproval,
  newRun,
  noon,
  step,
  type TestRun,
  useStore,
} from '../fixtures.ts';
import type { Open } from '../fixtures.ts';
import { created } from './run-lists.ts';

const gone = { code: 'journal_pruned' };

export function retentionTests(open: Open): void {
  const { system, tenant: newTenant } = useStore(open);

  /** A run that ended at `at`, with an approval, an output and a message that it did not take. */
  async function endedRun(tenant: TenantStore, at: number, conversationId = uuidv7()) {
    const run = await newRun(tenant, { identity: { conversationId } });
    const approval = newApproval(run);
    await tenant.append(step(run, { approvals: [approval] }));
    await tenant.postRunCommand(run.id, messageCommand('left'));
    const usage = { inputTokens: 3, outputTokens: 2 };
    const progress = {
      status: 'completed',
      endedAt: at,
      usage,
      outputJson: '{"output":"x"}',
    } as const;
    await tenant.append(
      ending(run, { afterSeq: 2, at, progress: { ...progress, checkpoint: 'c' } }),
    );
    return { ...run, approvalId: approval.id };
  }

  const events = (run: TestRun) => run.tenant.readEvents(run.id, { after: 0, limit: 10 });

  async function pruneAll(before: number, limit = 100): Promise<number> {
    for (let calls = 0; calls < 200; calls += 1) {
      if ((await system().pruneRuns(before, limit)) === 0) return calls;
    }
    throw new Error('There is always something left');
  }

  test('the title of a conversation goes with what was said', async () => {
    const tenant = newTenant();
    const { conversationId } = await endedRun(tenant, noon);
    const later = await newRun(tenant, {
      identity: { conversationId },
      events: [created('a secret plan')],
    });
    await tenant.append(ending(later));
    expect(await tenant.readConversation(conversationId)).toMatchObject({ title: 'a secret plan' });
    await pruneAll(noon);
    const pruned = { title: null, runs: 2, lastRunId: later.id, status: 'completed' };
    expect(await tenant.readConversation(conversationId)).toMatchObject(pruned);
    const { items } = await tenant.listConversations({ query: 'plan' }, { limit: 9 });
    expect(items).toEqual([]);
  });

  test('what was said goes, and what the run was stays', async () => {
    const tenant = newTenant();
    const run = await endedRun(tenant, noon);
    expect(await tenant.readInbox(run.id)).toHaveLength(1);
    await pruneAll(noon);
    expect(await tenant.readInbox(run.id)).toEqual([]);
    await expect(events(run)).rejects.toMatchObject(gone);
    await expect(tenant.readEvents(run.id, { after: 3, limit: 1 })).rejects.toMatchObject(gone);
    expect(await tenant.readRun(run.id)).toMatchObject({
      status: 'completed',
      lastSeq: 3,
      usage: { inputTokens: 3, outputTokens: 2 },
      outputJson: null,
      checkpoint: null,
      snapshot: null,
    });
    expect(await tenant.readApproval(run.approvalId)).toBeUndefined();
    const [listed] = (await tenant.listRuns({}, { limit: 10 })).items;
    expect(listed).toMatchObject({ id: run.id, opening: null });
    expect((await tenant.readUsage({ since: 0 })).runs).toBe(1);
  });

  test('a run that ended a moment later is kept', async () => {
    const run = await endedRun(newTenant(), noon + 1);
    await pruneAll(noon);
    expect(await events(run)).toHaveLength(3);
  });

  test('a conversation is kept as long as something happens in it', async () => {
    const tenant = newTenant();
    const old = await endedRun(tenant, noon);
    const { conversationId } = old;
    const recent = await endedRun(tenant, noon + 1_000, conversationId);
    await pruneAll(noon);
    const waiting = await newRun(tenant, { identity: { conversationId } });
    await tenant.append(step(waiting, { progress: { status: 'waiting' }, release: true }));
    await pruneAll(noon + 1_000_000);
    expect(await events(old)).toHaveLength(3);
    expect(await events(recent)).toHaveLength(3);
    expect(await events(waiting)).toHaveLength(2);
  });

  test('a conversation goes in pieces too, and those that are kept do not delay others', async () => {
    const tenant = newTenant();
    const kept: TestRun[] = [];
    for (let n = 0; n < 3; n += 1) {
      const old = await endedRun(tenant, noon - 10);
      kept.push(old);
      await newRun(tenant, { identity: { conversationId: old.conversationId } });
    }
    const first = await endedRun(tenant, noon);
    const runs: TestRun[] = [first];
    for (let n = 1; n < 5; n += 1) runs.push(await endedRun(tenant, noon, first.conversationId));
    await pruneAll(noon, 2);
    for (const run of runs) await expect(events(run)).rejects.toMatchObject(gone);
    for (const run of kept) expect(await events(run)).toHaveLength(3);
    const next = await endedRun(tenant, noon + 1, first.conversationId);
    await pruneAll(noon + 1, 2);
    await expect(events(next)).rejects.toMatchObject(gone);
  });

  test('a run that goes on in a forgotten conversation begins anew', async () => {
    const tenant = newTenant();
    const { conversationId } = await endedRun(tenant, noon);
    await pruneAll(noon);
    const next = await endedRun(tenant, noon + 5_000, conversationId);
    const upTo = await tenant.countEndedRuns(conversationId);
    expect(upTo).toBe(2);
    const ended = await tenant.endedRuns(conversationId, { after: 0, upTo });
    expect(ended.map(({ runId }) => runId)).toEqual([next.id]);
  });

  test('what a run of another conversation was forked from is kept as long as that one', async () => {
    const tenant = newTenant();
    const first = await endedRun(tenant, noon);
    const source = await endedRun(tenant, noon, first.conversationId);
    const forkedFrom = { runId: source.id, seq: 1 };
    const spec = { type: 'run.created', forkedFrom } as unknown as EventOf<'run.created'>;
    const fork = await newRun(tenant, { events: [spec] });
    await pruneAll(noon + 9);
    expect(await events(first)).toHaveLength(3);
    const progress = { status: 'completed', endedAt: noon + 10 } as const;
    await tenant.append(ending(fork, { progress }));
    await pruneAll(noon + 9);
    for (const run of [first, source]) expect(await events(run)).toHaveLength(3);
    await pruneAll(noon + 10);
    for (const run of [first, source, fork]) await expect(events(run)).rejects.toMatchObject(gone);
  });

  test('the same conversation of another tenant is another one', async () => {
    const [mine, theirs] = [newTenant(), newTenant()];
    const run = await endedRun(mine, noon);
    const other = await newRun(theirs, { identity: { conversationId: run.conversationId } });
    await pruneAll(noon);
    await expect(events(run)).rejects.toMatchObject(gone);
    expect(await events(other)).toHaveLength(1);
  });

  test('it goes in pieces, the oldest first, and each is complete in itself', async () => {
    const tenant = newTenant();
    await pruneAll(noon + 9);
    const runs: TestRun[] = [];
    for (let n = 0; n < 5; n += 1) runs.push(await endedRun(tenant, noon + n));
    expect(await system().pruneRuns(noon + 9, 2)).toBeGreaterThan(0);
    const states = await Promise.all(
      runs.map((run) =>
        events(run).then(
          () => 'kept',
          () => 'gone',
        ),
      ),
    );
    expect(states).toEqual(['gone', 'gone', 'kept', 'kept', 'kept']);
    expect(await pruneAll(noon + 9, 2)).toBeGreaterThan(1);
    for (const run of runs) await expect(events(run)).rejects.toMatchObject(gone);
  });

  test('it does not come back, and a run that is new is not touched', async () => {
    const tenant = newTenant();
    await endedRun(tenant, noon);
    await pruneAll(noon + 1_000_000);
    const run = await newRun(tenant);
    expect(await system().pruneRuns(noon + 1_000_000, 100)).toBe(0);
    expect(await tenant.append(step(run, { events: [delta('a')] }))).toBe('committed');
  });
}
