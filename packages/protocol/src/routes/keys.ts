/** `/v1/keys`: API keys and their scopes. */
import { z } from 'zod';
import { idSchema, timeSchema } from '../schemas/values.ts';
import {
  listErrors,
  idParam,
  listOf,
  keyErrors,
  pageQuery,
  bodyErrors,
  type Route,
  scopes,
} from './route.ts';

export const keyBodySchema = z.strictObject({
  name: z.string().min(1).max(64),
  scopes: z
    .array(z.enum(scopes))
    .min(1)
    .refine((given) => new Set(given).size === given.length, 'Scopes must be unique'),
  owner: z.string().min(1).max(128).optional(),
  expiresAt: timeSchema.optional(),
});

export const keysQuerySchema = z.strictObject(pageQuery);

export const keySchema = z.object({
  id: idSchema,
  name: z.string(),
  scopes: z.array(z.enum(scopes)),
  owner: z.string().optional(),
  createdAt: timeSchema,
  expiresAt: timeSchema.optional(),
  revokedAt: timeSchema.optional(),
});

export const keyRoutes = {
  createKey: {
    method: 'POST',
    path: '/v1/keys',
    summary: 'Create an API key; its secret is returned only here',
    scopes: ['admin'],
    body: keyBodySchema,
    requiredFields: { fields: ['name', 'scopes'], message: 'name and scopes are required' },
    status: 201,
    output: keySchema.extend({ apiKey: z.string() }),
    errors: [...keyErrors, ...bodyErrors],
  },
  listKeys: {
    method: 'GET',
    path: '/v1/keys',
    summary: 'List API keys, newest first, without their secrets',
    scopes: ['admin'],
    query: keysQuerySchema,
    output: listOf('keys', keySchema),
    errors: listErrors,
  },
  revokeKey: {
    method: 'DELETE',
    path: '/v1/keys/:id',
    summary: 'Revoke an API key, and close the streams that it opened',
    scopes: ['admin'],
    params: idParam,
    responseType: 'none',
    errors: [...keyErrors, 'not_found'],
  },
} as const satisfies Record<string, Route>;
