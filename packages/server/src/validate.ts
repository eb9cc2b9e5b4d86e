import { fieldIssues, RelayError, type Route } from '@relay/protocol';
import type { FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { nothingHere, thingAt } from './failures.ts';

export interface Input {
  readonly params: unknown;
  readonly query: unknown;
  readonly body: unknown;
}

/** Checks a request against its route. A wrong id cannot exist, so it is answered like one. */
export function validate(route: Route, request: FastifyRequest): Input {
  const mayBeEmpty = () => route.body?.safeParse(undefined).success;
  if (route.body !== undefined && request.body === undefined && !mayBeEmpty()) {
    throw new RelayError('invalid_json', 'Invalid JSON body');
  }
  if (route.requires !== undefined) requireFields(route.requires, request.body);
  const params = route.params?.safeParse(request.params);
  if (params?.success === false) throw nothingHere(thingAt(route.path));
  return {
    params: params?.data,
    query: route.query === undefined ? undefined : check(route.query, request.query),
    body: route.body === undefined ? undefined : check(route.body, request.body),
  };
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
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const details = fieldIssues(result.error.issues);
  const [first] = details;
  const where = first === undefined || first.path === '' ? '' : `${first.path}: `;
  throw new RelayError('invalid_request', `${where}${first?.message ?? 'Invalid input'}`, {
    details,
  });
}
