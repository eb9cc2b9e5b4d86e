/** `/v1/webhooks`: URLs that are notified of events. */
import type { DeliveryRecord, WebhookRecord } from '@relay/core';
import { notFound } from '../errors.ts';
import { checkUrl } from './credentials.ts';
import { auditEntry, type Handler, storeOf } from './handler.ts';
import { byCreation, iso, readPage } from '../views/pagination.ts';

export const createWebhook: Handler<'createWebhook'> = async (call) => {
  const { url, events } = call.body;
  checkUrl(call, 'url', url);
  const { caller, context } = call;
  const { engine } = context.control;
  const webhook: WebhookRecord = {
    id: engine.ids.next(),
    tenantId: caller.tenantId,
    url,
    events,
    createdAt: engine.clock.now(),
    createdBy: caller.actor,
    mayDecide: caller.actor.type === 'key' && caller.scopes.has('approve'),
  };
  // The path may be a secret: only the origin is audited.
  const what = { webhookId: webhook.id, origin: new URL(url).origin, events };
  await storeOf(call).webhooks.add(webhook, auditEntry(call, 'webhook.created', what));
  const secret = context.signer.secretOf(webhook);
  context.log.addSecret(secret);
  return { ...presentWebhook(webhook), secret };
};

export const listWebhooks: Handler<'listWebhooks'> = async (call) => {
  const { webhooks } = storeOf(call);
  const { items, nextCursor } = await readPage(
    call.query,
    (page) => webhooks.list(page),
    byCreation,
  );
  return { webhooks: items.map(presentWebhook), nextCursor };
};

/** Succeeds if the webhook does not exist. */
export const deleteWebhook: Handler<'deleteWebhook'> = async (call) => {
  const { id } = call.params;
  await storeOf(call).webhooks.remove(id, auditEntry(call, 'webhook.deleted', { webhookId: id }));
};

export const listWebhookDeliveries: Handler<'listWebhookDeliveries'> = async (call) => {
  const { id } = call.params;
  const { webhooks } = storeOf(call);
  if ((await webhooks.read(id)) === undefined) throw notFound('webhook');
  const { items, nextCursor } = await readPage(
    call.query,
    (page) => webhooks.deliveries(id, page),
    (delivery) => ({ at: delivery.at, id: delivery.id }),
  );
  return { deliveries: items.map(presentDelivery), nextCursor };
};

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
