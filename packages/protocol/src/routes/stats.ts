/** `/v1/stats`: what happened in the tenant over a time, computed from what is stored. */
import { z } from 'zod';
import { toolPermissionSchema } from '../schemas/permissions.ts';
import { idSchema, timeSchema } from '../schemas/values.ts';
import { listErrors, type Route } from './route.ts';

export const statsBuckets = ['minute', 'hour', 'day'] as const;
export type StatsBucket = (typeof statsBuckets)[number];

export const statsQuerySchema = z.strictObject({
  since: timeSchema
    .optional()
    .describe(
      'Moved back to the start of its bucket, in UTC. Default: an hour of minutes, a day of hours or 30 days before `until`',
    ),
  until: timeSchema.optional().describe('Excluded. Default: now'),
  bucket: z.enum(statsBuckets).default('hour'),
});

const percentilesSchema = z
  .object({ p50: z.int(), p95: z.int() })
  .describe('In milliseconds, each a measured value');

const tokensSchema = z.object({ input: z.int(), output: z.int() });

const activitySchema = z.object({
  runs: z
    .object({ started: z.int(), completed: z.int(), failed: z.int(), canceled: z.int() })
    .describe('Runs that were created, and that ended, in this time'),
  tokens: tokensSchema.describe('Of the runs that ended'),
  costUsd: z.number().describe('Of the runs that ended and whose cost is known'),
  approvals: z
    .object({ requested: z.int(), approved: z.int(), denied: z.int(), expired: z.int() })
    .describe('Approvals that were requested, and that were decided or expired, in this time'),
  firstTokenMs: percentilesSchema
    .nullable()
    .describe('From the creation of a run to its first output; of the runs that ended'),
  approvalWaitMs: percentilesSchema
    .nullable()
    .describe('From the request to the decision; of the decisions by people'),
});

const unpricedRunsSchema = z.int().describe('Runs that ended and used tokens of an unknown cost');

/** Of the runs that ended. */
const usageSchema = z.object({
  runs: z.int(),
  tokens: tokensSchema,
  costUsd: z.number().describe('Of the runs whose cost is known'),
  unpricedRuns: unpricedRunsSchema,
});

const statsSchema = z.object({
  since: timeSchema,
  until: timeSchema,
  bucket: z.enum(statsBuckets),
  buckets: z.array(activitySchema.extend({ at: timeSchema })).describe('All of them, oldest first'),
  totals: activitySchema.extend({
    unpricedRuns: unpricedRunsSchema,
    decisionsByPeople: z.int(),
    decisionsUnder3s: z.int().describe('Decisions by people within three seconds'),
    openRuns: z.int().describe('At present'),
    pendingApprovals: z.int().describe('At present'),
  }),
  tools: z
    .array(
      z.object({
        tool: z.string(),
        asks: z.int(),
        approved: z.int(),
        denied: z.int(),
        medianWaitMs: z.int().nullable().describe('Of the decisions by people'),
        suggestedRule: toolPermissionSchema
          .optional()
          .describe(
            'Would have allowed most calls that people approved, and none that they denied',
          ),
      }),
    )
    .describe('The 20 tools with the most permission requests'),
  failures: z
    .array(
      z.object({
        code: z.string(),
        count: z.int(),
        lastRunId: idSchema,
        lastAt: timeSchema,
        message: z.string().describe('Of the last run'),
      }),
    )
    .describe('The 20 most frequent errors of runs'),
  agents: z
    .array(usageSchema.extend({ agent: z.string() }))
    .describe('The 20 agents with the most runs that ended'),
  models: z
    .array(usageSchema.extend({ model: z.string() }))
    .describe('The 20 models with the most runs that ended'),
});

export const statsRoutes = {
  getStats: {
    method: 'GET',
    path: '/v1/stats',
    summary: 'Get statistics of runs and approvals over a time',
    scopes: ['read'],
    query: statsQuerySchema,
    output: statsSchema,
    errors: listErrors,
  },
} as const satisfies Record<string, Route>;
