import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { ending, newRun, noon, step, useStore } from '../fixtures.ts';
import type { Open } from '../fixtures.ts';

const ttl = 15_000;

export function leaseTests(open: Open): void {
  const { system, tenant: newTenant } = useStore(open);
  const claimBy = (owner: string, now = noon) => ({ owner, now, until: now + ttl });

  test('a run without a lease can be claimed, once', async () => {
    const run = await newRun(newTenant(), { lease: null });
    expect(await system().claimRun(run.id, claimBy('node-1'))).toEqual({ epoch: 1 });
    expect(await system().claimRun(run.id, claimBy('node-2'))).toBeUndefined();
    expect(await system().claimRun(run.id, claimBy('node-1'))).toBeUndefined();
    expect(await run.tenant.readRun(run.id)).toMatchObject({ epoch: 1 });
  });

  test('a run can be claimed in every status in which it is not over', async () => {
    const tenant = newTenant();
    for (const status of ['queued', 'running', 'waiting'] as const) {
      const run = await newRun(tenant, { lease: null, progress: { status } });
      expect(await system().claimRun(run.id, claimBy('node-1'))).toEqual({ epoch: 1 });
    }
    const over = await newRun(tenant);
    await tenant.append(ending(over));
    expect(await system().claimRun(over.id, claimBy('node-1'))).toBeUndefined();
    expect(await system().claimRun(uuidv7(), claimBy('node-1'))).toBeUndefined();
  });

  test('a lease can be taken from the moment at which it runs out', async () => {
    const run = await newRun(newTenant());
    expect(await system().claimRun(run.id, claimBy('node-2', noon + ttl - 1))).toBeUndefined();
    expect(await system().claimRun(run.id, claimBy('node-2', noon + ttl))).toEqual({ epoch: 2 });
  });

  test('of 50 racing claims one succeeds', async () => {
    const run = await newRun(newTenant(), { lease: null });
    const claims = await Promise.all(
      Array.from({ length: 50 }, (_, i) => system().claimRun(run.id, claimBy(`node-${i}`))),
    );
    expect(claims.filter((claim) => claim !== undefined)).toEqual([{ epoch: 1 }]);
  });

  test('the epoch rises with every claim and with nothing else', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant, { lease: null });
    const epochs: number[] = [];
    for (let round = 0; round < 10; round += 1) {
      const claim = await system().claimRun(run.id, claimBy(`node-${round % 3}`));
      epochs.push(claim?.epoch ?? -1);
      await system().renewLeases(`node-${round % 3}`, {
        runIds: [run.id],
        now: noon,
        until: noon + ttl,
      });
      const release = round % 2 === 0;
      await tenant.append(step(run, { epoch: round + 1, afterSeq: round + 1, release }));
      if (!release) await system().releaseRun(run.id, round + 1);
    }
    expect(epochs).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    await system().releaseAllLeases();
    expect(await tenant.readRun(run.id)).toMatchObject({ epoch: 10, lastSeq: 11 });
  });

  test('only what an owner still holds is renewed', async () => {
    const tenant = newTenant();
    const mine = await newRun(tenant);
    const theirs = await newRun(tenant, { lease: { owner: 'node-2', until: noon + ttl } });
    const free = await newRun(tenant, { lease: null });
    const over = await newRun(tenant);
    await tenant.append(ending(over));
    const runIds = [free.id, mine.id, uuidv7(), theirs.id, over.id];
    const until = noon + 10 * ttl;
    expect(await system().renewLeases('node-1', { runIds, now: noon, until })).toEqual([mine.id]);
    expect(await system().claimRun(mine.id, claimBy('node-3', until - 1))).toBeUndefined();
    expect(await system().claimRun(theirs.id, claimBy('node-3', until - 1))).toEqual({ epoch: 2 });
    expect(await system().renewLeases('node-1', { runIds: [], now: noon, until })).toEqual([]);
  });

  test('a lease is released by the epoch that holds it and by no older one', async () => {
    const run = await newRun(newTenant());
    await system().claimRun(run.id, claimBy('node-2', noon + ttl));
    await system().releaseRun(run.id, 1);
    expect(await system().claimRun(run.id, claimBy('node-3', noon + ttl))).toBeUndefined();
    await system().releaseRun(run.id, 2);
    expect(await system().claimRun(run.id, claimBy('node-3', noon + ttl))).toEqual({ epoch: 3 });
  });

  test('a step that releases frees the run in its commit', async () => {
    const run = await newRun(newTenant());
    await run.tenant.append(step(run, { release: true, progress: { status: 'waiting' } }));
    expect(await system().claimRun(run.id, claimBy('node-2'))).toEqual({ epoch: 2 });
  });

  test('reclaiming releases every run at once', async () => {
    const tenant = newTenant();
    const runs = await Promise.all(
      Array.from({ length: 5 }, (_, i) =>
        newRun(tenant, { lease: { owner: `node-${i}`, until: noon + ttl } }),
      ),
    );
    await system().releaseAllLeases();
    for (const run of runs) {
      expect(await system().claimRun(run.id, claimBy('node-9'))).toEqual({ epoch: 2 });
    }
  });
}
