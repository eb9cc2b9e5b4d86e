import type { Notice, TenantStore, WebhookRecord } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import {
  decisionOn,
  newAudit,
  newRun,
  noon,
  person,
  step,
  useStore,
  waitingRun,
  withStore,
} from '../fixtures.ts';
import type { Open } from '../fixtures.ts';

export function newWebhook(
  { tenantId }: TenantStore,
  over: Partial<WebhookRecord> = {},
): WebhookRecord {
  return {
    id: uuidv7(),
    tenantId,
    url: 'https://hooks.example/x',
    events: ['approval.requested', 'run.ended'],
    createdAt: noon,
    createdBy: person,
    mayDecide: true,
    filterHandle: null,
    filterChannel: null,
    filterMention: null,
    ...over,
  };
}

function newNotice(over: Partial<Notice> = {}): Notice {
  return { id: `run.ended:${uuidv7()}`, event: 'run.ended', at: noon, payload: '{}', ...over };
}

export function webhookTests(open: Open): void {
  const { tenant: newTenant } = useStore(open);
  const page = { limit: 100 };

  test('a webhook reads back as it was added, for its tenant alone', async () => {
    const [owner, stranger] = [newTenant(), newTenant()];
    const filters = { filterHandle: 'ada', filterChannel: 'builds', filterMention: 'bob' };
    const webhook = newWebhook(owner, { mayDecide: false, ...filters });
    await owner.webhooks.add(webhook);
    expect(await owner.webhooks.read(webhook.id)).toEqual(webhook);
    expect(await owner.webhooks.list(page)).toEqual([webhook]);
    expect(await stranger.webhooks.read(webhook.id)).toBeUndefined();
    expect(await stranger.webhooks.list(page)).toEqual([]);
    expect(await stranger.webhooks.remove(webhook.id)).toBe(false);
    expect(await owner.webhooks.remove(webhook.id)).toBe(true);
    expect(await owner.webhooks.remove(webhook.id)).toBe(false);
    expect(await owner.webhooks.read(webhook.id)).toBeUndefined();
  });

  test('what happens is stored once for each webhook of the tenant that wants it', async () => {
    const [tenant, stranger] = [newTenant(), newTenant()];
    const [one, two, other] = [
      newWebhook(tenant),
      newWebhook(tenant, { events: ['run.ended'] }),
      newWebhook(tenant, { events: ['approval.expired'] }),
    ];
    const theirs = newWebhook(stranger);
    for (const webhook of [one, two, other]) await tenant.webhooks.add(webhook);
    await stranger.webhooks.add(theirs);
    const notice = newNotice();
    await tenant.append(step(await newRun(tenant), { notices: [notice] }));
    const pending = {
      status: 'pending',
      attempts: 0,
      queuedAt: noon,
      nextAt: noon,
      lastStatus: null,
      lastError: null,
    };
    for (const { id } of [one, two]) {
      const expected = [{ ...notice, tenantId: tenant.tenantId, webhookId: id, ...pending }];
      expect(await tenant.webhooks.deliveries(id, page)).toEqual(expected);
    }
    expect(await tenant.webhooks.deliveries(other.id, page)).toEqual([]);
    expect(await stranger.webhooks.deliveries(theirs.id, page)).toEqual([]);
    expect(await stranger.webhooks.deliveries(one.id, page)).toEqual([]);
  });

  test('a notice of a step that is not stored is delivered to no webhook', async () => {
    const tenant = newTenant();
    const webhook = newWebhook(tenant);
    await tenant.webhooks.add(webhook);
    const notices = [newNotice()];
    const { run, approval } = await waitingRun(tenant);
    expect(await tenant.append(step(run, { epoch: 9, notices }))).toBe('fenced');
    expect(await tenant.decideApproval(decisionOn(approval, { runId: uuidv7(), notices }))).toBe(
      false,
    );
    expect(await tenant.webhooks.deliveries(webhook.id, page)).toEqual([]);
    expect(await tenant.decideApproval(decisionOn(approval, { notices }))).toBe(true);
    expect(await tenant.webhooks.deliveries(webhook.id, page)).toHaveLength(1);
  });

  test('the audit trail tells of webhooks that come and go', async () => {
    const tenant = newTenant();
    const webhook = newWebhook(tenant);
    const [made, gone, never] = [newAudit(), newAudit(), newAudit()];
    await tenant.webhooks.add(webhook, [made]);
    await tenant.webhooks.remove(webhook.id, [gone]);
    await tenant.webhooks.remove(webhook.id, [never]);
    expect((await tenant.audit.unsealed(9)).map(({ id }) => id)).toEqual([made.id, gone.id]);
  });

  test('a long backlog of one webhook does not delay the others', async () => {
    await withStore(open, async ({ store }) => {
      const tenant = store.tenant(uuidv7());
      const dead = newWebhook(tenant, { events: ['approval.requested'] });
      const [one, two] = [newWebhook(tenant), newWebhook(tenant)].map((each) => ({
        ...each,
        events: ['run.ended'] as const,
      }));
      for (const webhook of [dead, one!, two!]) await tenant.webhooks.add(webhook);
      const requested = (n: number) =>
        newNotice({ id: `approval.requested:${n}`, event: 'approval.requested', at: noon + n });
      const notices = [...Array.from({ length: 30 }, (_, n) => requested(n)), newNotice()];
      await tenant.append(step(await newRun(tenant), { notices }));
      const claim = (by: { perWebhook: number; except?: string[]; limit?: number }) =>
        store.deliveries.claim({ now: noon + 99, until: noon + 999, limit: 10, ...by });
      const first = await claim({ perWebhook: 2 });
      expect(first.map(({ id, webhookId }) => `${webhookId} ${id}`).toSorted()).toEqual(
        [
          `${dead.id} approval.requested:0`,
          `${dead.id} approval.requested:1`,
          `${one!.id} ${notices[30]!.id}`,
          `${two!.id} ${notices[30]!.id}`,
        ].toSorted(),
      );
      expect(await claim({ perWebhook: 3, except: [one!.id, dead.id] })).toEqual([]);
      expect(await claim({ perWebhook: 3, except: [uuidv7(), tenant.tenantId] })).toEqual([]);
      expect(await claim({ perWebhook: 3, limit: 2 })).toHaveLength(2);
      expect(await claim({ perWebhook: 50, limit: 50 })).toHaveLength(26);
    });
  });

  test('deliveries that are too late fail, and old ones are deleted', async () => {
    await withStore(open, async ({ store }) => {
      const tenant = store.tenant(uuidv7());
      const webhook = newWebhook(tenant);
      await tenant.webhooks.add(webhook);
      const notices = [0, 1, 2, 3].map((n) => newNotice({ id: `run.ended:${n}`, at: noon + n }));
      await tenant.append(step(await newRun(tenant), { notices }));
      const { deliveries } = store;
      const [delivered, tried] = await deliveries.claim({ now: noon + 1, until: noon, limit: 2 });
      const result = { nextAt: noon, lastStatus: null, lastError: 'refused' };
      await deliveries.finish(delivered!, { ...result, status: 'delivered', lastError: null });
      await deliveries.finish(tried!, { ...result, status: 'pending' });
      const sweep = (giveUp: number, forget: number, limit = 9) =>
        deliveries.sweep({ failBefore: noon + giveUp, deleteBefore: noon + forget, limit });
      const shown = async () => {
        const found = await tenant.webhooks.deliveries(webhook.id, page);
        return found.map(({ id, status, lastError }) => [id, status, lastError]).toReversed();
      };
      expect(await sweep(1, 0)).toBe(0);
      expect(await sweep(3, 0, 1)).toBe(1);
      expect(await sweep(3, 0)).toBe(1);
      expect(await sweep(3, 0)).toBe(0);
      expect(await shown()).toEqual([
        ['run.ended:0', 'delivered', null],
        ['run.ended:1', 'failed', 'refused'],
        ['run.ended:2', 'failed', 'Not delivered in time'],
        ['run.ended:3', 'pending', null],
      ]);
      expect(await sweep(3, 2)).toBe(2);
      expect((await shown()).map(([id]) => id)).toEqual(['run.ended:2', 'run.ended:3']);
      expect(await sweep(3, 99)).toBe(1);
      expect((await shown()).map(([id]) => id)).toEqual(['run.ended:3']);
    });
  });

  test('a delivery can be requested again in any status, with its attempts from the start', async () => {
    await withStore(open, async ({ store }) => {
      const [tenant, stranger] = [store.tenant(uuidv7()), store.tenant(uuidv7())];
      const webhook = newWebhook(tenant);
      await tenant.webhooks.add(webhook);
      const notice = newNotice({ payload: '{"n":1}' });
      await tenant.append(step(await newRun(tenant), { notices: [notice] }));
      const ref = { webhookId: webhook.id, id: notice.id };
      const claim = async (now: number) =>
        (await store.deliveries.claim({ now, until: now + 100, limit: 1 }))[0];
      const failed = { status: 'failed', nextAt: noon, lastStatus: 500, lastError: null } as const;
      const first = await claim(noon);
      expect(await store.deliveries.finish(first!, failed)).toBe(true);

      const [audit, never] = [newAudit(), newAudit()];
      const later = noon + 1_000;
      const again = await tenant.webhooks.redeliver({ ...ref, at: later }, [audit]);
      const due = { status: 'pending', attempts: 0, nextAt: later, queuedAt: later };
      const unanswered = { lastStatus: null, lastError: null };
      const expected = { ...first, ...due, ...unanswered };
      expect(again).toEqual(expected);
      expect(await tenant.webhooks.deliveries(webhook.id, page)).toEqual([expected]);
      // Neither the tenant nor the id of another one.
      const other = { ...ref, at: later };
      expect(await stranger.webhooks.redeliver(other, [never])).toBeUndefined();
      const unknown = { ...other, id: 'run.ended:unknown' };
      expect(await tenant.webhooks.redeliver(unknown, [never])).toBeUndefined();
      expect((await tenant.audit.unsealed(9)).map(({ id }) => id)).toEqual([audit.id]);
      expect(await stranger.audit.unsealed(9)).toEqual([]);

      // What became of the first attempt is not taken for the result of the new one.
      const second = await claim(later);
      expect(second).toMatchObject({ ...notice, attempts: 1 });
      expect(await store.deliveries.finish(first!, { ...failed, status: 'delivered' })).toBe(false);
      // It is due at once, also while an attempt is in flight or delayed.
      expect(await tenant.webhooks.redeliver({ ...ref, at: later + 1 })).toMatchObject({
        attempts: 0,
      });
      expect(await store.deliveries.finish(second!, failed)).toBe(false);
      const third = await claim(later + 1);
      const done = { ...failed, status: 'delivered', lastStatus: 200 } as const;
      expect(await store.deliveries.finish(third!, done)).toBe(true);
      // It is kept as long as one of a new event.
      const sweep = { failBefore: later, deleteBefore: later, limit: 9 };
      expect(await store.deliveries.sweep(sweep)).toBe(0);
      await tenant.webhooks.redeliver({ ...ref, at: later + 2 });
      expect(await store.deliveries.sweep({ ...sweep, failBefore: later + 2 })).toBe(0);
      expect(await store.deliveries.sweep({ ...sweep, failBefore: later + 3 })).toBe(1);
    });
  });

  test('a due delivery is claimed once, and again if it is not finished in time', async () => {
    await withStore(open, async ({ store }) => {
      const tenant = store.tenant(uuidv7());
      const webhook = newWebhook(tenant);
      await tenant.webhooks.add(webhook);
      const notices = [0, 1, 2].map((n) => newNotice({ at: noon + n }));
      await tenant.append(step(await newRun(tenant), { notices }));
      const claim = (now: number, limit = 10) =>
        store.deliveries.claim({ now, until: now + 100, limit });
      expect(await claim(noon - 1)).toEqual([]);
      const claims = await Promise.all([1, 2, 3].map(() => claim(noon + 5)));
      const claimed = claims.flat();
      expect(claimed.map(({ id }) => id).toSorted()).toEqual(
        notices.map(({ id }) => id).toSorted(),
      );
      expect(
        claimed.every(({ attempts, webhookId }) => attempts === 1 && webhookId === webhook.id),
      ).toBe(true);
      const [done, later, dead] = claimed;
      const result = { nextAt: noon + 500, lastStatus: 200, lastError: null };
      expect(await store.deliveries.finish(done!, { ...result, status: 'delivered' })).toBe(true);
      expect(await store.deliveries.finish(done!, { ...result, status: 'failed' })).toBe(false);
      const failure = {
        ...result,
        lastStatus: null,
        lastError: 'refused',
        status: 'pending',
      } as const;
      expect(await store.deliveries.finish(later!, failure)).toBe(true);
      // The process that had the third one died.
      expect(await claim(noon + 104)).toEqual([]);
      expect(await claim(noon + 105)).toMatchObject([{ id: dead?.id, attempts: 2 }]);
      expect(await store.deliveries.finish(dead!, { ...result, status: 'delivered' })).toBe(false);
      expect(await claim(noon + 600, 1)).toHaveLength(1);
      expect(await store.deliveries.find(webhook.id)).toEqual(webhook);
      await tenant.webhooks.remove(webhook.id);
      expect(await claim(noon + 9_000)).toEqual([]);
      expect(await store.deliveries.find(webhook.id)).toBeUndefined();
    });
  });
}
