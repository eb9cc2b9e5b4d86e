/** `/api/chat`: a conversation, its approvals and its resumption. */
import { z } from 'zod';
import { idSchema, toolCallIdSchema } from '../schemas/ids.ts';
import { limitsSchema } from '../schemas/limits.ts';
import { permissionsSchema } from '../schemas/permissions.ts';
import { approvalKinds } from '../schemas/approvals.ts';
import { needsKey, readsBody, type Route } from './route.ts';
import { startsRun } from './starts-run.ts';

export const apiChatBodySchema = z.strictObject({
  message: z.string().min(1),
  conversationId: idSchema.optional(),
  agent: z.string().min(1).optional(),
  model: z.string().min(1).optional(),
  permissions: permissionsSchema.optional(),
  limits: limitsSchema.optional(),
});

/**
 * A call can be asked about twice: whether it may run, and after a crash what became of it. `kind`
 * says which of the two is meant; left out, an approval is never one to run it again.
 */
export const toolApprovalBodySchema = z
  .strictObject({
    runId: idSchema,
    toolCallId: toolCallIdSchema,
    action: z.enum(['approve', 'reject']),
    kind: z.enum(approvalKinds).optional(),
    always: z.boolean().optional(),
    reason: z.string().max(10_000).optional(),
    /** Other arguments for the call, or the answer to a question. */
    input: z.json().optional(),
  })
  .refine((body) => body.action === 'approve' || body.always !== true, {
    path: ['always'],
    message: 'Only an approval can hold for always',
  })
  .refine((body) => body.action === 'approve' || body.input === undefined, {
    path: ['input'],
    message: 'Only an approval comes with arguments or an answer',
  });

export const resumeBodySchema = z.strictObject({ runId: idSchema });

/** What `/api/chat` calls the status of a run. */
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
    auth: 'key',
    scopes: ['runs'],
    body: apiChatBodySchema,
    requires: { fields: ['message'], message: 'message is required' },
    answer: 'sse',
    errors: [...startsRun, 'unknown_agent', 'idempotency_mismatch'],
  },
  approveTool: {
    method: 'POST',
    path: '/api/chat/tool-approval',
    summary: 'Decide a pending tool call and return what follows',
    auth: 'key',
    scopes: ['approve'],
    body: toolApprovalBodySchema,
    requires: {
      fields: ['runId', 'toolCallId', 'action'],
      message: 'runId, toolCallId and action are required',
    },
    answer: 'json',
    output: z.object(outcome),
    errors: [
      ...needsKey,
      ...readsBody,
      'not_found',
      'approval_conflict',
      'approval_state_missing',
      'tool_input_invalid',
      'denied_by_rule',
      'tool_unavailable',
    ],
  },
  resumeChat: {
    method: 'POST',
    path: '/api/chat/resume',
    summary: 'Stream a run, or return what has happened since its checkpoint',
    auth: 'key',
    scopes: ['runs'],
    body: resumeBodySchema,
    requires: { fields: ['runId'], message: 'runId is required' },
    answer: 'json',
    output: z.object({ ...outcome, runId: idSchema }),
    errors: [...needsKey, ...readsBody, 'not_found', 'checkpoint_missing', 'journal_corrupt'],
  },
} as const satisfies Record<string, Route>;
