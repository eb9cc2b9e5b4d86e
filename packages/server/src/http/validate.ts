import { fieldIssues, issueMessage, RelayError, type Route } from '@relay/protocol';
import type { FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { invalidRequest, notFound, resourceAt } from './errors.ts';

/**
 * Parses the parts of a request that its route declares. A malformed id cannot exist, so it is answered
 * with 404; the parameter of a PUT names what to store, so it is validated like a body.
 */
export function validate(
  route: Route,
  request: Pick<FastifyRequest, 'params' | 'query' | 'body'>,
): { params: unknown; query: unknown; body: unknown } {
  const mayBeEmpty = () => route.body?.safeParse(undefined).success;
  if (route.body !== undefined && request.body === undefined && !mayBeEmpty()) {
    throw new RelayError('invalid_json', 'Invalid JSON body');
  }
  if (route.requiredFields !== undefined) requireFields(route.requiredFields, request.body);
  return {
    params: route.params === undefined ? undefined : paramsOf(route, route.params, request.params),
    query: route.query === undefined ? undefined : check(route.query, request.query),
    body: route.body === undefined ? undefined : check(route.body, request.body),
  };
}

function paramsOf(route: Route, schema: z.ZodType, given: unknown): unknown {
  if (route.method === 'PUT') return check(schema, given);
  const params = schema.safeParse(given);
  if (!params.success) throw notFound(resourceAt(route.path));
  return params.data;
}

function requireFields(required: NonNullable<Route['requiredFields']>, body: unknown): void {
  const given = (typeof body === 'object' && body !== null ? body : {}) as Record<string, unknown>;
  const isMissing = (field: string) =>
    !Object.hasOwn(given, field) || given[field] === null || given[field] === '';
  const missing = required.fields
    .map((field) => (typeof field === 'string' ? [field] : field))
    .filter((alternatives) => alternatives.every(isMissing));
  if (missing.length === 0) return;
  const paths = missing.map(([path = '']) => path);
  const message = `${paths.join(' and ')} ${paths.length === 1 ? 'is' : 'are'} required`;
  throw new RelayError('invalid_request', required.message ?? message, {
    details: paths.map((path) => ({ path, message: 'Required' })),
  });
}

/** Throws `invalid_request` with the fields that are invalid. */
export function check<Schema extends z.ZodType>(schema: Schema, value: unknown): z.infer<Schema> {
  const result = schema.safeParse(value, { error: issueMessage });
  if (result.success) return result.data;
  throw invalidRequest(fieldIssues(result.error.issues));
}
