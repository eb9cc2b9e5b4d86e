/** `/api/chat`: a conversation, its approvals and its resumption. */
import { z } from 'zod';
import { contentPartsSchema } from '../schemas/messages.ts';
import { limitsSchema } from '../schemas/runs.ts';
import {
  approvalKinds,
  outcomeAnswers,
  permissionsSchema,
  seenDigestSchema,
} from '../schemas/permissions.ts';
import { idSchema, jsonSchema, toolCallIdSchema } from '../schemas/values.ts';
import { attachmentsBodyLimit, keyErrors, bodyErrors, type Route, startErrors } from './route.ts';

export const apiChatBodySchema = z.strictObject({
  /** A text, or texts, images and files. */
  message: z.union([z.string().min(1), contentPartsSchema.min(1)]),
  conversationId: idSchema.optional(),
  agent: z.string().min(1).optional(),
  model: z.string().min(1).optional(),
  permissions: permissionsSchema.optional(),
  limits: limitsSchema.optional(),
});

/**
 * A call can have several approvals: one to run, and one for its outcome after each crash. `kind` or
 * `approvalId` selects one. The latter kind is answered by `outcome` instead of `action`; `reject` means
 * `failed`. What would run the call once more after an earlier such answer needs `approvalId`: without
 * it, a request that a client repeats after a crash would run the call again.
 */
export const toolApprovalBodySchema = z
  .strictObject({
    runId: idSchema,
    toolCallId: toolCallIdSchema,
    action: z.enum(['approve', 'reject']).optional(),
    outcome: z.enum(outcomeAnswers).optional(),
    /** The result of a call whose outcome is `completed`. */
    output: jsonSchema.optional(),
    kind: z.enum(approvalKinds).optional(),
    approvalId: idSchema.optional(),
    always: z.boolean().optional(),
    reason: z.string().max(10_000).optional(),
    /** Replaces the call's arguments, or answers a question. */
    input: jsonSchema.optional(),
    /** What the approver saw, as in `POST /v1/approvals/:id`. */
    digest: seenDigestSchema.optional(),
  })
  .refine((body) => body.action === undefined || body.outcome === undefined, {
    path: ['outcome'],
    message: 'Not allowed together with action',
  })
  .refine((body) => body.action === 'approve' || body.always !== true, {
    path: ['always'],
    message: 'Requires action: approve',
  })
  .refine((body) => body.action === 'approve' || body.input === undefined, {
    path: ['input'],
    message: 'Requires action: approve',
  });

export const resumeBodySchema = z.strictObject({ runId: idSchema });

/** The status of a run in `/api/chat`. */
export const runtimeStatuses = [
  'queued',
  'running',
  'waiting',
  'succeeded',
  'failed',
  'canceled',
] as const;

const frame = z.looseObject({ type: z.string() });
const outcome = {
  ok: z.literal(true),
  status: z.enum(runtimeStatuses),
  events: z.array(frame),
};

export const runtimeRoutes = {
  startApiChat: {
    method: 'POST',
    path: '/api/chat',
    summary: 'Start a chat run, or continue a conversation',
    scopes: ['runs'],
    body: apiChatBodySchema,
    requiredFields: { fields: ['message'] },
    bodyLimit: attachmentsBodyLimit,
    responseType: 'sse',
    errors: [...startErrors, 'unknown_agent', 'idempotency_mismatch'],
  },
  approveTool: {
    method: 'POST',
    path: '/api/chat/tool-approval',
    summary: 'Decide a pending tool call, and get the events that follow',
    scopes: ['approve'],
    body: toolApprovalBodySchema,
    requiredFields: {
      fields: ['runId', 'toolCallId', ['action', 'outcome']],
      message: 'runId, toolCallId and action are required',
    },
    output: z.object(outcome),
    errors: [
      ...keyErrors,
      ...bodyErrors,
      'not_found',
      'approval_conflict',
      'approval_state_missing',
      'outcome_answer_required',
      'tool_input_invalid',
      'denied_by_rule',
      'tool_unavailable',
      'approval_changed',
      'not_an_approver',
    ],
  },
  resumeChat: {
    method: 'POST',
    path: '/api/chat/resume',
    summary: 'Resume a run, and get the events since its checkpoint',
    scopes: ['runs'],
    body: resumeBodySchema,
    requiredFields: { fields: ['runId'] },
    output: z.object({ ...outcome, runId: idSchema }),
    errors: [...keyErrors, ...bodyErrors, 'not_found', 'checkpoint_missing', 'journal_corrupt'],
  },
} as const satisfies Record<string, Route>;
