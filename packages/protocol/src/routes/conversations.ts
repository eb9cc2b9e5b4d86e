/** `/v1/conversations`: runs that continue each other. */
import { z } from 'zod';
import { runStatuses } from '../schemas/runs.ts';
import { idSchema, timeSchema } from '../schemas/values.ts';
import { idParam, itemErrors, listErrors, listOf, pageQuery, type Route } from './route.ts';

export const conversationsQuerySchema = z.strictObject({
  ...pageQuery,
  q: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe('Only conversations whose title contains this text, in upper or lower case'),
});

export const conversationSchema = z.object({
  id: idSchema,
  title: z
    .string()
    .optional()
    .describe('The first text of a user, at most 200 characters. Not set if there is none'),
  /** The agent and the status of the last run. */
  agent: z.string(),
  status: z.enum(runStatuses),
  lastRunId: idSchema,
  /** How many runs it has. */
  runs: z.int(),
  /** The person who started its first run. */
  owner: z.string(),
  sessionId: idSchema.optional().describe('The session whose turns are its runs'),
  createdAt: timeSchema,
  updatedAt: timeSchema.describe('When its last run was created'),
});

export const conversationRoutes = {
  listConversations: {
    method: 'GET',
    path: '/v1/conversations',
    summary: 'List conversations, the one with the latest run first',
    scopes: ['read'],
    query: conversationsQuerySchema,
    output: listOf('conversations', conversationSchema),
    errors: listErrors,
  },
  getConversation: {
    method: 'GET',
    path: '/v1/conversations/:id',
    summary: 'Get a conversation; GET /v1/runs?conversationId= lists its runs',
    scopes: ['read'],
    params: idParam,
    output: conversationSchema,
    errors: itemErrors,
  },
} as const satisfies Record<string, Route>;
