/** Agents as an operator would define them, for the tests of the real server. */
import { defineAgent, defineConfig, defineTool } from '@relay/server';
import { z } from 'zod';

const lookUp = defineTool({
  name: 'look_up',
  description: 'Looks up an invoice',
  schema: z.strictObject({ invoice: z.string() }),
  idempotent: true,
  allowedByDefault: true,
  execute: ({ invoice }) => ({ context: `The invoice ${invoice} is paid`, result: { invoice } }),
});

const billing = defineAgent({
  name: 'billing',
  description: 'Knows about invoices',
  instructions: 'You answer questions about invoices.',
  tools: [lookUp, 'send_note'],
  handoffs: ['triage'],
});

const triage = defineAgent({
  name: 'triage',
  instructions: 'You find out who can help.',
  model: 'demo',
  tools: ['agent', 'calculator'],
  handoffs: [billing],
});

const guarded = defineAgent({
  name: 'guarded',
  guardrails: {
    input: [
      {
        name: 'no-secrets',
        check: (text) =>
          text.includes('hunter2') ? { ok: false, reason: 'It holds a password' } : { ok: true },
      },
    ],
    output: [
      {
        name: 'no-thirteen',
        check: (text) =>
          text.includes('13') ? { ok: false, reason: 'It says thirteen' } : { ok: true },
      },
    ],
  },
});

export default defineConfig({
  agents: [triage, guarded],
  prices: { demo: { inputPerMillion: 1, outputPerMillion: 2 } },
  limits: { subAgents: 3 },
});
