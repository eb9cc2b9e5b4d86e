import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { delta, ending, newRun, noon, step, useStore } from '../fixtures.ts';
import type { Open } from '../fixtures.ts';

const ttl = 15_000;

export function leaseTests(open: Open): void {
  const { system, tenant: newTenant } = useStore(open);
  const claimBy = (owner: string, now = noon) => ({ owner, now, until: now + ttl });

  test('a run without a lease can be claimed, once', async () => {
    const run = await newRun(newTenant(), { lease: null });
    expect(await system().claimRun(run.id, claimBy('node-1'))).toMatchObject({ epoch: 1 });
    expect(await system().claimRun(run.id, claimBy('node-2'))).toBeUndefined();
    expect(await system().claimRun(run.id, claimBy('node-1'))).toBeUndefined();
    expect(await run.tenant.readRun(run.id)).toMatchObject({ epoch: 1 });
  });

  test('a run can be claimed in every status in which it is not over', async () => {
    const tenant = newTenant();
    for (const status of ['queued', 'running', 'waiting'] as const) {
      const run = await newRun(tenant, { lease: null, progress: { status } });
      expect(await system().claimRun(run.id, claimBy('node-1'))).toMatchObject({ epoch: 1 });
    }
    const over = await newRun(tenant);
    await tenant.append(ending(over));
    expect(await system().claimRun(over.id, claimBy('node-1'))).toBeUndefined();
    expect(await system().claimRun(uuidv7(), claimBy('node-1'))).toBeUndefined();
  });

  test('a lease can be taken from the moment at which it runs out', async () => {
    const run = await newRun(newTenant());
    expect(await system().claimRun(run.id, claimBy('node-2', noon + ttl - 1))).toBeUndefined();
    expect(await system().claimRun(run.id, claimBy('node-2', noon + ttl))).toMatchObject({
      epoch: 2,
    });
  });

  test('of 50 racing claims one succeeds', async () => {
    const run = await newRun(newTenant(), { lease: null });
    const claims = await Promise.all(
      Array.from({ length: 50 }, (_, i) => system().claimRun(run.id, claimBy(`node-${i}`))),
    );
    expect(claims.filter((claim) => claim !== undefined)).toMatchObject([{ epoch: 1 }]);
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
    expect(await system().claimRun(theirs.id, claimBy('node-3', until - 1))).toMatchObject({
      epoch: 2,
    });
    expect(await system().renewLeases('node-1', { runIds: [], now: noon, until })).toEqual([]);
  });

  test('a lease is released by the epoch that holds it and by no older one', async () => {
    const run = await newRun(newTenant());
    await system().claimRun(run.id, claimBy('node-2', noon + ttl));
    await system().releaseRun(run.id, 1);
    expect(await system().claimRun(run.id, claimBy('node-3', noon + ttl))).toBeUndefined();
    await system().releaseRun(run.id, 2);
    expect(await system().claimRun(run.id, claimBy('node-3', noon + ttl))).toMatchObject({
      epoch: 3,
    });
  });

  test('a step that releases frees the run in its commit', async () => {
    const run = await newRun(newTenant());
    await run.tenant.append(step(run, { release: true, progress: { status: 'waiting' } }));
    expect(await system().claimRun(run.id, claimBy('node-2'))).toMatchObject({ epoch: 2 });
  });

  /** Claims the run at a time at which its holder has died, and returns how many have. */
  const claimAfterCrash = async (runId: string, after: number, suspect = false) => {
    const claim = claimBy(`successor-${after}`, noon + after * ttl);
    return (await system().claimRun(runId, claim, { suspect }))?.crashes;
  };
  const isSuspect = async (runId: string, after: number) => {
    const suspects = await system().suspectRuns(noon + after * ttl, 1_000);
    return suspects.some((ref) => ref.runId === runId);
  };
  const isDue = async (runId: string, after: number) => {
    const due = await system().dueRuns(noon + after * ttl, 1_000);
    return due.some((ref) => ref.runId === runId);
  };

  test('a claim counts the holders that died, and a suspect is claimed only on request', async () => {
    const run = await newRun(newTenant());
    expect(await claimAfterCrash(run.id, 1)).toBe(1);
    expect(await claimAfterCrash(run.id, 2)).toBe(2);
    expect(await isSuspect(run.id, 3)).toBe(true);
    expect(await isDue(run.id, 3)).toBe(false);
    expect(await claimAfterCrash(run.id, 3)).toBeUndefined();
    expect(await claimAfterCrash(run.id, 3, true)).toBe(3);
    expect(await isSuspect(run.id, 3)).toBe(false);
    expect(await claimAfterCrash(run.id, 4, true)).toBe(4);
  });

  test('a holder that sends a heartbeat has not crashed, however often its lease expires', async () => {
    const { tenant, id } = await newRun(newTenant(), { lease: null });
    const alive = ['outage-1', 'outage-11', 'outage-2'];
    for (let after = 0; after < 9; after += 1) {
      const now = noon + after * ttl;
      const owner = alive[after % 3] ?? '';
      const claim = await system().claimRun(id, claimBy(owner, now));
      expect(claim?.crashes).toBe(after === 0 ? 0 : 1);
      expect(await isSuspect(id, after + 1)).toBe(false);
      for (const each of alive) await system().heartbeatNode(claimBy(each, now));
    }
    for (const each of alive) await system().removeNode(each);
    expect(await tenant.readRun(id)).toMatchObject({ epoch: 9 });
    // A process that did crash still counts, and so do others after it.
    expect(await claimAfterCrash(id, 9)).toBe(1);
    expect(await claimAfterCrash(id, 10)).toBe(2);
    await system().heartbeatNode(claimBy('successor-9', noon + 10 * ttl));
    expect(await claimAfterCrash(id, 11)).toBe(2);
    await system().removeNode('successor-9');
  });

  test('a holder that claims again after its lease expired has not crashed', async () => {
    const run = await newRun(newTenant());
    for (let after = 1; after <= 8; after += 1) {
      const claim = await system().claimRun(run.id, claimBy('node-1', noon + after * ttl));
      expect(claim?.crashes).toBe(0);
    }
  });

  test('a process counts once, although its leases expired several times', async () => {
    const run = await newRun(newTenant());
    for (const [after, owner] of ['node-2', 'node-1', 'node-2', 'node-1'].entries()) {
      const claim = claimBy(owner, noon + (after + 1) * ttl);
      await system().claimRun(run.id, claim, { suspect: after >= 2 });
    }
    expect(await claimAfterCrash(run.id, 5, true)).toBe(2);
  });

  test('a run that is not a suspect is not claimed as one', async () => {
    const run = await newRun(newTenant());
    expect(await claimAfterCrash(run.id, 1, true)).toBeUndefined();
    expect(await isSuspect(run.id, 1)).toBe(false);
  });

  test('a suspect of a paused tenant stays', async () => {
    const tenant = newTenant();
    await system().ensureTenant({ id: tenant.tenantId, name: tenant.tenantId, at: noon });
    const run = await newRun(tenant);
    for (const after of [1, 2]) await claimAfterCrash(run.id, after);
    await tenant.updateTenant({ pausedAt: noon });
    expect(await isSuspect(run.id, 3)).toBe(false);
    await tenant.updateTenant({ pausedAt: null });
    expect(await isSuspect(run.id, 3)).toBe(true);
  });

  test('leases that a single server finds at its start are those of a crash', async () => {
    const run = await newRun(newTenant());
    await system().releaseAllLeases();
    await system().releaseAllLeases();
    expect(await claimAfterCrash(run.id, 0)).toBe(1);
  });

  test.each([
    ['progress', { madeProgress: true }],
    ['a release in a step', { release: true }],
  ])('%s ends the count of crashes', async (_, change) => {
    const run = await newRun(newTenant());
    for (const after of [1, 2]) await claimAfterCrash(run.id, after);
    await run.tenant.append(step(run, { epoch: 3, ...change }));
    expect(await claimAfterCrash(run.id, 3)).toBe('release' in change ? 0 : 1);
  });

  test('a step without progress and a plain release leave the count of crashes', async () => {
    const run = await newRun(newTenant());
    for (const after of [1, 2]) await claimAfterCrash(run.id, after);
    await run.tenant.append(step(run, { epoch: 3 }));
    await system().releaseRun(run.id, 3);
    expect(await claimAfterCrash(run.id, 2)).toBe(2);
  });

  test('a claim says how large the journal is', async () => {
    const run = await newRun(newTenant());
    const sizes: number[] = [];
    for (const release of [false, true]) {
      const { epoch = 1, lastSeq = 1 } = (await run.tenant.readRun(run.id)) ?? {};
      const events = [delta('x'.repeat(1_000))];
      await run.tenant.append(step(run, { epoch, afterSeq: lastSeq, events, release }));
      if (!release) await system().releaseRun(run.id, epoch);
      sizes.push((await system().claimRun(run.id, claimBy('node-2')))?.journalSize ?? 0);
    }
    expect(sizes[1] ?? 0).toBeGreaterThan((sizes[0] ?? 0) + 1_000);
    expect(sizes[1] ?? 0).toBeLessThan((sizes[0] ?? 0) + 1_500);
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
      expect(await system().claimRun(run.id, claimBy('node-9'))).toMatchObject({ epoch: 2 });
    }
  });
}
