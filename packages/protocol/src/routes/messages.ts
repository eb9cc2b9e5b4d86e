/** `/v1/messages`, `/v1/deliveries` and `/v1/channels`: messages to sessions, one delivery per recipient. */
import { z } from 'zod';
import { imagePartSchema, senderSchema, textPartSchema } from '../schemas/messages.ts';
import { deliveryModes } from '../schemas/names.ts';
import {
  capabilityDetailsSchema,
  channelNameSchema,
  deliveryStatuses,
  handleSchema,
} from '../schemas/sessions.ts';
import { idSchema, lineSchema, seqSchema, timeSchema } from '../schemas/values.ts';
import {
  attachmentsBodyLimit,
  bodyErrors,
  idParam,
  itemErrors,
  keyErrors,
  listErrors,
  listOf,
  pageQuery,
  type Route,
} from './route.ts';

const addressSchema = z
  .string()
  .regex(/^[@#][a-z0-9][a-z0-9._-]{0,63}$/, 'Must be "@" and a handle, or "#" and a channel');
const addresseesSchema = z.union([addressSchema, z.array(addressSchema).min(1).max(256)]);

export const sessionAttachmentSchema = z.discriminatedUnion('type', [
  textPartSchema,
  imagePartSchema,
]);
export type SessionAttachment = z.infer<typeof sessionAttachmentSchema>;
const attachmentsSchema = z.array(sessionAttachmentSchema).max(64);

export const messageBodySchema = z
  .strictObject({
    /** Default with `replyTo`: the participants of the thread. */
    to: addresseesSchema.optional(),
    text: z.string(),
    /** Default: that of each recipient. */
    mode: z.enum(deliveryModes).optional(),
    attachments: attachmentsSchema.optional(),
    replyTo: idSchema.optional(),
    /** A repeat with the same body returns the same message. */
    idempotencyKey: z.string().min(1).max(255).optional(),
  })
  .refine(({ to, replyTo }) => to !== undefined || replyTo !== undefined, {
    path: ['to'],
    message: 'Required, except with replyTo',
  })
  .refine(({ text, attachments = [] }) => text !== '' || attachments.length > 0, {
    path: ['text'],
    message: 'Must not be empty without attachments',
  });

/** What can be changed while no recipient has the message. An omitted field stays. */
export const messageChangesSchema = z.strictObject({
  text: z.string().min(1).optional(),
  mode: z.enum(deliveryModes).optional(),
  attachments: attachmentsSchema.optional(),
});

/** Names may be given with or without the sign of an address. */
function nameFilter(sign: '@' | '#', name: z.ZodString) {
  return z
    .string()
    .transform((given) => (given.startsWith(sign) ? given.slice(1) : given))
    .pipe(name);
}

export const messagesQuerySchema = z.strictObject({
  ...pageQuery,
  channel: nameFilter('#', channelNameSchema).optional(),
  with: nameFilter('@', handleSchema).optional().describe('Sent to or by this handle'),
  thread: idSchema.optional().describe('The first message of a thread'),
  q: z.string().min(1).max(1000).optional().describe('Words that the text contains'),
  since: timeSchema.optional(),
});

export const deliveryWaitQuerySchema = z.strictObject({
  wait: z
    .enum(['delivered', 'consumed'])
    .optional()
    .describe('Respond when every delivery has this status or a final one, or after waitMs'),
  waitMs: seqSchema.pipe(z.int().max(60_000)).default(25_000),
});

export const deliveriesQuerySchema = z.strictObject({
  ...pageQuery,
  status: z.enum(deliveryStatuses).optional(),
  sessionId: idSchema.optional(),
});

/** Why a delivery failed. `code` is the reason of its `delivery.failed`. */
const deliveryErrorSchema = z.object({
  code: z.string(),
  message: z.string(),
  retryable: z.boolean().optional(),
  details: capabilityDetailsSchema.optional(),
});

/** A delivery as its message shows it. */
const recipientSchema = z.object({
  id: idSchema,
  sessionId: idSchema,
  handle: handleSchema,
  status: z.enum(deliveryStatuses),
  error: deliveryErrorSchema.optional(),
});

/** One message for one recipient. */
export const deliverySchema = recipientSchema.extend({
  messageId: idSchema,
  mode: z.enum(deliveryModes),
  attempts: z.int(),
  /** Set while it is deferred. */
  reason: z.string().optional(),
  availableAt: timeSchema.optional(),
  acceptedAt: timeSchema,
  deliveredAt: timeSchema.optional(),
  consumedAt: timeSchema.optional(),
  failedAt: timeSchema.optional(),
  /** The harness concluded the last receipt, because the session does not report it. */
  fidelity: z.literal('inferred').optional(),
});

export const sessionMessageSchema = z.object({
  id: idSchema,
  from: senderSchema,
  /** Empty for a reply in a thread whose other participants are keys: they read it there. */
  to: z.union([addressSchema, z.array(addressSchema)]),
  text: z.string(),
  attachments: attachmentsSchema,
  /** As requested, or the default of all recipients; unset if their defaults differ. */
  mode: z.enum(deliveryModes).optional(),
  replyTo: idSchema.optional(),
  at: timeSchema,
  editedAt: timeSchema.optional(),
  withdrawnAt: timeSchema.optional(),
  deliveries: z.array(recipientSchema),
});

export const channelBodySchema = z.strictObject({ topic: lineSchema(1000).optional() }).optional();

export const channelsQuerySchema = z.strictObject(pageQuery);

const channelParam = z.object({ name: channelNameSchema });
const memberParam = channelParam.extend({ handle: handleSchema });

export const channelSchema = z.object({
  name: channelNameSchema,
  topic: z.string().optional(),
  members: z.array(handleSchema),
  createdAt: timeSchema,
});

export const messageRoutes = {
  sendMessage: {
    method: 'POST',
    path: '/v1/messages',
    summary: 'Send a message to sessions and channels',
    scopes: ['runs'],
    session: 'tenant',
    body: messageBodySchema,
    bodyLimit: attachmentsBodyLimit,
    status: 201,
    output: sessionMessageSchema,
    errors: [
      ...itemErrors,
      ...bodyErrors,
      'capability_missing',
      'loop_limit',
      'session_conflict',
      'idempotency_mismatch',
      'inbox_full',
    ],
  },
  listMessages: {
    method: 'GET',
    path: '/v1/messages',
    summary: 'List or search messages, newest first',
    scopes: ['read'],
    session: 'tenant',
    query: messagesQuerySchema,
    output: listOf('messages', sessionMessageSchema),
    errors: listErrors,
  },
  getMessage: {
    method: 'GET',
    path: '/v1/messages/:id',
    summary: 'Read a message with its deliveries',
    scopes: ['read'],
    session: 'tenant',
    params: idParam,
    output: sessionMessageSchema,
    errors: itemErrors,
  },
  editMessage: {
    method: 'PATCH',
    path: '/v1/messages/:id',
    summary: 'Change a message that no recipient has yet',
    scopes: ['runs'],
    session: 'tenant',
    params: idParam,
    body: messageChangesSchema,
    bodyLimit: attachmentsBodyLimit,
    output: sessionMessageSchema,
    errors: [
      ...itemErrors,
      ...bodyErrors,
      'not_sender',
      'capability_missing',
      'message_delivered',
      'receipt_conflict',
      'inbox_full',
    ],
  },
  withdrawMessage: {
    method: 'DELETE',
    path: '/v1/messages/:id',
    summary: 'Withdraw a message that no recipient has yet; its deliveries fail',
    scopes: ['runs'],
    session: 'tenant',
    params: idParam,
    responseType: 'none',
    errors: [...itemErrors, 'not_sender', 'message_delivered'],
  },
  listMessageDeliveries: {
    method: 'GET',
    path: '/v1/messages/:id/deliveries',
    summary: 'List the deliveries of a message, or wait for them',
    scopes: ['read'],
    session: 'tenant',
    params: idParam,
    query: deliveryWaitQuerySchema,
    output: z.object({ deliveries: z.array(deliverySchema) }),
    errors: [...itemErrors, 'invalid_request', 'too_many_open'],
  },
  listDeliveries: {
    method: 'GET',
    path: '/v1/deliveries',
    summary: 'List deliveries, newest first',
    scopes: ['read'],
    query: deliveriesQuerySchema,
    output: listOf('deliveries', deliverySchema),
    errors: listErrors,
  },
  redeliver: {
    method: 'POST',
    path: '/v1/deliveries/:id/redeliver',
    summary: 'Deliver a message again whose delivery failed',
    scopes: ['runs'],
    params: idParam,
    output: deliverySchema,
    errors: [...itemErrors, 'capability_missing', 'receipt_conflict', 'inbox_full'],
  },
  putChannel: {
    method: 'PUT',
    path: '/v1/channels/:name',
    summary: 'Create a channel, or change its topic',
    scopes: ['runs'],
    params: channelParam,
    body: channelBodySchema,
    output: channelSchema,
    errors: [...keyErrors, ...bodyErrors],
  },
  listChannels: {
    method: 'GET',
    path: '/v1/channels',
    summary: 'List channels by name',
    scopes: ['read'],
    query: channelsQuerySchema,
    output: listOf('channels', channelSchema),
    errors: listErrors,
  },
  getChannel: {
    method: 'GET',
    path: '/v1/channels/:name',
    summary: 'Get a channel with its members',
    scopes: ['read'],
    params: channelParam,
    output: channelSchema,
    errors: itemErrors,
  },
  putChannelMember: {
    method: 'PUT',
    path: '/v1/channels/:name/members/:handle',
    summary: 'Add a session to a channel: it receives the messages that follow',
    scopes: ['runs'],
    params: memberParam,
    responseType: 'none',
    errors: [...itemErrors, 'invalid_request'],
  },
  deleteChannelMember: {
    method: 'DELETE',
    path: '/v1/channels/:name/members/:handle',
    summary: 'Remove a session from a channel',
    scopes: ['runs'],
    params: memberParam,
    responseType: 'none',
    errors: itemErrors,
  },
} as const satisfies Record<string, Route>;
