/** A server whose tools have their side effect and then block, so that a kill hits in between. */
import { appendFileSync, fsyncSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { serve } from '@relay/server';
import { createToolRegistry, defineTool } from '@relay/tools';
import { z } from 'zod';

function blockingTool(dataDir: string, name: string, idempotent: boolean) {
  return defineTool({
    name,
    description: 'Records that it ran, and then never returns',
    schema: z.strictObject({ text: z.string() }),
    allowedByDefault: process.env['TEST_ASK'] !== 'yes',
    idempotent,
    async execute({ text }, { toolCallId, idempotencyKey, signal }) {
      const file = openSync(join(dataDir, 'notes.log'), 'a');
      appendFileSync(file, `${JSON.stringify({ text, toolCallId, idempotencyKey })}\n`);
      fsyncSync(file);
      if (process.env['TEST_HOLD'] === 'yes') {
        await new Promise((_, reject) => signal.addEventListener('abort', reject));
      }
      return { result: { wrote: text } };
    },
  });
}

await serve({
  env: process.env,
  cwd: process.cwd(),
  terminal: false,
  print: (line) => console.log(line),
  tools: ({ dataDir }) =>
    createToolRegistry([blockingTool(dataDir, 'pay', false), blockingTool(dataDir, 'look', true)]),
});
