/** `/v1/policy`: a tenant's standing rules, and what a change of them would mean. */
import { z } from 'zod';
import { policyRulesSchema } from '../schemas/permissions.ts';
import { idSchema } from '../schemas/ids.ts';
import { ruleRefSchema } from '../events/catalogue.ts';
import { deciderSchema } from '../schemas/approvals.ts';
import { aList, listOf, needsKey, pageQuery, readsBody, type Route, timeSchema } from './route.ts';

const agent = z.string().min(1).max(128).optional();

export const policyQuerySchema = z.strictObject({ agent });
export const policyVersionsQuerySchema = z.strictObject({ ...pageQuery, agent });

export const policyBodySchema = z.strictObject({
  /** Left out: for all agents. */
  agent,
  ...policyRulesSchema.shape,
  /** Which version this takes the place of; `If-Match` says the same. 0: the first. */
  version: z.int().min(0).optional(),
});

export const policyPreviewBodySchema = z.strictObject({
  agent,
  ...policyRulesSchema.shape,
  /** Left out: the last seven days. */
  since: timeSchema.optional(),
});

export const policySchema = z.object({
  agent: z.string().optional(),
  version: z.int(),
  allow: policyRulesSchema.shape.allow.unwrap(),
  deny: policyRulesSchema.shape.deny.unwrap(),
  ask: policyRulesSchema.shape.ask.unwrap(),
  updatedAt: timeSchema.optional(),
  updatedBy: deciderSchema.optional(),
});

const decision = z.enum(['allow', 'deny', 'ask']);

const policyPreviewSchema = z.object({
  /** How many runs and calls were looked at, and whether that was all since then. */
  runs: z.int(),
  calls: z.int(),
  complete: z.boolean(),
  since: timeSchema,
  /** How many calls would have been decided otherwise, and the latest of them. */
  changed: z.int(),
  changes: z.array(
    z.object({
      runId: idSchema,
      agent: z.string(),
      toolCallId: z.string(),
      tool: z.string(),
      params: z.json(),
      at: timeSchema,
      was: decision,
      now: decision,
      rule: ruleRefSchema.optional(),
    }),
  ),
});

export const policyRoutes = {
  getPolicy: {
    method: 'GET',
    path: '/v1/policy',
    summary: 'Read the policy for all agents or for one',
    auth: 'key',
    scopes: ['admin'],
    query: policyQuerySchema,
    answer: 'json',
    output: policySchema,
    errors: aList,
  },
  putPolicy: {
    method: 'PUT',
    path: '/v1/policy',
    summary: 'Replace a policy, if its version has not changed',
    auth: 'key',
    scopes: ['admin'],
    body: policyBodySchema,
    answer: 'json',
    output: policySchema,
    errors: [...needsKey, ...readsBody, 'invalid_pattern', 'policy_conflict'],
  },
  listPolicyVersions: {
    method: 'GET',
    path: '/v1/policy/versions',
    summary: 'List the versions of a policy, newest first',
    auth: 'key',
    scopes: ['admin'],
    query: policyVersionsQuerySchema,
    answer: 'json',
    output: listOf('versions', policySchema),
    errors: aList,
  },
  previewPolicy: {
    method: 'POST',
    path: '/v1/policy/preview',
    summary: 'Preview which recent calls a policy would have decided differently',
    auth: 'key',
    scopes: ['admin'],
    body: policyPreviewBodySchema,
    answer: 'json',
    output: policyPreviewSchema,
    errors: [...needsKey, ...readsBody, 'invalid_pattern'],
  },
} as const satisfies Record<string, Route>;
