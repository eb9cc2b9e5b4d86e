/** `/v1/webhooks`: who is told what happens. */
import type { DeliveryRecord, WebhookRecord } from '@relay/core';
import { UrlRefused } from '@relay/models';
import { RelayError } from '@relay/protocol';
import { notFound } from '../errors.ts';
import { auditEntry, type Call, type Handler, storeOf } from './handler.ts';
import { cutPage, pageOf } from '../views/pagination.ts';
import { iso } from '../views/time.ts';

export const createWebhook: Handler<'createWebhook'> = async (call) => {
  const { url, events } = call.body;
  checkUrl(call, url);
  const { caller, context } = call;
  const { engine } = context.control;
  const webhook: WebhookRecord = {
    id: engine.ids.next(),
    tenantId: caller.tenantId,
    url,
    events,
    createdAt: engine.clock.now(),
    createdBy: caller.as,
    mayDecide: caller.as.type === 'key' && caller.scopes.has('approve'),
  };
  // Its path may be a secret: where it leads is said by its origin.
  const what = { webhookId: webhook.id, origin: new URL(url).origin, events };
  await storeOf(call).webhooks.add(webhook, auditEntry(call, 'webhook.created', what));
  const secret = context.signer.secretOf(webhook);
  context.log.conceal(secret);
  return { ...presentWebhook(webhook), secret };
};

export const listWebhooks: Handler<'listWebhooks'> = async (call) => {
  const query = call.query;
  const found = await storeOf(call).webhooks.list(pageOf(query));
  const { items, nextCursor } = cutPage(found, query.limit, ({ createdAt: at, id }) => ({
    at,
    id,
  }));
  return { webhooks: items.map(presentWebhook), nextCursor };
};

/** What is gone already is deleted. */
export const deleteWebhook: Handler<'deleteWebhook'> = async (call) => {
  const { id } = call.params;
  await storeOf(call).webhooks.remove(id, auditEntry(call, 'webhook.deleted', { webhookId: id }));
};

export const listWebhookDeliveries: Handler<'listWebhookDeliveries'> = async (call) => {
  const { id } = call.params;
  const query = call.query;
  const { webhooks } = storeOf(call);
  if ((await webhooks.read(id)) === undefined) throw notFound('webhook');
  const found = await webhooks.deliveries(id, pageOf(query));
  const { items, nextCursor } = cutPage(found, query.limit, ({ at, id: event }) => ({
    at,
    id: event,
  }));
  return { deliveries: items.map(presentDelivery), nextCursor };
};

function checkUrl(call: Call, url: string): void {
  try {
    call.context.guard.checkUrl(new URL(url));
  } catch (error) {
    if (!(error instanceof UrlRefused)) throw error;
    const { message } = error;
    throw new RelayError('base_url_refused', `url: ${message}`, {
      details: [{ path: 'url', message }],
    });
  }
}

function presentWebhook({ id, url, events, createdAt }: WebhookRecord) {
  return { id, url, events, createdAt: iso(createdAt) };
}

function presentDelivery(delivery: DeliveryRecord) {
  const { id, event, status, attempts, at, nextAt, lastStatus, lastError } = delivery;
  return {
    id,
    event,
    status,
    attempts,
    at: iso(at),
    nextAttemptAt: status === 'pending' ? iso(nextAt) : undefined,
    lastStatus: lastStatus ?? undefined,
    lastError: lastError ?? undefined,
  };
}
