import { z } from 'zod';

/** What can be used up. `iterations` counts for each agent, everything else for the whole run. */
export const limitNames = [
  'iterations',
  'tokens',
  'cost',
  'toolCalls',
  'time',
  'depth',
  'subAgents',
] as const;
export type LimitName = (typeof limitNames)[number];

/** Bounds of a run beyond `maxIterations`. What is left out is not bounded, or by a default. */
export const limitsSchema = z.strictObject({
  /** Tokens in and out, of all agents. */
  tokens: z.int().min(1).optional(),
  /** US dollars, by the prices that are configured; every model must have one. */
  costUsd: z.number().positive().optional(),
  toolCalls: z.int().min(0).optional(),
  /** Wall time from the start, waiting for people included. */
  timeMs: z.int().min(1).optional(),
  /** How deep sub-agents may spawn others; 0: none at all. */
  depth: z.int().min(0).max(20).optional(),
  subAgents: z.int().min(0).max(1000).optional(),
});
export type Limits = z.infer<typeof limitsSchema>;
