/** `/v1/webhooks`: who is told what happens. */
import { type DeliveryRecord, ProviderFailure, type WebhookRecord } from '@relay/core';
import { RelayError, type webhookBodySchema, type webhooksQuerySchema } from '@relay/protocol';
import type { z } from 'zod';
import { notFound } from '../errors.ts';
import { auditEntry } from './audit-entry.ts';
import { storeOf } from './find.ts';
import type { Call, Handler } from './handler.ts';
import { cutPage, pageOf } from '../views/pages.ts';
import { iso } from '../views/run.ts';

export const createWebhook: Handler = async (call) => {
  const { url, events } = call.body as z.infer<typeof webhookBodySchema>;
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
  call.reply.code(201);
  return { ...presentWebhook(webhook), secret };
};

export const listWebhooks: Handler = async (call) => {
  const query = call.query as z.infer<typeof webhooksQuerySchema>;
  const found = await storeOf(call).webhooks.list(pageOf(query));
  const { items, nextCursor } = cutPage(found, query.limit, ({ createdAt: at, id }) => ({
    at,
    id,
  }));
  return { webhooks: items.map(presentWebhook), nextCursor };
};

/** What is gone already is deleted. */
export const deleteWebhook: Handler = async (call) => {
  const { id } = call.params as { id: string };
  await storeOf(call).webhooks.remove(id, auditEntry(call, 'webhook.deleted', { webhookId: id }));
  call.reply.code(204);
  return undefined;
};

export const listWebhookDeliveries: Handler = async (call) => {
  const { id } = call.params as { id: string };
  const query = call.query as z.infer<typeof webhooksQuerySchema>;
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
    if (!(error instanceof ProviderFailure)) throw error;
    const message = error.message.replace('The provider’s URL', 'The URL');
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
    ...(status === 'pending' ? { nextAttemptAt: iso(nextAt) } : {}),
    ...(lastStatus === null ? {} : { lastStatus }),
    ...(lastError === null ? {} : { lastError }),
  };
}
