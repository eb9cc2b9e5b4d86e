/** Tools that ask in every way, for the tests of the inbox. */
import { appendFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig, defineTool } from '@relay/server';
import { z } from 'zod';

const dataDir = process.env['RELAY_DATA_DIR'] ?? '.';

const transfer = defineTool({
  name: 'transfer',
  description: 'Transfers an amount of money',
  schema: z.strictObject({ to: z.string(), amount: z.number(), express: z.boolean().optional() }),
  derivePermission: ({ to }) => ({ tool: 'transfer', params: { to } }),
  execute: (input) => ({ result: input }),
});

const order = defineTool({
  name: 'order',
  description: 'Orders a shirt, and asks for its size',
  schema: z.strictObject({ what: z.string() }),
  idempotent: true,
  allowedByDefault: true,
  execute: async ({ what }, context) => {
    const answer = await context.ask({
      prompt: 'Which size, and how many?',
      schema: {
        type: 'object',
        properties: {
          size: { enum: ['S', 'M', 'L'] },
          count: { type: 'integer', minimum: 1 },
        },
        required: ['size', 'count'],
        additionalProperties: false,
      },
    });
    return { result: { what, answer } };
  },
});

/** It never ends the first time, so that a server can be killed in the middle of it. */
const refund = defineTool({
  name: 'refund',
  description: 'Refunds an order',
  schema: z.strictObject({ order: z.string() }),
  allowedByDefault: true,
  async execute({ order: refunded }) {
    const log = join(dataDir, `refund-${refunded}.log`);
    const wasStarted = existsSync(log);
    appendFileSync(log, 'started\n');
    if (!wasStarted) await new Promise(() => undefined);
    return { result: { refunded } };
  },
});

export default defineConfig({ tools: [transfer, order, refund] });
