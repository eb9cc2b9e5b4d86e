/** `/v1/actions` and `/v1/invocations`: functions of sessions and services that participants invoke. */
import { z } from 'zod';
import { checkToolSchema } from '../json-schema/check.ts';
import { outputSchemaSchema, runErrorSchema } from '../schemas/runs.ts';
import {
  capabilityPaths,
  handleSchema,
  identityKinds,
  invocationStatuses,
} from '../schemas/sessions.ts';
import {
  idSchema,
  jsonSchema,
  labelFilterSchema,
  linesSchema,
  seqSchema,
  timeSchema,
  toolNameForm,
} from '../schemas/values.ts';
import { senderSchema } from '../schemas/messages.ts';
import {
  bodyErrors,
  idParam,
  itemErrors,
  listErrors,
  listOf,
  pageQuery,
  type Route,
} from './route.ts';

const inputSchemaSchema = z.record(z.string(), z.json()).superRefine((schema, context) => {
  for (const { path, message } of checkToolSchema(schema)) {
    context.addIssue({ code: 'custom', path: path === '' ? [] : [path], message });
  }
});

/** Any one of the selectors suffices. */
const selectorSchema = z.union(
  [
    z.strictObject({ handle: handleSchema }),
    z.strictObject({ kind: z.enum(identityKinds) }),
    z.strictObject({ label: labelFilterSchema }),
    z.strictObject({ capability: z.enum(capabilityPaths) }),
  ],
  'Must have one of handle, kind, label and capability',
);
export type ActionSelector = z.infer<typeof selectorSchema>;

const handlerSchema = z.union(
  [
    z.strictObject({ sessionId: idSchema }),
    z.strictObject({ url: z.url({ protocol: /^https?$/ }).max(2_048) }),
  ],
  'Must have either sessionId or url',
);

export const actionBodySchema = z.strictObject({
  name: z.string().regex(toolNameForm, 'Must be 1 to 64 letters, digits, "_" or "-"'),
  description: linesSchema(8192).min(1),
  inputSchema: inputSchemaSchema,
  outputSchema: outputSchemaSchema.optional(),
  handler: handlerSchema,
  /** Default: everyone in the tenant. */
  availableTo: z.array(selectorSchema).max(64).optional(),
  timeoutMs: z
    .int()
    .min(1)
    .max(24 * 60 * 60 * 1000)
    .optional(),
  /** May be invoked again after a crash. Default: false. */
  idempotent: z.boolean().optional(),
});

export const actionSchema = z.object({
  ...actionBodySchema.shape,
  /** `config`: a function in `relay.config.ts`. */
  handler: z.union([...handlerSchema.options, z.strictObject({ config: z.literal(true) })]),
  idempotent: z.boolean(),
  /** Unset for an action of `relay.config.ts`. */
  createdAt: timeSchema.optional(),
});

const actionParam = z.object({ name: actionBodySchema.shape.name });

export const actionsQuerySchema = z.strictObject(pageQuery);

export const invokeQuerySchema = z.strictObject({
  waitMs: seqSchema
    .pipe(z.int().max(60_000))
    .default(30_000)
    .describe('How long the response waits for the result. Default: 30 seconds'),
});

export const invokeBodySchema = z.strictObject({ input: jsonSchema.default({}) });

export const invocationResultBodySchema = z.union(
  [
    z.strictObject({ output: jsonSchema }),
    z.strictObject({ error: z.string().min(1).max(10_000), retryable: z.boolean().optional() }),
  ],
  'Must have either output or error',
);

export const invocationSchema = z.object({
  id: idSchema,
  action: z.string(),
  status: z.enum(invocationStatuses),
  by: senderSchema,
  input: jsonSchema,
  output: jsonSchema.optional(),
  error: runErrorSchema.optional(),
  /** Set while an approval is open, and after it was decided. */
  approvalId: idSchema.optional(),
  createdAt: timeSchema,
  endedAt: timeSchema.optional(),
});

export const actionRoutes = {
  registerAction: {
    method: 'POST',
    path: '/v1/actions',
    summary:
      'Register an action of a session or a URL. The signing secret of a URL is returned only here',
    scopes: ['runs'],
    session: 'tenant',
    body: actionBodySchema,
    status: 201,
    output: actionSchema.extend({
      secret: z
        .string()
        .optional()
        .describe('Of an action with a URL: its calls are signed with it'),
    }),
    errors: [
      ...itemErrors,
      ...bodyErrors,
      'base_url_refused',
      'capability_missing',
      'session_conflict',
      'action_name_taken',
    ],
  },
  listActions: {
    method: 'GET',
    path: '/v1/actions',
    summary: 'List actions by name; with a session token, those that it may invoke',
    scopes: ['read'],
    session: 'tenant',
    query: actionsQuerySchema,
    output: listOf('actions', actionSchema),
    errors: listErrors,
  },
  removeAction: {
    method: 'DELETE',
    path: '/v1/actions/:name',
    summary: 'Remove an action; its running invocations continue',
    scopes: ['runs'],
    session: 'tenant',
    params: actionParam,
    responseType: 'none',
    errors: [...itemErrors, 'invalid_request', 'session_conflict'],
  },
  invokeAction: {
    method: 'POST',
    path: '/v1/actions/:name/invoke',
    summary: 'Invoke an action, with an optional Idempotency-Key',
    scopes: ['runs'],
    session: 'tenant',
    params: actionParam,
    query: invokeQuerySchema,
    body: invokeBodySchema,
    output: invocationSchema,
    acceptedWhen: 'The invocation has not ended yet',
    errors: [
      ...itemErrors,
      ...bodyErrors,
      'action_denied',
      'tenant_paused',
      'capability_missing',
      'session_conflict',
      'idempotency_mismatch',
      'too_many_open',
    ],
  },
  getInvocation: {
    method: 'GET',
    path: '/v1/invocations/:id',
    summary: 'Get an invocation with its result',
    scopes: ['read'],
    session: 'tenant',
    params: idParam,
    output: invocationSchema,
    errors: itemErrors,
  },
  postInvocationResult: {
    method: 'POST',
    path: '/v1/invocations/:id/result',
    summary: 'Report the result of an invocation, as the session that carries it out',
    scopes: ['runs'],
    session: 'tenant',
    params: idParam,
    body: invocationResultBodySchema,
    output: invocationSchema,
    errors: [...itemErrors, ...bodyErrors, 'receipt_conflict'],
  },
} as const satisfies Record<string, Route>;
