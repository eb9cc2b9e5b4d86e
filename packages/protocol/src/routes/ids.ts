/** `/v1/ids`: the whole id for a part of it, as a person types it. */
import { z } from 'zod';
import { idSchema } from '../schemas/values.ts';
import { listErrors, type Route } from './route.ts';

export const idKinds = [
  'run',
  'approval',
  'conversation',
  'session',
  'message',
  'delivery',
  'memory',
  'grant',
  'key',
  'webhook',
  'snapshot',
  'invocation',
] as const;
export type IdKind = (typeof idKinds)[number];

/** How many ids an answer has at most. */
export const mostIds = 10;

export const idsQuerySchema = z.strictObject({
  kind: z.enum(idKinds).describe('What has the id. Keys and webhooks require the scope `admin`'),
  match: z
    .string()
    .regex(/^[0-9a-f-]{4,36}$/i, 'Must be 4 to 36 characters of an id')
    .transform((text) => text.toLowerCase())
    .describe(
      'The beginning or the end of the id. At least 8 characters of its beginning find any id; less, or its end, one of the newest 10,000. Snapshots and invocations are found only by their beginning',
    ),
});

export const idRoutes = {
  findIds: {
    method: 'GET',
    path: '/v1/ids',
    summary: 'Find ids by their beginning or their end',
    scopes: ['read'],
    query: idsQuerySchema,
    output: z.object({
      ids: z.array(idSchema).describe(`Newest first, at most ${mostIds}`),
      more: z.boolean().describe('Whether others match too'),
    }),
    errors: listErrors,
  },
} as const satisfies Record<string, Route>;
