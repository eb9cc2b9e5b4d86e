import { appendFileSync } from 'node:fs';
import { defineAgent, defineConfig, defineTool, z } from 'relay-kit';

const prices: Record<string, number> = { 'A-17': 49.9, 'B-42': 120 };

const findOrder = defineTool({
  name: 'find_order',
  description: 'Finds an order by its number',
  schema: z.object({ order: z.string() }),
  // It changes nothing: it runs without an approval, and again after a crash.
  allowedByDefault: true,
  idempotent: true,
  execute: ({ order }) => {
    const price = prices[order];
    return price === undefined
      ? { context: `There is no order ${order}` }
      : { result: { order, price } };
  },
});

const refundOrder = defineTool({
  name: 'refund_order',
  description: 'Refunds the price of an order to the customer',
  schema: z.object({ order: z.string(), amount: z.number().positive(), reason: z.string() }),
  // A person approves each call, and sees its arguments.
  needsApproval: true,
  execute: ({ order, amount, reason }) => {
    appendFileSync('refunds.log', `${order} $${amount} ${reason}\n`);
    return { result: { refunded: amount } };
  },
});

const support = defineAgent({
  name: 'support',
  // Set it in .env. The model `demo` needs no key.
  model: process.env['RELAY_DEFAULT_MODEL'] ?? 'demo',
  description: 'Answers customers and refunds their orders',
  instructions:
    'Help the customer. Look up an order before you refund it, and never refund more than its price.',
  tools: [findOrder, refundOrder],
});

export default defineConfig({ agents: [support] });
