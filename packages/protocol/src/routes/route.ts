import { z } from 'zod';
import type { ErrorCode } from '../errors.ts';
import type { Scope } from '../schemas/roles.ts';
import { idSchema, seqSchema } from '../schemas/values.ts';

/**
 * `local-or-key`: from the same machine also without a key, as the tenant `default`.
 * `internal-or-key`: also with the internal secret, which belongs to no tenant.
 * `internal`: with the internal secret only; the route does not exist if none is configured.
 * `link`: the path contains a secret token, and needs no other authentication.
 * `sign-in`: begins or ends a sign-in to the console; the body or the cookie contains the secret.
 */
export type RouteAuth =
  | 'public'
  | 'link'
  | 'sign-in'
  | 'local-or-key'
  | 'internal-or-key'
  | 'internal';

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly summary: string;
  /** Default: an API key with the scopes. */
  readonly auth?: RouteAuth;
  /** All are required, or with `anyScope` any one. */
  readonly scopes: readonly Scope[];
  readonly anyScope?: true;
  /**
   * Whether a session token opens it, without a scope: `own` for the session that `:id` names, `tenant` for
   * all that the handler shows to one. Default: no.
   */
  readonly session?: 'own' | 'tenant';
  /** Whether the cookie of the console opens it, like the key that signed in. Default: yes. */
  readonly cookie?: false;
  readonly params?: z.ZodType;
  readonly query?: z.ZodType;
  readonly body?: z.ZodType;
  /** Fields (or lists of alternatives) that are checked first, and the error if one is missing. */
  readonly requiredFields?: {
    readonly fields: readonly (string | readonly string[])[];
    /** Default: names those that are missing. */
    readonly message?: string;
  };
  /** The maximum body size in bytes. Default: 1 MB. */
  readonly bodyLimit?: number;
  /** The JSON response is written as it is read. */
  readonly streamed?: true;
  /** `sse`: a stream of frames. `lines`: JSON lines. `none`: no body. Default: JSON, with the schema `output`. */
  readonly responseType?: 'sse' | 'lines' | 'html' | 'text' | 'none';
  /** The success status. Default: 200, or 204 without a body. */
  readonly status?: 201 | 202;
  /** In which case the response is 204 instead. */
  readonly noContentWhen?: string;
  /** In which case the response is 202 instead, with the same body. */
  readonly acceptedWhen?: string;
  readonly output?: z.ZodType;
  /** The body of its errors. Default: `ErrorBody`. */
  readonly errorFormat?: 'json-rpc';
  readonly errors: readonly ErrorCode[];
}

/** The body limit of routes that accept images, files or tool results. */
export const attachmentsBodyLimit = 10 * 1024 * 1024;

export const idParam = z.object({ id: idSchema });

export const pageQuery = {
  limit: seqSchema
    .pipe(z.int().min(1).max(200))
    .default(50)
    .describe('Page size, from 1 to 200. Default: 50'),
  cursor: z.string().min(1).max(256).optional().describe('The nextCursor of the previous page'),
  count: z
    .enum(['true'])
    .optional()
    .describe('Also count all items that match, where the list can be counted'),
};

/** One of the values, or several of them, separated by commas. */
export function anyOf<const Values extends readonly [string, ...string[]]>(values: Values) {
  const one = z.enum(values);
  const several = z
    .string()
    .regex(/,/)
    .transform((text): string[] => text.split(','))
    .pipe(z.array(one));
  // A query parameter is text in either case.
  return z.union([one, several]).meta({ type: 'string' });
}

export function listOf<Name extends string, Item extends z.ZodType>(name: Name, item: Item) {
  type Items = { [Key in Name]: z.ZodArray<Item> };
  const items = { [name]: z.array(item) } as Items;
  return z.object({
    ...items,
    nextCursor: z.string().nullable().describe(nextCursorText),
    total: z.int().optional().describe('With `count`: how many items match'),
    totalIsMinimum: z
      .literal(true)
      .optional()
      .describe('There are more than `total`: what takes long is not counted to its end'),
  });
}

const nextCursorText =
  'The cursor of the next page; null on the last. A page can have fewer items than its limit, even none';

export const keyErrors: readonly ErrorCode[] = ['unauthorized', 'scope_required', 'rate_limited'];
export const itemErrors: readonly ErrorCode[] = [...keyErrors, 'not_found'];
export const listErrors: readonly ErrorCode[] = [...keyErrors, 'invalid_request'];
export const bodyErrors: readonly ErrorCode[] = [
  'invalid_json',
  'invalid_request',
  'payload_too_large',
  'unsupported_media_type',
];

/** Errors before a run starts, on every surface. */
export const startErrors: readonly ErrorCode[] = [
  'invalid_json',
  'invalid_request',
  'invalid_pattern',
  'unknown_model',
  'credential_missing',
  'unknown_tool',
  'unauthorized',
  'scope_required',
  'rate_limited',
  'budget_exceeded',
  'tenant_paused',
  'not_found',
  'approve_scope_required',
  'payload_too_large',
  'unsupported_media_type',
];
