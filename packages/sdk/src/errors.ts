import {
  type CapabilityDetails,
  defined,
  type ErrorBody,
  type ErrorCode,
  type FieldIssue,
} from '@relay/protocol/wire';

/**
 * The server's codes, and two of the client: `network_error` if there was no response or the connection
 * broke, `unexpected_response` if something other than Relay responded, such as a proxy.
 */
export type RelayApiErrorCode = ErrorCode | 'network_error' | 'unexpected_response';

export interface RelayApiErrorOptions {
  readonly status?: number;
  readonly details?: ErrorBody['details'] | undefined;
  readonly requestId?: string | undefined;
  readonly runId?: string | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly retryable?: boolean;
  readonly failedRequest?: FailedRequest | undefined;
  readonly cause?: unknown;
}

/** A request without a response: its URL, and the reason. */
export interface FailedRequest {
  readonly url: string;
  readonly reason: string;
  /** No response came in time. */
  readonly timedOut: boolean;
}

const retryableCodes: ReadonlySet<string> = new Set<RelayApiErrorCode>([
  'request_timeout',
  'budget_exceeded',
  'inbox_full',
  'rate_limited',
  'too_many_open',
  'provider_failed',
  'shutting_down',
  'storage_full',
  'storage_failed',
  'network_error',
]);
const retryableStatuses: ReadonlySet<number> = new Set([408, 429, 502, 503, 504]);

/** The error that this package throws. */
export class RelayApiError extends Error {
  override readonly name = 'RelayApiError';
  readonly code: RelayApiErrorCode;
  /** The HTTP status; 0 without a response. */
  readonly status: number;
  readonly details: readonly FieldIssue[] | undefined;
  /** Of a `capability_missing`: which capability was required, and what the session declares. */
  readonly capability: CapabilityDetails | undefined;
  readonly requestId: string | undefined;
  /** The run that was started nevertheless, and is stored as failed. */
  readonly runId: string | undefined;
  /** From the `Retry-After` header. */
  readonly retryAfterMs: number | undefined;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /** Set for a `network_error` without a response. */
  readonly failedRequest: FailedRequest | undefined;

  constructor(code: RelayApiErrorCode, message: string, options: RelayApiErrorOptions = {}) {
    super(message, defined({ cause: options.cause }));
    const { status = 0, details } = options;
    this.code = code;
    this.status = status;
    this.details = isIssues(details) ? details : undefined;
    this.capability = isIssues(details) ? undefined : details;
    this.requestId = options.requestId;
    this.runId = options.runId;
    this.retryAfterMs = options.retryAfterMs;
    this.failedRequest = options.failedRequest;
    this.retryable =
      options.retryable ??
      (code === 'unexpected_response' ? retryableStatuses.has(status) : retryableCodes.has(code));
  }
}

function isIssues(details: RelayApiErrorOptions['details']): details is readonly FieldIssue[] {
  return Array.isArray(details);
}

export function networkError(message: string, cause?: unknown): RelayApiError {
  return new RelayApiError('network_error', message, { cause });
}

/** The error of a response, whether from Relay or from a proxy. */
export async function errorFrom(response: Response): Promise<RelayApiError> {
  const text = await response.text().catch(() => '');
  const body = bodyOf(text);
  const { status, headers } = response;
  const options = {
    status,
    requestId: headers.get('x-request-id') ?? undefined,
    runId: headers.get('x-run-id') ?? undefined,
    retryAfterMs: retryAfterOf(headers.get('retry-after')),
  };
  if (body === undefined) {
    const message = `The server responded with ${status} and no error body`;
    return new RelayApiError('unexpected_response', message, { ...options, cause: text });
  }
  return new RelayApiError(body.code, body.error, { ...options, details: body.details });
}

function bodyOf(text: string): ErrorBody | undefined {
  try {
    const body = JSON.parse(text) as Partial<ErrorBody> | null;
    return typeof body?.error === 'string' && typeof body.code === 'string'
      ? (body as ErrorBody)
      : undefined;
  } catch {
    return undefined;
  }
}

/** The header is a number of seconds or a date. */
export function retryAfterOf(header: string | null, now = Date.now()): number | undefined {
  if (header === null) return undefined;
  const seconds = Number(header);
  const ms = Number.isNaN(seconds) ? Date.parse(header) - now : seconds * 1000;
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}
