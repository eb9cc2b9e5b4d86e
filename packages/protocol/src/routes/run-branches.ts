/** `/v1/runs/:id/resume` and `/fork`, and the runs of a workflow taken together. */
import { z } from 'zod';
import { limitsSchema } from '../schemas/limits.ts';
import { messageSchema } from '../schemas/messages.ts';
import { permissionsSchema } from '../schemas/permissions.ts';
import { runStatuses } from '../schemas/runs.ts';
import { aboutOne, aList, idParam, labelsSchema, pageQuery, type Route } from './route.ts';
import { runSchema } from './runs.ts';
import { startsRun } from './starts-run.ts';

/** What is left out is as it was in the run that is forked. */
export const forkBodySchema = z.strictObject({
  /** Between two turns; left out: the last place where the run can be taken up. */
  seq: z.int().min(1).optional(),
  input: z.union([z.string().min(1), z.array(messageSchema).min(1)]).optional(),
  model: z.string().min(1).optional(),
  permissions: permissionsSchema.optional(),
  workflowId: z.string().min(1).max(256).optional(),
  labels: labelsSchema.optional(),
  maxIterations: z.int().min(1).max(1000).optional(),
  limits: limitsSchema.optional(),
});

const workflowParam = z.object({ id: z.string().min(1).max(256) });

export const workflowQuerySchema = z.strictObject(pageQuery);

const workflowSchema = z.object({
  id: z.string(),
  /** What the runs together are doing, or how they have ended. */
  status: z.enum(runStatuses),
  counts: z.partialRecord(z.enum(runStatuses), z.int()),
  runs: z.array(runSchema),
  usage: z.object({ input_tokens: z.int(), output_tokens: z.int() }),
  costUsd: z.number().optional(),
  nextCursor: z.string().nullable(),
});

export const runBranchRoutes = {
  resumeRun: {
    method: 'POST',
    path: '/v1/runs/:id/resume',
    summary: 'Resume an interrupted run',
    auth: 'key',
    scopes: ['runs'],
    params: idParam,
    answer: 'json',
    status: 202,
    output: runSchema,
    errors: [...aboutOne, 'run_ended', 'tenant_paused'],
  },
  forkRun: {
    method: 'POST',
    path: '/v1/runs/:id/fork',
    summary: 'Fork a run: start a run whose transcript begins with that of another',
    auth: 'key',
    scopes: ['runs'],
    params: idParam,
    body: forkBodySchema.default({}),
    answer: 'json',
    status: 201,
    output: runSchema,
    errors: [...startsRun, 'not_found', 'not_a_boundary', 'idempotency_mismatch'],
  },
  getWorkflow: {
    method: 'GET',
    path: '/v1/workflows/:id',
    summary: 'List the runs of a workflow, newest first, with their combined status and usage',
    auth: 'key',
    scopes: ['runs'],
    params: workflowParam,
    query: workflowQuerySchema,
    answer: 'json',
    output: workflowSchema,
    errors: [...aList, 'not_found'],
  },
} as const satisfies Record<string, Route>;
