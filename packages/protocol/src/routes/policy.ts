/** `/v1/policy`: the policy rules of a tenant, and previews of changes. */
import { z } from 'zod';
import { ruleRefSchema } from '../events/catalogue.ts';
import {
  deciderSchema,
  policyLists,
  policyRulesSchema,
  withRuleLimits,
} from '../schemas/permissions.ts';
import { idSchema, timeSchema } from '../schemas/values.ts';
import { listErrors, listOf, keyErrors, pageQuery, bodyErrors, type Route } from './route.ts';

const agent = z.string().min(1).max(128).optional();

export const policyQuerySchema = z.strictObject({ agent });
export const policyVersionsQuerySchema = z.strictObject({ ...pageQuery, agent });

export const policyBodySchema = withRuleLimits(
  z.strictObject({
    /** Default: all agents. */
    agent,
    ...policyRulesSchema.shape,
    /** The version to replace, as in `If-Match`; 0 if there is none yet. */
    version: z.int().min(0).optional(),
  }),
  policyLists,
);

/** A policy that is not saved. */
export const policyDraftSchema = withRuleLimits(
  z.strictObject({ agent, ...policyRulesSchema.shape }),
  policyLists,
);

export const policyPreviewBodySchema = withRuleLimits(
  z.strictObject({
    agent,
    ...policyRulesSchema.shape,
    /** Default: the last seven days. */
    since: timeSchema.optional(),
  }),
  policyLists,
);

export const policySchema = z.object({
  agent: z.string().optional(),
  version: z.int(),
  allow: policyRulesSchema.shape.allow.unwrap(),
  deny: policyRulesSchema.shape.deny.unwrap(),
  ask: policyRulesSchema.shape.ask.unwrap(),
  approvers: policyRulesSchema.shape.approvers.unwrap(),
  updatedAt: timeSchema.optional(),
  updatedBy: deciderSchema.optional(),
});

const decision = z.enum(['allow', 'deny', 'ask']);

const policyPreviewSchema = z.object({
  /** The number of runs and calls checked, and whether these are all since `since`. */
  runs: z.int(),
  calls: z.int(),
  complete: z.boolean(),
  since: timeSchema,
  /** The number of calls that would be decided differently, and the latest of them. */
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
    summary: 'Get the policy for all agents or for one agent',
    scopes: ['read'],
    query: policyQuerySchema,
    output: policySchema,
    errors: listErrors,
  },
  putPolicy: {
    method: 'PUT',
    path: '/v1/policy',
    summary: 'Replace the policy, unless it has changed since the given version',
    scopes: ['admin'],
    body: policyBodySchema,
    output: policySchema,
    errors: [
      ...keyErrors,
      ...bodyErrors,
      'invalid_pattern',
      'policy_conflict',
      'approve_scope_required',
    ],
  },
  listPolicyVersions: {
    method: 'GET',
    path: '/v1/policy/versions',
    summary: 'List the versions of the policy, newest first',
    scopes: ['read'],
    query: policyVersionsQuerySchema,
    output: listOf('versions', policySchema),
    errors: listErrors,
  },
  previewPolicy: {
    method: 'POST',
    path: '/v1/policy/preview',
    summary: 'Preview which of the tenant’s recent calls a policy would decide differently',
    scopes: ['admin'],
    body: policyPreviewBodySchema,
    output: policyPreviewSchema,
    errors: [...keyErrors, ...bodyErrors, 'invalid_pattern'],
  },
} as const satisfies Record<string, Route>;
