import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import fastify, { type FastifyInstance } from 'fastify';
import { createInProcessFetch, type InProcessFetch } from '../../src/http/in-process-fetch.ts';
import { bootServer, type TestServer, until } from '../support/server.ts';

describe('in-process fetch', () => {
  let relay: TestServer;
  let fetch: InProcessFetch;
  beforeEach(async () => {
    relay = await bootServer();
    fetch = createInProcessFetch(relay.relay.app);
  });
  afterEach(() => relay.stop());

  const headers = () => ({
    authorization: `Bearer ${relay.apiKey}`,
    'content-type': 'application/json',
  });
  const start = (input: string, signal?: AbortSignal) =>
    fetch('http://localhost/v1/runs', {
      method: 'POST',
      headers: headers(),
      body: JSON.stringify({ model: 'demo', input }),
      ...(signal === undefined ? {} : { signal }),
    });

  test('returns the same responses as the port', async () => {
    for (const path of ['/health', '/v1/runs?limit=1', '/v1/runs?limit=0', '/nowhere']) {
      const inside = await fetch(`http://localhost${path}`, { headers: headers() });
      const outside = await relay.request(path);
      expect(inside.status).toBe(outside.status);
      expect(await inside.json()).toEqual(await outside.json());
    }
  });

  test('requires a key like the port', async () => {
    const response = await fetch('http://localhost/v1/runs');
    expect(response.status).toBe(401);
    expect(await response.json()).toMatchObject({ code: 'unauthorized' });
  });

  test('streams a run to its end', async () => {
    const response = await start('say 50');
    expect(response.headers.get('x-run-id')).toMatch(/^[0-9a-f-]{36}$/);
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    const text = await response.text();
    expect(text.match(/"type":"token"/g)).toHaveLength(50);
    expect(text).toContain('"type":"done"');
  });

  test('returns no body for a 204', async () => {
    const made = await fetch('http://localhost/v1/keys', {
      method: 'POST',
      headers: headers(),
      body: JSON.stringify({ name: 'short', scopes: ['runs'] }),
    });
    expect(made.status).toBe(201);
    const { id } = (await made.json()) as { id: string };
    const deleted = await fetch(`http://localhost/v1/keys/${id}`, {
      method: 'DELETE',
      headers: { authorization: `Bearer ${relay.apiKey}` },
    });
    expect(deleted.status).toBe(204);
    expect(deleted.body).toBeNull();
  });

  test('refuses a body that is not a string', async () => {
    const body = new Uint8Array(3);
    await expect(fetch('http://localhost/health', { method: 'POST', body })).rejects.toThrow(
      /string/,
    );
  });
});

describe('an in-process client', () => {
  let app: FastifyInstance;
  let closed = 0;
  let release = () => {};
  beforeEach(() => {
    closed = 0;
    app = fastify();
    const streaming = (raw: import('node:http').ServerResponse) => {
      raw.once('close', () => (closed += 1));
      raw.writeHead(200, { 'content-type': 'text/event-stream' });
      raw.write('data: 1\n\n');
    };
    app.get('/now', (_request, reply) => {
      reply.hijack();
      streaming(reply.raw);
    });
    app.get('/later', async (_request, reply) => {
      reply.hijack();
      await new Promise<void>((resolve) => (release = resolve));
      streaming(reply.raw);
    });
  });
  afterEach(() => app.close());

  test('disconnects by canceling the body', async () => {
    const response = await createInProcessFetch(app)('http://localhost/now');
    const reader = response.body!.getReader();
    expect(new TextDecoder().decode((await reader.read()).value)).toBe('data: 1\n\n');
    expect(closed).toBe(0);
    await reader.cancel();
    await until(() => closed === 1, 'the end of the response');
  });

  test('disconnects by its signal, and its read rejects with the reason', async () => {
    const connection = new AbortController();
    const response = await createInProcessFetch(app)('http://localhost/now', {
      signal: connection.signal,
    });
    const reader = response.body!.getReader();
    await reader.read();
    const next = reader.read();
    connection.abort(new Error('enough'));
    await expect(next).rejects.toThrow('enough');
    await until(() => closed === 1, 'the end of the response');
  });

  test('is rejected at once if it aborts before the response', async () => {
    const connection = new AbortController();
    const asked = createInProcessFetch(app)('http://localhost/later', {
      signal: connection.signal,
    });
    connection.abort(new Error('too slow'));
    await expect(asked).rejects.toThrow('too slow');
    await until(() => {
      release();
      return closed === 1;
    }, 'the end of the response');
  });

  test('is disconnected if it does not read and the buffer is full', async () => {
    let write: (text: string) => boolean = () => true;
    app.get('/much', (_request, reply) => {
      reply.hijack();
      reply.raw.once('close', () => (closed += 1));
      reply.raw.writeHead(200, { 'content-type': 'text/event-stream' });
      write = (text) => reply.raw.write(text);
    });
    const response = await createInProcessFetch(app)('http://localhost/much');
    const megabyte = 'x'.repeat(1024 * 1024);
    for (let n = 0; n < 15; n += 1) write(megabyte);
    await new Promise((resolve) => setImmediate(resolve));
    expect(closed).toBe(0);
    for (let n = 0; n < 17; n += 1) write(megabyte);
    await until(() => closed === 1, 'the end of the response');
    await expect(response.text()).rejects.toThrow('read too slowly');
  });

  test('sends no request if its signal is aborted already', async () => {
    const signal = AbortSignal.abort(new Error('never mind'));
    await expect(createInProcessFetch(app)('http://localhost/now', { signal })).rejects.toThrow(
      'never mind',
    );
    expect(closed).toBe(0);
  });
});
