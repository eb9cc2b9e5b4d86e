/**
 * What a provider's failure becomes. Its words are shown to people and kept in journals, so the API
 * key is taken out of them first, and only then are they cut to length (E8).
 */
import type { IncomingHttpHeaders } from 'node:http';
import { ProviderFailure } from '@relay/core';

const maxWords = 500;
/** A shorter stretch tells nothing of a key and may well be an ordinary word. */
const minSecretStretch = 8;
const hidden = '[redacted]';

/** A key that no header can carry would fail with every call; it is better refused at once. */
export function checkApiKey(apiKey: string | undefined): void {
  if (apiKey === undefined || /^[\x21-\x7e]+$/.test(apiKey)) return;
  throw new TypeError(
    'The API key of a provider is empty or holds a character that no header can carry',
  );
}

/** Hides the key, and every part of it that is long enough to matter. */
export function redact(text: string, secret: string | undefined): string {
  if (secret === undefined || secret === '') return text;
  const least = Math.min(minSecretStretch, secret.length);
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

function words(text: string, secret: string | undefined): string {
  const shown = redact(text, secret).trim();
  return shown.length <= maxWords ? shown : `${shown.slice(0, maxWords).toWellFormed()}…`;
}

export interface HttpFailure {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** The provider answered with a status that is no success. */
export class ProviderRefusal extends ProviderFailure {
  readonly status: number;
  /** What the provider said, without the key and cut to length. */
  readonly said: string;

  constructor(
    { status, said }: { status: number; said: string },
    options: ConstructorParameters<typeof ProviderFailure>[1],
  ) {
    super(`The provider answered ${status}${said === '' ? '' : `: ${said}`}`, options);
    this.status = status;
    this.said = said;
  }
}

export function failureOfResponse(
  { status, headers, body }: HttpFailure,
  secret: string | undefined,
): ProviderRefusal {
  const retryAfterMs = retryAfter(headers, Date.now());
  const refusal = { status, said: words(messageIn(body), secret) };
  return new ProviderRefusal(refusal, {
    retryable: isRetryableStatus(status),
    contextExceeded: (status === 400 || status === 413 || status === 422) && tellsTooLong(body),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}

/** A server that does not stream, though it was asked to. */
export function failureOfPlainAnswer(body: string, secret: string | undefined): ProviderFailure {
  const said = words(messageIn(body), secret);
  return new ProviderFailure(`The provider answered without a stream: ${said}`, {
    retryable: false,
  });
}

function isRetryableStatus(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || status >= 500;
}

/** Seconds or a date; some providers are more exact in a header of their own. */
function retryAfter(headers: IncomingHttpHeaders, now: number): number | undefined {
  const exact = Number(headers['retry-after-ms'] ?? Number.NaN);
  if (Number.isFinite(exact) && exact >= 0) return exact;
  const value = headers['retry-after']?.trim() ?? '';
  if (/^[0-9]+(\.[0-9]+)?$/.test(value)) return Number(value) * 1000;
  const date = Date.parse(value);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

/** The sentence inside the usual shapes of an error body, or the body as it is. */
function messageIn(body: string): string {
  try {
    return sentenceOf(JSON.parse(body)) ?? body;
  } catch {
    return body;
  }
}

function sentenceOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  if (typeof value !== 'object' || value === null) return undefined;
  const { error, message, detail } = value as Record<string, unknown>;
  return sentenceOf(error) ?? sentenceOf(message) ?? sentenceOf(detail);
}

/** What a client cannot repair by asking again; everything else in an accepted stream may pass. */
const permanent =
  /invalid|authentication|permission|not_?found|bad_?request|insufficient_quota|context_length|content_(filter|policy)/i;

/** An `error` that came inside a stream which had begun with 200. */
export function failureInStream(error: unknown, secret: string | undefined): ProviderFailure {
  const said = words(sentenceOf(error) ?? '', secret);
  const message = `The provider broke off${said === '' ? '' : `: ${said}`}`;
  const contextExceeded = tellsTooLong(JSON.stringify(error) ?? '');
  return new ProviderFailure(message, {
    retryable: !contextExceeded && mayPass(error),
    contextExceeded,
  });
}

const tooLong =
  /context_length_exceeded|context[ _](?:length|window|size)|prompt is too long|too many (?:input )?tokens(?! per)|input is too long|reduce the length/i;

/** There is no one code for it; these are the words of the providers. */
function tellsTooLong(body: string): boolean {
  return tooLong.test(body);
}

function mayPass(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return true;
  const { code, status, type } = error as Record<string, unknown>;
  for (const value of [code, status]) {
    const number = Number(value ?? Number.NaN);
    if (number >= 400 && number < 600) return isRetryableStatus(number);
  }
  return ![code, type].some((value) => typeof value === 'string' && permanent.test(value));
}

/** A connection that could not be made, or broke before the provider answered. */
export function failureToConnect(
  cause: unknown,
  { host, secret }: { host: string; secret: string | undefined },
): ProviderFailure {
  // An agent that refuses an address says so itself.
  if (cause instanceof ProviderFailure) return cause;
  const { code, message } = cause as NodeJS.ErrnoException;
  const why = words(code ?? message, secret);
  return new ProviderFailure(`No connection to the provider at ${host}: ${why}`, {
    retryable: true,
  });
}

/** Thrown rather than returned, so that nobody takes half an answer for a whole one. */
export function callAborted(): ProviderFailure {
  return new ProviderFailure('The model call was aborted', { retryable: false });
}
