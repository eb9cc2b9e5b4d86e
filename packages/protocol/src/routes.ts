/**
 * The one table of routes. Validation, authentication, documentation and tests read it, so that a
 * route cannot exist in one of them alone.
 */
import { z } from 'zod';
import type { ErrorCode } from './errors.ts';
import { idSchema } from './ids.ts';
import { messageSchema } from './messages.ts';
import { permissionResponseSchema, permissionsSchema } from './permissions.ts';

/** `local-or-key`: also without a key from this very machine, as the tenant `default`. */
export type RouteAuth = 'public' | 'key' | 'local-or-key';
export type Scope = 'runs' | 'approve' | 'admin';

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly summary: string;
  readonly auth: RouteAuth;
  readonly scopes: readonly Scope[];
  readonly params?: z.ZodType;
  readonly query?: z.ZodType;
  readonly body?: z.ZodType;
  /** Fields without which nothing else is looked at, and the sentence that says so. */
  readonly requires?: { readonly fields: readonly string[]; readonly message: string };
  /** `sse`: the answer is a stream of frames. */
  readonly answer: 'json' | 'sse';
  readonly errors: readonly ErrorCode[];
}

const runId = z.object({ id: idSchema });
const labels = z.record(z.string().min(1).max(64), z.string().max(256));
const seq = z
  .string()
  .regex(/^\d{1,15}$/, 'Must be a whole number')
  .transform(Number);

export const chatBodySchema = z.strictObject({
  model: z.string().min(1).optional(),
  messages: z.array(messageSchema).min(1),
  permissions: permissionsSchema.optional(),
  tools: z.array(z.string().min(1)).optional(),
  context: z.record(z.string(), z.json()).optional(),
  conversationId: idSchema.optional(),
  maxIterations: z.int().min(1).max(1000).optional(),
});

export const chatRelayBodySchema = z.strictObject({
  sessionId: z.string().min(1),
  response: permissionResponseSchema,
});

export const runBodySchema = z.strictObject({
  model: z.string().min(1).optional(),
  system: z.string().optional(),
  input: z.union([z.string().min(1), z.array(messageSchema).min(1)]),
  tools: z
    .array(z.strictObject({ name: z.string().min(1).max(128), kind: z.literal('builtin') }))
    .optional(),
  permissions: permissionsSchema.optional(),
  agent: z.string().min(1).optional(),
  conversationId: idSchema.optional(),
  parentRunId: idSchema.optional(),
  workflowId: z.string().min(1).max(256).optional(),
  labels: labels.optional(),
  maxIterations: z.int().min(1).max(1000).optional(),
});

export const streamQuerySchema = z.strictObject({
  dialect: z.enum(['chat', 'runtime', 'runs']).default('runs'),
  after: seq.optional(),
  follow: z.enum(['true', 'false']).default('true'),
});

export const eventsQuerySchema = z.strictObject({
  after: seq.default(0),
  limit: seq.pipe(z.int().min(1).max(5000)).default(1000),
});

/** `output` answers a relay of kind `outcome`: it happened, and this is its result. */
export const approvalBodySchema = z
  .strictObject({
    approved: z.boolean(),
    always: z.boolean().optional(),
    reason: z.string().max(10_000).optional(),
    output: z.json().optional(),
  })
  .refine((body) => body.approved || body.always !== true, {
    path: ['always'],
    message: 'Only an approval can hold for always',
  });

const started: readonly ErrorCode[] = [
  'invalid_json',
  'invalid_request',
  'invalid_pattern',
  'unknown_model',
  'unknown_tool',
  'unauthorized',
  'scope_required',
  'approve_scope_required',
  'payload_too_large',
  'unsupported_media_type',
];
const aboutRun: readonly ErrorCode[] = ['unauthorized', 'scope_required', 'not_found'];

export const routes = {
  health: {
    method: 'GET',
    path: '/health',
    summary: 'Whether the process is alive',
    auth: 'public',
    scopes: [],
    answer: 'json',
    errors: [],
  },
  ready: {
    method: 'GET',
    path: '/ready',
    summary: 'Whether the store answers and runs are taken',
    auth: 'public',
    scopes: [],
    answer: 'json',
    errors: ['shutting_down', 'storage_failed'],
  },
  listModels: {
    method: 'GET',
    path: '/models',
    summary: 'The models that can be asked for',
    auth: 'local-or-key',
    scopes: ['runs'],
    answer: 'json',
    errors: ['unauthorized', 'scope_required'],
  },
  startChat: {
    method: 'POST',
    path: '/chat',
    summary: 'Chat over one connection, with relays answered while it is open',
    auth: 'local-or-key',
    scopes: ['runs'],
    body: chatBodySchema,
    requires: { fields: ['messages'], message: 'model and messages are required' },
    answer: 'sse',
    errors: started,
  },
  answerChatRelay: {
    method: 'POST',
    path: '/chat/relay/:relayId',
    summary: 'Answer a relay of an open chat',
    auth: 'local-or-key',
    scopes: ['approve'],
    params: z.object({ relayId: z.string() }),
    body: chatRelayBodySchema,
    requires: { fields: ['sessionId', 'response'], message: 'sessionId and response are required' },
    answer: 'json',
    errors: [
      'invalid_json',
      'invalid_request',
      'unauthorized',
      'scope_required',
      'session_not_found',
      'relay_not_found',
    ],
  },
  startRun: {
    method: 'POST',
    path: '/v1/runs',
    summary: 'Start a run and follow it',
    auth: 'key',
    scopes: ['runs'],
    body: runBodySchema,
    requires: { fields: ['input'], message: 'model and input are required' },
    answer: 'sse',
    errors: [...started, 'unknown_agent', 'provider_failed', 'provider_rejected'],
  },
  getRun: {
    method: 'GET',
    path: '/v1/runs/:id',
    summary: 'One run',
    auth: 'key',
    scopes: ['runs'],
    params: runId,
    answer: 'json',
    errors: aboutRun,
  },
  listRunEvents: {
    method: 'GET',
    path: '/v1/runs/:id/events',
    summary: 'A run’s journal, in the words of the catalogue',
    auth: 'key',
    scopes: ['runs'],
    params: runId,
    query: eventsQuerySchema,
    answer: 'json',
    errors: [...aboutRun, 'invalid_request', 'cursor_past_end'],
  },
  followRun: {
    method: 'GET',
    path: '/v1/runs/:id/stream',
    summary: 'Follow a run from any place in its journal',
    auth: 'key',
    scopes: ['runs'],
    params: runId,
    query: streamQuerySchema,
    answer: 'sse',
    errors: [...aboutRun, 'invalid_request', 'cursor_past_end'],
  },
  cancelRun: {
    method: 'POST',
    path: '/v1/runs/:id/cancel',
    summary: 'Cancel a run, its model call and its tools',
    auth: 'key',
    scopes: ['runs'],
    params: runId,
    answer: 'json',
    errors: [...aboutRun],
  },
  getApproval: {
    method: 'GET',
    path: '/v1/approvals/:id',
    summary: 'One request to a person',
    auth: 'key',
    scopes: ['runs'],
    params: z.object({ id: idSchema }),
    answer: 'json',
    errors: ['unauthorized', 'scope_required', 'not_found'],
  },
  decideApproval: {
    method: 'POST',
    path: '/v1/approvals/:id',
    summary: 'Decide a request: the first answer counts, repeating it changes nothing',
    auth: 'key',
    scopes: ['approve'],
    params: z.object({ id: idSchema }),
    body: approvalBodySchema,
    requires: { fields: ['approved'], message: 'approved is required' },
    answer: 'json',
    errors: [
      'invalid_json',
      'invalid_request',
      'unauthorized',
      'scope_required',
      'not_found',
      'relay_conflict',
    ],
  },
} as const satisfies Record<string, Route>;

export type RouteName = keyof typeof routes;
