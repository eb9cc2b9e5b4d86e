/** What the AI SDK's packages throw or report, as our one kind of failure. */
import { ProviderFailure } from '@relay/core';
import { callAborted, failureInStream, failureOfResponse, redact } from './provider-failure.ts';

interface EventBuffer {
  readonly apiKey: string;
  readonly signal: AbortSignal;
}

/** What was thrown while a provider was asked or heard. */
export function failureOfSdk(cause: unknown, { apiKey, signal }: EventBuffer): ProviderFailure {
  if (signal.aborted) return callAborted();
  const own = ownFailureIn(cause);
  if (own !== undefined) return own;
  const { name, statusCode, responseBody, message } = cause as Record<string, unknown>;
  if (typeof statusCode === 'number') {
    const body = typeof responseBody === 'string' ? responseBody : String(message);
    return failureOfResponse({ status: statusCode, headers: {}, body }, apiKey);
  }
  if (isUnreadable(name)) return unreadable();
  const why = redact(cause instanceof Error ? cause.message : String(cause), apiKey);
  return new ProviderFailure(`The request cannot be put to this provider: ${why.slice(0, 500)}`, {
    retryable: false,
  });
}

/** What came as a part of a stream which had begun well. */
export function failureOfPart(error: unknown, apiKey: string): ProviderFailure {
  const own = ownFailureIn(error);
  if (own !== undefined) return own;
  if (typeof error !== 'object' || error === null) return failureInStream(error, apiKey);
  const { name, statusCode, message, type, code } = error as Record<string, unknown>;
  if (isUnreadable(name)) return unreadable();
  return failureInStream({ message, type, code, status: statusCode }, apiKey);
}

/** A failure of our own connection keeps its words, however often it was wrapped. */
function ownFailureIn(cause: unknown): ProviderFailure | undefined {
  let inner = cause;
  for (let depth = 0; depth < 5 && inner instanceof Error; depth += 1) {
    if (inner instanceof ProviderFailure) return inner;
    inner = inner.cause;
  }
  return undefined;
}

/** The packages have names for what they cannot ask; what they cannot read is often a bare `Error`. */
function isUnreadable(name: unknown): boolean {
  return name === 'AI_JSONParseError' || name === 'AI_TypeValidationError' || name === 'Error';
}

/** Its text is not repeated: nobody knows what it holds. */
function unreadable(): ProviderFailure {
  return new ProviderFailure('The provider sent something that cannot be read', {
    retryable: true,
  });
}
