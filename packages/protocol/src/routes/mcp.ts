/** `/mcp`: messages, sessions, actions and runs as tools of the Model Context Protocol. */
import { z } from 'zod';
import { jsonSchema } from '../schemas/values.ts';
import { bodyErrors, keyErrors, type Route } from './route.ts';

/** Everything else that can be wrong with a message has an error of the protocol. */
const mcpMessageSchema = z.looseObject({}).meta({
  description: 'A request or a notification of the Model Context Protocol',
});

/** In JSON, or as the only event of a stream. */
const mcpResponseSchema = z.object({
  jsonrpc: z.literal('2.0'),
  id: jsonSchema.meta({ description: 'As in the request' }),
  result: z.looseObject({}).optional(),
  error: z.object({ code: z.int(), message: z.string(), data: jsonSchema.optional() }).optional(),
});

export const mcpRoutes = {
  serveMcp: {
    method: 'POST',
    path: '/mcp',
    summary: 'Send one message of the Model Context Protocol',
    scopes: ['read'],
    cookie: false,
    session: 'tenant',
    body: mcpMessageSchema,
    streamed: true,
    output: mcpResponseSchema,
    errorFormat: 'json-rpc',
    errors: [...keyErrors, ...bodyErrors, 'too_many_open'],
  },
} as const satisfies Record<string, Route>;
