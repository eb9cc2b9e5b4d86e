import type { DeliveryQueue, DeliverySweep, SessionDirectory } from '@relay/core';
import { ManualClock } from '@relay/core/testing';
import { RelayError } from '@relay/protocol';
import { createMemoryStore } from '@relay/store';
import { uuidv7 } from 'uuidv7';
import { describe, expect, it } from 'vitest';
import { createHousekeeping } from '../../src/jobs/housekeeping.ts';
import { until } from '../support/server.ts';

function setUp() {
  const store = createMemoryStore();
  const clock = new ManualClock();
  const warnings: string[] = [];
  const log = { warn: (message: string) => void warnings.push(message), error: () => undefined };
  const tenant = store.tenant('t');
  const left = async () => (await tenant.listMemories({ now: 0 }, { limit: 1_000 })).length;
  const add = async (expiresAt: number | null) =>
    tenant.addMemory({
      id: uuidv7(),
      namespace: 'n',
      text: 'x',
      runId: null,
      source: 'api',
      createdAt: 0,
      expiresAt,
    });
  return { store, clock, log, warnings, left, add };
}

describe('housekeeping', () => {
  it('deletes all expired memories every minute', async () => {
    const { store, clock, log, left, add } = setUp();
    const now = clock.now();
    for (let n = 0; n < 250; n += 1) await add(now - 1);
    await add(now + 30_000);
    await add(null);
    const housekeeping = createHousekeeping({ store, clock, log });
    housekeeping.start();
    await until(async () => (await left()) === 2, 'the first sweep');
    await clock.advance(60_000);
    await until(async () => (await left()) === 1, 'the next sweep');
    await housekeeping.stop();
  });

  it('prunes idle conversations after the retention', async () => {
    const { clock, log } = setUp();
    const asked: [number, number][] = [];
    const { deliveries, sessions } = createMemoryStore();
    const store = {
      deliveries,
      sessions,
      deleteExpiredMemories: async () => 0,
      deleteSignIns: async () => 0,
      pruneRuns: async (before: number, limit: number) => {
        asked.push([before, limit]);
        return asked.length < 3 ? 1 : 0;
      },
    };
    const forever = createHousekeeping({ store, clock, log });
    forever.start();
    await until(() => clock.sleepers === 1, 'the end of the first sweep');
    await forever.stop();
    expect(asked).toEqual([]);
    const housekeeping = createHousekeeping({ store, clock, log, retentionMs: 5_000 });
    housekeeping.start();
    await until(() => asked.length === 3, 'all batches');
    await housekeeping.stop();
    expect(asked).toEqual(Array.from({ length: 3 }, () => [clock.now() - 5_000, 100]));
  });

  it('prunes sessions after the retention, and without one continues interrupted deletions', async () => {
    const { store, clock, log } = setUp();
    const asked: [number, number][] = [];
    const prune = async (before: number, limit: number) =>
      asked.push([before, limit]) < 3 ? 1 : 0;
    const sessions = { prune } as SessionDirectory;
    const { deliveries } = store;
    const none = async () => 0;
    const parts = {
      deliveries,
      sessions,
      deleteExpiredMemories: none,
      deleteSignIns: none,
      pruneRuns: none,
    };
    const forever = createHousekeeping({ store: parts, clock, log });
    forever.start();
    await until(() => asked.length === 3, 'all batches');
    await forever.stop();
    expect(asked.splice(0)).toEqual(Array.from({ length: 3 }, () => [0, 100]));
    const housekeeping = createHousekeeping({ store: parts, clock, log, retentionMs: 5_000 });
    housekeeping.start();
    await until(() => asked.length === 3, 'all batches');
    await housekeeping.stop();
    expect(asked[0]).toEqual([clock.now() - 5_000, 100]);
  });

  it('deletes sign-ins to the console a week after they expired', async () => {
    const { store, clock, log } = setUp();
    const asked: [number, number][] = [];
    const deleteSignIns = async (before: number, limit: number) =>
      asked.push([before, limit]) < 3 ? 1 : 0;
    const { deliveries, sessions } = store;
    const none = async () => 0;
    const parts = { deliveries, sessions, deleteExpiredMemories: none, pruneRuns: none };
    const housekeeping = createHousekeeping({ store: { ...parts, deleteSignIns }, clock, log });
    housekeeping.start();
    await until(() => asked.length === 3, 'all batches');
    await housekeeping.stop();
    expect(asked[0]).toEqual([clock.now() - 7 * 24 * 60 * 60_000, 100]);
  });

  it('fails deliveries after a day and deletes them after a week', async () => {
    const { clock, log } = setUp();
    const asked: DeliverySweep[] = [];
    const sweep = async (by: DeliverySweep) => (asked.push(by) < 3 ? 1 : 0);
    const deliveries = { sweep } as DeliveryQueue;
    const { sessions } = createMemoryStore();
    const none = async () => 0;
    const store = {
      deliveries,
      sessions,
      deleteExpiredMemories: none,
      deleteSignIns: none,
      pruneRuns: none,
    };
    const housekeeping = createHousekeeping({ store, clock, log });
    housekeeping.start();
    await until(() => asked.length === 3, 'all that there is to sweep');
    await housekeeping.stop();
    const hour = 60 * 60_000;
    const now = clock.now();
    const by = { failBefore: now - 25 * hour, deleteBefore: now - 7 * 24 * hour, limit: 100 };
    expect(asked).toEqual([by, by, by]);
  });

  it('does everything else although one part keeps failing', async () => {
    const { clock, log, warnings } = setUp();
    const done: string[] = [];
    const fails = (name: string) => async () => {
      done.push(name);
      throw new RelayError('storage_failed', 'No');
    };
    const housekeeping = createHousekeeping({
      store: {
        deliveries: { sweep: fails('deliveries') } as unknown as DeliveryQueue,
        deleteExpiredMemories: fails('memories'),
        deleteSignIns: fails('sign-ins'),
        pruneRuns: fails('runs'),
        sessions: { prune: fails('sessions') } as unknown as SessionDirectory,
      },
      retentionMs: 1,
      sweepOutputs: fails('outputs'),
      clock,
      log,
    });
    housekeeping.start();
    await until(() => warnings.length === 1, 'the warning');
    await housekeeping.stop();
    expect(done).toEqual(['memories', 'sign-ins', 'runs', 'sessions', 'outputs', 'deliveries']);
  });

  it('continues after a failure, and stops', async () => {
    const { store, clock, log, warnings, left, add } = setUp();
    let broken = true;
    const flaky = {
      deliveries: store.deliveries,
      sessions: store.sessions,
      pruneRuns: async () => 0,
      deleteSignIns: async () => 0,
      deleteExpiredMemories: async (now: number, limit: number) => {
        if (broken) throw new RelayError('storage_failed', 'No');
        return store.deleteExpiredMemories(now, limit);
      },
    };
    await add(clock.now() - 1);
    const housekeeping = createHousekeeping({ store: flaky, clock, log });
    housekeeping.start();
    await until(() => warnings.length === 1, 'the warning');
    broken = false;
    await clock.advance(60_000);
    await until(async () => (await left()) === 0, 'the sweep');
    await housekeeping.stop();
    await add(clock.now() - 1);
    await clock.advance(120_000);
    expect(await left()).toBe(1);
  });
});
