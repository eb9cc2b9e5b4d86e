/** `/v1/credentials`: the keys of model providers, which nobody gets back. */
import { z } from 'zod';
import { listOf, needsKey, readsBody, type Route, timeSchema } from './route.ts';

export const providerParam = z.object({
  provider: z
    .string()
    .regex(/^[a-z0-9-]{1,32}$/, 'Must have 1 to 32 small letters, digits or hyphens'),
});

export const credentialBodySchema = z.strictObject({
  apiKey: z
    .string()
    .max(4096)
    .regex(/^[\x21-\x7e]+$/, 'Must be printable characters without spaces'),
  label: z.string().min(1).max(128).optional(),
  baseUrl: z.url().max(2048).optional(),
});

export const credentialSchema = z.object({
  provider: z.string(),
  label: z.string().nullable(),
  baseUrl: z.string().optional(),
  last4: z.string(),
  updatedAt: timeSchema,
});

export const credentialRoutes = {
  putCredential: {
    method: 'PUT',
    path: '/v1/credentials/:provider',
    summary: 'Store or rotate a provider credential',
    auth: 'key',
    scopes: ['admin'],
    params: providerParam,
    body: credentialBodySchema,
    requires: { fields: ['apiKey'], message: 'apiKey is required' },
    answer: 'json',
    output: credentialSchema,
    errors: [...needsKey, ...readsBody, 'not_found', 'base_url_refused'],
  },
  listCredentials: {
    method: 'GET',
    path: '/v1/credentials',
    summary: 'List provider credentials, without their secrets',
    auth: 'key',
    scopes: ['admin'],
    answer: 'json',
    output: listOf('credentials', credentialSchema),
    errors: [...needsKey],
  },
  deleteCredential: {
    method: 'DELETE',
    path: '/v1/credentials/:provider',
    summary: 'Delete a provider credential',
    auth: 'key',
    scopes: ['admin'],
    params: providerParam,
    answer: 'none',
    errors: [...needsKey, 'not_found'],
  },
} as const satisfies Record<string, Route>;
