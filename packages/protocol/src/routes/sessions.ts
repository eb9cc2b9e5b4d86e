/** `/v1/sessions`: live participants that can receive messages. */
import { z } from 'zod';
import { sessionEventSchema } from '../events/session-events.ts';
import { agentStatuses, deliveryModes } from '../schemas/names.ts';
import { permissionsSchema } from '../schemas/permissions.ts';
import {
  capabilitiesSchema,
  deliveryStatuses,
  handleSchema,
  identitySchema,
  sessionCommands,
} from '../schemas/sessions.ts';
import {
  idSchema,
  jsonSchema,
  labelFilterSchema,
  labelsSchema,
  seqSchema,
  timeSchema,
} from '../schemas/values.ts';
import {
  bodyErrors,
  idParam,
  itemErrors,
  keyErrors,
  listErrors,
  listOf,
  pageQuery,
  type Route,
} from './route.ts';
import { deliverySchema, sessionMessageSchema } from './messages.ts';
import { eventsQuerySchema, streamQuerySchema } from './runs.ts';

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
    z.strictObject({
      text: z
        .string()
        .min(1)
        .max(64 * 1024),
    }),
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
  handle: handleSchema
    .optional()
    .describe(
      'The session with this handle, then the last one that had it; no other filter applies',
    ),
});

export const sessionStreamQuerySchema = streamQuerySchema.omit({ dialect: true });
const sessionEventsQuerySchema = eventsQuerySchema.extend({
  after: seqSchema.optional().describe('Default: the journal from the first event that is kept'),
});

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

/** What the token of another session shows of it. */
export const sessionSummarySchema = sessionSchema.pick({
  id: true,
  identity: true,
  status: true,
});
const shownSessionSchema = z.union([sessionSchema, sessionSummarySchema]);

const storedSessionEventSchema = z.intersection(
  sessionEventSchema,
  z.object({ seq: z.int(), at: timeSchema }),
);

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

const deliveryParams = z.object({ id: idSchema, deliveryId: idSchema });
const commandParams = z.object({ id: idSchema, commandId: idSchema });
const commandErrors = [...itemErrors, 'capability_missing', 'session_conflict'] as const;

const programErrors = [
  ...commandErrors,
  'not_a_boundary',
  'journal_pruned',
  'command_failed',
  'command_timed_out',
] as const;

export const sessionRoutes = {
  createSession: {
    method: 'POST',
    path: '/v1/sessions',
    summary: 'Start a session of a harness that Relay runs, or a person’s',
    scopes: ['runs'],
    body: sessionBodySchema,
    status: 201,
    output: sessionSchema,
    errors: [
      ...keyErrors,
      ...bodyErrors,
      'invalid_pattern',
      'approve_scope_required',
      'handle_taken',
      'journal_pruned',
      'harness_failed',
      'capability_missing',
      'workspace_missing',
      'too_many_open',
      'unknown_agent',
      'unknown_model',
      'credential_missing',
    ],
  },
  attachSession: {
    method: 'POST',
    path: '/v1/sessions/attach',
    summary: 'Attach a program or a person under a handle',
    scopes: ['runs'],
    session: 'tenant',
    body: attachBodySchema,
    status: 201,
    output: attachedSessionSchema,
    errors: [...keyErrors, ...bodyErrors, 'handle_taken', 'session_conflict'],
  },
  listSessions: {
    method: 'GET',
    path: '/v1/sessions',
    summary: 'List sessions, newest first; a session token shows handles and statuses of others',
    scopes: ['read'],
    session: 'tenant',
    query: sessionsQuerySchema,
    output: listOf('sessions', shownSessionSchema),
    errors: listErrors,
  },
  getSession: {
    method: 'GET',
    path: '/v1/sessions/:id',
    summary: 'Read a session; a session token shows handle and status of another one',
    scopes: ['read'],
    session: 'tenant',
    params: idParam,
    output: shownSessionSchema,
    errors: itemErrors,
  },
  listSessionEvents: {
    method: 'GET',
    path: '/v1/sessions/:id/events',
    summary: 'Read the journal of a session',
    scopes: ['read'],
    session: 'own',
    params: idParam,
    query: sessionEventsQuerySchema,
    streamed: true,
    output: z.object({
      session: sessionSchema,
      events: z.array(storedSessionEventSchema),
      nextCursor: z.string().nullable().describe('The `after` of the next page; null at the end'),
    }),
    errors: [...itemErrors, 'invalid_request', 'cursor_past_end', 'journal_pruned'],
  },
  followSession: {
    method: 'GET',
    path: '/v1/sessions/:id/stream',
    summary: 'Follow the journal of a session',
    scopes: ['read'],
    session: 'own',
    params: idParam,
    query: sessionStreamQuerySchema,
    responseType: 'sse',
    noContentWhen: 'The session is released and no event follows',
    errors: [
      ...itemErrors,
      'invalid_request',
      'cursor_past_end',
      'journal_pruned',
      'too_many_open',
    ],
  },
  updateSession: {
    method: 'PATCH',
    path: '/v1/sessions/:id',
    summary: 'Change the model or the labels of a session',
    scopes: ['runs'],
    params: idParam,
    body: sessionChangesSchema,
    output: sessionSchema,
    errors: [
      ...itemErrors,
      ...bodyErrors,
      'session_conflict',
      'unknown_model',
      'credential_missing',
    ],
  },
  deleteSession: {
    method: 'DELETE',
    path: '/v1/sessions/:id',
    summary: 'Release a session at once, and delete it with its journal',
    scopes: ['admin'],
    params: idParam,
    responseType: 'none',
    errors: itemErrors,
  },
  releaseSession: command('release', 'End a session'),
  pauseSession: command('pause', 'Pause a session after its running model call or tool'),
  resumeSession: command('resume', 'Resume a session that is paused'),
  cancelSession: command('cancel', 'Stop the current turn of a session'),
  forkSession: {
    method: 'POST',
    path: '/v1/sessions/:id/fork',
    summary: 'Start a new session that continues from a position of this one between two turns',
    scopes: ['runs'],
    params: idParam,
    body: sessionForkBodySchema,
    status: 201,
    output: sessionSchema,
    errors: [
      ...programErrors,
      ...bodyErrors,
      'approve_scope_required',
      'handle_taken',
      'harness_failed',
      'workspace_missing',
      'too_many_open',
    ],
  },
  snapshotSession: {
    method: 'POST',
    path: '/v1/sessions/:id/snapshot',
    summary: 'Keep the state of a session between two turns; a new session can start from it',
    scopes: ['runs'],
    params: idParam,
    status: 201,
    output: sessionSnapshotSchema,
    errors: programErrors,
  },
  flushSession: {
    method: 'POST',
    path: '/v1/sessions/:id/flush',
    summary: 'Deliver the messages of the mode manual',
    scopes: ['runs'],
    session: 'own',
    params: idParam,
    output: sessionSchema,
    errors: commandErrors,
  },
  inputSession: {
    method: 'POST',
    path: '/v1/sessions/:id/input',
    summary: 'Type into the terminal of a session, or change its size',
    scopes: ['runs', 'approve'],
    params: idParam,
    body: sessionInputBodySchema,
    responseType: 'none',
    errors: [...commandErrors, ...bodyErrors, 'command_failed', 'command_timed_out'],
  },
  reportSessionEvents: {
    method: 'POST',
    path: '/v1/sessions/:id/events',
    summary:
      'Report one event of a session, or several that are stored together, with an optional Idempotency-Key',
    scopes: ['runs'],
    session: 'own',
    params: idParam,
    body: sessionEventsBodySchema,
    output: sessionSchema,
    errors: [
      ...itemErrors,
      ...bodyErrors,
      'event_undeclared',
      'session_conflict',
      'idempotency_mismatch',
    ],
  },
  followDeliveries: {
    method: 'GET',
    path: '/v1/sessions/:id/deliveries/stream',
    summary: 'Receive the messages, commands and invocations for a session',
    scopes: ['runs'],
    session: 'own',
    params: idParam,
    responseType: 'sse',
    errors: [...itemErrors, 'session_conflict', 'too_many_open'],
  },
  postReceipt: {
    method: 'POST',
    path: '/v1/sessions/:id/deliveries/:deliveryId/receipt',
    summary: 'Say what became of a delivery',
    scopes: ['runs'],
    session: 'own',
    params: deliveryParams,
    body: receiptBodySchema,
    output: deliverySchema,
    errors: [...itemErrors, ...bodyErrors, 'receipt_conflict', 'session_conflict'],
  },
  answerCommand: {
    method: 'POST',
    path: '/v1/sessions/:id/commands/:commandId',
    summary: 'Answer a command that the program of a session has carried out, or could not',
    scopes: ['runs'],
    session: 'own',
    params: commandParams,
    body: commandAnswerBodySchema,
    output: sessionSchema,
    errors: [...itemErrors, ...bodyErrors, 'receipt_conflict', 'session_conflict'],
  },
} as const satisfies Record<string, Route>;

function command<Name extends 'release' | 'pause' | 'resume' | 'cancel'>(
  name: Name,
  summary: string,
) {
  return {
    method: 'POST',
    path: `/v1/sessions/:id/${name}`,
    summary,
    scopes: ['runs'],
    params: idParam,
    status: 202,
    output: sessionSchema,
    errors: commandErrors,
  } as const satisfies Route;
}
