/** `/console`: signing in to the console and out again. The pages themselves are static files. */
import { z } from 'zod';
import { scopes } from '../schemas/roles.ts';
import { timeSchema } from '../schemas/values.ts';
import { currentKeySchema } from './keys.ts';
import { bodyErrors, keyErrors, type Route } from './route.ts';

const secretSchema = z.string().min(1).max(256);

/** `link` is the part of a login link after `#`. */
export const loginBodySchema = z
  .strictObject({ apiKey: secretSchema.optional(), link: secretSchema.optional() })
  .refine(({ apiKey, link }) => (apiKey === undefined) !== (link === undefined), {
    message: 'Set either apiKey or link',
  });

export const consoleRoutes = {
  loginToConsole: {
    method: 'POST',
    path: '/console/login',
    summary: 'Sign in to the console with an API key or a login link, and set its cookie',
    auth: 'sign-in',
    scopes: [],
    body: loginBodySchema,
    bodyLimit: 4 * 1024,
    output: currentKeySchema,
    errors: [
      'unauthorized',
      'rate_limited',
      'host_not_allowed',
      'origin_not_allowed',
      ...bodyErrors,
    ],
  },
  logoutOfConsole: {
    method: 'POST',
    path: '/console/logout',
    summary: 'End the sign-in to the console and delete its cookie',
    auth: 'sign-in',
    scopes: [],
    responseType: 'none',
    errors: ['rate_limited', 'host_not_allowed', 'origin_not_allowed'],
  },
  createConsoleLink: {
    method: 'POST',
    path: '/console/links',
    summary: 'Create a link that signs in to the console once, within 15 minutes, with this key',
    scopes: [...scopes],
    anyScope: true,
    cookie: false,
    status: 201,
    output: z.object({ url: z.string(), expiresAt: timeSchema }),
    errors: keyErrors,
  },
} as const satisfies Record<string, Route>;
