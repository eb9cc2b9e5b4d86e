import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { ending, identityIn, newRun, noon, started, useStore } from '../fixtures.ts';
import type { Open, TestRun } from '../fixtures.ts';
import { newGrant } from '../tenants/grants.ts';

const all = { after: 0, upTo: 1_000 };

export function conversationTests(open: Open): void {
  const { tenant: newTenant } = useStore(open);

  test('a new conversation has no ended runs', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    for (const id of [run.conversationId, uuidv7()]) {
      expect(await tenant.countEndedRuns(id)).toBe(0);
      expect(await tenant.endedRuns(id, all)).toEqual([]);
    }
  });

  test('a conversation belongs to the owner of its first run', async () => {
    const tenant = newTenant();
    const { conversationId } = await newRun(tenant);
    const start = (owner: string, conversation?: 'any', of = tenant) =>
      of.createRun({
        identity: identityIn(of, { conversationId, owner }),
        lease: null,
        events: [started],
        conversation,
      });
    expect(await start('eve')).toEqual({ kind: 'not-owner' });
    expect(await start('ada')).toEqual({ kind: 'created' });
    expect(await start('eve', 'any')).toEqual({ kind: 'created' });
    // That has not changed the owner.
    expect(await start('eve')).toEqual({ kind: 'not-owner' });
    expect(await start('eve', undefined, newTenant())).toEqual({ kind: 'created' });
    const runs = (await tenant.listRuns({ conversationId }, { limit: 9 })).items;
    expect(runs.map(({ owner }) => owner).toSorted()).toEqual(['ada', 'ada', 'eve']);
  });

  test('of two owners that start one new conversation at once, one gets it', async () => {
    const tenant = newTenant();
    for (let round = 0; round < 5; round += 1) {
      const conversationId = uuidv7();
      const outcomes = await Promise.all(
        ['ada', 'eve', 'ada', 'eve'].map(async (owner) => {
          const identity = identityIn(tenant, { conversationId, owner });
          const { kind } = await tenant.createRun({ identity, lease: null, events: [started] });
          return { owner, kind };
        }),
      );
      const created = outcomes.filter(({ kind }) => kind === 'created');
      expect(created).toHaveLength(2);
      expect(new Set(created.map(({ owner }) => owner)).size).toBe(1);
    }
  });

  test('the grants of a conversation hold for runs of its owner only', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const { id: runId, conversationId } = run;
    await tenant.addGrant(newGrant(tenant, { scope: 'conversation', scopeId: conversationId }));
    await tenant.addGrant(newGrant(tenant, { scope: 'run', scopeId: runId }));
    const held = (owner: string) => tenant.readGrants({ runId, conversationId, owner, now: noon });
    expect(await held('ada')).toHaveLength(2);
    expect(await held('eve')).toHaveLength(1);
  });

  test('runs take their positions as they end, not as they begin', async () => {
    const tenant = newTenant();
    const conversationId = uuidv7();
    const runs: TestRun[] = [];
    for (let i = 0; i < 4; i += 1)
      runs.push(await newRun(tenant, { identity: { conversationId } }));
    const order = [runs[2], runs[0], runs[3]].filter((run) => run !== undefined);
    const statuses = ['completed', 'failed', 'canceled'] as const;
    for (const [i, run] of order.entries()) {
      await tenant.append(ending(run, { progress: { status: statuses[i] ?? 'failed' } }));
    }
    expect(await tenant.countEndedRuns(conversationId)).toBe(3);
    expect(await tenant.endedRuns(conversationId, all)).toMatchObject(
      order.map(({ id }, i) => ({ runId: id, position: i + 1 })),
    );
  });

  test('runs that end at the same moment get different positions without a gap', async () => {
    const tenant = newTenant();
    const conversationId = uuidv7();
    const runs = await Promise.all(
      Array.from({ length: 30 }, () => newRun(tenant, { identity: { conversationId } })),
    );
    await Promise.all(runs.map((run) => tenant.append(ending(run))));
    const ended = await tenant.endedRuns(conversationId, all);
    expect(ended.map(({ position }) => position)).toEqual(
      Array.from({ length: 30 }, (_, i) => i + 1),
    );
    expect(new Set(ended.map(({ runId }) => runId))).toEqual(new Set(runs.map(({ id }) => id)));
    expect(await tenant.countEndedRuns(conversationId)).toBe(30);
  });

  test('any range of positions is exactly that part', async () => {
    const tenant = newTenant();
    const conversationId = uuidv7();
    for (let i = 0; i < 5; i += 1) {
      await tenant.append(ending(await newRun(tenant, { identity: { conversationId } })));
    }
    const ended = await tenant.endedRuns(conversationId, all);
    for (let after = 0; after <= 6; after += 1) {
      for (let upTo = 0; upTo <= 6; upTo += 1) {
        const part = await tenant.endedRuns(conversationId, { after, upTo });
        expect(part).toEqual(ended.slice(after, Math.max(after, upTo)));
      }
    }
  });

  test('a fenced end does not count', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    expect(await tenant.append(ending(run, { epoch: 9 }))).toBe('fenced');
    await tenant.append(ending(run));
    expect(await tenant.append(ending(run, { afterSeq: 2 }))).toBe('fenced');
    expect(await tenant.countEndedRuns(run.conversationId)).toBe(1);
  });

  test('a run that is over from the beginning has its position too', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant, { progress: { status: 'failed' } });
    expect(await tenant.endedRuns(run.conversationId, all)).toMatchObject([
      { runId: run.id, position: 1 },
    ]);
    expect(await tenant.append(ending(run))).toBe('fenced');
  });
}
