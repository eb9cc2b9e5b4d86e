import { defineAgent, defineConfig, defineTool, z } from 'relay-kit';

const findInvoice = defineTool({
  name: 'find_invoice',
  description: 'Finds an invoice by its number',
  schema: z.object({ number: z.string() }),
  allowedByDefault: true,
  idempotent: true,
  execute: ({ number }) => ({ context: `Invoice ${number} is paid` }),
});

const refund = defineTool({
  name: 'refund',
  description: 'Refunds an invoice',
  schema: z.object({ number: z.string(), euros: z.number().positive() }),
  needsApproval: true,
  execute: ({ number, euros }) => ({ context: `Refunded ${euros} € of ${number}` }),
});

const billing = defineAgent({
  name: 'billing',
  description: 'Knows about invoices',
  instructions: 'You answer questions about invoices.',
  model: 'demo',
  tools: [findInvoice, refund],
  maxIterations: 20,
});

export default defineConfig({
  agents: [billing],
  actions: [
    {
      name: 'open_invoices',
      description: 'Counts the open invoices',
      inputSchema: { type: 'object' },
      handler: () => ({ open: 3 }),
      idempotent: true,
    },
  ],
  mcpServers: {
    search: {
      url: 'https://mcp.example.com/mcp',
      headers: { 'x-client': 'relay' },
      readOnly: 'annotated',
    },
  },
  providers: { timeouts: { firstByteMs: 120_000, idleMs: 300_000 } },
  prices: { demo: { inputPerMillion: 0, outputPerMillion: 0 } },
  limits: { costUsd: 2, toolCalls: 100, depth: 3 },
  rateLimit: { requestsPerMinute: 6_000 },
  bash: { memoryMb: 2_048, environment: ['JAVA_HOME'] },
  compaction: { threshold: 0.8, keep: 0.3 },
});
