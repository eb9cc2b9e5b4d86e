import { type FunctionTool } from '@relay/protocol';
import { validateBySchema } from '../json-schema/validate.ts';
import type { Tool } from '../ports.ts';

/**
 * The caller's own function as a tool: a client runs it, so it needs nobody's consent, and nothing of
 * it is ever executed here.
 */
export function clientTool(declared: FunctionTool): Tool {
  const { name, description = '', inputSchema } = declared;
  return {
    name,
    description,
    inputSchema,
    allowedByDefault: true,
    idempotent: false,
    onUnknown: 'fail',
    client: declared.timeoutMs === undefined ? {} : { timeoutMs: declared.timeoutMs },
    validate: (input) => validateBySchema(inputSchema, input),
    execute: () => Promise.reject(new TypeError('A client executes its own function')),
  };
}
