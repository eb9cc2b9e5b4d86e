/** A shell that only says what it would do, so that the examples can be tried without harm. */
import type { ToolDefinition } from '@relay/agents';
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
