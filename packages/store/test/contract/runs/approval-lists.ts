import type { NewApproval, Page, ApprovalFilter, TenantStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import {
  allListed,
  decisionOn,
  ending,
  hostileText,
  newApproval,
  newRun,
  noon,
  step,
  useStore,
} from '../fixtures.ts';
import type { Open } from '../fixtures.ts';

const all = { limit: 100 };

export function approvalListTests(open: Open): void {
  const { tenant: newTenant } = useStore(open);

  /** A run with approvals requested one millisecond after another. */
  async function requestApprovals(tenant: TenantStore, overrides: readonly Partial<NewApproval>[]) {
    const run = await newRun(tenant);
    const approvals = overrides.map((wish, n) =>
      newApproval(run, { requestedAt: noon + n, ...wish }),
    );
    await tenant.append(step(run, { approvals, progress: { status: 'waiting' } }));
    return { run, approvals };
  }

  const idsOf = async (tenant: TenantStore, filter: ApprovalFilter) =>
    (await tenant.listApprovals(filter, all)).items.map(({ id }) => id);

  test('approvals are listed as they are read, newest first', async () => {
    const tenant = newTenant();
    const { approvals } = await requestApprovals(tenant, [
      {},
      { kind: 'question' },
      { params: [null, { a: 1 }] },
    ]);
    const read = await Promise.all(approvals.map(({ id }) => tenant.readApproval(id)));
    expect((await tenant.listApprovals({}, all)).items).toEqual(read.toReversed());
  });

  test('by status, by run and by kind, and by all of them', async () => {
    const tenant = newTenant();
    const one = await requestApprovals(tenant, [{}, { kind: 'outcome' }, {}]);
    const two = await requestApprovals(tenant, [{ requestedAt: noon + 9, kind: 'outcome' }]);
    const [first, outcome, last] = one.approvals.map(({ id }) => id);
    const other = two.approvals[0]?.id;
    if (one.approvals[0] !== undefined) await tenant.decideApproval(decisionOn(one.approvals[0]));
    expect(await idsOf(tenant, {})).toEqual([other, last, outcome, first]);
    expect(await idsOf(tenant, { status: 'pending' })).toEqual([other, last, outcome]);
    expect(await idsOf(tenant, { status: 'approved' })).toEqual([first]);
    expect(await idsOf(tenant, { runId: one.run.id })).toEqual([last, outcome, first]);
    expect(await idsOf(tenant, { kind: 'outcome' })).toEqual([other, outcome]);
    const both = { runId: one.run.id, kind: 'outcome', status: 'pending' } as const;
    expect(await idsOf(tenant, both)).toEqual([outcome]);
    expect(await idsOf(tenant, { ...both, status: 'denied' })).toEqual([]);
    expect(await idsOf(tenant, { ...both, kind: 'question' })).toEqual([]);
    expect(await idsOf(tenant, { ...both, runId: uuidv7() })).toEqual([]);
  });

  test('by tool, and by several statuses', async () => {
    const tenant = newTenant();
    const tools = ['bash', 'send_note', 'bash', 'bash', 'bash'];
    const { run, approvals } = await requestApprovals(
      tenant,
      tools.map((tool) => ({ tool })),
    );
    const statuses = ['approved', 'approved', 'denied'] as const;
    for (const [n, status] of statuses.entries()) {
      const approval = approvals[n];
      if (approval !== undefined) await tenant.decideApproval(decisionOn(approval, { status }));
    }
    const [approved, note, denied, ...open] = approvals.map(({ id }) => id);
    const [third, fourth] = open;
    expect(await idsOf(tenant, { tool: 'bash' })).toEqual([fourth, third, denied, approved]);
    expect(await idsOf(tenant, { tool: 'bash', status: 'pending' })).toEqual([fourth, third]);
    const decided = ['approved', 'denied'] as const;
    expect(await idsOf(tenant, { tool: 'bash', status: decided })).toEqual([denied, approved]);
    expect(await idsOf(tenant, { status: decided })).toEqual([denied, note, approved]);
    const all = { tool: 'bash', status: decided, kind: 'permission' } as const;
    expect(await idsOf(tenant, { ...all, runId: run.id })).toEqual([denied, approved]);
    expect(await idsOf(tenant, { ...all, kind: 'outcome' })).toEqual([]);
    expect(await idsOf(tenant, { tool: 'other' })).toEqual([]);
    expect(await idsOf(newTenant(), { tool: 'bash' })).toEqual([]);
    const pages = (page: Page) => tenant.listApprovals(all, page);
    expect(await allListed(1, pages)).toEqual([denied, approved]);
  });

  test('an approval moves from list to list as it is decided, and as its run ends', async () => {
    const tenant = newTenant();
    const { run, approvals } = await requestApprovals(tenant, [{}, {}]);
    const [decided, open] = approvals;
    if (decided === undefined || open === undefined) throw new Error('No approval was requested');
    await tenant.decideApproval(decisionOn(decided, { status: 'denied' }));
    expect(await idsOf(tenant, { status: 'denied' })).toEqual([decided.id]);
    expect(await idsOf(tenant, { status: 'pending' })).toEqual([open.id]);
    await tenant.append(ending(run, { afterSeq: 2 }));
    expect(await idsOf(tenant, { status: 'pending' })).toEqual([]);
    expect(await idsOf(tenant, { status: 'closed' })).toEqual([open.id]);
  });

  test('pages of any size put together are the whole list', async () => {
    const tenant = newTenant();
    const overrides = Array.from({ length: 20 }, (_, n) => ({
      requestedAt: noon + Math.floor(n / 6),
      kind: n % 3 === 0 ? ('question' as const) : ('permission' as const),
    }));
    const { run, approvals } = await requestApprovals(tenant, overrides);
    for (const approval of approvals.slice(0, 7)) await tenant.decideApproval(decisionOn(approval));
    for (const filter of [
      {},
      { runId: run.id },
      { kind: 'permission' },
      { status: 'pending' },
    ] as const) {
      const whole = await idsOf(tenant, filter);
      expect(whole.length).toBeGreaterThan(10);
      for (const limit of [1, 4, 50]) {
        const read = (page: Page) => tenant.listApprovals(filter, page);
        expect(await allListed(limit, read)).toEqual(whole);
      }
    }
  });

  test('hostile text survives in a list', async () => {
    const tenant = newTenant();
    const texts = Object.values(hostileText);
    await requestApprovals(
      tenant,
      texts.map((text) => ({ tool: text, toolCallId: text, params: { [text]: text } })),
    );
    expect((await tenant.listApprovals({ status: 'pending' }, all)).items).toMatchObject(
      texts
        .toReversed()
        .map((text) => ({ tool: text, toolCallId: text, params: { [text]: text } })),
    );
  });
}
