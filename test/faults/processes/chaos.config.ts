/** What an operator would define: tools whose effects lie in another process, and two agents. */
import { defineAgent, defineConfig, defineTool } from '@relay/server';
import { z } from 'zod';

const toolServer = process.env['TEST_TOOL_SERVER'] ?? '';

function remote(name: string, options: { asks?: boolean; idempotent?: boolean } = {}) {
  return defineTool({
    name,
    description: `Does ${name}, elsewhere`,
    schema: z.strictObject({ tag: z.string(), n: z.number() }),
    allowedByDefault: options.asks !== true,
    idempotent: options.idempotent === true,
    async execute(input, { toolCallId, idempotencyKey, signal }) {
      const response = await fetch(toolServer, {
        method: 'POST',
        body: JSON.stringify({ tool: name, toolCallId, idempotencyKey, input }),
        signal,
      });
      return { result: await response.json() };
    },
  });
}

const look = remote('look', { idempotent: true });
const expert = defineAgent({ name: 'expert', description: 'Knows', tools: [look] });
const desk = defineAgent({ name: 'desk', handoffs: [expert], tools: [look] });

export default defineConfig({
  tools: [remote('charge'), remote('pay', { asks: true })],
  agents: [desk, expert],
  rateLimit: { requestsPerMinute: 1_000_000, failuresPerMinute: 1_000_000 },
});
