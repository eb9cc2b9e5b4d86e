/** `POST /chat`: a run over one connection. */
import { z } from 'zod';
import { idSchema } from '../schemas/ids.ts';
import { limitsSchema } from '../schemas/limits.ts';
import { messageSchema } from '../schemas/messages.ts';
import { relayResponseSchema, permissionsSchema } from '../schemas/permissions.ts';
import { attachmentsLimit, type Route } from './route.ts';
import { startsRun } from './starts-run.ts';

export const chatBodySchema = z.strictObject({
  model: z.string().min(1).optional(),
  messages: z.array(messageSchema).min(1),
  permissions: permissionsSchema.optional(),
  tools: z.array(z.string().min(1)).optional(),
  context: z.record(z.string(), z.json()).optional(),
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
    summary: 'Chat over one connection',
    auth: 'local-or-key',
    scopes: ['runs'],
    body: chatBodySchema,
    requires: { fields: ['messages'], message: 'model and messages are required' },
    bodyLimit: attachmentsLimit,
    answer: 'sse',
    errors: startsRun,
  },
  answerChatRelay: {
    method: 'POST',
    path: '/chat/relay/:relayId',
    summary: 'Respond to a relay of an open chat',
    auth: 'local-or-key',
    scopes: ['approve'],
    params: z.object({ relayId: z.string() }),
    body: chatRelayBodySchema,
    requires: { fields: ['sessionId', 'response'], message: 'sessionId and response are required' },
    answer: 'json',
    output: z.object({ success: z.literal(true) }),
    errors: [
      'invalid_json',
      'invalid_request',
      'unauthorized',
      'scope_required',
      'rate_limited',
      'session_not_found',
      'relay_not_found',
      'tool_input_invalid',
      'denied_by_rule',
      'tool_unavailable',
    ],
  },
} as const satisfies Record<string, Route>;
