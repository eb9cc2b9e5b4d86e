/** `/mcp`: messages, sessions and actions as tools of the Model Context Protocol. */
import { z } from 'zod';
import { jsonSchema } from '../schemas/values.ts';
import { bodyErrors, keyErrors, type Route } from './route.ts';

/** Only JSON is required here: the protocol has its own errors for everything else. */
const mcpMessageSchema = jsonSchema.meta({
  description: 'A request or notification of the Model Context Protocol',
});

/** A response, in JSON or as the only event of a stream. Errors before the message is read have no `id`. */
const mcpResponseSchema = z.object({
  jsonrpc: z.literal('2.0'),
  id: z.union([z.string(), z.number()]).nullish(),
  result: z.looseObject({}).optional(),
  error: z.object({ code: z.int(), message: z.string(), data: jsonSchema.optional() }).optional(),
});

export const mcpRoutes = {
  serveMcp: {
    method: 'POST',
    path: '/mcp',
    summary: 'Send one message of the Model Context Protocol',
    scopes: ['read'],
    session: 'tenant',
    body: mcpMessageSchema,
    streamed: true,
    output: mcpResponseSchema,
    errorFormat: 'json-rpc',
    errors: [...keyErrors, ...bodyErrors, 'too_many_open'],
  },
} as const satisfies Record<string, Route>;
