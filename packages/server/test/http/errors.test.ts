import { RelayError } from '@relay/protocol';
import fastify, { errorCodes } from 'fastify';
import { describe, expect, it } from 'vitest';
import { toRelayError } from '../../src/http/errors.ts';

describe('a failure as callers see it', () => {
  it('is the very error if it was thrown on purpose', () => {
    const error = new RelayError('not_found', 'There is no such run');
    expect(toRelayError(error)).toBe(error);
  });

  it.each([
    ['FST_ERR_CTP_INVALID_JSON_BODY', 400, 'invalid_json', 'Invalid JSON body'],
    ['FST_ERR_CTP_EMPTY_JSON_BODY', 400, 'invalid_json', 'Invalid JSON body'],
    ['FST_ERR_CTP_INVALID_CONTENT_LENGTH', 400, 'invalid_request', 'Bad Content-Length'],
    ['FST_ERR_CTP_BODY_TOO_LARGE', 413, 'payload_too_large', 'The body is too large'],
    [
      'FST_ERR_CTP_INVALID_MEDIA_TYPE',
      415,
      'unsupported_media_type',
      'The body must be application/json',
    ],
    ['FST_ERR_BAD_URL', 400, 'invalid_request', 'The URL is malformed'],
  ] as const)('is in our words for %s', (code, status, ours, message) => {
    expect(errorCodes).toHaveProperty(code);
    const thrown = new errorCodes[code]();
    const error = toRelayError(thrown);
    expect(error.status).toBe(status);
    expect(error.toBody()).toEqual({ error: message, code: ours });
    expect(error.cause).toBe(thrown);
  });

  it('is invalid JSON for whatever a parser throws', () => {
    expect(toRelayError(new SyntaxError('Unexpected token')).toBody()).toEqual({
      error: 'Invalid JSON body',
      code: 'invalid_json',
    });
    const poisoned = Object.assign(new Error('bad key'), { statusCode: 400 });
    expect(toRelayError(poisoned).code).toBe('invalid_json');
  });

  it.each<[string, unknown]>([
    ['an error with a secret', new Error('password=hunter2 at /home/relay/.relay')],
    ['a type error', new TypeError("Cannot read properties of undefined (reading 'hunter2')")],
    ['a system error', Object.assign(new Error('hunter2'), { code: 'ECONNREFUSED' })],
    ['a text', 'hunter2'],
    ['null', null],
    ['undefined', undefined],
    ['an object', { hunter2: true }],
    ['a code that every object inherits', { code: 'constructor', message: 'hunter2' }],
    ['a code that is no text', { code: 7 }],
  ])('shows nothing of %s', (_what, thrown) => {
    const error = toRelayError(thrown);
    expect(error.status).toBe(500);
    expect(error.toBody()).toEqual({
      error: 'Something went wrong inside Relay',
      code: 'internal',
    });
  });

  it('keeps the cause for the log', () => {
    const thrown = new Error('the disk is on fire');
    expect(toRelayError(thrown).cause).toBe(thrown);
  });

  it('knows every way in which fastify refuses a body', async () => {
    const app = fastify({ bodyLimit: 10 });
    const seen: string[] = [];
    app.setErrorHandler((error, _request, reply) => {
      const approvalError = toRelayError(error);
      seen.push(approvalError.code);
      return reply.code(approvalError.status).send(approvalError.toBody());
    });
    app.post('/', async () => 'ok');
    const send = (headers: Record<string, string>, payload: string) =>
      app.inject({ method: 'POST', url: '/', headers, payload });
    const json = { 'content-type': 'application/json' };
    await send(json, '{');
    await send(json, '');
    await send(json, '{"long": "enough"}');
    await send({ 'content-type': 'text/html' }, 'x');
    await send({ ...json, 'content-length': '3' }, '{}');
    await app.close();
    expect(seen).toEqual([
      'invalid_json',
      'invalid_json',
      'payload_too_large',
      'unsupported_media_type',
      'invalid_request',
    ]);
  });
});
