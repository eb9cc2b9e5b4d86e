/** Webhook deliveries: retries, backoff and isolation of failing webhooks. */
import { randomBytes } from 'node:crypto';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  type Clock,
  type DeliveryRecord,
  type Notice,
  systemClock,
  type WebhookRecord,
} from '@relay/core';
import { ManualClock } from '@relay/core/testing';
import { createGuardedFetch, createOutboundGuard } from '@relay/models';
import { createMemoryStore } from '@relay/store';
import { decisionOn, waitingRun } from '../../../store/test/contract/fixtures.ts';
import { uuidv7 } from 'uuidv7';
import { afterEach, describe, expect, it } from 'vitest';
import { until } from '../support/server.ts';
import { WebhookDeliverer } from '../../src/jobs/webhook-deliverer.ts';
import { WebhookSigner } from '../../src/secrets/webhook-signer.ts';

const servers: Server[] = [];
const fetch = createGuardedFetch(createOutboundGuard(['127.0.0.0/8']));

afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function listen(answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

function setUp(clock: Clock, store = createMemoryStore(), tenantId = uuidv7()) {
  const tenant = store.tenant(tenantId);
  const log = { warn: () => undefined, error: () => undefined };
  const signer = new WebhookSigner(randomBytes(32));
  const deliverer = new WebhookDeliverer({
    store,
    signer,
    fetchFor: () => fetch,
    clock,
    log,
    publicUrl: undefined,
    pausedTenants: () => [],
  });
  const hook = async (url: string, event: WebhookRecord['events'][number] = 'run.ended') => {
    const createdBy = { type: 'key', id: 'k', name: 'Ada' } as const;
    const webhook = {
      id: uuidv7(),
      tenantId: tenant.tenantId,
      url,
      events: [event],
      createdAt: clock.now(),
      createdBy,
      mayDecide: false,
      filterHandle: null,
      filterChannel: null,
      filterMention: null,
    };
    await tenant.webhooks.add(webhook);
    return webhook.id;
  };
  const happens = async (count: number, event: Notice['event'] = 'run.ended') => {
    const { approval } = await waitingRun(tenant);
    const notices = Array.from({ length: count }, (_, n) => ({
      id: `${event}:${approval.id}-${n}`,
      event,
      at: clock.now(),
      payload: '{}',
    }));
    expect(await tenant.decideApproval(decisionOn(approval, { notices }))).toBe(true);
  };
  const shown = (id: string) => tenant.webhooks.deliveries(id, { limit: 1_000 });
  /** All that is due now, to its end. */
  const round = async () => {
    await deliverer.begin();
    await deliverer.settled();
  };
  return { store, tenant, deliverer, hook, happens, shown, round };
}

describe('a delivery', () => {
  it('is retried with growing delays for a day, then fails', async () => {
    const clock = new ManualClock();
    let calls = 0;
    const url = await listen((request, response) => {
      calls += 1;
      request.resume();
      response.writeHead(503).end();
    });
    const { hook, happens, shown, round, tenant } = setUp(clock);
    const id = await hook(url);
    await happens(1);
    const start = clock.now();
    const at: number[] = [];
    for (;;) {
      await round();
      at.push(clock.now() - start);
      const [delivery] = await shown(id);
      if (delivery?.status !== 'pending') break;
      expect(delivery.lastStatus).toBe(503);
      await clock.advance(delivery.nextAt - clock.now());
    }
    expect(await shown(id)).toMatchObject([{ status: 'failed', attempts: calls }]);
    const day = 24 * 60 * 60_000;
    expect(at.at(-1)).toBeGreaterThanOrEqual(day);
    expect(at.at(-2)).toBeLessThan(day);
    const pauses = at.slice(1).map((time, n) => time - at[n]!);
    for (const [n, pause] of pauses.entries()) {
      const wanted = Math.min(5_000 * 2 ** n, 60 * 60_000);
      expect(pause).toBeGreaterThanOrEqual(wanted * 0.5);
      expect(pause).toBeLessThanOrEqual(wanted * 1.5);
    }
    await clock.advance(day);
    await round();
    expect(calls).toBe(at.length);
    // On request it is retried as long as that of a new event.
    const [{ id: deliveryId }] = (await shown(id)) as [DeliveryRecord];
    await tenant.webhooks.redeliver({ webhookId: id, id: deliveryId, at: clock.now() });
    await round();
    expect(await shown(id)).toMatchObject([{ status: 'pending', attempts: 1, lastStatus: 503 }]);
    expect(calls).toBe(at.length + 1);
  });

  it('to a deleted webhook fails at once', async () => {
    const { store, hook, happens, round, deliverer } = setUp(systemClock);
    const id = await hook('http://127.0.0.1:9/');
    await happens(1);
    store.deliveries.find = async () => undefined;
    const finished: string[] = [];
    const { finish } = store.deliveries;
    store.deliveries.finish = (delivery, result) => {
      finished.push(`${result.status}: ${String(result.lastError)}`);
      return finish.call(store.deliveries, delivery, result);
    };
    await round();
    expect(finished).toEqual(['failed: The webhook was deleted']);
    expect(id).not.toBe('');
    await deliverer.stop();
  });
});

describe('a webhook that', () => {
  it('never answers does not delay other webhooks', async () => {
    const held = new Set<unknown>();
    const dead = await listen((request) => void held.add(request.socket));
    const received: unknown[] = [];
    const live = await listen((request, response) => {
      received.push(request.headers['relay-delivery']);
      request.resume();
      response.end();
    });
    const { deliverer, hook, happens } = setUp(systemClock);
    await hook(dead, 'approval.requested');
    await happens(100, 'approval.requested');
    await hook(live);
    deliverer.start();
    await until(() => held.size > 0, 'the first call that is not answered');
    await happens(40);
    await until(() => received.length === 40, 'all of the others');
    expect(new Set(received).size).toBe(40);
    expect(held.size).toBeLessThanOrEqual(8);
    await deliverer.stop();
  });

  it('is one of very many of a tenant, none of which answers, does not delay other tenants', async () => {
    const held = new Set<unknown>();
    const dead = await listen((request) => void held.add(request.socket));
    const received: unknown[] = [];
    const live = await listen((request, response) => {
      received.push(request.headers['relay-delivery']);
      request.resume();
      response.end();
    });
    const { store, deliverer, hook, happens } = setUp(systemClock);
    for (let n = 0; n < 300; n += 1) await hook(dead);
    await happens(2);
    const other = setUp(systemClock, store);
    await other.hook(live);
    await other.happens(3);
    for (let n = 0; n < 5; n += 1) await deliverer.begin();
    await until(() => received.length === 3, 'the deliveries of the other tenant');
    expect(held.size).toBeLessThan(200);
    await deliverer.stop();
  });

  it('keeps failing backs off and is retried later', async () => {
    const clock = new ManualClock();
    let status = 500;
    let calls = 0;
    const ids = new Set<unknown>();
    const url = await listen((request, response) => {
      calls += 1;
      ids.add(request.headers['webhook-id']);
      request.resume();
      response.writeHead(status).end();
    });
    const { hook, happens, shown, round, deliverer } = setUp(clock);
    const id = await hook(url);
    await happens(50);
    await round();
    const first = calls;
    expect(first).toBe(8);
    await round();
    await round();
    expect(calls).toBe(first);
    status = 204;
    await clock.advance(60_000);
    for (let n = 0; n < 7; n += 1) await round();
    await clock.advance(60_000);
    await round();
    expect((await shown(id)).every((each) => each.status === 'delivered')).toBe(true);
    expect(calls).toBe(first + 50);
    // An attempt that follows has the id of the first.
    expect(ids.size).toBe(50);
    await deliverer.stop();
  });

  it('sends an endless response is cut off after the status', async () => {
    let ended = false;
    const url = await listen((request, response) => {
      request.resume();
      response.on('close', () => (ended = true));
      response.writeHead(200);
      const more = () =>
        response.destroyed || (response.write('x'.repeat(65_536)), setImmediate(more));
      more();
    });
    const { hook, happens, shown, round, deliverer } = setUp(systemClock);
    const id = await hook(url);
    await happens(1);
    await round();
    expect(await shown(id)).toMatchObject([{ status: 'delivered', lastStatus: 200 }]);
    await until(() => ended, 'the end of the answer');
    await deliverer.stop();
  });
});
