import type { Tool } from '@relay/core';
import { z } from 'zod';
import { defineDelegatingTool } from '../define-tool.ts';

/** Lets a model delegate part of its work to a sub-agent. */
export const agentTool: Tool = defineDelegatingTool({
  name: 'agent',
  description:
    'Give a task to another agent and get its answer. It starts fresh and knows only what the ' +
    'prompt says. Several calls run concurrently.',
  schema: z.strictObject({
    prompt: z.string().min(1).describe('The complete task: the agent sees nothing else'),
    agent: z.string().min(1).optional().describe('The name of an agent, to use a specific one'),
  }),
  allowedByDefault: true,
  delegates: ({ prompt, agent }) => (agent === undefined ? { prompt } : { prompt, agent }),
});
