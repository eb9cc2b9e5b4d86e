/** `/v1/credentials`: API keys of model providers. They are write-only. */
import { z } from 'zod';
import { timeSchema } from '../schemas/values.ts';
import { listOf, keyErrors, bodyErrors, type Route } from './route.ts';

export const providerParam = z.object({
  provider: z
    .string()
    .regex(/^[a-z0-9-]{1,32}$/, 'Must be 1 to 32 lowercase letters, digits or hyphens'),
});

export const credentialBodySchema = z.strictObject({
  apiKey: z
    .string()
    .max(4096)
    .regex(/^[\x21-\x7e]+$/, 'Must be printable ASCII characters without spaces'),
  label: z.string().min(1).max(128).optional(),
  baseUrl: z.url().max(2048).optional(),
});

export const credentialSchema = z.object({
  provider: z.string(),
  label: z.string().nullable(),
  baseUrl: z.string().optional(),
  last4: z.string(),
  /** A variable of the server's environment, in development. Absent: it is stored. */
  source: z.literal('environment').optional(),
  updatedAt: timeSchema,
});

export const credentialRoutes = {
  putCredential: {
    method: 'PUT',
    path: '/v1/credentials/:provider',
    summary: 'Set or rotate a provider’s API key',
    scopes: ['admin'],
    params: providerParam,
    body: credentialBodySchema,
    requiredFields: { fields: ['apiKey'] },
    output: credentialSchema,
    errors: [...keyErrors, ...bodyErrors, 'not_found', 'base_url_refused'],
  },
  listCredentials: {
    method: 'GET',
    path: '/v1/credentials',
    summary: 'List the providers that have an API key; the keys are never returned',
    scopes: ['admin'],
    output: listOf('credentials', credentialSchema),
    errors: [...keyErrors],
  },
  deleteCredential: {
    method: 'DELETE',
    path: '/v1/credentials/:provider',
    summary: 'Delete a provider’s API key',
    scopes: ['admin'],
    params: providerParam,
    responseType: 'none',
    errors: [...keyErrors, 'not_found'],
  },
} as const satisfies Record<string, Route>;
