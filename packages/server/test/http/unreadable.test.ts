import { connect, type Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bootRelay, type TestRelay } from '../support/relay.ts';
import { refuseUnreadable } from '../../src/http/unreadable.ts';

async function answerTo(code: string): Promise<string> {
  const socket = new PassThrough();
  refuseUnreadable(Object.assign(new Error('x'), { code }), socket as unknown as Socket);
  return text(socket);
}

describe('what never becomes a request', () => {
  let server: TestRelay;
  beforeAll(async () => {
    server = await bootRelay();
  });
  afterAll(() => server.stop());

  it('gets the one shape of error, and the connection is closed', async () => {
    const { hostname, port } = new URL(server.url);
    const socket = connect(Number(port), hostname);
    socket.write('this is not HTTP\r\n\r\n');
    const answer = await text(socket);
    expect(answer).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
    expect(JSON.parse(answer.slice(answer.indexOf('{')))).toEqual({
      error: 'This is not a request that can be read',
      code: 'invalid_request',
    });
  });

  it('is a 408 if it takes too long', async () => {
    const answer = await answerTo('ERR_HTTP_REQUEST_TIMEOUT');
    expect(answer).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/);
    expect(answer).toContain('"code":"request_timeout"');
  });

  it('gets no answer if nobody is there to read one', async () => {
    const socket = new PassThrough();
    const reset = Object.assign(new Error('x'), { code: 'ECONNRESET' });
    refuseUnreadable(reset, socket as unknown as Socket);
    expect(socket.destroyed).toBe(true);
  });
});
