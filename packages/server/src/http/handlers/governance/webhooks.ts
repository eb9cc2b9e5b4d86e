/** `/v1/webhooks`: URLs that are notified of events. */
import { type DeliveryRecord, requireCapability, type WebhookRecord } from '@relay/core';
import { type BodyOf, defined, webhookEvents } from '@relay/protocol';
import { notFound } from '../../errors.ts';
import { checkUrl } from './credentials.ts';
import { type ApiRequest, auditEntry, type Handler, storeOf } from '../handler.ts';
import { byCreation, iso, readPage } from '../../views/pagination.ts';

export const createWebhook: Handler<'createWebhook'> = async (call) => {
  const { url, filter = {} } = call.body;
  checkUrl(call, 'url', url);
  await rejectUnobservable(call, call.body);
  const events = webhookEvents.filter((event) =>
    call.body.events.some((given) => given === event || given === `${event.split('.')[0]}.*`),
  );
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
    filterHandle: filter.handle ?? null,
    filterChannel: filter.channel ?? null,
    filterMention: filter.mention ?? null,
  };
  // The path may be a secret: only the origin is audited.
  const what = { webhookId: webhook.id, origin: new URL(url).origin, events, ...defined(filter) };
  await storeOf(call).webhooks.add(webhook, auditEntry(call, 'webhook.created', what));
  const secret = context.signer.secretOf(webhook);
  context.log.addSecret(secret);
  return { ...presentWebhook(webhook), secret };
};

/** Throws `capability_missing` for events that the session with the handle does not report. */
async function rejectUnobservable(
  call: ApiRequest,
  { events, filter }: BodyOf<'createWebhook'>,
): Promise<void> {
  if (filter?.handle === undefined || !events.includes('session.status-changed')) return;
  const session = await storeOf(call).sessions.readByHandle(filter.handle);
  if (session === undefined) return;
  requireCapability(session, { type: 'observe', events: ['status.changed'] });
}

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

/** Any node sends it. Its body is stored as long as the delivery. */
export const redeliverWebhook: Handler<'redeliverWebhook'> = async (call) => {
  const { id: webhookId, deliveryId: id } = call.params;
  const { webhooks } = storeOf(call);
  if ((await webhooks.read(webhookId)) === undefined) throw notFound('webhook');
  const at = call.context.control.engine.clock.now();
  const audit = auditEntry(call, 'webhook.redelivered', { webhookId, deliveryId: id });
  const delivery = await webhooks.redeliver({ webhookId, id, at }, audit);
  if (delivery === undefined) throw notFound('delivery');
  return presentDelivery(delivery);
};

function presentWebhook(webhook: WebhookRecord) {
  const { id, url, events, createdAt, filterHandle, filterChannel, filterMention } = webhook;
  const filter = defined({
    handle: filterHandle ?? undefined,
    channel: filterChannel ?? undefined,
    mention: filterMention ?? undefined,
  });
  const isFiltered = Object.keys(filter).length > 0;
  return { id, url, events, filter: isFiltered ? filter : undefined, createdAt: iso(createdAt) };
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
