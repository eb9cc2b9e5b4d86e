/** Attempts to authenticate: an address that fails too often must wait. */
import { RelayError } from '@relay/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { createHash } from 'node:crypto';
import type { ServerContext } from './handlers/handler.ts';

interface Exchange {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

/** `credential` is what the caller presents, such as an `Authorization` header. */
export async function attemptWithinLimits<Result>(
  { rates }: ServerContext,
  credential: string,
  { request, reply }: Exchange,
  authenticate: () => Promise<Result>,
): Promise<Result> {
  const { failures, lookups } = rates;
  const digest = createHash('sha256').update(credential).digest('base64');
  // An address that guesses keys must not keep the store busy; valid keys may share it.
  if (failures.isExhausted(request.ip) && !accepted.has(digest)) lookups.check(request.ip, reply);
  const result = await authenticate().catch((error: unknown) => {
    // Only failures count against the address.
    if (error instanceof RelayError && error.code === 'unauthorized') {
      failures.check(request.ip, reply);
    }
    throw error;
  });
  remember(digest);
  return result;
}

const maxAccepted = 10_000;
/** Digests of the credentials that were valid lately. Only a lookup says whether they still are. */
const accepted = new Set<string>();

function remember(digest: string): void {
  accepted.add(digest);
  if (accepted.size <= maxAccepted) return;
  for (const oldest of accepted) {
    accepted.delete(oldest);
    return;
  }
}
