/** `/v1/sessions`: live participants that can receive messages. */
import { z } from 'zod';
import { sessionEventSchema } from '../events/session-events.ts';
import { permissionsSchema } from '../schemas/permissions.ts';
import {
  agentStatuses,
  capabilitiesSchema,
  deliveryStatuses,
  deliveryModes,
  handleSchema,
  identitySchema,
  sessionCommands,
} from '../schemas/sessions.ts';
import {
  idSchema,
  jsonSchema,
  labelFilterSchema,
  labelsSchema,
  timeSchema,
} from '../schemas/values.ts';
import { pageQuery } from './route.ts';
import { sessionMessageSchema } from './messages.ts';
import { streamQuerySchema } from './runs.ts';

export const sessionBodySchema = z.strictObject({
  harness: z.string().min(1).max(64),
  handle: handleSchema,
  agent: z.string().min(1).optional(),
  model: z.string().min(1).optional(),
  /** A folder inside the tenant's workspace. */
  workspace: z.string().min(1).max(1024).optional(),
  permissions: permissionsSchema.optional(),
  labels: labelsSchema.optional(),
  fromSnapshot: idSchema.optional(),
});

export const attachBodySchema = z.strictObject({
  handle: handleSchema,
  identity: identitySchema.omit({ handle: true }),
  capabilities: capabilitiesSchema,
  /** Take the handle over although another key attached it; requires the scope `admin`. */
  takeover: z.boolean().optional(),
});

export const sessionChangesSchema = z.strictObject({
  model: z.string().min(1).optional(),
  labels: labelsSchema.optional(),
});

export const sessionForkBodySchema = z.strictObject({
  handle: handleSchema,
  /** A boundary between two turns. Default: the last one. */
  seq: z.int().min(1).optional(),
});

/** One event, or several that are stored together. */
export const sessionEventsBodySchema = z.discriminatedUnion('type', [
  sessionEventSchema,
  z.strictObject({
    // Without a type it is a list. A plain union could not say which field of an event is wrong.
    type: z.undefined().optional(),
    events: z.array(sessionEventSchema).min(1).max(1000),
  }),
]);

export const sessionInputBodySchema = z.union(
  [
    z.strictObject({ text: z.string().min(1) }),
    z.strictObject({
      resize: z.strictObject({
        cols: z.int().min(1).max(1000),
        rows: z.int().min(1).max(1000),
      }),
    }),
  ],
  'Must have either text or resize, with cols and rows',
);

export const receiptBodySchema = z
  .strictObject({
    status: z.enum(deliveryStatuses).exclude(['accepted']),
    /** When a deferred delivery is sent again. Default: at the next boundary of its mode. */
    availableAt: timeSchema.optional(),
    reason: z.string().min(1).max(1000).optional(),
    retryable: z.boolean().optional(),
  })
  .refine(({ status, availableAt }) => status === 'deferred' || availableAt === undefined, {
    path: ['availableAt'],
    message: 'Requires the status deferred',
  })
  .refine(({ status, retryable }) => status === 'failed' || retryable === undefined, {
    path: ['retryable'],
    message: 'Requires the status failed',
  });

/** The answer of a session's program to a command. */
export const commandAnswerBodySchema = z.discriminatedUnion('ok', [
  z.strictObject({ ok: z.literal(true), result: jsonSchema.optional() }),
  z.strictObject({ ok: z.literal(false), error: z.string().min(1).max(10_000) }),
]);

export const sessionsQuerySchema = z.strictObject({
  ...pageQuery,
  status: z.enum(agentStatuses).optional(),
  harness: z.string().min(1).max(64).optional(),
  label: labelFilterSchema.optional(),
});

export const sessionStreamQuerySchema = streamQuerySchema.omit({ dialect: true });

export const sessionSchema = z.object({
  id: idSchema,
  identity: identitySchema,
  harness: z.string(),
  status: z.enum(agentStatuses),
  capabilities: capabilitiesSchema,
  conversationId: idSchema,
  agent: z.string().optional(),
  model: z.string().optional(),
  labels: z.record(z.string(), z.string()),
  workspace: z.string().optional(),
  /** The run that is the current turn of a native session. */
  activeRunId: idSchema.optional(),
  parentSessionId: idSchema.optional(),
  /** As the last `usage.updated` has it. */
  usage: z.object({ tokens: z.number(), costUsd: z.number().optional() }),
  /** Messages that are accepted or deferred, and when the oldest was accepted. */
  queue: z.object({ length: z.int(), oldestAt: timeSchema.optional() }),
  /** A message waits for more than 60 seconds although the session could take it. */
  stuck: z.boolean(),
  lastSeq: z.int(),
  /** The owner of the key that created it. */
  owner: z.string(),
  createdAt: timeSchema,
  lastActiveAt: timeSchema,
  releasedAt: timeSchema.optional(),
});

export const attachedSessionSchema = z.object({
  session: sessionSchema,
  token: z.string().describe('The session token, returned only here'),
});

/** A position between two turns, which a new session can start from. */
export const sessionSnapshotSchema = z.object({
  id: idSchema,
  sessionId: idSchema,
  seq: z.int(),
});

/** The frames of `/v1/sessions/:id/deliveries/stream`. */
export const deliveryFrameSchema = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('delivery'),
    deliveryId: idSchema,
    message: sessionMessageSchema.omit({ deliveries: true }),
    mode: z.enum(deliveryModes),
    /** 1, 2, 3 …: how often this delivery was sent. */
    attempt: z.int(),
    /** It was handed over before, and is not known to be consumed. */
    redelivered: z.boolean(),
  }),
  z.object({
    type: z.literal('command'),
    commandId: idSchema,
    command: z.enum(sessionCommands),
    args: z.record(z.string(), jsonSchema),
  }),
  z.object({
    type: z.literal('invocation'),
    invocationId: idSchema,
    action: z.string(),
    input: jsonSchema,
  }),
]);
export type DeliveryFrame = z.infer<typeof deliveryFrameSchema>;
