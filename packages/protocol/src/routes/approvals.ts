/** `/v1/approvals`: the approvals of runs, sessions and invocations, whichever API started them. */
import { z } from 'zod';
import { approvalStatuses } from '../schemas/names.ts';
import {
  approvalKinds,
  approverRuleSchema,
  deciderSchema,
  displaySchema,
  earlierDenialSchema,
  outcomeAnswers,
  previewSchema,
  seenDigestSchema,
  toolPermissionSchema,
} from '../schemas/permissions.ts';
import { ruleRefSchema } from '../events/catalogue.ts';
import { grantTerms } from './grants.ts';
import { idSchema, jsonSchema, timeSchema } from '../schemas/values.ts';
import {
  anyOf,
  itemErrors,
  listErrors,
  idParam,
  listOf,
  pageQuery,
  bodyErrors,
  type Route,
} from './route.ts';

/**
 * `approved` decides a permission or a question; `input` replaces the call's arguments, or answers the
 * question. An approval of kind `outcome` is answered by `outcome`, with `output` if it is `completed`:
 * `approved: true` never answers it, `approved: false` means `failed`. `digest` is what the approver saw,
 * the `executedDigest` or else the `digest`: if the arguments have changed since, nothing is decided. It
 * is required to approve arguments that another approver has changed.
 */
export const approvalBodySchema = z
  .strictObject({
    approved: z.boolean().optional(),
    outcome: z.enum(outcomeAnswers).optional(),
    always: z.boolean().optional(),
    reason: z.string().max(10_000).optional(),
    input: jsonSchema.optional(),
    output: jsonSchema.optional(),
    digest: seenDigestSchema.optional(),
    ...grantTerms,
    /** With `always`: grant the exact call, or the `suggestedRule`. */
    rule: z.enum(['exact', 'suggested']).optional(),
  })
  .refine((body) => body.approved === undefined || body.outcome === undefined, {
    path: ['outcome'],
    message: 'Not allowed together with approved',
  })
  .refine((body) => body.approved === true || body.always !== true, {
    path: ['always'],
    message: 'Requires approved: true',
  })
  .superRefine((body, context) => {
    if (body.always === true) return;
    for (const path of ['scope', 'rule', 'expiresAt', 'uses'] as const) {
      if (body[path] === undefined) continue;
      context.addIssue({ code: 'custom', path: [path], message: 'Requires always: true' });
    }
  })
  .refine((body) => body.approved === true || body.input === undefined, {
    path: ['input'],
    message: 'Requires approved: true',
  });

export const approvalsQuerySchema = z.strictObject({
  ...pageQuery,
  status: anyOf(approvalStatuses)
    .optional()
    .describe('One status, or several, separated by commas'),
  runId: idSchema.optional(),
  sessionId: idSchema.optional(),
  conversationId: idSchema.optional(),
  invocationId: idSchema.optional(),
  tool: z.string().min(1).max(256).optional(),
  kind: z.enum(approvalKinds).optional(),
  /** Only pending approvals that the caller may decide and has not voted on. */
  decidable: z.enum(['true']).optional(),
});

const approverShape = approverRuleSchema.shape;

export const approvalSchema = z.object({
  id: idSchema,
  status: z.enum(approvalStatuses),
  kind: z.enum(approvalKinds),
  /** Set for a call of a run. */
  runId: idSchema.optional(),
  agentId: idSchema.optional(),
  agentPath: z.array(z.string()),
  toolCallId: z.string().optional(),
  /** The session whose call it is: of its run, of its program, or an invocation by it. */
  sessionId: idSchema.optional(),
  conversationId: idSchema.optional(),
  invocationId: idSchema.optional(),
  tool: z.string(),
  params: z.json(),
  /** Resolved file paths, keyed by parameter. */
  resolvedPaths: z.record(z.string(), z.string()).optional(),
  /** What the call leads to, with misleading characters made visible. It is part of `display.text`. */
  preview: previewSchema.pick({ links: true, diff: true, execution: true }).optional(),
  /** The arguments as an approver changed them: those that run, or that a pending approval is about. */
  executedParams: z.json().optional(),
  executedDigest: z.string().optional(),
  /** Set for a question: its text, the JSON Schema of its answer, and the answer. */
  prompt: z.string().optional(),
  schema: z.record(z.string(), z.json()).optional(),
  input: z.json().optional(),
  /** Set for a decided approval of kind `outcome`: the answer, and the output of a completed call. */
  outcome: z.enum(outcomeAnswers).optional(),
  output: z.json().optional(),
  /** Of the call that an `outcome` is about, to look it up in the system that the tool calls. */
  idempotencyKey: z.string().optional(),
  /** For an `outcome`, its text says first that the call was started and may have taken effect. */
  display: displaySchema,
  digest: z.string(),
  suggestedRule: toolPermissionSchema.optional(),
  /** What the agent says about its call. It is part of `display.text`, and not of what is approved. */
  shown: z.record(z.string(), z.json()).optional(),
  /** False: what the call would do is not known, so it can be approved only once. */
  concrete: z.boolean().optional(),
  /** False: it cannot be approved with other arguments (`input`). */
  editable: z.boolean().optional(),
  /** A person has denied the same call before in this run. */
  earlierDenial: earlierDenialSchema.optional(),
  /**
   * The rule that demands a person for each such call: an `ask` rule, or `needsApproval` of the tool.
   * While it stands, a grant by `always` has no effect.
   */
  rule: ruleRefSchema.optional(),
  /**
   * Set if the policy says who may decide about this call. `votes` are approvals that count so far, with
   * the last one when the quorum is reached.
   */
  quorum: z.int().optional(),
  votes: z
    .array(z.object({ by: deciderSchema, role: z.string().optional(), at: timeSchema }))
    .optional(),
  /** Set while it is pending: who may decide. */
  approvers: z
    .object({
      roles: approverShape.roles,
      groups: approverShape.groups,
      keys: approverShape.keys,
      notRequester: z.boolean(),
    })
    .optional(),
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
    scopes: ['read'],
    query: approvalsQuerySchema,
    output: listOf('approvals', approvalSchema),
    errors: listErrors,
  },
  getApproval: {
    method: 'GET',
    path: '/v1/approvals/:id',
    summary: 'Get an approval',
    scopes: ['read'],
    params: idParam,
    output: approvalSchema,
    errors: itemErrors,
  },
  decideApproval: {
    method: 'POST',
    path: '/v1/approvals/:id',
    summary:
      'Decide an approval, or vote if several approvers must agree; the first decision counts, and repeating it has no effect',
    scopes: ['approve'],
    params: idParam,
    body: approvalBodySchema,
    requiredFields: {
      fields: [['approved', 'outcome']],
      message: 'approved is required, or outcome for an approval of kind outcome',
    },
    output: approvalSchema,
    errors: [
      ...itemErrors,
      ...bodyErrors,
      'outcome_answer_required',
      'tool_input_invalid',
      'denied_by_rule',
      'tool_unavailable',
      'approval_conflict',
      'approval_changed',
      'not_an_approver',
      'capability_missing',
    ],
  },
} as const satisfies Record<string, Route>;
