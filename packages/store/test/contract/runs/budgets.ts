import type { CreationOutcome, Reserved, RunBudget, TenantStore } from '@relay/core';
import { defined } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import {
  ending,
  identityIn,
  newRun,
  noon,
  type Open,
  started,
  step,
  useStore,
} from '../fixtures.ts';

const day = { period: 'day', since: noon - 12 * 60 * 60 * 1000 } as const;

export function budgetTests(open: Open): void {
  const { system } = useStore(open);

  async function newTenant(): Promise<TenantStore> {
    const id = uuidv7();
    await system().ensureTenant({ id, name: id, at: noon });
    return system().tenant(id);
  }

  function create(
    tenant: TenantStore,
    budget: Partial<RunBudget>,
    over: { reserved?: Reserved; keyId?: string; key?: string } = {},
  ): Promise<CreationOutcome> {
    const { key, reserved = { tokens: 0, costUsd: 0 }, keyId = null } = over;
    return tenant.createRun({
      identity: identityIn(tenant, { keyId }),
      lease: { owner: 'node-1', until: noon + 15_000 },
      events: [started],
      progress: { status: 'running' },
      budgets: [{ ...day, ...budget }],
      reserved,
      ...(key === undefined
        ? {}
        : { idempotency: { key, fingerprint: 'same', expiresAt: noon + 60_000 } }),
    });
  }

  const kindsOf = (outcomes: readonly CreationOutcome[]) =>
    outcomes.reduce<Record<string, number>>(
      (kinds, { kind }) => ({ ...kinds, [kind]: (kinds[kind] ?? 0) + 1 }),
      {},
    );

  test('of 200 simultaneous creations, exactly as many are stored as may run at the same time', async () => {
    const tenant = await newTenant();
    const creations = Array.from({ length: 200 }, () => create(tenant, { concurrentRuns: 5 }));
    expect(kindsOf(await Promise.all(creations))).toEqual({ created: 5, 'over-budget': 195 });
    expect(await tenant.countOpenRuns({})).toMatchObject({ running: 5 });
  });

  test('simultaneous creations reserve no more than the budget', async () => {
    const tenant = await newTenant();
    const reserved = { tokens: 300, costUsd: 0.3 };
    const inTokens = Array.from({ length: 50 }, () =>
      create(tenant, { tokens: 1_000 }, { reserved }),
    );
    expect(kindsOf(await Promise.all(inTokens))).toEqual({ created: 3, 'over-budget': 47 });
    const inDollars = await create(tenant, { costUsd: 1 }, { reserved });
    expect(inDollars).toMatchObject({ kind: 'over-budget', exceeded: 'costUsd' });
    expect(await create(tenant, { costUsd: 1.2 }, { reserved })).toEqual({ kind: 'created' });
    const used = await tenant.readBudgetUse({ ...day, tokens: 1_000 }, '');
    expect(used).toEqual({ tokens: 1_200, costUsd: expect.closeTo(1.2) });
  });

  test('ended and waiting runs count with what they have used, others also with what they reserved', async () => {
    const tenant = await newTenant();
    const budget = { ...day, tokens: 1_000 };
    const usage = { inputTokens: 60, outputTokens: 40 };
    const reserved = { tokens: 500, costUsd: 0 };
    const use = async (except = '') => (await tenant.readBudgetUse(budget, except)).tokens;
    const over = { reserved, progress: { status: 'running' } } as const;
    const run = await newRun(tenant, over);
    expect(await use()).toBe(500);
    expect(await use(run.id)).toBe(0);
    await tenant.append(step(run, { progress: { usage } }));
    expect(await use()).toBe(500);
    await tenant.append(step(run, { afterSeq: 2, progress: { status: 'waiting' } }));
    expect(await use()).toBe(100);
    await tenant.append(step(run, { afterSeq: 3, progress: { status: 'running' } }));
    expect(await use()).toBe(500);
    await tenant.append(ending(run, { afterSeq: 4 }));
    expect(await use()).toBe(100);
    expect((await tenant.readBudgetUse({ ...budget, since: noon + 86_400_000 }, '')).tokens).toBe(
      0,
    );
  });

  test('what a run has used counts once, however often it waits and resumes', async () => {
    const tenant = await newTenant();
    const keyId = uuidv7();
    const use = async (since = day.since, except = '') => {
      const whole = await tenant.readBudgetUse({ ...day, since }, except);
      expect(await tenant.readBudgetUse({ ...day, since, keyId }, except)).toEqual(whole);
      return { ...whole, costUsd: Number(whole.costUsd.toFixed(9)) };
    };
    const later = noon + 40 * 86_400_000;
    const reserved = { tokens: 50, costUsd: 0.05 };
    const run = await newRun(tenant, { identity: { keyId }, reserved });
    let afterSeq = 0;
    const move = async (status: 'waiting' | 'running' | 'completed', costUsd?: number) => {
      const tokens = 10 * (afterSeq += 1);
      const usage = { inputTokens: tokens, outputTokens: 1, ...defined({ costUsd }) };
      expect(await tenant.append(step(run, { afterSeq, progress: { status, usage } }))).toBe(
        'committed',
      );
    };
    await move('waiting', 0.01);
    expect(await use()).toEqual({ tokens: 11, costUsd: 0.01 });
    expect(await use(later)).toEqual({ tokens: 11, costUsd: 0.01 });
    expect(await use(day.since, run.id)).toEqual({ tokens: 0, costUsd: 0 });
    await move('waiting', 0.02);
    expect(await use()).toEqual({ tokens: 21, costUsd: 0.02 });
    await move('running', 0.03);
    expect(await use()).toEqual(reserved);
    expect(await use(day.since, run.id)).toEqual({ tokens: 0, costUsd: 0 });
    // The price of a model became unknown.
    await move('waiting');
    expect(await use()).toEqual({ tokens: 41, costUsd: 0 });
    await move('waiting', 0.06);
    expect(await tenant.readUsage({ since: 0 })).toMatchObject({ inputTokens: 0, runs: 0 });
    await move('completed', 0.07);
    expect(await use()).toEqual({ tokens: 61, costUsd: 0.07 });
    expect(await use(later)).toEqual({ tokens: 0, costUsd: 0 });
    const total = { inputTokens: 60, outputTokens: 1, costUsd: 0.07, runs: 1 };
    expect(await tenant.readUsage({ since: 0, keyId })).toEqual(total);
  });

  test('a run that waits from its creation on counts, and so do many that wait and end at once', async () => {
    const tenant = await newTenant();
    const usage = { inputTokens: 2, outputTokens: 1, costUsd: 0.5 };
    const use = () => tenant.readBudgetUse({ ...day, since: noon + 40 * 86_400_000 }, '');
    const waiting = { status: 'waiting', usage } as const;
    const runs = await Promise.all(
      Array.from({ length: 30 }, (_, n) =>
        newRun(tenant, { progress: n % 2 === 0 ? waiting : { status: 'running' } }),
      ),
    );
    expect(await use()).toEqual({ tokens: 45, costUsd: 7.5 });
    await Promise.all(
      runs.map((run, n) =>
        tenant.append(n % 2 === 0 ? ending(run) : step(run, { progress: waiting })),
      ),
    );
    expect(await use()).toEqual({ tokens: 45, costUsd: 7.5 });
    expect(await tenant.readUsage({ since: noon })).toMatchObject({ inputTokens: 30, runs: 15 });
  });

  test('a run replaces its reservation while its node holds it and the budget allows it', async () => {
    const tenant = await newTenant();
    const budgets = [{ ...day, tokens: 1_000 }];
    const run = await newRun(tenant, { progress: { status: 'running' } });
    const reserve = (tokens: number, epoch = 1) =>
      tenant.reserve({ runId: run.id, epoch, reserved: { tokens, costUsd: 0 }, budgets });
    expect(await reserve(600)).toBe('reserved');
    expect(await reserve(1_000)).toBe('reserved');
    expect(await reserve(1_001)).toMatchObject({ kind: 'over-budget', exceeded: 'tokens' });
    expect(await reserve(1, 2)).toBe('fenced');
    expect((await tenant.readBudgetUse({ ...day, tokens: 1 }, '')).tokens).toBe(1_000);
  });

  test('a budget of a key counts the runs of that key', async () => {
    const tenant = await newTenant();
    const budget = { keyId: 'key-1', concurrentRuns: 1, tokens: 10 };
    const reserved = { tokens: 10, costUsd: 0 };
    await create(tenant, {}, { keyId: 'key-2', reserved });
    expect(await create(tenant, budget, { keyId: 'key-1', reserved })).toEqual({ kind: 'created' });
    const second = await create(tenant, budget, { keyId: 'key-1' });
    expect(second).toMatchObject({ kind: 'over-budget', exceeded: 'concurrentRuns' });
    expect((await tenant.readBudgetUse({ ...day, ...budget }, '')).tokens).toBe(10);
  });

  test('a repeated creation finds its run although the budget is exhausted, and a refused one takes no key', async () => {
    const tenant = await newTenant();
    const one = { concurrentRuns: 1 };
    expect(await create(tenant, one, { key: 'a' })).toEqual({ kind: 'created' });
    expect(await create(tenant, one, { key: 'b' })).toMatchObject({ kind: 'over-budget' });
    expect(await create(tenant, one, { key: 'a' })).toMatchObject({ kind: 'exists' });
    expect(await create(tenant, { concurrentRuns: 2 }, { key: 'b' })).toEqual({ kind: 'created' });
  });
}
