import { type FunctionTool, issuesOfValue } from '@relay/protocol';
import type { Tool } from '../../ports/index.ts';

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
    validate(input) {
      const issues = issuesOfValue(inputSchema, input);
      return issues.length === 0 ? { ok: true, value: input } : { ok: false, issues };
    },
    execute: () => Promise.reject(new TypeError('A client executes its own function')),
  };
}
