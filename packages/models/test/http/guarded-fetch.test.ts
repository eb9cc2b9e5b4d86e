import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createOutboundGuard } from '../../src/http/guard.ts';
import { afterEach, describe, expect, it } from 'vitest';
import { createGuardedFetch } from '../../src/http/guarded-fetch.ts';

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

async function listen(handler: RequestListener): Promise<string> {
  server = createServer(handler);
  await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

const open = () => createGuardedFetch(createOutboundGuard(['127.0.0.0/8']));
const closed = () => createGuardedFetch(createOutboundGuard());

describe('guarded fetch', () => {
  it('sends the request and returns the response', async () => {
    const url = await listen((request, response) => {
      request.setEncoding('utf8').on('data', (body) => {
        response
          .writeHead(201, { 'x-a': 'b' })
          .end(`${request.method} ${String(request.headers['x-k'])} ${body}`);
      });
    });
    const answer = await open()(url, { method: 'POST', headers: { 'X-K': 'v' }, body: 'hi' });
    expect([answer.status, answer.headers.get('x-a'), await answer.text()]).toEqual([
      201,
      'b',
      'POST v hi',
    ]);
  });

  it.each(['http://127.0.0.1:1/', 'http://localhost:1/', 'https://10.1.2.3/', 'https://[::1]/'])(
    'refuses %s',
    async (url) => {
      await expect(closed()(url)).rejects.toThrow(/The URL is not allowed/);
    },
  );

  it('does not follow a redirect', async () => {
    const paths: string[] = [];
    const url = await listen((request, response) => {
      paths.push(request.url ?? '');
      response.writeHead(302, { location: '/elsewhere' }).end();
    });
    expect((await open()(url)).status).toBe(302);
    expect(paths).toEqual(['/']);
  });

  it('rejects a status that is none of HTTP', async () => {
    const url = await listen((_, response) => void response.writeHead(999).end());
    await expect(open()(url)).rejects.toThrow('Invalid response status 999');
  });

  it('limits a response and each event of a stream, but not the stream', async () => {
    const mega = 'x'.repeat(1024 * 1024);
    const events =
      (pieces: readonly string[], type: string): RequestListener =>
      (_, response) => {
        response.writeHead(200, { 'content-type': type });
        for (const piece of pieces) response.write(piece);
        response.end();
      };
    const many = Array.from({ length: 6 }, () => `data: ${mega}\n\n`);
    const one = Array.from({ length: 6 }, () => mega);
    const fine = await open()(await listen(events(many, 'text/event-stream')));
    expect((await fine.text()).length).toBeGreaterThan(6 * mega.length);
    for (const type of ['text/event-stream', 'application/json']) {
      const long = await open()(await listen(events(one, type)));
      await expect(long.text()).rejects.toThrow(/bytes|terminated/);
    }
  });

  it('is aborted by its signal, before and during the response', async () => {
    const url = await listen((request, response) => {
      if (request.url === '/silent') return;
      response.writeHead(200).write('a');
    });
    const stop = new AbortController();
    const silent = open()(`${url}silent`, { signal: stop.signal });
    const begun = await open()(url, { signal: stop.signal });
    const reading = expect(begun.text()).rejects.toThrow();
    stop.abort(new Error('enough'));
    await expect(silent).rejects.toThrow('enough');
    await reading;
  });

  it('fails with the code of the connection error', async () => {
    const url = await listen(() => undefined);
    server?.close();
    await expect(open()(url)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });
});
