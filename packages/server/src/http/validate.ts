import { fieldIssues, issueMessage, RelayError, type Route } from '@relay/protocol';
import type { FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { notFound, thingAt } from './errors.ts';

/** The parts of a request that its route declares, checked. */
export interface Validated {
  readonly params: unknown;
  readonly query: unknown;
  readonly body: unknown;
}

/**
 * Checks a request against its route. An id of a wrong form cannot exist, so it is answered like one
 * that does not; a name that something is to be stored under is an input like any other.
 */
export function validate(route: Route, request: FastifyRequest): Validated {
  const mayBeEmpty = () => route.body?.safeParse(undefined).success;
  if (route.body !== undefined && request.body === undefined && !mayBeEmpty()) {
    throw new RelayError('invalid_json', 'Invalid JSON body');
  }
  if (route.requires !== undefined) requireFields(route.requires, request.body);
  return {
    params: route.params === undefined ? undefined : paramsOf(route, route.params, request.params),
    query: route.query === undefined ? undefined : check(route.query, request.query),
    body: route.body === undefined ? undefined : check(route.body, request.body),
  };
}

function paramsOf(route: Route, schema: z.ZodType, given: unknown): unknown {
  if (route.method === 'PUT') return check(schema, given);
  const params = schema.safeParse(given);
  if (!params.success) throw notFound(thingAt(route.path));
  return params.data;
}

function requireFields(requires: NonNullable<Route['requires']>, body: unknown): void {
  const given = (typeof body === 'object' && body !== null ? body : {}) as Record<string, unknown>;
  const missing = requires.fields.filter(
    (field) => !Object.hasOwn(given, field) || given[field] === null || given[field] === '',
  );
  if (missing.length === 0) return;
  throw new RelayError('invalid_request', requires.message, {
    details: missing.map((path) => ({ path, message: 'Required' })),
  });
}

function check(schema: z.ZodType, value: unknown): unknown {
  const result = schema.safeParse(value, { error: issueMessage });
  if (result.success) return result.data;
  const details = fieldIssues(result.error.issues);
  const [first] = details;
  const where = first === undefined || first.path === '' ? '' : `${first.path}: `;
  throw new RelayError('invalid_request', `${where}${first?.message ?? 'Invalid input'}`, {
    details,
  });
}
