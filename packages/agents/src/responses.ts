import { type ApprovalKind, issuesOfValue } from '@relay/protocol';
import { invalidRequest } from './invalid-request.ts';
import type { RelayResponse } from './events.ts';

export interface Answer {
  readonly approved: boolean;
  readonly always: boolean;
  readonly reason: string | null;
  readonly input?: unknown;
}

/**
 * Nothing but `true` approves: an answer that is not one throws `invalid_request`. So does one that
 * says more than can be heard, such as other arguments: what was shown would run without them.
 */
export function readResponse(response: RelayResponse, kind: ApprovalKind = 'permission'): Answer {
  const { approved, always, reason, ...rest } = (response ?? {}) as Record<string, unknown>;
  if (typeof approved !== 'boolean') throw wrong('approved', 'Must be true or false');
  if (always !== undefined && typeof always !== 'boolean') {
    throw wrong('always', 'Must be true or false');
  }
  if (reason !== undefined && typeof reason !== 'string') throw wrong('reason', 'Must be a text');
  if (!approved && always === true) throw wrong('always', 'Only an approval can hold for always');
  if (kind === 'question' && always === true) throw wrong('always', 'An answer is for once');
  for (const field of Object.keys(rest)) {
    if (field !== 'input' || kind !== 'question') throw wrong(field, 'Unknown field');
  }
  const { input } = rest;
  return {
    approved,
    always: always ?? false,
    reason: reason ?? null,
    ...(input === undefined ? {} : { input }),
  };
}

/** Whoever answers a question hears at once that the answer does not fit, and may answer again. */
export function checkFit(schema: Readonly<Record<string, unknown>>, { approved, input }: Answer) {
  if (!approved) return;
  if (input === undefined) throw wrong('input', 'The answer is required');
  const issues = issuesOfValue(schema, input);
  if (issues.length === 0) return;
  throw invalidRequest(
    issues.map(({ path, message }) => ({
      path: path === '' ? 'input' : `input.${path}`,
      message,
    })),
  );
}

function wrong(path: string, message: string): Error {
  return invalidRequest([{ path, message }]);
}
