/** What a route declares, and the pieces that routes share. */
import { z } from 'zod';
import type { ErrorCode } from '../errors.ts';
import { idSchema } from '../schemas/ids.ts';

/**
 * `local-or-key`: also without a key from this very machine, as the tenant `default`.
 * `internal-or-key`: also by the internal secret, which belongs to no tenant.
 * `internal`: by that secret alone; without one configured the route is not there.
 * `link`: the path itself holds a secret, which is all the right that there is.
 */
export type RouteAuth = 'public' | 'link' | 'key' | 'local-or-key' | 'internal-or-key' | 'internal';
export type Scope = 'runs' | 'approve' | 'admin';
export const scopes = ['runs', 'approve', 'admin'] as const satisfies readonly Scope[];

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly summary: string;
  readonly auth: RouteAuth;
  /** Each is needed, or with `anyScope` one of them. */
  readonly scopes: readonly Scope[];
  readonly anyScope?: true;
  readonly params?: z.ZodType;
  readonly query?: z.ZodType;
  readonly body?: z.ZodType;
  /** Fields without which nothing else is looked at, and the sentence that says so. */
  readonly requires?: { readonly fields: readonly string[]; readonly message: string };
  /** How many bytes a body may have; left out: 1 MB. */
  readonly bodyLimit?: number;
  /** `sse`: the answer is a stream of frames. `none`: there is no body. */
  readonly answer: 'json' | 'sse' | 'html' | 'text' | 'none';
  /** The status of an answer; left out: 200, or 204 where there is no body. */
  readonly status?: 201 | 202;
  /** There may be nothing to answer yet: 204. */
  readonly mayBeNothing?: true;
  /** What a JSON answer looks like. */
  readonly output?: z.ZodType;
  readonly errors: readonly ErrorCode[];
}

/** Where images, files or results of tools travel. */
export const attachmentsLimit = 10 * 1024 * 1024;

export const idParam = z.object({ id: idSchema });
/** A list is filtered by `name:value`, so that the first colon has to end the name. */
export const labelsSchema = z.record(
  z
    .string()
    .min(1)
    .max(64)
    .regex(/^[^:]*$/, 'A label’s name has no colon'),
  z.string().max(256),
);

export const seqSchema = z
  .string()
  .regex(/^\d{1,15}$/, 'Must be a whole number')
  .transform(Number);

export const timeSchema = z.iso.datetime({ offset: true });

/** What every list takes: how many, and where the page before ended. */
export const pageQuery = {
  limit: seqSchema
    .pipe(z.int().min(1).max(200))
    .default(50)
    .describe('How many, from 1 to 200; left out: 50'),
  cursor: z.string().min(1).max(256).optional().describe('The nextCursor of the page before'),
};

/** A list has one name for its items and a cursor for the next page. */
export function listOf<Name extends string, Item extends z.ZodType>(name: Name, item: Item) {
  type Items = { [Key in Name]: z.ZodArray<Item> };
  const items = { [name]: z.array(item) } as Items;
  return z.object({ ...items, nextCursor: z.string().nullable() });
}

export const needsKey: readonly ErrorCode[] = ['unauthorized', 'scope_required', 'rate_limited'];
export const aboutOne: readonly ErrorCode[] = [...needsKey, 'not_found'];
export const aList: readonly ErrorCode[] = [...needsKey, 'invalid_request'];
export const readsBody: readonly ErrorCode[] = [
  'invalid_json',
  'invalid_request',
  'payload_too_large',
  'unsupported_media_type',
];
