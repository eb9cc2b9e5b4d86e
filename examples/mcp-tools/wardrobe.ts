/** An MCP server with one tool, which requests missing input (elicitation). */
import { acceptedContent, inputRequired, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const requestedSchema = {
  type: 'object' as const,
  properties: { size: { type: 'string' as const, enum: ['S', 'M', 'L'] } },
  required: ['size'],
};

serveStdio(() => {
  const server = new McpServer({ name: 'wardrobe', version: '1.0.0' });
  const description = 'Orders something to wear';
  const inputSchema = z.object({ what: z.string() });
  server.registerTool('order', { description, inputSchema }, ({ what }, { mcpReq }) => {
    if (mcpReq.inputResponses === undefined) {
      const size = inputRequired.elicit({ message: `Which size of ${what}?`, requestedSchema });
      return inputRequired({ inputRequests: { size } });
    }
    const answer = acceptedContent<{ size: string }>(mcpReq.inputResponses, 'size');
    const text = answer === undefined ? 'Nothing was ordered' : `Ordered: ${what} ${answer.size}`;
    return { content: [{ type: 'text', text }] };
  });
  return server;
});
