/** `/v1/approvals`: requests to people, whatever surface their run came in by. */
import { z } from 'zod';
import { idSchema } from '../schemas/ids.ts';
import { toolPermissionSchema } from '../schemas/permissions.ts';
import { deciderSchema, approvalKinds, approvalStatuses } from '../schemas/approvals.ts';
import { termsShape } from './grants.ts';
import {
  aboutOne,
  aList,
  idParam,
  listOf,
  pageQuery,
  readsBody,
  type Route,
  timeSchema,
} from './route.ts';

/**
 * `input` are other arguments to run the call with, or the answer to a question. `output` answers an approval of kind `outcome`: it
 * happened, and this is its result.
 */
export const approvalBodySchema = z
  .strictObject({
    approved: z.boolean(),
    always: z.boolean().optional(),
    reason: z.string().max(10_000).optional(),
    input: z.json().optional(),
    output: z.json().optional(),
    ...termsShape,
    /** The call to the letter, or the `suggestedRule`. */
    rule: z.enum(['exact', 'suggested']).optional(),
  })
  .refine((body) => body.approved || body.always !== true, {
    path: ['always'],
    message: 'Only an approval can hold for always',
  })
  .superRefine((body, context) => {
    if (body.always === true) return;
    for (const path of ['scope', 'rule', 'expiresAt', 'uses'] as const) {
      if (body[path] === undefined) continue;
      context.addIssue({ code: 'custom', path: [path], message: 'Says something of always alone' });
    }
  })
  .refine((body) => body.approved || body.input === undefined, {
    path: ['input'],
    message: 'Only an approval comes with arguments or an answer',
  });

export const approvalsQuerySchema = z.strictObject({
  ...pageQuery,
  status: z.enum(approvalStatuses).optional(),
  runId: idSchema.optional(),
  kind: z.enum(approvalKinds).optional(),
});

export const approvalSchema = z.object({
  id: idSchema,
  status: z.enum(approvalStatuses),
  kind: z.enum(approvalKinds),
  runId: idSchema,
  agentId: idSchema,
  agentPath: z.array(z.string()),
  toolCallId: z.string(),
  tool: z.string(),
  params: z.json(),
  /** What was approved instead of `params`, where a person changed it. */
  /** Where path parameters lead, links followed. */
  resolvedPaths: z.record(z.string(), z.string()).optional(),
  executedParams: z.json().optional(),
  executedDigest: z.string().optional(),
  /** Of a question: what is asked, the shape of the answer, and the answer. */
  prompt: z.string().optional(),
  schema: z.record(z.string(), z.json()).optional(),
  input: z.json().optional(),
  /** What to show a person: nothing in it looks like something else. */
  display: z.object({ text: z.string(), flags: z.array(z.string()) }),
  digest: z.string(),
  suggestedRule: toolPermissionSchema.optional(),
  requestedAt: timeSchema,
  expiresAt: timeSchema,
  decidedAt: timeSchema.optional(),
  decidedBy: deciderSchema.optional(),
  reason: z.string().optional(),
});

export const approvalRoutes = {
  listApprovals: {
    method: 'GET',
    path: '/v1/approvals',
    summary: 'List approvals, newest first',
    auth: 'key',
    scopes: ['runs', 'approve'],
    anyScope: true,
    query: approvalsQuerySchema,
    answer: 'json',
    output: listOf('approvals', approvalSchema),
    errors: aList,
  },
  getApproval: {
    method: 'GET',
    path: '/v1/approvals/:id',
    summary: 'Read an approval',
    auth: 'key',
    scopes: ['runs', 'approve'],
    anyScope: true,
    params: idParam,
    answer: 'json',
    output: approvalSchema,
    errors: aboutOne,
  },
  decideApproval: {
    method: 'POST',
    path: '/v1/approvals/:id',
    summary: 'Decide an approval. The first decision counts; repeating it changes nothing',
    auth: 'key',
    scopes: ['approve'],
    params: idParam,
    body: approvalBodySchema,
    requires: { fields: ['approved'], message: 'approved is required' },
    answer: 'json',
    output: approvalSchema,
    errors: [
      ...aboutOne,
      ...readsBody,
      'tool_input_invalid',
      'denied_by_rule',
      'tool_unavailable',
      'approval_conflict',
    ],
  },
} as const satisfies Record<string, Route>;
