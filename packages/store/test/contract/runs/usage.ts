import type { TenantStore } from '@relay/core';
import type { Usage } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { describe, expect, test } from 'vitest';
import { cancelCommand, ending, newRun, noon, step, useStore } from '../fixtures.ts';
import type { Open } from '../fixtures.ts';
import { addSession, changeOf } from '../sessions/fixtures.ts';

const day = 86_400_000;
const midnight = Date.UTC(2026, 0, 1);
const nothing = { inputTokens: 0, outputTokens: 0, costUsd: 0, runs: 0 };

function used(inputTokens: number, outputTokens: number, costUsd?: number): Usage {
  return { inputTokens, outputTokens, ...(costUsd === undefined ? {} : { costUsd }) };
}

/** A run that has ended, by the key that started it. */
async function end(
  tenant: TenantStore,
  usage: Usage,
  over: { keyId?: string; endedAt?: number } = {},
) {
  const { keyId = null, endedAt = noon } = over;
  const run = await newRun(tenant, { identity: { keyId } });
  await tenant.append(ending(run, { progress: { status: 'completed', endedAt, usage } }));
  return run;
}

export function usageTests(open: Open): void {
  const { system, tenant: newTenant } = useStore(open);

  describe('what was used', () => {
    test('is nothing as long as no run has ended', async () => {
      const tenant = newTenant();
      await newRun(tenant, { progress: { status: 'running', usage: used(5, 5) } });
      expect(await tenant.readUsage({ since: 0 })).toEqual(nothing);
      expect(await tenant.readUsage({ since: 0, keyId: uuidv7() })).toEqual(nothing);
    });

    test('is counted as each run ends, whatever it ended as', async () => {
      const tenant = newTenant();
      await end(tenant, used(1, 10, 0.5));
      for (const status of ['failed', 'canceled'] as const) {
        const run = await newRun(tenant);
        const progress = { status, endedAt: noon, usage: used(2, 20) };
        await tenant.append(ending(run, { progress }));
      }
      const total = { inputTokens: 5, outputTokens: 50, costUsd: 0.5, runs: 3 };
      expect(await tenant.readUsage({ since: noon })).toEqual(total);
    });

    test('is what the run had used in the end, also if the last step does not say so', async () => {
      const tenant = newTenant();
      const run = await newRun(tenant, { progress: { usage: used(1, 1) } });
      await tenant.append(step(run, { progress: { usage: used(7, 8, 0.25) } }));
      await tenant.append(ending(run, { afterSeq: 2 }));
      const total = { inputTokens: 7, outputTokens: 8, costUsd: 0.25, runs: 1 };
      expect(await tenant.readUsage({ since: noon })).toEqual(total);
      expect((await tenant.readRun(run.id))?.usage).toEqual(used(7, 8, 0.25));
    });

    test('has no cost where a price became unknown', async () => {
      const tenant = newTenant();
      const run = await newRun(tenant, { progress: { usage: used(1, 1, 0.25) } });
      await tenant.append(step(run, { progress: { usage: used(2, 2) } }));
      expect((await tenant.readRun(run.id))?.usage).toStrictEqual(used(2, 2));
      await tenant.append(ending(run, { afterSeq: 2 }));
      expect(await tenant.readUsage({ since: noon })).toMatchObject({ costUsd: 0, runs: 1 });
    });

    test('is counted once: a fenced end counts nothing', async () => {
      const tenant = newTenant();
      const run = await newRun(tenant);
      const progress = { status: 'completed', endedAt: noon, usage: used(3, 4) } as const;
      expect(await tenant.append(ending(run, { epoch: 9, progress }))).toBe('fenced');
      expect(await tenant.readUsage({ since: 0 })).toEqual(nothing);
      await Promise.all(Array.from({ length: 5 }, () => tenant.append(ending(run, { progress }))));
      expect(await tenant.readUsage({ since: 0 })).toMatchObject({ inputTokens: 3, runs: 1 });
    });

    test('of a run that is over from the beginning is counted too', async () => {
      const tenant = newTenant();
      await newRun(tenant, { progress: { status: 'failed', endedAt: noon, usage: used(1, 2) } });
      expect(await tenant.readUsage({ since: noon })).toMatchObject({ outputTokens: 2, runs: 1 });
    });

    test('belongs to the key that started the run, and to the tenant', async () => {
      const tenant = newTenant();
      const [ada, bob] = [uuidv7(), uuidv7()];
      await end(tenant, used(1, 1), { keyId: ada });
      await end(tenant, used(2, 2), { keyId: ada });
      await end(tenant, used(4, 4), { keyId: bob });
      await end(tenant, used(8, 8));
      const of = async (keyId: string) => (await tenant.readUsage({ keyId, since: 0 })).inputTokens;
      expect([await of(ada), await of(bob), await of(uuidv7())]).toEqual([3, 4, 0]);
      expect(await tenant.readUsage({ since: 0 })).toMatchObject({ inputTokens: 15, runs: 4 });
    });

    test('is summed over whole UTC days, from that of `since` on', async () => {
      const tenant = newTenant();
      const keyId = uuidv7();
      const ends = [midnight - 1, midnight, midnight + day - 1, midnight + day];
      for (const [n, endedAt] of ends.entries()) {
        await end(tenant, used(10 ** n, 0), { endedAt, keyId });
      }
      const since = async (at: number) => {
        const whole = await tenant.readUsage({ since: at });
        expect(await tenant.readUsage({ since: at, keyId })).toEqual(whole);
        return whole.inputTokens;
      };
      expect(await since(midnight - 1)).toBe(1111);
      expect(await since(midnight)).toBe(1110);
      expect(await since(midnight + day - 1)).toBe(1110);
      expect(await since(midnight + day)).toBe(1000);
      expect(await since(midnight + 2 * day)).toBe(0);
    });

    test('without a time of its end counts for the day of the step', async () => {
      const tenant = newTenant();
      const run = await newRun(tenant);
      const progress = { status: 'failed', usage: used(1, 1) } as const;
      await tenant.append(ending(run, { at: midnight + 3 * day, progress }));
      expect(await tenant.readUsage({ since: midnight + 3 * day })).toMatchObject({ runs: 1 });
    });

    test('adds up when many runs end at once', async () => {
      const tenant = newTenant();
      const keyId = uuidv7();
      await Promise.all(Array.from({ length: 40 }, () => end(tenant, used(3, 2, 0.5), { keyId })));
      const total = { inputTokens: 120, outputTokens: 80, costUsd: 20, runs: 40 };
      expect(await tenant.readUsage({ keyId, since: noon })).toEqual(total);
    });

    test('may be a fraction of a cent, and very many tokens', async () => {
      const tenant = newTenant();
      await end(tenant, used(2 ** 40, 1, 0.000_000_1));
      const total = await tenant.readUsage({ since: noon });
      expect(total).toEqual({
        inputTokens: 2 ** 40,
        outputTokens: 1,
        costUsd: 0.000_000_1,
        runs: 1,
      });
    });
  });

  describe('what a program reports', () => {
    const reporting = (sessionId: string, keyId: string | null, tokens: number, costUsd = 0) => ({
      changes: [changeOf(sessionId)],
      usage: { keyId, at: noon, tokens, costUsd },
    });

    test('is counted with its event, for its key and for budgets', async () => {
      const tenant = newTenant();
      const keyId = uuidv7();
      const id = await addSession(tenant);
      await tenant.sessions.change(reporting(id, keyId, 5, 0.5));
      await tenant.sessions.change(reporting(id, keyId, 0, 0.25));
      await tenant.sessions.change(reporting(id, null, 10));
      const ofKey = { inputTokens: 5, outputTokens: 0, costUsd: 0.75, runs: 0 };
      expect(await tenant.readUsage({ since: noon, keyId })).toEqual(ofKey);
      expect(await tenant.readUsage({ since: noon })).toEqual({ ...ofKey, inputTokens: 15 });
      expect(await tenant.readUsage({ since: noon + day })).toEqual(nothing);
      const budget = { period: 'day', since: noon } as const;
      expect(await tenant.readBudgetUse(budget, '')).toEqual({ tokens: 15, costUsd: 0.75 });
      const use = await tenant.readBudgetUse({ ...budget, keyId }, '');
      expect(use).toEqual({ tokens: 5, costUsd: 0.75 });
    });

    test('is not counted if its event is not stored', async () => {
      const tenant = newTenant();
      const id = await addSession(tenant);
      const { usage } = reporting(id, null, 5);
      const changes = [changeOf(id, { ifVersion: 99 })];
      expect(await tenant.sessions.change({ changes, usage })).toMatchObject({ kind: 'conflict' });
      expect(await tenant.readUsage({ since: 0 })).toEqual(nothing);
    });

    test('adds up with runs that end at the same time', async () => {
      const tenant = newTenant();
      const keyId = uuidv7();
      const sessions = await Promise.all(Array.from({ length: 20 }, () => addSession(tenant)));
      const outcomes = await Promise.all(
        sessions.flatMap((id) => [
          tenant.sessions.change(reporting(id, keyId, 2, 0.5)),
          end(tenant, used(1, 1, 0.5), { keyId }).then(() => ({ kind: 'committed' })),
        ]),
      );
      expect(outcomes.filter(({ kind }) => kind !== 'committed')).toEqual([]);
      const total = { inputTokens: 60, outputTokens: 20, costUsd: 20, runs: 20 };
      expect(await tenant.readUsage({ keyId, since: noon })).toEqual(total);
    });

    test('cannot make the sums too large, whatever it is', async () => {
      const tenant = newTenant();
      const id = await addSession(tenant);
      for (let n = 0; n < 3; n += 1) {
        const outcome = await tenant.sessions.change(reporting(id, null, 1e300, 1e300));
        expect(outcome.kind).toBe('committed');
      }
      await end(tenant, used(1, 1, 1));
      const total = await tenant.readUsage({ since: noon });
      expect(total).toMatchObject({ inputTokens: 1e12 + 1, costUsd: 1e9 + 1, runs: 1 });
    });
  });

  describe('open runs', () => {
    test('are counted by status, for the tenant and for a key', async () => {
      const tenant = newTenant();
      const keyId = uuidv7();
      await newRun(tenant, { lease: null });
      await newRun(tenant, { lease: null, identity: { keyId } });
      await newRun(tenant, { progress: { status: 'running' }, identity: { keyId } });
      await newRun(tenant, { progress: { status: 'waiting' } });
      await end(tenant, used(1, 1), { keyId });
      expect(await tenant.countOpenRuns({})).toEqual({ queued: 2, running: 1, waiting: 1 });
      expect(await tenant.countOpenRuns({ keyId })).toEqual({ queued: 1, running: 1, waiting: 0 });
      const none = { queued: 0, running: 0, waiting: 0 };
      expect(await tenant.countOpenRuns({ keyId: uuidv7() })).toEqual(none);
      expect(await newTenant().countOpenRuns({})).toEqual(none);
    });

    test('move with their runs', async () => {
      const tenant = newTenant();
      const run = await newRun(tenant, { lease: null });
      await system().claimRun(run.id, { owner: 'node-1', now: noon, until: noon + 1 });
      const statuses = ['running', 'waiting', 'running'] as const;
      for (const [n, status] of statuses.entries()) {
        await tenant.append(step(run, { afterSeq: n + 1, progress: { status } }));
        expect(await tenant.countOpenRuns({})).toMatchObject({ queued: 0, [status]: 1 });
      }
      await tenant.postRunCommand(run.id, cancelCommand('stop'));
      await tenant.append(ending(run, { afterSeq: 4 }));
      expect(await tenant.countOpenRuns({})).toEqual({ queued: 0, running: 0, waiting: 0 });
    });
  });
}
