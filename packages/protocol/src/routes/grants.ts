/** `/v1/grants` and `/v1/permissions`: standing approvals, and explanations of decisions. */
import { z } from 'zod';
import { ruleRefSchema } from '../events/catalogue.ts';
import { approvalStatuses, grantScopes } from '../schemas/names.ts';
import {
  approverRuleSchema,
  deciderSchema,
  explainedParameterSchema,
  permissionsSchema,
  toolPermissionSchema,
} from '../schemas/permissions.ts';
import { functionSchema } from '../schemas/runs.ts';
import { idSchema, jsonSchema, timeSchema } from '../schemas/values.ts';
import { policyDraftSchema } from './policy.ts';
import {
  listErrors,
  idParam,
  listOf,
  keyErrors,
  pageQuery,
  bodyErrors,
  type Route,
} from './route.ts';

const expiresAt = timeSchema.optional();
const uses = z.int().min(1).max(1_000_000).optional();

/** The scope, expiry and number of uses of a grant. */
export const grantTerms = { scope: z.enum(grantScopes).optional(), expiresAt, uses };

const grantShape = {
  ...toolPermissionSchema.shape,
  scope: z.enum(grantScopes),
  scopeId: idSchema.optional(),
  expiresAt,
  uses,
};
const scopeIdRule = {
  path: ['scopeId'],
  message: 'Required for the scopes run, conversation and session, and not allowed for tenant',
};

function hasValidScopeId({ scope, scopeId }: { scope?: string; scopeId?: string }): boolean {
  const isTenantWide = scope === undefined || scope === 'tenant';
  return isTenantWide === (scopeId === undefined);
}

export const grantBodySchema = z
  .strictObject(grantShape)
  .refine((body) => hasValidScopeId(body as { scope: string }), scopeIdRule);

/** A grant that has not been created yet. Default scope: tenant. */
export const grantPreviewBodySchema = z
  .strictObject({ ...grantShape, scope: z.enum(grantScopes).optional() })
  .refine((body) => hasValidScopeId(body as { scope?: string }), scopeIdRule);

export const grantsQuerySchema = z.strictObject({
  ...pageQuery,
  scope: z.enum(grantScopes).optional(),
  scopeId: idSchema.optional(),
  tool: z.string().min(1).optional(),
  /** `active`: not revoked, expired or used up. */
  status: z.enum(['active', 'all']).default('active'),
});

export const grantSchema = z.object({
  id: idSchema,
  status: z.enum(['active', 'revoked', 'expired', 'used']),
  tool: z.string(),
  params: z.record(z.string(), z.string()).optional(),
  exact: z.record(z.string(), z.json()).optional(),
  scope: z.enum(grantScopes),
  scopeId: idSchema.optional(),
  createdAt: timeSchema,
  createdBy: deciderSchema,
  expiresAt,
  uses: z.int().optional(),
  usesLeft: z.int().optional(),
  /** Of a tool of an MCP server: the grant holds for this definition alone. */
  definitionDigest: z.string().optional(),
  revokedAt: timeSchema.optional(),
});

const previewSchema = z.object({
  /** Number of the tenant’s latest approvals that were checked, and of those that match. */
  looked: z.int(),
  matched: z.int(),
  /** Set if no tool of this name is registered. Function tools need not be. */
  warning: z.string().optional(),
  calls: z.array(
    z.object({
      approvalId: idSchema,
      runId: idSchema.optional(),
      sessionId: idSchema.optional(),
      toolCallId: z.string().optional(),
      tool: z.string(),
      params: z.json(),
      status: z.enum(approvalStatuses),
      requestedAt: timeSchema,
    }),
  ),
});

export const explainBodySchema = z.strictObject({
  tool: z.string().min(1),
  params: z.record(z.string(), jsonSchema),
  /** Default: those of the run that is named. */
  permissions: permissionsSchema.optional(),
  /**
   * Policies that are not saved, instead of the saved ones for all agents or for their agent. Requires
   * the scope admin.
   */
  policies: z.array(policyDraftSchema).max(2).optional(),
  /** The function tools of the request, as in `POST /v1/runs`. */
  tools: z
    .array(functionSchema.extend({ kind: z.literal('function') }))
    .max(128)
    .optional(),
  /**
   * Explain a call in place of that of this approval: by the rules that decide it now, those of its run,
   * session and agents. The tool must be the same, and the parameters may be changed ones.
   */
  approvalId: idSchema.optional(),
  /** Explain a call of this run: with its permissions, function tools, agent, and grants. */
  runId: idSchema.optional(),
  /** Also apply the grants of this session. Default: that of the run. */
  sessionId: idSchema.optional(),
  /** Also apply the grants of this conversation. Default: that of the run. */
  conversationId: idSchema.optional(),
  /** Also apply the policy of this agent. Default: that of the run, else assistant. */
  agent: z.string().min(1).max(128).optional(),
});

const namedRuleSchema = ruleRefSchema.extend({
  tool: z.string(),
  params: z.record(z.string(), z.string()).optional(),
  exact: z.record(z.string(), z.json()).optional(),
});

const nearMissSchema = namedRuleSchema.extend({
  /** The parameter that does not match. */
  parameter: z.string().optional(),
  /** Its pattern in the rule. */
  pattern: z.string().optional(),
  /** The part of its value that the pattern does not match; empty if the value ends too early. */
  part: z.string().optional(),
  reason: z.string(),
});

const explanationSchema = z.object({
  decision: z.enum(['allow', 'deny', 'ask']),
  /** The version in `id` is `draft` for a rule of `policies`. */
  rule: namedRuleSchema.optional(),
  /** Who may approve the call, if the policy says so. */
  approvers: approverRuleSchema.optional(),
  reason: z.string(),
  /** The parameters that the tool declares as commands, paths or URLs, as the call has them. */
  parameters: z.record(z.string(), explainedParameterSchema).optional(),
  /** Why the tool would refuse the parameters; `path` is empty for all of them. */
  problems: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
  /** Rules for the tool that would have changed the decision, had they matched; at most 20. */
  nearMisses: z.array(nearMissSchema).optional(),
});

export const grantRoutes = {
  listGrants: {
    method: 'GET',
    path: '/v1/grants',
    summary: 'List grants, newest first',
    scopes: ['read'],
    query: grantsQuerySchema,
    output: listOf('grants', grantSchema),
    errors: listErrors,
  },
  createGrant: {
    method: 'POST',
    path: '/v1/grants',
    summary:
      'Create a grant: matching calls in a run, a conversation, a session or the tenant need no approval',
    scopes: ['approve'],
    body: grantBodySchema,
    requiredFields: { fields: ['tool', 'scope'] },
    status: 201,
    output: grantSchema,
    errors: [...keyErrors, ...bodyErrors, 'invalid_pattern', 'not_an_approver'],
  },
  revokeGrant: {
    method: 'DELETE',
    path: '/v1/grants/:id',
    summary: 'Revoke a grant; calls that it allowed need an approval again',
    scopes: ['approve'],
    params: idParam,
    responseType: 'none',
    errors: [...keyErrors, 'not_found'],
  },
  previewGrant: {
    method: 'POST',
    path: '/v1/grants/preview',
    summary: 'Preview which of the tenant’s latest approvals a grant would have made unnecessary',
    scopes: ['approve'],
    body: grantPreviewBodySchema,
    requiredFields: { fields: ['tool'] },
    output: previewSchema,
    errors: [...keyErrors, ...bodyErrors, 'invalid_pattern'],
  },
  explainPermission: {
    method: 'POST',
    path: '/v1/permissions/explain',
    summary: 'Explain how the rules decide a call',
    scopes: ['read'],
    body: explainBodySchema,
    requiredFields: { fields: ['tool', 'params'] },
    output: explanationSchema,
    errors: [...keyErrors, ...bodyErrors, 'invalid_pattern', 'not_found'],
  },
} as const satisfies Record<string, Route>;
