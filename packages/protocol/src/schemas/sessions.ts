/**
 * What a session is and what it can do. The capabilities, statuses and event types are those of
 * specification 004. Capabilities belong to a session, not to its harness: two sessions of one harness
 * may differ.
 */
import { z } from 'zod';
import { deliveryModes } from './names.ts';
import { idSchema, lineSchema } from './values.ts';

export const attachmentTypes = ['text', 'image'] as const;
export type AttachmentType = (typeof attachmentTypes)[number];

/**
 * What a session can declare. `status.idle` and the four like it are no events of their own: each stands
 * for `status.changed` with that status.
 */
export const agentSessionEventTypes = [
  'status.changed',
  'status.idle',
  'status.active',
  'status.blocked',
  'status.waiting',
  'status.offline',
  'tool.called',
  'tool.completed',
  'tool.failed',
  'tool.output',
  'message.received',
  'message.sent',
  'delivery.accepted',
  'delivery.delivered',
  'delivery.deferred',
  'delivery.failed',
  'action.invoked',
  'action.completed',
  'action.failed',
  'action.denied',
  'transcript.chunk',
  'file.changed',
  'command.started',
  'command.completed',
  'command.failed',
  'terminal.output',
  'terminal.screen',
  'usage.updated',
  'session.started',
  'session.released',
  'session.resumed',
  'session.forked',
  'log',
  'error',
] as const;
export type AgentSessionEventType = (typeof agentSessionEventTypes)[number];

/** Unknown keys are refused: a misspelt capability must not count as an absent one. */
export const capabilitiesSchema = z
  .strictObject({
    messaging: z.strictObject({
      receive: z.literal(true),
      send: z.boolean().optional(),
      attachments: z.array(z.enum(attachmentTypes)).optional(),
    }),
    delivery: z.strictObject({
      modes: z.array(z.enum(deliveryModes)).min(1),
      /** The session accepts work now and gets it later, with receipts. */
      queue: z.boolean().optional(),
    }),
    events: z.strictObject({ emits: z.array(z.enum(agentSessionEventTypes)) }),
    actions: z
      .strictObject({ invoke: z.boolean().optional(), expose: z.boolean().optional() })
      .optional(),
    lifecycle: z.strictObject({
      release: z.boolean(),
      pause: z.boolean().optional(),
      resume: z.boolean().optional(),
      fork: z.boolean().optional(),
      snapshot: z.boolean().optional(),
    }),
  })
  .refine(({ delivery }) => !delivery.modes.includes('manual') || delivery.queue === true, {
    path: ['delivery', 'queue'],
    message: 'Must be true: the mode manual requires it',
  });
export type AgentSessionCapabilities = z.infer<typeof capabilitiesSchema>;

/**
 * The capabilities, as errors and selectors of actions name them. All sessions declare
 * `messaging.receive`; those that have ended lack it.
 */
export const capabilityPaths = [
  'messaging.receive',
  'messaging.send',
  'messaging.attachments',
  'delivery.modes',
  'delivery.queue',
  'events.emits',
  'actions.invoke',
  'actions.expose',
  'lifecycle.release',
  'lifecycle.pause',
  'lifecycle.resume',
  'lifecycle.fork',
  'lifecycle.snapshot',
] as const;
export type CapabilityPath = (typeof capabilityPaths)[number];

/** The `details` of `capability_missing`: which capability was required, and what is declared. */
export const capabilityDetailsSchema = z.object({
  /** `approval.input`: of an approval whose arguments cannot be changed. */
  path: z.enum([...capabilityPaths, 'approval.input']),
  asked: z.union([z.boolean(), z.string()]),
  offered: z.union([z.boolean(), z.array(z.string())]),
  messageId: idSchema.optional(),
});
export type CapabilityDetails = z.infer<typeof capabilityDetailsSchema>;

const handleForm = /^[a-z0-9][a-z0-9._-]{0,63}$/;
const formOfHandle =
  'Must be 1 to 64 lower-case letters, digits, ".", "_" or "-", and begin with a letter or digit';

export const handleSchema = z.string().regex(handleForm, formOfHandle);
export const channelNameSchema = z.string().regex(handleForm, formOfHandle);

export const identityKinds = ['agent', 'human', 'program'] as const;
export type IdentityKind = (typeof identityKinds)[number];

/** Who a session is. It has no status: that is reported by events. */
export const identitySchema = z.strictObject({
  handle: handleSchema,
  name: lineSchema(128).min(1),
  kind: z.enum(identityKinds),
});
export type SessionIdentity = z.infer<typeof identitySchema>;

/** Each but the first is a receipt; `consumed` and `failed` are final. */
export const deliveryStatuses = [
  'accepted',
  'deferred',
  'delivered',
  'consumed',
  'failed',
] as const;
export type DeliveryStatus = (typeof deliveryStatuses)[number];

/** The commands that a session's program carries out and answers. */
export const sessionCommands = [
  'release',
  'pause',
  'resume',
  'fork',
  'snapshot',
  'cancel',
] as const;
export type SessionCommand = (typeof sessionCommands)[number];

/** `waiting`: an approval is open. */
export const invocationStatuses = ['waiting', 'running', 'completed', 'failed', 'denied'] as const;
export type InvocationStatus = (typeof invocationStatuses)[number];
