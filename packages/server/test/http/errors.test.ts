import { RelayError } from '@relay/protocol';
import fastify, { errorCodes } from 'fastify';
import { connect, type Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { respondToMalformedRequest, toRelayError } from '../../src/http/errors.ts';
import { bootServer, type TestServer } from '../support/server.ts';

describe('toRelayError', () => {
  it('returns a RelayError unchanged', () => {
    const error = new RelayError('not_found', 'No such run');
    expect(toRelayError(error)).toBe(error);
  });

  it.each([
    ['FST_ERR_CTP_INVALID_JSON_BODY', 400, 'invalid_json', 'Invalid JSON body'],
    ['FST_ERR_CTP_EMPTY_JSON_BODY', 400, 'invalid_json', 'Invalid JSON body'],
    [
      'FST_ERR_CTP_INVALID_CONTENT_LENGTH',
      400,
      'invalid_request',
      'The body does not have the length in Content-Length',
    ],
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

  it('maps parser errors to invalid_json', () => {
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
  ])('hides %s', (_what, thrown) => {
    const error = toRelayError(thrown);
    expect(error.status).toBe(500);
    expect(error.toBody()).toEqual({
      error: 'Internal server error; the server log has the details under x-request-id',
      code: 'internal',
    });
  });

  it('keeps the cause for the log', () => {
    const thrown = new Error('the disk is on fire');
    expect(toRelayError(thrown).cause).toBe(thrown);
  });

  it('maps every Fastify error about bodies', async () => {
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

async function answerTo(code: string): Promise<string> {
  const socket = new PassThrough();
  respondToMalformedRequest(Object.assign(new Error('x'), { code }), socket as unknown as Socket);
  return text(socket);
}

describe('a request that cannot be parsed', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await bootServer();
  });
  afterAll(() => server.stop());

  it('is answered with an error body, and its connection is closed', async () => {
    const { hostname, port } = new URL(server.url);
    const socket = connect(Number(port), hostname);
    socket.write('this is not HTTP\r\n\r\n');
    const answer = await text(socket);
    expect(answer).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
    expect(JSON.parse(answer.slice(answer.indexOf('{')))).toEqual({
      error: 'The request is not valid HTTP',
      code: 'invalid_request',
    });
  });

  it('is answered with 408 if it arrives too slowly', async () => {
    const answer = await answerTo('ERR_HTTP_REQUEST_TIMEOUT');
    expect(answer).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/);
    expect(answer).toContain('"code":"request_timeout"');
  });

  it('is not answered if the client has reset the connection', async () => {
    const socket = new PassThrough();
    const reset = Object.assign(new Error('x'), { code: 'ECONNRESET' });
    respondToMalformedRequest(reset, socket as unknown as Socket);
    expect(socket.destroyed).toBe(true);
  });
});
