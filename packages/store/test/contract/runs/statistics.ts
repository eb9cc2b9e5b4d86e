import type { RunIdentity, RunProgress, StatsRange, TenantStore } from '@relay/core';
import { expect, test } from 'vitest';
import {
  clock,
  decisionOn,
  ending,
  newApproval,
  newRun,
  noon,
  type Open,
  step,
  useStore,
} from '../fixtures.ts';

const minute = 60_000;
const range: StatsRange = { since: noon, until: noon + 10 * minute, bucketMs: minute };

interface Ended {
  readonly at: number;
  readonly createdAt?: number;
  readonly firstTokenMs?: number;
  readonly progress?: Partial<RunProgress>;
  readonly identity?: Partial<RunIdentity>;
}

async function endedRun(tenant: TenantStore, ended: Ended) {
  const { at, createdAt = at, firstTokenMs, progress = {}, identity = {} } = ended;
  const run = await newRun(tenant, { identity: { createdAt, ...identity } });
  if (firstTokenMs !== undefined) await tenant.append(step(run, { progress: { firstTokenMs } }));
  const afterSeq = firstTokenMs === undefined ? 1 : 2;
  await tenant.append(
    ending(run, { afterSeq, progress: { status: 'completed', endedAt: at, ...progress } }),
  );
  return run;
}

const used = (inputTokens: number, outputTokens: number, costUsd?: number) => ({
  usage: { inputTokens, outputTokens, ...(costUsd === undefined ? {} : { costUsd }) },
});

const failed = (code: string, message: string) => ({
  status: 'failed' as const,
  error: { code, message, retryable: false },
});

interface Asked {
  readonly tool?: string;
  readonly at: number;
  readonly waitMs?: number;
  readonly decision?: 'approved' | 'denied' | 'expired';
  readonly by?: 'key' | 'rule';
  readonly kind?: 'permission' | 'question';
}

async function asked(tenant: TenantStore, ask: Asked) {
  const { tool = 'send_note', at, waitMs = 0, decision, by = 'key', kind = 'permission' } = ask;
  const run = await newRun(tenant, { identity: { createdAt: noon - minute } });
  const approval = newApproval(run, { tool, kind, requestedAt: at, expiresAt: at + 60 * minute });
  await tenant.append(step(run, { approvals: [approval] }));
  if (decision === 'expired') {
    const closure = { approvalId: approval.id, at: at + waitMs, by: clock, reason: 'late' };
    const closeApprovals = [{ ...closure, status: 'expired' as const }];
    await tenant.append(step(run, { afterSeq: 2, closeApprovals }));
  } else if (decision !== undefined) {
    const decider = { type: by, id: 'k', name: 'Ada' };
    const decided = { status: decision, at: at + waitMs, by: decider };
    expect(await tenant.decideApproval(decisionOn(approval, decided))).toBe(true);
  }
  return approval;
}

export function statisticsTests(open: Open): void {
  const { tenant: newTenant } = useStore(open);

  test('runs count where they start and where they end, with what they used', async () => {
    const tenant = newTenant();
    const [before, at] = [noon - minute, noon];
    await endedRun(tenant, { createdAt: before, at: noon - 1, progress: used(9, 9, 9) });
    await endedRun(tenant, { createdAt: before, at, progress: used(10, 1, 0.5) });
    await endedRun(tenant, { at: at + minute - 1, progress: used(20, 2) });
    const lost = { createdAt: at, at: at + 2 * minute, progress: failed('internal', 'Lost') };
    await endedRun(tenant, lost);
    const canceled = { status: 'canceled' as const, ...used(1, 1, 0.25) };
    await endedRun(tenant, { at: at + 2 * minute, progress: canceled });
    await endedRun(tenant, { createdAt: at + 9 * minute, at: range.until });
    await newRun(tenant, { identity: { createdAt: range.until } });
    const { buckets, totals } = await tenant.readStats(range);
    expect([...buckets.keys()]).toEqual([0, 2, 9]);
    const runs = { started: 0, completed: 0, failed: 0, canceled: 0 };
    expect(buckets.get(0)).toMatchObject({
      runs: { ...runs, started: 2, completed: 2 },
      tokens: { input: 30, output: 3 },
      costUsd: 0.5,
    });
    expect(buckets.get(2)).toMatchObject({
      runs: { ...runs, started: 1, failed: 1, canceled: 1 },
      tokens: { input: 1, output: 1 },
      costUsd: 0.25,
    });
    expect(buckets.get(9)).toMatchObject({ runs: { ...runs, started: 1 }, costUsd: 0 });
    expect(totals).toMatchObject({
      runs: { started: 4, completed: 2, failed: 1, canceled: 1 },
      tokens: { input: 31, output: 4 },
      costUsd: 0.75,
      unpricedRuns: 1,
      openRuns: 1,
    });
  });

  test('the percentiles of the time to the first token are those of the values', async () => {
    const tenant = newTenant();
    for (let n = 1; n <= 20; n += 1) {
      await endedRun(tenant, { at: noon, firstTokenMs: ((n * 7) % 20) + 1 });
    }
    await endedRun(tenant, { at: noon + minute, firstTokenMs: 1_000 });
    await endedRun(tenant, { at: noon + 2 * minute });
    const { buckets, totals } = await tenant.readStats(range);
    expect(buckets.get(0)?.firstTokenMs).toEqual({ p50: 10, p95: 19 });
    expect(buckets.get(1)?.firstTokenMs).toEqual({ p50: 1_000, p95: 1_000 });
    expect(buckets.get(2)?.firstTokenMs).toBeNull();
    expect(totals.firstTokenMs).toEqual({ p50: 11, p95: 20 });
  });

  test('the first time to a first token stays', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    await tenant.append(step(run, { progress: { firstTokenMs: 5 } }));
    await tenant.append(step(run, { afterSeq: 2, progress: { firstTokenMs: 9 } }));
    expect(await tenant.readRun(run.id)).toMatchObject({ firstTokenMs: 5 });
  });

  test('approvals count where they are requested and where they are decided', async () => {
    const tenant = newTenant();
    await asked(tenant, { at: noon - minute, waitMs: minute, decision: 'approved' });
    await asked(tenant, { at: noon, waitMs: 2_999, decision: 'approved' });
    await asked(tenant, { at: noon, waitMs: 3_000, decision: 'denied' });
    await asked(tenant, { at: noon, waitMs: 10, decision: 'approved', by: 'rule' });
    await asked(tenant, { at: noon, waitMs: 3 * minute, decision: 'expired' });
    await asked(tenant, { at: noon, kind: 'question' });
    const { buckets, totals } = await tenant.readStats(range);
    const none = { requested: 0, approved: 0, denied: 0, expired: 0 };
    expect(buckets.get(0)).toMatchObject({
      approvals: { ...none, requested: 5, approved: 3, denied: 1 },
      approvalWaitMs: { p50: 3_000, p95: minute },
    });
    expect(buckets.get(3)).toMatchObject({
      approvals: { ...none, expired: 1 },
      approvalWaitMs: null,
    });
    expect(totals).toMatchObject({
      approvals: { requested: 5, approved: 3, denied: 1, expired: 1 },
      decisionsByPeople: 3,
      decisionsUnder3s: 1,
      pendingApprovals: 1,
    });
  });

  test('tools are listed by their requests, with what people decided', async () => {
    const tenant = newTenant();
    for (const waitMs of [5, 1, 3]) {
      await asked(tenant, { tool: 'bash', at: noon, waitMs, decision: 'approved' });
    }
    const denied = await asked(tenant, { tool: 'fetch', at: noon, waitMs: 9, decision: 'denied' });
    await asked(tenant, { tool: 'fetch', at: noon });
    await asked(tenant, { tool: 'ask', at: noon, kind: 'question' });
    const { tools } = await tenant.readStats(range);
    expect(tools).toEqual([
      { tool: 'bash', asks: 3, approved: 3, denied: 0, medianWaitMs: 3 },
      { tool: 'fetch', asks: 2, approved: 0, denied: 1, medianWaitMs: 9 },
    ]);
    expect(await tenant.listDecisions('denied', range, 9)).toMatchObject([{ id: denied.id }]);
    const approved = await tenant.listDecisions('approved', range, 2);
    expect(approved.map(({ decidedAt }) => decidedAt)).toEqual([noon + 5, noon + 3]);
  });

  test('failures, agents and models are listed, the most frequent first', async () => {
    const tenant = newTenant();
    const [at, later] = [noon, noon + minute];
    const lost = (message: string) => failed('internal', message);
    const [ada, bob] = [{ agent: 'ada', model: 'a\u0000' }, { agent: 'bob' }];
    await endedRun(tenant, { at, progress: failed('rate_limited', 'Slow down'), identity: ada });
    const last = await endedRun(tenant, { at: later, progress: lost('Last\u0000'), identity: bob });
    await endedRun(tenant, { at, progress: lost('First'), identity: bob });
    await endedRun(tenant, { at, progress: used(3, 4, 0.5), identity: bob });
    await endedRun(tenant, { at, progress: used(1, 2), identity: ada });
    const stats = await tenant.readStats(range);
    expect(stats.failures).toMatchObject([
      { code: 'internal', count: 2, lastRunId: last.id, lastAt: later, message: 'Last\u0000' },
      { code: 'rate_limited', count: 1, message: 'Slow down' },
    ]);
    const [dear, unknown] = [
      { runs: 3, tokens: { input: 3, output: 4 }, costUsd: 0.5, unpricedRuns: 0 },
      { runs: 2, tokens: { input: 1, output: 2 }, costUsd: 0, unpricedRuns: 1 },
    ];
    expect(stats.agents).toEqual([
      { agent: 'bob', ...dear },
      { agent: 'ada', ...unknown },
    ]);
    expect(stats.models).toEqual([
      { model: 'demo', ...dear },
      { model: 'a\u0000', ...unknown },
    ]);
  });

  test('lists are limited, and a tenant sees nothing of another one', async () => {
    const [tenant, stranger] = [newTenant(), newTenant()];
    for (let n = 0; n < 25; n += 1) {
      const names = { agent: `agent-${n}`, model: `model-${n}` };
      await endedRun(tenant, { at: noon, identity: names, progress: failed(`code_${n}`, 'x') });
      await asked(tenant, { tool: `tool-${n}`, at: noon, waitMs: 1, decision: 'approved' });
    }
    const { tools, failures, agents, models } = await tenant.readStats(range);
    for (const list of [tools, failures, agents, models]) expect(list).toHaveLength(20);
    const empty = await stranger.readStats(range);
    expect(empty).toMatchObject({ tools: [], failures: [], agents: [], models: [] });
    expect(empty.buckets.size).toBe(0);
    expect(empty.totals).toMatchObject({
      runs: { started: 0, completed: 0 },
      approvals: { requested: 0, approved: 0 },
      firstTokenMs: null,
      approvalWaitMs: null,
      openRuns: 0,
      pendingApprovals: 0,
    });
    expect(await stranger.listDecisions('approved', range, 9)).toEqual([]);
  });
}
