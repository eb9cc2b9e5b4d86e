/** `/v1/runs`: start, list, look at, follow and cancel runs. */
import { z } from 'zod';
import { functionSchema } from '../schemas/functions.ts';
import { idSchema } from '../schemas/ids.ts';
import { limitsSchema } from '../schemas/limits.ts';
import { memoryUseSchema } from '../schemas/memories.ts';
import { messageSchema } from '../schemas/messages.ts';
import { outputSchemaSchema } from '../schemas/output-schema.ts';
import { permissionsSchema } from '../schemas/permissions.ts';
import {
  checkpointEnvelopeSchema,
  reasoningEfforts,
  runErrorSchema,
  runStatuses,
  wireUsageSchema,
} from '../schemas/runs.ts';
import {
  aboutOne,
  aList,
  attachmentsLimit,
  idParam,
  labelsSchema,
  listOf,
  needsKey,
  pageQuery,
  type Route,
  seqSchema,
  timeSchema,
} from './route.ts';
import { startsRun } from './starts-run.ts';

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

export const eventsQuerySchema = z.strictObject({
  after: seqSchema.default(0),
  limit: seqSchema.pipe(z.int().min(1).max(5000)).default(1000),
});

/** `label` is `name:value`; a value may hold colons. */
export const runsQuerySchema = z.strictObject({
  ...pageQuery,
  status: z.enum(runStatuses).optional(),
  agent: z.string().min(1).optional(),
  conversationId: idSchema.optional(),
  workflowId: z.string().min(1).max(256).optional(),
  label: z
    .string()
    .regex(/^[^:]{1,64}:.{0,256}$/s, 'Must be name:value')
    .optional(),
  since: timeSchema.optional(),
  until: timeSchema.optional(),
});

export const runSchema = z.object({
  id: idSchema,
  status: z.enum(runStatuses),
  model: z.string(),
  agent: z.string(),
  conversationId: idSchema,
  parentRunId: idSchema.optional(),
  workflowId: z.string().optional(),
  /** Where in another run’s journal it began. */
  forkedFrom: z.object({ runId: idSchema, seq: z.int() }).optional(),
  input: z
    .union([z.string(), z.array(messageSchema)])
    .nullable()
    .describe('null in a list where it is longer than 8 KiB, and where it is damaged'),
  output: z.string().optional(),
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

const eventSchema = z.looseObject({ seq: z.int(), type: z.string(), at: timeSchema });

export const runRoutes = {
  startRun: {
    method: 'POST',
    path: '/v1/runs',
    summary: 'Start a run and stream it',
    auth: 'key',
    scopes: ['runs'],
    body: runBodySchema,
    requires: { fields: ['input'], message: 'model and input are required' },
    bodyLimit: attachmentsLimit,
    answer: 'sse',
    errors: [
      ...startsRun,
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
    auth: 'key',
    scopes: ['runs'],
    query: runsQuerySchema,
    answer: 'json',
    output: listOf('runs', runSchema),
    errors: aList,
  },
  getRun: {
    method: 'GET',
    path: '/v1/runs/:id',
    summary: 'Read a run',
    auth: 'key',
    scopes: ['runs'],
    params: idParam,
    answer: 'json',
    output: runSchema,
    errors: aboutOne,
  },
  listRunEvents: {
    method: 'GET',
    path: '/v1/runs/:id/events',
    summary: 'List the journal events of a run',
    auth: 'key',
    scopes: ['runs'],
    params: idParam,
    query: eventsQuerySchema,
    answer: 'json',
    output: z.object({
      run: runSchema,
      events: z.array(eventSchema),
      nextCursor: z.string().nullable(),
    }),
    errors: [...aboutOne, 'invalid_request', 'cursor_past_end', 'journal_pruned'],
  },
  followRun: {
    method: 'GET',
    path: '/v1/runs/:id/stream',
    summary: 'Stream a run from any position in its journal',
    auth: 'key',
    scopes: ['runs'],
    params: idParam,
    query: streamQuerySchema,
    answer: 'sse',
    mayBeNothing: 'The run has ended, and nothing follows',
    errors: [...aboutOne, 'invalid_request', 'cursor_past_end', 'journal_pruned'],
  },
  followFeed: {
    method: 'GET',
    path: '/v1/feed',
    summary: 'Stream change notifications',
    auth: 'key',
    scopes: ['runs'],
    answer: 'sse',
    errors: [...needsKey],
  },
  cancelRun: {
    method: 'POST',
    path: '/v1/runs/:id/cancel',
    summary: 'Cancel a run, its model calls and its tools',
    auth: 'key',
    scopes: ['runs'],
    params: idParam,
    answer: 'json',
    status: 202,
    output: runSchema,
    errors: aboutOne,
  },
} as const satisfies Record<string, Route>;
