/** `/v1/messages` and `/v1/deliveries`: messages to sessions, and one delivery per recipient. */
import { z } from 'zod';
import { imagePartSchema, senderSchema, textPartSchema } from '../schemas/messages.ts';
import {
  capabilityDetailsSchema,
  channelNameSchema,
  deliveryModes,
  deliveryStatuses,
  handleSchema,
} from '../schemas/sessions.ts';
import { idSchema, seqSchema, timeSchema } from '../schemas/values.ts';
import { pageQuery } from './route.ts';

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
  to: addresseesSchema,
  text: z.string(),
  attachments: attachmentsSchema,
  /** As requested, or the default of all recipients; unset if their defaults differ. */
  mode: z.enum(deliveryModes).optional(),
  replyTo: idSchema.optional(),
  at: timeSchema,
  deliveries: z.array(recipientSchema),
});

export const channelBodySchema = z.strictObject({ topic: z.string().max(1000).optional() });

export const channelSchema = z.object({
  name: channelNameSchema,
  topic: z.string().optional(),
  members: z.array(handleSchema),
  createdAt: timeSchema,
});
