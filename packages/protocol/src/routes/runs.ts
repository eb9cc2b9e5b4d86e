/** `/v1/runs` and `/v1/workflows`: start, list, follow, cancel, resume and fork runs. */
import { z } from 'zod';
import { memoryUseSchema } from '../schemas/memories.ts';
import { messageModes, messageSchema, senderSchema } from '../schemas/messages.ts';
import { permissionsSchema } from '../schemas/permissions.ts';
import {
  checkpointEnvelopeSchema,
  finishReasons,
  functionSchema,
  limitsSchema,
  outputSchemaSchema,
  reasoningEfforts,
  runErrorSchema,
  runStatuses,
  wireUsageSchema,
} from '../schemas/runs.ts';
import {
  idSchema,
  labelFilterSchema,
  labelsSchema,
  seqSchema,
  timeSchema,
} from '../schemas/values.ts';
import {
  anyOf,
  bodyErrors,
  itemErrors,
  listErrors,
  attachmentsBodyLimit,
  idParam,
  listOf,
  keyErrors,
  pageQuery,
  type Route,
  startErrors,
} from './route.ts';

export const runBodySchema = z.strictObject({
  model: z.string().min(1).optional(),
  system: z.string().optional(),
  input: z.union([z.string().min(1), z.array(messageSchema).min(1)]),
  tools: z
    .array(
      z.discriminatedUnion('kind', [
        z.strictObject({ name: z.string().min(1).max(128), kind: z.literal('builtin') }),
        functionSchema.extend({ kind: z.literal('function') }),
      ]),
    )
    .max(128)
    .optional(),
  permissions: permissionsSchema.optional(),
  agent: z.string().min(1).optional(),
  conversationId: idSchema.optional(),
  parentRunId: idSchema.optional(),
  workflowId: z.string().min(1).max(256).optional(),
  labels: labelsSchema.optional(),
  maxIterations: z.int().min(1).max(1000).optional(),
  limits: limitsSchema.optional(),
  outputSchema: outputSchemaSchema.optional(),
  reasoning: z.enum(reasoningEfforts).optional(),
  memory: memoryUseSchema.optional(),
});

export const streamQuerySchema = z.strictObject({
  dialect: z.enum(['chat', 'runtime', 'runs']).default('runs'),
  after: seqSchema.optional(),
  follow: z.enum(['true', 'false']).default('true'),
});

const eventStreamQuerySchema = streamQuerySchema.omit({ dialect: true });

export const eventsQuerySchema = z.strictObject({
  after: seqSchema.default(0),
  /** Default: all events. */
  limit: seqSchema.pipe(z.int().min(1).max(5000)).optional(),
});

export const runsQuerySchema = z.strictObject({
  ...pageQuery,
  status: anyOf(runStatuses).optional().describe('One status, or several, separated by commas'),
  agent: z.string().min(1).optional(),
  conversationId: idSchema.optional(),
  parentRunId: idSchema.optional(),
  workflowId: z.string().min(1).max(256).optional(),
  label: labelFilterSchema.optional(),
  since: timeSchema.optional(),
  until: timeSchema.optional(),
});

export const runSchema = z.object({
  id: idSchema,
  status: z.enum(runStatuses),
  model: z.string(),
  agent: z.string(),
  conversationId: idSchema,
  owner: z.string().describe('The person that started it: the owner of the key, else its id'),
  parentRunId: idSchema.optional(),
  workflowId: z.string().optional(),
  /** The run and seq that it was forked from. */
  forkedFrom: z.object({ runId: idSchema, seq: z.int() }).optional(),
  input: z
    .union([z.string(), z.array(messageSchema)])
    .nullable()
    .describe('null in a list if it is longer than 8 KiB, or if it is damaged'),
  inputTruncated: z.literal(true).optional().describe('The input is left out, because it is long'),
  output: z.string().optional(),
  outputTruncated: z
    .literal(true)
    .optional()
    .describe('Lists leave an output of more than 8 KiB out; GET /v1/runs/:id has all of it'),
  finishReason: z
    .enum(finishReasons)
    .optional()
    .describe('How the last answer ended; anything but `stop` means that it is not whole'),
  usage: wireUsageSchema,
  costUsd: z.number().optional(),
  error: runErrorSchema.optional(),
  checkpoint: checkpointEnvelopeSchema.optional(),
  labels: z.record(z.string(), z.string()),
  lastSeq: z.int(),
  createdAt: timeSchema,
  startedAt: timeSchema.optional(),
  endedAt: timeSchema.optional(),
});

/** An omitted field keeps the value of the forked run. */
export const forkBodySchema = z.strictObject({
  /** A boundary between two turns. Default: the last one. */
  seq: z.int().min(1).optional(),
  input: z.union([z.string().min(1), z.array(messageSchema).min(1)]).optional(),
  model: z.string().min(1).optional(),
  permissions: permissionsSchema.optional(),
  workflowId: z.string().min(1).max(256).optional(),
  labels: labelsSchema.optional(),
  maxIterations: z.int().min(1).max(1000).optional(),
  limits: limitsSchema.optional(),
});

export const runMessageBodySchema = z.strictObject({
  text: z.string().min(1),
  /** When the agent gets it, as for a message to a busy session. */
  mode: z.enum(messageModes).default('next-message'),
});

/** The journal of the run has `message.added` with its id when the agent gets it. */
const runMessageSchema = z.object({
  id: idSchema,
  runId: idSchema,
  from: senderSchema,
  text: z.string(),
  mode: z.enum(messageModes),
});

const workflowParam = z.object({ id: z.string().min(1).max(256) });

export const workflowQuerySchema = z.strictObject(pageQuery);

const workflowSchema = z.object({
  id: z.string(),
  /** The combined status of the runs. */
  status: z.enum(runStatuses),
  counts: z.partialRecord(z.enum(runStatuses), z.int()),
  runs: z.array(runSchema),
  usage: z.object({ input_tokens: z.int(), output_tokens: z.int() }),
  costUsd: z.number().optional(),
  nextCursor: z.string().nullable(),
});

/** `connected` comes first. `all`: too much has changed to name it. */
export const feedFrameSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('connected') }),
  z.strictObject({ kind: z.literal('all') }),
  z.strictObject({ kind: z.enum(['run', 'approval', 'session']), id: idSchema }),
  z.strictObject({
    kind: z.literal('message'),
    id: idSchema,
    channels: z.array(z.string()).readonly().optional().describe('Set for a new message'),
  }),
  z.strictObject({
    kind: z.literal('delivery'),
    id: idSchema.optional().describe('Not set for several deliveries of the session'),
    sessionId: idSchema,
  }),
]);

export const eventSchema = z.looseObject({ seq: z.int(), type: z.string(), at: timeSchema });

export const runRoutes = {
  startRun: {
    method: 'POST',
    path: '/v1/runs',
    summary: 'Start a run and stream its events',
    scopes: ['runs'],
    body: runBodySchema,
    requiredFields: { fields: ['input'] },
    bodyLimit: attachmentsBodyLimit,
    responseType: 'sse',
    errors: [
      ...startErrors,
      'unknown_agent',
      'idempotency_mismatch',
      'provider_failed',
      'provider_rejected',
      'context_exceeded',
    ],
  },
  listRuns: {
    method: 'GET',
    path: '/v1/runs',
    summary: 'List runs, newest first',
    scopes: ['read'],
    query: runsQuerySchema,
    output: listOf('runs', runSchema),
    errors: listErrors,
  },
  getRun: {
    method: 'GET',
    path: '/v1/runs/:id',
    summary: 'Get a run',
    scopes: ['read'],
    params: idParam,
    output: runSchema,
    errors: itemErrors,
  },
  listRunEvents: {
    method: 'GET',
    path: '/v1/runs/:id/events',
    summary: 'List the journal events of a run: all of them, or a page with `limit`',
    streamed: true,
    scopes: ['read'],
    params: idParam,
    query: eventsQuerySchema,
    output: z.object({
      run: runSchema,
      events: z.array(eventSchema),
      nextCursor: z.string().nullable(),
    }),
    errors: [...itemErrors, 'invalid_request', 'cursor_past_end', 'journal_pruned'],
  },
  followRun: {
    method: 'GET',
    path: '/v1/runs/:id/stream',
    summary: 'Stream the events of a run, from any seq of its journal',
    scopes: ['read'],
    params: idParam,
    query: streamQuerySchema,
    responseType: 'sse',
    noContentWhen: 'The run has ended and no event follows',
    errors: [...itemErrors, 'invalid_request', 'cursor_past_end', 'journal_pruned'],
  },
  followRunEvents: {
    method: 'GET',
    path: '/v1/runs/:id/events/stream',
    summary: 'Stream the journal events of a run as they are stored, from any seq',
    scopes: ['read'],
    params: idParam,
    query: eventStreamQuerySchema,
    responseType: 'sse',
    noContentWhen: 'The run has ended and no event follows',
    errors: [...itemErrors, 'invalid_request', 'cursor_past_end', 'journal_pruned'],
  },
  followFeed: {
    method: 'GET',
    path: '/v1/feed',
    summary:
      'Stream notifications about changed runs, approvals, sessions, messages and deliveries',
    scopes: ['read'],
    responseType: 'sse',
    errors: [...keyErrors],
  },
  cancelRun: {
    method: 'POST',
    path: '/v1/runs/:id/cancel',
    summary: 'Cancel a run, its model calls and its tools',
    scopes: ['runs'],
    params: idParam,
    status: 202,
    output: runSchema,
    errors: itemErrors,
  },
  messageRun: {
    method: 'POST',
    path: '/v1/runs/:id/messages',
    summary: 'Send a message to a run that is going on',
    scopes: ['runs'],
    params: idParam,
    body: runMessageBodySchema,
    status: 201,
    output: runMessageSchema,
    errors: [
      ...itemErrors,
      ...bodyErrors,
      'not_run_owner',
      'run_ended',
      'session_conflict',
      'inbox_full',
      'journal_pruned',
    ],
  },
  resumeRun: {
    method: 'POST',
    path: '/v1/runs/:id/resume',
    summary: 'Let a run go on that no server works on, or re-check a waiting one',
    scopes: ['runs'],
    params: idParam,
    status: 202,
    output: runSchema,
    errors: [...itemErrors, 'run_ended', 'tenant_paused'],
  },
  forkRun: {
    method: 'POST',
    path: '/v1/runs/:id/fork',
    summary: 'Fork a run: start a new run from its transcript',
    scopes: ['runs'],
    params: idParam,
    body: forkBodySchema.default({}),
    status: 201,
    output: runSchema,
    errors: [...startErrors, 'not_a_boundary', 'idempotency_mismatch'],
  },
  getWorkflow: {
    method: 'GET',
    path: '/v1/workflows/:id',
    summary: 'Get a workflow: its runs, newest first, with their combined status and usage',
    scopes: ['read'],
    params: workflowParam,
    query: workflowQuerySchema,
    output: workflowSchema,
    errors: [...listErrors, 'not_found'],
  },
} as const satisfies Record<string, Route>;
