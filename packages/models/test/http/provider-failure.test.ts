import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ProviderFailure } from '@relay/core';
import {
  failureInStream,
  failureOfResponse,
  failureToConnect,
  redact,
} from '../../src/http/provider-failure.ts';

const secret = 'sk-proj-4f9aQ2xZ7LmN0pRsTuVw';

function ofResponse(status: number, body = '', headers: Record<string, string> = {}) {
  return failureOfResponse({ status, body, headers }, secret);
}

describe('a provider that answers with an error', () => {
  it.each([408, 409, 429, 500, 502, 503, 504, 529])('may be asked again after %i', (status) => {
    expect(ofResponse(status).retryable).toBe(true);
  });

  it.each([301, 400, 401, 402, 403, 404, 413, 422])('is not asked again after %i', (status) => {
    expect(ofResponse(status).retryable).toBe(false);
  });

  it.each([
    ['{"error":{"message":"No such model","code":"model_not_found"}}', 'No such model'],
    ['{"error":"No such model"}', 'No such model'],
    ['{"message":"No such model"}', 'No such model'],
    ['{"detail":"No such model"}', 'No such model'],
    ['"No such model"', 'No such model'],
    ['No such model', 'No such model'],
    ['{"code":7}', '{"code":7}'],
    ['[1]', '[1]'],
  ])('is quoted: %s', (body, message) => {
    expect(ofResponse(404, body).message).toBe(`The provider answered 404: ${message}`);
  });

  it('is quoted and truncated', () => {
    expect(ofResponse(500, '<html>'.repeat(10_000)).message.length).toBeLessThan(600);
    expect(ofResponse(500).message).toBe('The provider answered 500');
  });

  it('may set Retry-After in seconds, as a date or in milliseconds', () => {
    const after = (value: string) => ofResponse(429, '', { 'retry-after': value }).retryAfterMs;
    expect(after('12')).toBe(12_000);
    expect(after('0.5')).toBe(500);
    const inAMinute = after(new Date(Date.now() + 60_000).toUTCString());
    expect(inAMinute).toBeGreaterThan(57_000);
    expect(inAMinute).toBeLessThanOrEqual(60_000);
    expect(after('Wed, 21 Oct 2015 07:28:00 GMT')).toBe(0);
    expect(after('soon')).toBeUndefined();
    expect(after('-3')).not.toBeLessThan(0);
    expect(ofResponse(429).retryAfterMs).toBeUndefined();
    const both = { 'retry-after': '3', 'retry-after-ms': '2150' };
    expect(ofResponse(429, '', both).retryAfterMs).toBe(2150);
  });
});

describe('a prompt that does not fit', () => {
  it.each([
    '{"error":{"message":"This model\'s maximum context length is 8192 tokens","code":"context_length_exceeded"}}',
    '{"error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}',
    '{"error":{"message":"The input is too long for the context window"}}',
    '{"error":{"message":"Please reduce the length of the messages"}}',
  ])('is distinguished from other refusals: %s', (body) => {
    expect(ofResponse(400, body)).toMatchObject({ contextExceeded: true, retryable: false });
    expect(ofResponse(400, body).toRunError().code).toBe('context_exceeded');
    const error: unknown = (JSON.parse(body) as { error: unknown }).error;
    expect(failureInStream(error, secret)).toMatchObject({
      contextExceeded: true,
      retryable: false,
    });
  });

  it.each([
    [400, '{"error":{"message":"Unknown parameter: context"}}'],
    [400, ''],
    [429, '{"error":{"message":"Too many tokens per minute"}}'],
    [500, '{"error":{"message":"context_length_exceeded"}}'],
  ])('is not what %i %s says', (status, body) => {
    expect(ofResponse(status, body).contextExceeded).toBe(false);
  });
});

describe('an error inside a stream', () => {
  it.each([
    [{ message: 'm', code: 429 }, true],
    [{ message: 'm', code: '503' }, true],
    [{ message: 'm', status: 400 }, false],
    [{ message: 'm', code: 'invalid_api_key' }, false],
    [{ message: 'm', type: 'invalid_request_error' }, false],
    [{ message: 'm', type: 'BadRequestError' }, false],
    [{ message: 'm', code: 'insufficient_quota', type: 'insufficient_quota' }, false],
    [{ message: 'm', code: 'context_length_exceeded' }, false],
    [{ message: 'm', type: 'rate_limit_error' }, true],
    [{ message: 'm', type: 'server_error', code: null }, true],
    [{ message: 'm' }, true],
    ['m', true],
  ])('%j may be tried again: %s', (error, retryable) => {
    expect(failureInStream(error, secret)).toMatchObject({
      message: 'The provider aborted its answer: m',
      retryable,
    });
  });

  it('may have no message', () => {
    expect(failureInStream({}, secret).message).toBe('The provider aborted its answer');
    expect(failureInStream(true, secret).message).toBe('The provider aborted its answer');
  });
});

describe('a provider that cannot be reached', () => {
  const host = 'models.example:8080';

  it('is named with the error code', () => {
    const cause = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
    expect(failureToConnect(cause, host, secret)).toMatchObject({
      message: 'No connection to the provider at models.example:8080: ECONNREFUSED',
      retryable: true,
    });
  });

  it('keeps the failure of an agent that refuses the address', () => {
    const refused = new ProviderFailure('This address is private', { retryable: false });
    expect(failureToConnect(refused, host, secret)).toBe(refused);
  });
});

describe('the API key', () => {
  it.each([
    ['alone', secret],
    ['in a sentence', `Incorrect API key provided: ${secret}. Find yours online.`],
    ['twice', `${secret}${secret}`],
    ['in a header', `Authorization: Bearer ${secret}`],
    ['cut at its end', secret.slice(0, -3)],
    ['cut at its start', secret.slice(3)],
    ['a middle part', `…${secret.slice(5, 20)}…`],
    ['behind its own beginning', `sk-proj-${secret}`],
  ])('is taken out of an error: %s', (_, body) => {
    for (const { message } of [ofResponse(401, body), failureInStream(body, secret)]) {
      expect(message).toContain('[redacted]');
      for (let at = 0; at + 8 <= secret.length; at += 1) {
        expect(message).not.toContain(secret.slice(at, at + 8));
      }
    }
  });

  it('is redacted before the text is truncated', () => {
    for (let before = 470; before <= 510; before += 1) {
      const { message } = ofResponse(400, `${'-'.repeat(before)}${secret}`);
      expect(message).not.toContain(secret.slice(0, 8));
    }
  });

  it('is not confused with other text', () => {
    expect(redact('The project sk-proj was not found', secret)).toBe(
      'The project sk-proj was not found',
    );
    expect(redact('anything', undefined)).toBe('anything');
    expect(redact('anything', '')).toBe('anything');
  });

  it('is redacted even if it is short', () => {
    expect(redact('the key abc', 'abc')).toBe('the key [redacted]');
  });

  it('never remains in any text', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), fc.array(fc.string()), (key, parts) => {
        const shown = redact(parts.join(key), key).split('[redacted]');
        expect(shown.filter((part) => part.includes(key))).toEqual([]);
      }),
    );
  });
});

describe('what a provider says in its own error object', () => {
  const refusal = (status: number, body: unknown) =>
    failureOfResponse({ status, headers: {}, body: JSON.stringify(body) }, undefined);

  it.each([
    { error: { code: 'insufficient_quota', type: 'insufficient_quota', message: 'Pay' } },
    { error: { type: 'billing_error', message: 'Pay' } },
    { error: { code: 'billing_hard_limit_reached', message: 'Pay' } },
    {
      error: {
        code: 429,
        status: 'RESOURCE_EXHAUSTED',
        details: [
          {
            '@type': 'type.googleapis.com/google.rpc.QuotaFailure',
            violations: [{ quotaId: 'GenerateRequestsPerDayPerProjectPerModel-FreeTier' }],
          },
          { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '34s' },
        ],
      },
    },
  ])('is not retried if only a payment or the next day helps: %j', (body) => {
    expect(refusal(429, body)).toMatchObject({ retryable: false, contextExceeded: false });
    expect(failureInStream(body.error, undefined)).toMatchObject({ retryable: false });
  });

  it('is retried if it limits the rate', () => {
    const body = { error: { code: 'rate_limit_exceeded', type: 'tokens', message: 'Slower' } };
    expect(refusal(429, body)).toMatchObject({ retryable: true });
  });

  it.each([[1], ['list']])('includes when Google wants to be asked again', (form) => {
    const error = {
      code: 429,
      status: 'RESOURCE_EXHAUSTED',
      message: 'Quota exceeded',
      details: [
        { '@type': 'type.googleapis.com/google.rpc.QuotaFailure', violations: [] },
        { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '34.074824224s' },
      ],
    };
    const failure = refusal(429, form === 'list' ? [{ error }] : { error });
    expect(failure).toMatchObject({
      retryable: true,
      retryAfterMs: 34_075,
      detail: 'Quota exceeded',
    });
    expect(failureInStream(error, undefined)).toMatchObject({ retryAfterMs: 34_075 });
  });

  it.each([
    { error: { code: 'context_length_exceeded', message: 'No' } },
    {
      error: {
        code: 400,
        status: 'INVALID_ARGUMENT',
        message:
          'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).',
      },
    },
    {
      error: { type: 'invalid_request_error', message: 'prompt is too long: 9 tokens > 8 maximum' },
    },
  ])('says that the window is exceeded: %j', (body) => {
    expect(refusal(400, body)).toMatchObject({ contextExceeded: true, retryable: false });
  });
});
