/** `/v1/grants` and `/v1/permissions`: standing answers, and what the rules make of a call. */
import { z } from 'zod';
import { idSchema } from '../schemas/ids.ts';
import { permissionsSchema, toolPermissionSchema } from '../schemas/permissions.ts';
import { ruleRefSchema } from '../events/catalogue.ts';
import { deciderSchema, grantScopes, approvalStatuses } from '../schemas/approvals.ts';
import {
  aList,
  idParam,
  listOf,
  needsKey,
  pageQuery,
  readsBody,
  type Route,
  timeSchema,
} from './route.ts';

const expiresAt = timeSchema.optional();
const uses = z.int().min(1).max(1_000_000).optional();

/** Where a grant holds, until when and for how many calls. */
export const termsShape = { scope: z.enum(grantScopes).optional(), expiresAt, uses };

const ruleShape = toolPermissionSchema.shape;
const needsScopeId = {
  path: ['scopeId'],
  message: 'Names the run or the conversation, and nothing for the tenant',
};

function namesItsScope({ scope, scopeId }: { scope?: string; scopeId?: string }): boolean {
  const isWide = scope === undefined || scope === 'tenant';
  return isWide === (scopeId === undefined);
}

export const grantBodySchema = z
  .strictObject({
    ...ruleShape,
    scope: z.enum(grantScopes),
    scopeId: idSchema.optional(),
    expiresAt,
    uses,
  })
  .refine((body) => namesItsScope(body as { scope: string }), needsScopeId);

/** Like a grant that is about to be made; `scope` left out: the tenant. */
export const grantPreviewBodySchema = z
  .strictObject({
    ...ruleShape,
    scope: z.enum(grantScopes).optional(),
    scopeId: idSchema.optional(),
    expiresAt,
    uses,
  })
  .refine((body) => namesItsScope(body as { scope?: string }), needsScopeId);

export const grantsQuerySchema = z.strictObject({
  ...pageQuery,
  scope: z.enum(grantScopes).optional(),
  scopeId: idSchema.optional(),
  tool: z.string().min(1).optional(),
  /** `active`: neither revoked, nor expired, nor used up. */
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
  revokedAt: timeSchema.optional(),
});

const previewSchema = z.object({
  /** How many of the tenant’s latest requests were looked at, and how many of them it matches. */
  looked: z.int(),
  matched: z.int(),
  calls: z.array(
    z.object({
      approvalId: idSchema,
      runId: idSchema,
      toolCallId: z.string(),
      tool: z.string(),
      params: z.json(),
      status: z.enum(approvalStatuses),
      requestedAt: timeSchema,
    }),
  ),
});

export const explainBodySchema = z.strictObject({
  tool: z.string().min(1),
  params: z.record(z.string(), z.json()),
  permissions: permissionsSchema.optional(),
  /** Whose grants count besides the tenant’s. */
  runId: idSchema.optional(),
  conversationId: idSchema.optional(),
  /** Whose policy counts besides the one for all; left out: assistant. */
  agent: z.string().min(1).max(128).optional(),
});

const explanationSchema = z.object({
  decision: z.enum(['allow', 'deny', 'ask']),
  rule: ruleRefSchema
    .extend({
      tool: z.string(),
      params: z.record(z.string(), z.string()).optional(),
      exact: z.record(z.string(), z.json()).optional(),
    })
    .optional(),
  reason: z.string(),
});

export const grantRoutes = {
  listGrants: {
    method: 'GET',
    path: '/v1/grants',
    summary: 'List grants, newest first',
    auth: 'key',
    scopes: ['approve'],
    query: grantsQuerySchema,
    answer: 'json',
    output: listOf('grants', grantSchema),
    errors: aList,
  },
  createGrant: {
    method: 'POST',
    path: '/v1/grants',
    summary: 'Create a grant for a run, a conversation or the tenant',
    auth: 'key',
    scopes: ['approve'],
    body: grantBodySchema,
    requires: { fields: ['tool', 'scope'], message: 'tool and scope are required' },
    answer: 'json',
    status: 201,
    output: grantSchema,
    errors: [...needsKey, ...readsBody, 'invalid_pattern'],
  },
  revokeGrant: {
    method: 'DELETE',
    path: '/v1/grants/:id',
    summary: 'Revoke a grant',
    auth: 'key',
    scopes: ['approve'],
    params: idParam,
    answer: 'none',
    errors: [...needsKey, 'not_found'],
  },
  previewGrant: {
    method: 'POST',
    path: '/v1/grants/preview',
    summary: 'Preview which recent approvals a grant would have covered',
    auth: 'key',
    scopes: ['approve'],
    body: grantPreviewBodySchema,
    requires: { fields: ['tool'], message: 'tool is required' },
    answer: 'json',
    output: previewSchema,
    errors: [...needsKey, ...readsBody, 'invalid_pattern'],
  },
  explainPermission: {
    method: 'POST',
    path: '/v1/permissions/explain',
    summary: 'Explain how the rules decide a call',
    auth: 'key',
    scopes: ['runs'],
    body: explainBodySchema,
    requires: { fields: ['tool', 'params'], message: 'tool and params are required' },
    answer: 'json',
    output: explanationSchema,
    errors: [...needsKey, ...readsBody, 'invalid_pattern'],
  },
} as const satisfies Record<string, Route>;
