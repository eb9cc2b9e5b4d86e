/** Results of function tools, which run in a client. */
import { z } from 'zod';
import { idSchema, seqSchema, timeSchema, toolCallIdSchema } from '../schemas/values.ts';
import { itemErrors, attachmentsBodyLimit, bodyErrors, type Route } from './route.ts';

const callParams = z.object({ id: idSchema, toolUseId: toolCallIdSchema });

export const toolResultBodySchema = z.strictObject({
  // Parsed from JSON already and possibly large, so it is not checked again.
  output: z.unknown().refine((output) => output !== undefined, 'Required'),
  /** The text for the model instead of the output; not used if the function failed. */
  context: z.string().optional(),
  /** The function failed; `output` describes the error. */
  isError: z.boolean().optional(),
});

/** An existing `claimId` is renewed. */
export const claimBodySchema = z.strictObject({ claimId: idSchema.optional() }).optional();

const maxWaitMs = 25_000;

export const longPollQuerySchema = z.strictObject({
  waitMs: seqSchema
    .pipe(z.int().min(0).max(maxWaitMs))
    .default(maxWaitMs)
    .describe('How long to wait for a result, at most 25 seconds'),
});

export const toolResultRoutes = {
  postToolResult: {
    method: 'POST',
    path: '/v1/runs/:id/tool-results/:toolUseId',
    summary: 'Post the result of a function tool call',
    scopes: ['runs', 'worker'],
    anyScope: true,
    params: callParams,
    body: toolResultBodySchema,
    bodyLimit: attachmentsBodyLimit,
    output: z.object({ ok: z.literal(true) }),
    errors: [...itemErrors, ...bodyErrors, 'not_run_owner', 'tool_result_conflict'],
  },
  claimToolCall: {
    method: 'POST',
    path: '/v1/runs/:id/tool-results/:toolUseId/claim',
    summary: 'Claim a function tool call, so that no other client runs it',
    scopes: ['runs', 'worker'],
    anyScope: true,
    params: callParams,
    body: claimBodySchema,
    output: z.object({
      claimId: idSchema,
      expiresAt: timeSchema,
      /** Another client had claimed it before and may have run it. */
      claimedBefore: z.boolean(),
    }),
    errors: [...itemErrors, ...bodyErrors, 'not_run_owner', 'call_claimed'],
  },
  awaitToolResult: {
    method: 'GET',
    path: '/internal/runs/:id/tool-result/:toolUseId',
    summary: 'Wait for the result of a function tool call',
    auth: 'internal',
    scopes: [],
    params: callParams,
    query: longPollQuerySchema,
    noContentWhen: 'No result yet',
    output: z.object({ output: z.json(), isError: z.boolean().optional() }),
    errors: ['unauthorized', 'rate_limited', 'invalid_request', 'not_found', 'result_gone'],
  },
} as const satisfies Record<string, Route>;
