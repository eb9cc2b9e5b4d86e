/** `/v1/keys`: who may call, and what for. */
import { z } from 'zod';
import { idSchema } from '../schemas/ids.ts';
import {
  aList,
  idParam,
  listOf,
  needsKey,
  pageQuery,
  readsBody,
  type Route,
  scopes,
  timeSchema,
} from './route.ts';

export const keyBodySchema = z.strictObject({
  name: z.string().min(1).max(64),
  scopes: z
    .array(z.enum(scopes))
    .min(1)
    .refine((given) => new Set(given).size === given.length, 'A scope is named twice'),
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
    summary: 'Create an API key. The key is returned only once',
    auth: 'key',
    scopes: ['admin'],
    body: keyBodySchema,
    requires: { fields: ['name', 'scopes'], message: 'name and scopes are required' },
    answer: 'json',
    status: 201,
    output: keySchema.extend({ apiKey: z.string() }),
    errors: [...needsKey, ...readsBody],
  },
  listKeys: {
    method: 'GET',
    path: '/v1/keys',
    summary: 'List API keys, newest first, without their secrets',
    auth: 'key',
    scopes: ['admin'],
    query: keysQuerySchema,
    answer: 'json',
    output: listOf('keys', keySchema),
    errors: aList,
  },
  revokeKey: {
    method: 'DELETE',
    path: '/v1/keys/:id',
    summary: 'Revoke an API key and close its streams',
    auth: 'key',
    scopes: ['admin'],
    params: idParam,
    answer: 'none',
    errors: [...needsKey, 'not_found'],
  },
} as const satisfies Record<string, Route>;
