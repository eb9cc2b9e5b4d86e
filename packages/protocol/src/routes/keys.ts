/** `/v1/keys`: API keys and their scopes. */
import { z } from 'zod';
import { roleNames, scopes } from '../schemas/roles.ts';
import { groupSchema, idSchema, lineSchema, timeSchema } from '../schemas/values.ts';
import { budgetSchema } from './tenant.ts';
import {
  listErrors,
  idParam,
  itemErrors,
  listOf,
  keyErrors,
  pageQuery,
  bodyErrors,
  type Route,
} from './route.ts';

function isUnique(given: readonly unknown[]): boolean {
  return new Set(given).size === given.length;
}

/** `scopes` for a key without a role. */
export const keyBodySchema = z
  .strictObject({
    name: lineSchema(64).min(1),
    role: z.enum(roleNames).optional(),
    scopes: z.array(z.enum(scopes)).min(1).refine(isUnique, 'Scopes must be unique').optional(),
    /** Groups of approvers, which the policy may name. */
    groups: z.array(groupSchema).max(32).refine(isUnique, 'Groups must be unique').optional(),
    /** The person or program that uses the key. Keys with the same owner are the same person. */
    owner: lineSchema(128).min(1).optional(),
    expiresAt: timeSchema.optional(),
  })
  .refine((body) => body.role === undefined || body.scopes === undefined, {
    path: ['scopes'],
    message: 'Not allowed together with role',
  });

export const keysQuerySchema = z.strictObject(pageQuery);

export const keyKinds = ['api', 'console', 'link'] as const;

export const keySchema = z.object({
  id: idSchema,
  kind: z
    .enum(keyKinds)
    .describe(
      'An API key; a sign-in to the console with one; or a login link that was not opened yet',
    ),
  parent: idSchema
    .optional()
    .describe('The API key that signed in, and with which the sign-in ends'),
  name: z.string(),
  role: z.enum(roleNames).optional(),
  scopes: z.array(z.enum(scopes)),
  groups: z.array(z.string()),
  owner: z.string().optional(),
  createdAt: timeSchema,
  expiresAt: timeSchema.optional(),
  revokedAt: timeSchema.optional(),
  lastUsedAt: timeSchema.optional().describe('Accurate to a minute or two'),
  replaces: idSchema.optional().describe('The key that this one replaces by rotation'),
  replacedBy: idSchema.optional().describe('The key that replaces this one by rotation'),
});

const amountsSchema = z.object({ tokens: z.int(), costUsd: z.number() });

/** The scopes are those with what they include, and the role is that in which the key acts. */
export const currentKeySchema = keySchema.extend({
  tenant: z.object({ id: idSchema, name: z.string(), paused: z.boolean() }),
  version: z.string().describe('The version of the server'),
  budget: z
    .object({
      ...budgetSchema.shape,
      used: amountsSchema.describe('With what open runs have reserved'),
      left: amountsSchema.partial().describe('Of each limit'),
    })
    .optional()
    .describe('The budget of this key, if it has one'),
});

export const rotateKeyBodySchema = z
  .strictObject({
    /** How long the old key stays valid. Default: a day. 0: it ends at once. */
    overlapSeconds: z
      .int()
      .min(0)
      .max(90 * 86_400)
      .default(86_400),
    /** Of the new key. Default: that of the old one. */
    expiresAt: timeSchema.optional(),
  })
  .default({ overlapSeconds: 86_400 });

export const keyRoutes = {
  createKey: {
    method: 'POST',
    path: '/v1/keys',
    summary: 'Create an API key; its secret is returned only here',
    scopes: ['admin'],
    body: keyBodySchema,
    requiredFields: {
      fields: ['name', ['scopes', 'role']],
      message: 'name is required, and role or scopes',
    },
    status: 201,
    output: keySchema.extend({ apiKey: z.string() }),
    errors: [...keyErrors, ...bodyErrors, 'scope_not_held'],
  },
  listKeys: {
    method: 'GET',
    path: '/v1/keys',
    summary: 'List API keys and sign-ins to the console, newest first, without their secrets',
    scopes: ['admin'],
    query: keysQuerySchema,
    output: listOf('keys', keySchema),
    errors: listErrors,
  },
  getCurrentKey: {
    method: 'GET',
    path: '/v1/keys/current',
    summary:
      'Get the key or sign-in of this request: its role, scopes, groups, owner, tenant and budget',
    scopes: [...scopes],
    anyScope: true,
    output: currentKeySchema,
    errors: keyErrors,
  },
  rotateKey: {
    method: 'POST',
    path: '/v1/keys/:id/rotate',
    summary: 'Replace an API key by a new one with the same rights; the old one expires later',
    scopes: ['admin'],
    params: idParam,
    body: rotateKeyBodySchema,
    status: 201,
    output: keySchema.extend({ apiKey: z.string() }),
    errors: [...itemErrors, ...bodyErrors, 'scope_not_held', 'key_ended'],
  },
  revokeKey: {
    method: 'DELETE',
    path: '/v1/keys/:id',
    summary: 'Revoke an API key or a sign-in to the console, and close the streams that it opened',
    scopes: ['admin'],
    params: idParam,
    responseType: 'none',
    errors: [...keyErrors, 'not_found'],
  },
} as const satisfies Record<string, Route>;
