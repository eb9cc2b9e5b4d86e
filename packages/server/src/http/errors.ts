/** The errors of the HTTP API, and what other errors become. */
import { noSuchSession, type PatternFault } from '@relay/core';
import { type ErrorCode, type FieldIssue, RelayError } from '@relay/protocol';
import type { Socket } from 'node:net';

const fastifyCodes: Readonly<Record<string, { code: ErrorCode; message: string }>> = {
  FST_ERR_CTP_INVALID_JSON_BODY: { code: 'invalid_json', message: 'Invalid JSON body' },
  FST_ERR_CTP_EMPTY_JSON_BODY: { code: 'invalid_json', message: 'Invalid JSON body' },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: {
    code: 'invalid_request',
    message: 'The body does not have the length in Content-Length',
  },
  FST_ERR_CTP_BODY_TOO_LARGE: { code: 'payload_too_large', message: 'The body is too large' },
  FST_ERR_CTP_INVALID_MEDIA_TYPE: {
    code: 'unsupported_media_type',
    message: 'The body must be application/json',
  },
  FST_ERR_BAD_URL: { code: 'invalid_request', message: 'The URL is malformed' },
};

/** The error that callers see for anything that was thrown. It never exposes internals. */
export function toRelayError(thrown: unknown): RelayError {
  if (thrown instanceof RelayError) return thrown;
  const code = (thrown as { code?: unknown } | null)?.code;
  const known =
    typeof code === 'string' && Object.hasOwn(fastifyCodes, code) ? fastifyCodes[code] : undefined;
  if (known !== undefined) return new RelayError(known.code, known.message, { cause: thrown });
  const status = (thrown as { statusCode?: unknown } | null)?.statusCode;
  // A URL that is too long: no id has that many characters.
  if (status === 414) return notFound();
  if (thrown instanceof SyntaxError || status === 400) {
    return new RelayError('invalid_json', 'Invalid JSON body', { cause: thrown });
  }
  return new RelayError(
    'internal',
    'Internal server error; the server log has the details under x-request-id',
    { cause: thrown },
  );
}

/** The same answer for a missing, malformed, unknown, revoked or expired key. */
export function unauthorized(): RelayError {
  return new RelayError('unauthorized', 'A valid API key is required');
}

/** The same answer for a login link that is unknown, was opened, has expired, or whose key has ended. */
export function unknownLink(): RelayError {
  return new RelayError(
    'unauthorized',
    'This login link is not valid. One works once, within 15 minutes, while its API key is valid: `relay console` prints a new one',
  );
}

/** The same answer for a session token that is unknown, was replaced, or has ended. */
export function unknownToken(): RelayError {
  return new RelayError(
    'unauthorized',
    'This session token is not valid. One ends when its handle is attached again, when its session is released, and with the API key that attached it: attach the handle again with an API key',
  );
}

/** The same answer for what does not exist, belongs to another tenant, or has a malformed id. */
export function notFound(resource = 'path'): RelayError {
  return resource === 'session'
    ? noSuchSession()
    : new RelayError('not_found', `No such ${resource}`);
}

/** The resource that the first parameter of a path names: a run for `/v1/runs/:id/events`. */
export function resourceAt(path: string): string {
  const parts = path.split('/');
  const collection = parts[parts.findIndex((part) => part.startsWith(':')) - 1] ?? 'resource';
  return collection.replace(/ies$/, 'y').replace(/s$/, '');
}

/**
 * An error of JSON-RPC for a message that was not read, and therefore without its id. The code is one of
 * JSON-RPC's own, or the status of HTTP: those in between are reserved.
 */
export function jsonRpcError(error: RelayError): object {
  const { error: message, ...data } = error.toBody();
  return { jsonrpc: '2.0', error: { code: jsonRpcCode(error), message, data } };
}

function jsonRpcCode({ code, status }: RelayError): number {
  if (code === 'invalid_json') return -32_700;
  if (status === 400) return -32_600;
  return status >= 500 ? -32_603 : status;
}

/** `invalid_request` with the path and the message of the first issue. */
export function invalidRequest(details: readonly FieldIssue[]): RelayError {
  const [{ path, message } = { path: '', message: 'Invalid input' }] = details;
  const text = path === '' ? message : `${path}: ${message}`;
  return new RelayError('invalid_request', text, { details });
}

export function invalidField(path: string, message: string): RelayError {
  return invalidRequest([{ path, message }]);
}

/** Throws `invalid_pattern` if a rule has a malformed pattern. */
export function rejectInvalidPatterns(details: readonly PatternFault[]): void {
  const [first] = details;
  if (first === undefined) return;
  throw new RelayError('invalid_pattern', `${first.path}: ${first.message}`, { details });
}

/** Answers bytes that are not an HTTP request with the same error body as every other failure. */
export function respondToMalformedRequest(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const isTimeout = error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
  const relayError = isTimeout
    ? new RelayError('request_timeout', 'The request was not received in time')
    : new RelayError('invalid_request', 'The request is not valid HTTP');
  const body = JSON.stringify(relayError.toBody());
  socket.end(
    `HTTP/1.1 ${relayError.status} ${isTimeout ? 'Request Timeout' : 'Bad Request'}\r\n` +
      `content-type: application/json; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(body)}\r\n` +
      `connection: close\r\n\r\n${body}`,
  );
}
