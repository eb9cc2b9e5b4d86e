/** An agent with a tool that the process dies of, also when it is resumed. */
import { defineAgent, defineConfig, defineTool } from '@relay/server';
import { z } from 'zod';

const poison = defineTool({
  name: 'poison',
  description: 'Ends the process',
  schema: z.strictObject({}),
  idempotent: true,
  allowedByDefault: true,
  execute: () => {
    process.kill(process.pid, 'SIGKILL');
    return { context: 'unreachable' };
  },
});

const poisoned = defineAgent({ name: 'poisoned', model: 'demo', tools: [poison] });

export default defineConfig({ agents: [poisoned] });
