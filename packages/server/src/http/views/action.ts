import type { Action, InvocationRecord } from '@relay/core';
import { iso, isoOrUndefined } from './pagination.ts';

/** The path of a URL may be a secret: who only calls the action sees where it leads. */
export function presentAction(action: Action, showsUrl: boolean) {
  const { name, description, inputSchema, outputSchema, availableTo, timeoutMs } = action;
  return {
    name,
    description,
    inputSchema: inputSchema as Record<string, never>,
    outputSchema: (outputSchema ?? undefined) as Record<string, never> | undefined,
    handler: handlerOf(action, showsUrl),
    availableTo: availableTo === null ? undefined : [...availableTo],
    timeoutMs: timeoutMs ?? undefined,
    idempotent: action.idempotent,
    createdAt: action.handler === undefined ? iso(action.createdAt) : undefined,
  };
}

function handlerOf({ sessionId, url }: Action, showsUrl: boolean) {
  if (sessionId !== null) return { sessionId };
  if (url === null) return { config: true as const };
  return { url: showsUrl ? url : new URL(url).origin };
}

export function presentInvocation(invocation: InvocationRecord) {
  const { id, action, status, by, input, output, error, approvalId, at, endedAt } = invocation;
  return {
    id,
    action,
    status,
    by,
    input,
    output: status === 'completed' ? output : undefined,
    error: error === null ? undefined : { ...error, retryable: error.retryable ?? false },
    approvalId: approvalId ?? undefined,
    createdAt: iso(at),
    endedAt: isoOrUndefined(endedAt),
  };
}
