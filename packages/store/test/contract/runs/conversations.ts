import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { ending, newRun, useStore } from '../fixtures.ts';
import type { Open, TestRun } from '../fixtures.ts';

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
