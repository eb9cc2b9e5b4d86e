import { type ErrorCode, RelayError } from '@relay/protocol';

const fastifyCodes: Readonly<Record<string, { code: ErrorCode; message: string }>> = {
  FST_ERR_CTP_INVALID_JSON_BODY: { code: 'invalid_json', message: 'Invalid JSON body' },
  FST_ERR_CTP_EMPTY_JSON_BODY: { code: 'invalid_json', message: 'Invalid JSON body' },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: { code: 'invalid_request', message: 'Bad Content-Length' },
  FST_ERR_CTP_BODY_TOO_LARGE: { code: 'payload_too_large', message: 'The body is too large' },
  FST_ERR_CTP_INVALID_MEDIA_TYPE: {
    code: 'unsupported_media_type',
    message: 'The body must be application/json',
  },
  FST_ERR_BAD_URL: { code: 'invalid_request', message: 'The URL is malformed' },
};

/** Whatever was thrown, as the one error that callers see. Internals never leak into it. */
export function toRelayError(thrown: unknown): RelayError {
  if (thrown instanceof RelayError) return thrown;
  const code = (thrown as { code?: unknown } | null)?.code;
  const known =
    typeof code === 'string' && Object.hasOwn(fastifyCodes, code) ? fastifyCodes[code] : undefined;
  if (known !== undefined) return new RelayError(known.code, known.message, { cause: thrown });
  const status = (thrown as { statusCode?: unknown } | null)?.statusCode;
  // No id of ours is that long.
  if (status === 414) return notFound();
  if (thrown instanceof SyntaxError || status === 400) {
    return new RelayError('invalid_json', 'Invalid JSON body', { cause: thrown });
  }
  return new RelayError('internal', 'Something went wrong inside Relay', { cause: thrown });
}

/** One and the same answer for a key that is missing, malformed, unknown, revoked or expired. */
export function noValidKey(): RelayError {
  return new RelayError('unauthorized', 'A valid API key is required');
}

/** One and the same answer for what is not there, is somebody else's, or could never be there. */
export function notFound(thing?: string): RelayError {
  return new RelayError('not_found', thing === undefined ? 'No such path' : `No such ${thing}`);
}

/** What the first parameter of a path names: of `/v1/runs/:id/events`, a run. */
export function thingAt(path: string): string {
  const parts = path.split('/');
  const named = parts[parts.findIndex((part) => part.startsWith(':')) - 1] ?? 'thing';
  return named.replace(/ies$/, 'y').replace(/s$/, '');
}
