/** Malformed and unusual bytes. Other clients are not affected. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { bootServer, type TestServer } from '../support/server.ts';
import { expectHealth } from '../support/requests.ts';

let server: TestServer;

beforeAll(async () => {
  server = await bootServer();
});
afterAll(() => server.stop());

afterEach(async () => {
  await expectHealth(server);
  expect(server.logged).toEqual([]);
});

/** Sends raw bytes, and returns everything until the connection is closed. */
async function send(bytes: string | Buffer): Promise<string> {
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  socket.write(bytes);
  const patience = setTimeout(() => socket.destroy(new Error('No end')), 15_000);
  const answer = await text(socket).catch(() => '');
  clearTimeout(patience);
  return answer;
}

function statuses(answer: string): number[] {
  return [...answer.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map(([, status]) => Number(status));
}

/** A request head with a valid key, closed afterwards by default. */
function head(line: string, ...headers: readonly string[]): string {
  const own = ['host: 127.0.0.1', `authorization: Bearer ${server.apiKey}`, 'connection: close'];
  return `${[line, ...own, ...headers].join('\r\n')}\r\n\r\n`;
}

const json = 'content-type: application/json';
const post = 'POST /v1/runs HTTP/1.1';
const body = '{"model":"demo","input":"say 1"}';
const length = `content-length: ${body.length}`;

const unreadable: [what: string, bytes: () => string | Buffer][] = [
  ['nothing but a line end', () => 'x\r\n\r\n'],
  ['a greeting of TLS', () => Buffer.from('160301020001000001fc0303', 'hex')],
  ['the preface of HTTP/2', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['a version that does not exist', () => 'GET / HTTP/9.9\r\nhost: x\r\n\r\n'],
  ['an unknown method', () => 'BREW /coffee HTTP/1.1\r\nhost: x\r\n\r\n'],
  ['NUL in a path', () => head('GET /v1/\0runs HTTP/1.1')],
  ['NUL in a header', () => head('GET /v1/runs HTTP/1.1', 'x-odd: a\0b')],
  ['a header without a colon', () => head('GET /v1/runs HTTP/1.1', 'nonsense')],
  ['a header without a name', () => head('GET /v1/runs HTTP/1.1', ': x')],
  ['a space before a colon', () => head('GET /v1/runs HTTP/1.1', 'x-odd : x')],
  ['a folded header', () => head('GET /v1/runs HTTP/1.1', 'x-odd: a\r\n b')],
  ['a negative length', () => head(post, json, 'content-length: -1') + body],
  ['a length that is no number', () => head(post, json, 'content-length: ten') + body],
  ['two lengths', () => head(post, json, length, 'content-length: 3') + body],
  ['a length and chunks', () => head(post, json, length, 'transfer-encoding: chunked') + body],
  ['a chunk of no size', () => `${head(post, json, 'transfer-encoding: chunked')}zz\r\n${body}`],
  ['a chunk that is negative', () => `${head(post, json, 'transfer-encoding: chunked')}-5\r\n`],
  ['chunks that hide', () => head(post, json, 'transfer-encoding: chunked, identity') + body],
  ['headers of a megabyte', () => head('GET /v1/runs HTTP/1.1', `x-odd: ${'x'.repeat(1 << 20)}`)],
  ['a URL of a megabyte', () => head(`GET /${'x'.repeat(1 << 20)} HTTP/1.1`)],
];

describe('bytes that are not a request', () => {
  it.each(unreadable)('are refused, and the connection is closed: %s', async (_what, bytes) => {
    const answer = await send(bytes());
    for (const status of statuses(answer)) {
      expect(status).toBeGreaterThanOrEqual(400);
      expect(status).toBeLessThan(500);
    }
    expect(statuses(answer).length).toBeLessThanOrEqual(1);
    expect(answer).not.toMatch(/\bat .*\.(?:js|ts):|node:internal|node_modules/);
  });
});

const odd: [what: string, bytes: () => string, status: number][] = [
  ['an absolute URL', () => head('GET http://evil.example/v1/runs HTTP/1.1'), 200],
  ['an absolute URL to nowhere', () => head('GET http://127.0.0.1/v1/nope HTTP/1.1'), 404],
  ['a path that climbs', () => head('GET /v1/../../etc/passwd HTTP/1.1'), 404],
  ['two slashes', () => head('GET //v1/runs HTTP/1.1'), 404],
  ['an asterisk', () => head('OPTIONS * HTTP/1.1'), 405],
  ['an unknown upgrade', () => head('GET /v1/runs HTTP/1.1', 'upgrade: websocket'), 200],
  ['a body for a GET', () => head('GET /v1/runs HTTP/1.1', json, length) + body, 200],
  ['an unknown expectation', () => head(post, json, length, 'expect: magic') + body, 417],
  ['a compressed body', () => head(post, json, length, 'content-encoding: gzip') + body, 415],
  [
    'a body in UTF-16',
    () => head(post, 'content-type: application/json; charset=utf-16', length) + body,
    415,
  ],
  ['bytes that are no UTF-8', () => head(post, json, 'content-length: 3') + '\xff{}', 400],
  [
    'a foreign host',
    () => head('GET /v1/runs HTTP/1.1').replace('host: 127.0.0.1', 'host: evil.example'),
    403,
  ],
  ['a foreign origin', () => head('GET /v1/runs HTTP/1.1', 'origin: https://evil.example'), 403],
  ['the origin null', () => head('GET /v1/runs HTTP/1.1', 'origin: null'), 403],
  ['two keys', () => head('GET /v1/runs HTTP/1.1', 'authorization: Bearer other'), 200],
];

describe('an unusual request', () => {
  it.each(odd)('gets one response: %s', async (_what, bytes, status) => {
    const answer = await send(bytes());
    expect(statuses(answer), answer.slice(0, 400)).toEqual([status]);
    expect(answer.toLowerCase()).not.toContain('access-control-allow-origin');
  });
});

describe('a request that never ends', () => {
  it('is answered with 408, while other requests are served', async () => {
    const http = server.relay.app.server;
    const before = [http.requestTimeout, http.headersTimeout] as const;
    // The shortest timeout that Node checks; the default is half a minute.
    [http.requestTimeout, http.headersTimeout] = [300, 300];
    const waiting = [
      send(`${head(post, json, 'content-length: 100')}{`),
      send(`${head(post, json, 'transfer-encoding: chunked')}5\r\n{"mod`),
      send('GET /v1/runs HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: '),
    ];
    expect((await server.request('/health', { key: null })).status).toBe(200);
    const answers = await Promise.all(waiting);
    [http.requestTimeout, http.headersTimeout] = before;
    for (const answer of answers) {
      expect(statuses(answer)).toEqual([408]);
      expect(answer).toContain('"code":"request_timeout"');
    }
  });
});
