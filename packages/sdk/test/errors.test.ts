import { describe, expect, test } from 'vitest';
import { errorFrom, networkError, RelayApiError, retryAfterOf } from '../src/errors.ts';
import { json } from './support/fake-server.ts';

describe('RelayApiError', () => {
  test('has the code, message and details of the error body', async () => {
    const details = [{ path: 'input', message: 'Required' }];
    const body = { error: 'input: Required', code: 'invalid_request', details };
    const error = await errorFrom(json(400, body, { 'x-request-id': 'r-1' }));
    expect(error).toBeInstanceOf(RelayApiError);
    expect(error).toMatchObject({
      name: 'RelayApiError',
      message: 'input: Required',
      code: 'invalid_request',
      status: 400,
      details,
      requestId: 'r-1',
      retryable: false,
    });
  });

  test('has the capability that the session lacks, instead of details', async () => {
    const details = { path: 'delivery.modes', asked: 'immediate', offered: ['on-idle'] };
    const body = { error: 'ada has no mode immediate', code: 'capability_missing', details };
    const error = await errorFrom(json(409, body));
    expect(error).toMatchObject({ capability: details, details: undefined, retryable: false });
  });

  test('has the id of a run that was started nevertheless', async () => {
    const body = { error: 'The provider failed', code: 'provider_failed' };
    const error = await errorFrom(json(502, body, { 'x-run-id': 'run-1' }));
    expect(error).toMatchObject({ runId: 'run-1', retryable: true });
  });

  test.each([
    ['a page of a proxy', new Response('<h1>Bad Gateway</h1>', { status: 502 }), true],
    ['nothing at all', new Response(null, { status: 504 }), true],
    ['the JSON of a proxy', json(403, { message: 'Forbidden' }), false],
    ['a JSON null', new Response('null', { status: 500 }), false],
  ])('is created from %s', async (_, response, retryable) => {
    const error = await errorFrom(response);
    expect(error).toMatchObject({
      code: 'unexpected_response',
      status: response.status,
      retryable,
    });
    expect(error.message).toContain(String(response.status));
  });

  test('has status 0 and a cause for a network error', () => {
    const cause = new TypeError('fetch failed');
    expect(networkError('It broke', cause)).toMatchObject({
      code: 'network_error',
      status: 0,
      retryable: true,
      cause,
    });
  });

  test('is retryable for a refused connection only', () => {
    expect(new RelayApiError('context_exceeded', 'Too long', { status: 502 }).retryable).toBe(
      false,
    );
    expect(new RelayApiError('shutting_down', 'Later', { status: 503 }).retryable).toBe(true);
  });
});

describe('Retry-After', () => {
  const now = Date.parse('2026-11-15T10:00:00Z');
  test.each([
    [null, undefined],
    ['3', 3000],
    ['0', 0],
    ['-5', 0],
    ['Sun, 15 Nov 2026 10:00:07 GMT', 7000],
    ['Sun, 15 Nov 2026 09:00:00 GMT', 0],
    ['soon', undefined],
  ])('%j means %j ms', (header, ms) => {
    expect(retryAfterOf(header, now)).toBe(ms);
  });
});
