/** A shell that prints commands instead of running them, so that the examples are harmless. */
import type { ToolDefinition } from 'relay-kit/library';
import { z } from 'zod';

export const bashTool: ToolDefinition = {
  name: 'bash',
  description: 'Run a command',
  schema: z.object({ command: z.string() }),
  kinds: { command: 'command' },
  execute: async ({ command }) => {
    console.log(`$ ${command}`);
    return { context: `${command}: done` };
  },
};
