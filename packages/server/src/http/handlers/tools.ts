import type { Handler } from './handler.ts';

/** What requests may name. A tool of an MCP server that has never answered is not known. */
export const listTools: Handler = async ({ caller, context }) => ({
  tools: context.control.engine
    .tools(caller.tenantId)
    .list()
    .map(({ name, description, inputSchema, allowedByDefault, idempotent }) => ({
      name,
      description,
      inputSchema,
      allowedByDefault,
      idempotent,
    })),
});
