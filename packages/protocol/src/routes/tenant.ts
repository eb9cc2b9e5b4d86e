/** `/v1/tenant`: budgets, usage and the pause switch of the tenant. */
import { z } from 'zod';
import { idSchema, labelsSchema } from '../schemas/values.ts';
import { keyErrors, bodyErrors, type Route } from './route.ts';

/** Per UTC day or month. A run counts from its creation, with what it has reserved. */
export const budgetSchema = z.strictObject({
  period: z.enum(['day', 'month']).default('day'),
  /** Input and output tokens. */
  tokens: z.int().min(0).optional(),
  costUsd: z.number().min(0).optional(),
  /** Queued and running runs; waiting runs do not count. */
  concurrentRuns: z.int().min(0).optional(),
});
export type Budget = z.infer<typeof budgetSchema>;

export const budgetsSchema = z.strictObject({
  tenant: budgetSchema.optional(),
  /** Keyed by the id of an API key. */
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

const usageSchema = z.object({ day: usedSchema, month: usedSchema });

export const tenantSchema = z.object({
  id: idSchema,
  name: z.string(),
  paused: z.boolean(),
  budgets: budgetsSchema,
  usage: usageSchema.extend({
    /** Of the keys that have a budget, by id. */
    keys: z.record(idSchema, usageSchema),
  }),
  openRuns: z.object({ queued: z.int(), running: z.int(), waiting: z.int() }),
});

/** At least one is required, so that all runs are canceled only on purpose. */
export const cancelRunsBodySchema = z
  .strictObject({
    agent: z.string().min(1).optional(),
    labels: labelsSchema.optional(),
    all: z.literal(true).optional(),
  })
  .refine(({ agent, labels, all }) => agent ?? labels ?? all, {
    message: 'Set agent, labels or all',
  });

export const tenantRoutes = {
  getTenant: {
    method: 'GET',
    path: '/v1/tenant',
    summary: 'Get the tenant with its budgets and usage',
    scopes: ['admin'],
    output: tenantSchema,
    errors: [...keyErrors],
  },
  updateTenant: {
    method: 'PUT',
    path: '/v1/tenant',
    summary: 'Pause or resume the tenant, or set its budgets',
    scopes: ['admin'],
    body: tenantBodySchema,
    output: tenantSchema,
    errors: [...keyErrors, ...bodyErrors],
  },
  cancelRuns: {
    method: 'POST',
    path: '/v1/runs/cancel',
    summary: 'Cancel all runs of an agent, with labels, or of the tenant',
    scopes: ['admin'],
    body: cancelRunsBodySchema,
    status: 202,
    output: z.object({ canceled: z.int() }),
    errors: [...keyErrors, ...bodyErrors],
  },
} as const satisfies Record<string, Route>;
