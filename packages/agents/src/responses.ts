import { invalidRequest } from './invalid-request.ts';
import type { RelayResponse } from './events.ts';

export interface Answer {
  readonly approved: boolean;
  readonly always: boolean;
  readonly reason: string | null;
}

/**
 * Nothing but `true` approves: an answer that is not one throws `invalid_request`. So does one that
 * says more than can be heard, such as other arguments: what was shown would run without them.
 */
export function readResponse(response: RelayResponse): Answer {
  const { approved, always, reason, ...rest } = (response ?? {}) as Record<string, unknown>;
  if (typeof approved !== 'boolean') throw wrong('approved', 'Must be true or false');
  if (always !== undefined && typeof always !== 'boolean') {
    throw wrong('always', 'Must be true or false');
  }
  if (reason !== undefined && typeof reason !== 'string') throw wrong('reason', 'Must be a text');
  if (!approved && always === true) throw wrong('always', 'Only an approval can hold for always');
  for (const field of Object.keys(rest)) throw wrong(field, 'Unknown field');
  return { approved, always: always ?? false, reason: reason ?? null };
}

function wrong(path: string, message: string): Error {
  return invalidRequest([{ path, message }]);
}
