/** `/v1/tenant`: what the tenant as a whole may use, and the switch that stops it. */
import { z } from 'zod';
import { idSchema } from '../schemas/ids.ts';
import { labelsSchema, needsKey, readsBody, type Route } from './route.ts';

/** Counted over the UTC day or month, when runs end. */
export const budgetSchema = z.strictObject({
  period: z.enum(['day', 'month']).default('day'),
  /** Tokens in and out. */
  tokens: z.int().min(0).optional(),
  costUsd: z.number().min(0).optional(),
  /** Runs that are queued or at work; those that wait for a person do not count. */
  concurrentRuns: z.int().min(0).optional(),
});
export type Budget = z.infer<typeof budgetSchema>;

export const budgetsSchema = z.strictObject({
  tenant: budgetSchema.optional(),
  /** By the id of an API key. */
  keys: z.record(idSchema, budgetSchema).optional(),
});
export type Budgets = z.infer<typeof budgetsSchema>;

export const tenantBodySchema = z.strictObject({
  paused: z.boolean().optional(),
  /** Replaces all budgets. */
  budgets: budgetsSchema.optional(),
});

const usedSchema = z.object({
  inputTokens: z.int(),
  outputTokens: z.int(),
  costUsd: z.number(),
  runs: z.int(),
});

export const tenantSchema = z.object({
  id: idSchema,
  name: z.string(),
  paused: z.boolean(),
  budgets: budgetsSchema,
  usage: z.object({ day: usedSchema, month: usedSchema }),
  openRuns: z.object({ queued: z.int(), running: z.int(), waiting: z.int() }),
});

/** At least one of them; `all` must be said. */
export const cancelRunsBodySchema = z
  .strictObject({
    agent: z.string().min(1).optional(),
    labels: labelsSchema.optional(),
    all: z.literal(true).optional(),
  })
  .refine(({ agent, labels, all }) => agent ?? labels ?? all, {
    message: 'Name an agent or labels, or say all',
  });

export const tenantRoutes = {
  getTenant: {
    method: 'GET',
    path: '/v1/tenant',
    summary: 'Read the tenant: pause state, budgets and usage',
    auth: 'key',
    scopes: ['admin'],
    answer: 'json',
    output: tenantSchema,
    errors: [...needsKey],
  },
  updateTenant: {
    method: 'PUT',
    path: '/v1/tenant',
    summary: 'Pause or unpause the tenant, or set its budgets',
    auth: 'key',
    scopes: ['admin'],
    body: tenantBodySchema,
    answer: 'json',
    output: tenantSchema,
    errors: [...needsKey, ...readsBody],
  },
  cancelRuns: {
    method: 'POST',
    path: '/v1/runs/cancel',
    summary: 'Cancel all runs of an agent, with given labels, or of the tenant',
    auth: 'key',
    scopes: ['admin'],
    body: cancelRunsBodySchema,
    answer: 'json',
    status: 202,
    output: z.object({ canceled: z.int() }),
    errors: [...needsKey, ...readsBody],
  },
} as const satisfies Record<string, Route>;
