/** The agents and tools of the screenshots. */
import { defineAgent, defineConfig, defineTool, pty } from '@relay/server';
import { z } from 'zod';

const refund = defineTool({
  name: 'refund',
  description: 'Refunds an invoice',
  schema: z.object({
    invoice: z.string(),
    amount: z.number().min(0).describe('In dollars'),
    reason: z.enum(['duplicate', 'requested', 'fraud']),
    notify: z.boolean().describe('Send the customer a message'),
  }),
  idempotent: true,
  needsApproval: true,
  execute: ({ invoice, amount }) => ({ context: `Refunded $${amount} of invoice ${invoice}` }),
});

const chooseRegion = defineTool({
  name: 'choose_region',
  description: 'Asks a person for the region of a release',
  schema: z.object({}),
  idempotent: true,
  allowedByDefault: true,
  execute: async (_input, ctx) => {
    const answer = await ctx.ask({
      prompt: 'Where should version 2.4.1 be released first?',
      schema: {
        type: 'object',
        required: ['region', 'percent'],
        properties: {
          region: { type: 'string', enum: ['eu-central', 'us-east', 'ap-south'] },
          percent: {
            type: 'integer',
            minimum: 1,
            maximum: 100,
            description: 'Share of the traffic',
          },
          note: { type: 'string' },
        },
      },
    });
    return { context: JSON.stringify(answer) };
  },
});

const billing = defineAgent({
  name: 'billing',
  description: 'Knows about invoices and refunds',
  instructions: 'You answer questions about invoices.',
  model: 'gpt-6-luna',
  tools: [refund],
});

const support = defineAgent({
  name: 'support',
  description: 'Answers customers, and asks billing about invoices',
  instructions: 'You help customers.',
  model: 'gpt-6-luna',
  tools: ['agent', 'send_note', 'calculator', refund],
  handoffs: [billing],
});

const release = defineAgent({
  name: 'release',
  description: 'Prepares and publishes releases',
  instructions: 'You release software.',
  model: 'gpt-6-luna',
  tools: ['bash', 'read', 'patch', 'send_note', chooseRegion],
});

export default defineConfig({
  agents: [support, release, billing],
  harnesses: [pty({ name: 'shell', command: ['bash', '--norc', '--noprofile'] })],
  prices: { 'gpt-6-luna': { inputPerMillion: 1.5, outputPerMillion: 9 } },
});
