/** `POST /chat`: a run over one connection. */
import { z } from 'zod';
import { limitsSchema } from '../schemas/runs.ts';
import { messageSchema } from '../schemas/messages.ts';
import { relayResponseSchema, permissionsSchema } from '../schemas/permissions.ts';
import { idSchema, jsonSchema } from '../schemas/values.ts';
import { attachmentsBodyLimit, type Route, startErrors } from './route.ts';

export const chatBodySchema = z.strictObject({
  model: z.string().min(1).optional(),
  messages: z.array(messageSchema).min(1),
  permissions: permissionsSchema.optional(),
  tools: z.array(z.string().min(1)).optional(),
  context: z.record(z.string(), jsonSchema).optional(),
  conversationId: idSchema.optional(),
  maxIterations: z.int().min(1).max(1000).optional(),
  limits: limitsSchema.optional(),
});

export const chatRelayBodySchema = z.strictObject({
  sessionId: z.string().min(1),
  response: relayResponseSchema,
});

export const chatRoutes = {
  startChat: {
    method: 'POST',
    path: '/chat',
    summary: 'Start a chat run over one connection, and answer its approvals while it is open',
    auth: 'local-or-key',
    scopes: ['runs'],
    body: chatBodySchema,
    requiredFields: { fields: ['messages'], message: 'model and messages are required' },
    bodyLimit: attachmentsBodyLimit,
    responseType: 'sse',
    errors: startErrors,
  },
  answerChatRelay: {
    method: 'POST',
    path: '/chat/relay/:relayId',
    summary: 'Answer an approval of an open chat session',
    auth: 'local-or-key',
    scopes: ['approve'],
    params: z.object({ relayId: z.string() }),
    body: chatRelayBodySchema,
    requiredFields: {
      fields: ['sessionId', 'response'],
      message: 'sessionId and response are required',
    },
    output: z.object({ success: z.literal(true) }),
    errors: [
      'invalid_json',
      'invalid_request',
      'unauthorized',
      'scope_required',
      'rate_limited',
      'session_not_found',
      'relay_not_found',
      'outcome_answer_required',
      'tool_input_invalid',
      'denied_by_rule',
      'tool_unavailable',
      'approval_changed',
      'not_an_approver',
    ],
  },
} as const satisfies Record<string, Route>;
