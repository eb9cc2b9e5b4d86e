/**
 * Converts failures of providers to `ProviderFailure`. Their messages are shown to users and stored in
 * journals, so the API key is redacted first, and only then are they truncated (E8).
 */
import type { IncomingHttpHeaders } from 'node:http';
import { ProviderFailure } from '@relay/core';
import { defined } from '@relay/protocol';

const maxDetailChars = 500;
/** A shorter part of a key reveals little and may be an ordinary word. */
const minSecretChars = 8;
const hidden = '[redacted]';

/** A key that is not a valid header value would fail with every call. */
export function checkApiKey(apiKey: string | undefined): void {
  if (apiKey === undefined || /^[\x21-\x7e]+$/.test(apiKey)) return;
  throw new TypeError(
    'The API key of a provider is empty or contains a character that is invalid in a header',
  );
}

export function redact(text: string, secret: string | undefined): string {
  if (secret === undefined || secret === '') return text;
  const least = Math.min(minSecretChars, secret.length);
  let shown = '';
  let from = 0;
  while (from < text.length) {
    let end = from + least;
    if (end > text.length || !secret.includes(text.slice(from, end))) {
      shown += text.charAt(from);
      from += 1;
      continue;
    }
    while (end < text.length && secret.includes(text.slice(from, end + 1))) end += 1;
    shown += hidden;
    from = end;
  }
  return shown;
}

function detailOf(text: string, secret: string | undefined): string {
  const detail = redact(text, secret).trim();
  return detail.length <= maxDetailChars
    ? detail
    : `${detail.slice(0, maxDetailChars).toWellFormed()}…`;
}

export interface HttpFailure {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export class ProviderRefusal extends ProviderFailure {
  readonly status: number;
  /** The provider's message, redacted and truncated. */
  readonly detail: string;

  constructor(
    status: number,
    detail: string,
    options: ConstructorParameters<typeof ProviderFailure>[1],
  ) {
    super(`The provider answered ${status}${detail === '' ? '' : `: ${detail}`}`, options);
    this.status = status;
    this.detail = detail;
  }
}

export function failureOfResponse(
  { status, headers, body }: HttpFailure,
  secret: string | undefined,
): ProviderRefusal {
  const error = errorIn(body);
  const mayBeTooLong = status === 400 || status === 413 || status === 422;
  return new ProviderRefusal(status, detailOf(messageIn(body), secret), {
    retryable: isRetryableStatus(status) && !isOutOfQuota(error),
    contextExceeded: mayBeTooLong && (error.code === overflowCode || tooLong.test(body)),
    ...defined({ retryAfterMs: retryAfter(headers, Date.now()) ?? retryDelay(error) }),
  });
}

interface ProviderError {
  readonly code?: unknown;
  readonly type?: unknown;
  readonly details?: unknown;
}

/** The error object of a body; Google sends a list of one. */
function errorIn(body: string): ProviderError {
  try {
    const value: unknown = JSON.parse(body);
    const [first] = Array.isArray(value) ? (value as unknown[]) : [value];
    const { error = first } = (first ?? {}) as { error?: unknown };
    return typeof error === 'object' && error !== null ? error : {};
  } catch {
    return {};
  }
}

const overflowCode = 'context_length_exceeded';
/** OpenAI answers 429 for them too, but only a payment helps. */
const quotaCodes = new Set([
  'insufficient_quota',
  'billing_hard_limit_reached',
  'billing_not_active',
  'billing_error',
]);

function isOutOfQuota({ code, type, details }: ProviderError): boolean {
  const isOut = [code, type].some((value) => typeof value === 'string' && quotaCodes.has(value));
  return isOut || isDailyQuota(details);
}

/** Google's `QuotaFailure` of a quota for a day, such as `GenerateRequestsPerDayPerProjectPerModel`. */
function isDailyQuota(details: unknown): boolean {
  if (!Array.isArray(details)) return false;
  return (details as unknown[]).some((detail) => {
    const { '@type': type, violations } = (detail ?? {}) as Record<string, unknown>;
    if (typeof type !== 'string' || !type.endsWith('google.rpc.QuotaFailure')) return false;
    return (Array.isArray(violations) ? (violations as unknown[]) : []).some((violation) => {
      const { quotaId } = (violation ?? {}) as Record<string, unknown>;
      return typeof quotaId === 'string' && /PerDay/i.test(quotaId);
    });
  });
}

/** Google's `RetryInfo`: `retryDelay` is a duration such as `34.07s`. */
function retryDelay({ details }: ProviderError): number | undefined {
  if (!Array.isArray(details)) return undefined;
  for (const detail of details as unknown[]) {
    const { '@type': type, retryDelay: delay } = (detail ?? {}) as Record<string, unknown>;
    if (typeof type !== 'string' || !type.endsWith('google.rpc.RetryInfo')) continue;
    const [, seconds] = /^([0-9]+(?:\.[0-9]+)?)s$/.exec(String(delay)) ?? [];
    if (seconds !== undefined) return Math.ceil(Number(seconds) * 1000);
  }
  return undefined;
}

/** The server answered a streaming request with JSON. */
export function failureWithoutStream(body: string, secret: string | undefined): ProviderFailure {
  const detail = detailOf(messageIn(body), secret);
  return new ProviderFailure(`The provider answered without a stream: ${detail}`, {
    retryable: false,
  });
}

function isRetryableStatus(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || status >= 500;
}

/** Seconds or a date; some providers also send milliseconds in their own header. */
function retryAfter(headers: IncomingHttpHeaders, now: number): number | undefined {
  const exact = Number(headers['retry-after-ms'] ?? Number.NaN);
  if (Number.isFinite(exact) && exact >= 0) return exact;
  const value = headers['retry-after']?.trim() ?? '';
  if (/^[0-9]+(\.[0-9]+)?$/.test(value)) return Number(value) * 1000;
  const date = Date.parse(value);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

/** The message in the usual shapes of an error body, or the whole body. */
function messageIn(body: string): string {
  try {
    return messageOf(JSON.parse(body)) ?? body;
  } catch {
    return body;
  }
}

function messageOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return messageOf(value[0]);
  if (typeof value !== 'object' || value === null) return undefined;
  const { error, message, detail } = value as Record<string, unknown>;
  return messageOf(error) ?? messageOf(message) ?? messageOf(detail);
}

/** Error codes for which a retry is useless; other errors in a stream are retryable. */
const permanent =
  /invalid|authentication|permission|not_?found|bad_?request|insufficient_quota|context_length|content_(filter|policy)/i;

export function failureInStream(error: unknown, secret: string | undefined): ProviderFailure {
  const detail = detailOf(messageOf(error) ?? '', secret);
  const message = `The provider aborted its answer${detail === '' ? '' : `: ${detail}`}`;
  const contextExceeded = tooLong.test(JSON.stringify(error) ?? '');
  const fields = typeof error === 'object' && error !== null ? error : {};
  return new ProviderFailure(message, {
    retryable: !contextExceeded && !isOutOfQuota(fields) && isRetryable(error),
    contextExceeded,
    ...defined({ retryAfterMs: retryDelay(fields) }),
  });
}

/** Google and Anthropic have no code for it, and servers differ: these are their messages. */
const tooLong =
  /context_length_exceeded|context[ _](?:length|window|size)|prompt is too long|too many (?:input )?tokens(?! per)|input is too long|reduce the length|input token count.{0,40}exceeds the maximum/i;

function isRetryable(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return true;
  const { code, status, type } = error as Record<string, unknown>;
  for (const value of [code, status]) {
    const number = Number(value ?? Number.NaN);
    if (number >= 400 && number < 600) return isRetryableStatus(number);
  }
  return ![code, type].some((value) => typeof value === 'string' && permanent.test(value));
}

export function failureToConnect(
  cause: unknown,
  host: string,
  secret: string | undefined,
): ProviderFailure {
  // For example `UrlRefused`.
  if (cause instanceof ProviderFailure) return cause;
  const { code, message } = cause as NodeJS.ErrnoException;
  const why = detailOf(code ?? message, secret);
  return new ProviderFailure(`No connection to the provider at ${host}: ${why}`, {
    retryable: true,
  });
}

export function endedEarly(): ProviderFailure {
  return new ProviderFailure('The provider’s answer ended before it was finished', {
    retryable: true,
  });
}

export function responseTooLong(): ProviderFailure {
  return new ProviderFailure('The provider’s answer is too long', { retryable: false });
}

/** Thrown, not returned, so that a partial answer is never mistaken for a complete one. */
export function callAborted(): ProviderFailure {
  return new ProviderFailure('The model call was aborted', { retryable: false });
}
