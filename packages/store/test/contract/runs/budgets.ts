import type { CreationOutcome, Reserved, RunBudget, TenantStore } from '@relay/core';
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
