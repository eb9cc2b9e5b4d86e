import type { ErrorBody, ErrorCode, FieldIssue } from '@relay/protocol/wire';

/**
 * Besides the server's own: `network_error`, nobody answered or the connection broke;
 * `unexpected_answer`, somebody else answered, such as a proxy.
 */
export type RelayApiErrorCode = ErrorCode | 'network_error' | 'unexpected_answer';

export interface RelayApiErrorOptions {
  readonly status?: number;
  readonly details?: readonly FieldIssue[] | undefined;
  readonly requestId?: string | undefined;
  readonly runId?: string | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly retryable?: boolean;
  readonly unanswered?: Unanswered | undefined;
  readonly cause?: unknown;
}

/** A request that got no answer: where it was sent, and why there was none. */
export interface Unanswered {
  readonly url: string;
  readonly reason: string;
}

const retryableCodes: ReadonlySet<string> = new Set<RelayApiErrorCode>([
  'request_timeout',
  'budget_exceeded',
  'rate_limited',
  'provider_failed',
  'shutting_down',
  'storage_full',
  'storage_failed',
  'network_error',
]);
const retryableStatuses: ReadonlySet<number> = new Set([408, 429, 502, 503, 504]);

/** The one error of this package. */
export class RelayApiError extends Error {
  override readonly name = 'RelayApiError';
  readonly code: RelayApiErrorCode;
  /** The status of the answer; 0 where there was none. */
  readonly status: number;
  readonly details: readonly FieldIssue[] | undefined;
  readonly requestId: string | undefined;
  /** The run that was started all the same, and is stored as failed. */
  readonly runId: string | undefined;
  /** How long the server asked to be left alone. */
  readonly retryAfterMs: number | undefined;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /** Of a `network_error` before there was any answer. */
  readonly unanswered: Unanswered | undefined;

  constructor(code: RelayApiErrorCode, message: string, options: RelayApiErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    const { status = 0 } = options;
    this.code = code;
    this.status = status;
    this.details = options.details;
    this.requestId = options.requestId;
    this.runId = options.runId;
    this.retryAfterMs = options.retryAfterMs;
    this.unanswered = options.unanswered;
    this.retryable =
      options.retryable ??
      (code === 'unexpected_answer' ? retryableStatuses.has(status) : retryableCodes.has(code));
  }
}

export function networkError(message: string, cause?: unknown): RelayApiError {
  return new RelayApiError('network_error', message, { cause });
}

/** Reads the error out of an answer, whoever gave it. */
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
    const message = `The server answered ${status} without saying why`;
    return new RelayApiError('unexpected_answer', message, { ...options, cause: text });
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

/** Seconds, or a date. */
export function retryAfterOf(header: string | null, now = Date.now()): number | undefined {
  if (header === null) return undefined;
  const seconds = Number(header);
  const ms = Number.isNaN(seconds) ? Date.parse(header) - now : seconds * 1000;
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}
