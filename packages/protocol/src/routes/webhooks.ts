/** `/v1/webhooks`: notifications about approvals, ended runs, sessions and messages. */
import { z } from 'zod';
import { webhookEventGroups, webhookEvents } from '../schemas/names.ts';
import { channelNameSchema, handleSchema } from '../schemas/sessions.ts';
import { idSchema, timeSchema } from '../schemas/values.ts';
import {
  itemErrors,
  listErrors,
  idParam,
  listOf,
  keyErrors,
  pageQuery,
  bodyErrors,
  type Route,
} from './route.ts';

/** All given conditions must hold. */
export const webhookFilterSchema = z.strictObject({
  /** Events of the session with this handle, and messages that it sends or receives. */
  handle: handleSchema.optional(),
  /** Messages of this channel. */
  channel: channelNameSchema.optional(),
  /** Messages that mention this handle. */
  mention: handleSchema.optional(),
});

function aboutMessages(event: string): boolean {
  return event.startsWith('message.') || event === 'delivery.failed';
}

function aboutSessions(event: string): boolean {
  return event.startsWith('session.') || aboutMessages(event);
}

export const webhookBodySchema = z
  .strictObject({
    url: z.url({ protocol: /^https?$/ }).max(2_048),
    events: z
      .array(z.enum([...webhookEvents, ...webhookEventGroups]))
      .min(1)
      .refine((given) => new Set(given).size === given.length, 'Events must be unique'),
    filter: webhookFilterSchema.optional(),
  })
  .superRefine(({ events, filter = {} }, context) => {
    for (const name of ['handle', 'channel', 'mention'] as const) {
      if (filter[name] === undefined) continue;
      const other = events.find(
        (each) => !(name === 'handle' ? aboutSessions : aboutMessages)(each),
      );
      if (other === undefined) continue;
      const message = `Events ${other} have no ${name}; create another webhook for them`;
      context.addIssue({ code: 'custom', path: ['filter', name], message });
    }
  });

export const webhooksQuerySchema = z.strictObject(pageQuery);

export const webhookSchema = z.object({
  id: idSchema,
  url: z.string(),
  events: z.array(z.enum(webhookEvents)),
  filter: webhookFilterSchema.optional(),
  createdAt: timeSchema,
});

const tokenParam = z.object({ token: z.string().min(1).max(256) });

/** The id of a delivery contains its event, as in `run.ended:…`. */
const deliveryParams = idParam.extend({ deliveryId: z.string().min(1).max(256) });

const deliverySchema = z.object({
  id: z.string(),
  event: z.enum(webhookEvents),
  status: z.enum(['pending', 'delivered', 'failed']),
  attempts: z.int(),
  at: timeSchema,
  nextAttemptAt: timeSchema.optional(),
  lastStatus: z.int().optional(),
  lastError: z.string().optional(),
});

export const webhookRoutes = {
  createWebhook: {
    method: 'POST',
    path: '/v1/webhooks',
    summary: 'Create a webhook; its signing secret is returned only here',
    scopes: ['admin'],
    body: webhookBodySchema,
    requiredFields: { fields: ['url', 'events'] },
    status: 201,
    output: webhookSchema.extend({ secret: z.string() }),
    errors: [...keyErrors, ...bodyErrors, 'base_url_refused', 'capability_missing'],
  },
  listWebhooks: {
    method: 'GET',
    path: '/v1/webhooks',
    summary: 'List webhooks, newest first',
    scopes: ['admin'],
    query: webhooksQuerySchema,
    output: listOf('webhooks', webhookSchema),
    errors: listErrors,
  },
  deleteWebhook: {
    method: 'DELETE',
    path: '/v1/webhooks/:id',
    summary: 'Delete a webhook, and drop its pending deliveries',
    scopes: ['admin'],
    params: idParam,
    responseType: 'none',
    errors: keyErrors,
  },
  listWebhookDeliveries: {
    method: 'GET',
    path: '/v1/webhooks/:id/deliveries',
    summary: 'List the deliveries of a webhook, newest first',
    scopes: ['admin'],
    params: idParam,
    query: webhooksQuerySchema,
    output: listOf('deliveries', deliverySchema),
    errors: [...itemErrors, 'invalid_request'],
  },
  redeliverWebhook: {
    method: 'POST',
    path: '/v1/webhooks/:id/deliveries/:deliveryId/redeliver',
    summary: 'Send a delivery of a webhook again, whatever became of it',
    scopes: ['admin'],
    params: deliveryParams,
    status: 202,
    output: deliverySchema,
    errors: itemErrors,
  },
  showDecisionLink: {
    method: 'GET',
    path: '/decide/:token',
    summary: 'Show the approval of a decision link; opening it decides nothing',
    auth: 'link',
    scopes: [],
    params: tokenParam,
    responseType: 'html',
    errors: ['not_found', 'rate_limited', 'host_not_allowed'],
  },
  decideByLink: {
    method: 'POST',
    path: '/decide/:token',
    summary: 'Decide the approval of a decision link, by the form on its page',
    auth: 'link',
    scopes: [],
    params: tokenParam,
    responseType: 'html',
    errors: [
      'not_found',
      'rate_limited',
      'host_not_allowed',
      'origin_not_allowed',
      'invalid_request',
      'outcome_answer_required',
      'denied_by_rule',
      'unsupported_media_type',
    ],
  },
} as const satisfies Record<string, Route>;
