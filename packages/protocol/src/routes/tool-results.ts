/** How what a function tool brings comes back into its run. */
import { z } from 'zod';
import { idSchema, toolCallIdSchema } from '../schemas/ids.ts';
import {
  aboutOne,
  attachmentsLimit,
  readsBody,
  type Route,
  seqSchema,
  timeSchema,
} from './route.ts';

const ofCall = z.object({ id: idSchema, toolUseId: toolCallIdSchema });

export const toolResultBodySchema = z.strictObject({
  // Whatever JSON can hold: it was parsed as such, and may be large.
  output: z.unknown().refine((output) => output !== undefined, 'Required'),
  /** The function failed, and `output` says how. */
  isError: z.boolean().optional(),
});

/** With the claim that one has, it is prolonged. */
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
    auth: 'key',
    scopes: ['runs'],
    params: ofCall,
    body: toolResultBodySchema,
    bodyLimit: attachmentsLimit,
    answer: 'json',
    output: z.object({ ok: z.literal(true) }),
    errors: [...aboutOne, ...readsBody, 'tool_result_conflict'],
  },
  claimToolCall: {
    method: 'POST',
    path: '/v1/runs/:id/tool-results/:toolUseId/claim',
    summary: 'Claim a function tool call, so that other clients do not run it',
    auth: 'key',
    scopes: ['runs'],
    params: ofCall,
    body: claimBodySchema,
    answer: 'json',
    output: z.object({ claimId: idSchema, expiresAt: timeSchema }),
    errors: [...aboutOne, ...readsBody, 'call_claimed'],
  },
  awaitToolResult: {
    method: 'GET',
    path: '/internal/runs/:id/tool-result/:toolUseId',
    summary: 'Wait for the result of a function tool call; 204 if there is none yet',
    auth: 'internal',
    scopes: [],
    params: ofCall,
    query: longPollQuerySchema,
    answer: 'json',
    mayBeNothing: 'Nothing yet',
    output: z.object({ output: z.json(), isError: z.boolean().optional() }),
    errors: ['unauthorized', 'rate_limited', 'invalid_request', 'not_found', 'result_gone'],
  },
} as const satisfies Record<string, Route>;
