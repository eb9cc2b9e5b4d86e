import { once } from 'node:events';
import { Readable } from 'node:stream';
import { getHeapStatistics } from 'node:v8';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createOutboundGuard } from '../../src/http/guard.ts';
import { createProviderFetch } from '../../src/http/provider-fetch.ts';
import { type ScriptedProvider, startScriptedProvider } from '../support/index.ts';

const apiKey = 'sk-test-9fQ4mZ7xL2pR8vW1';

let provider: ScriptedProvider;
beforeEach(async () => {
  provider = await startScriptedProvider((response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end('data: 1\n\n');
  });
});
afterEach(() => provider.close());

const post = (more: RequestInit = {}): RequestInit => ({ method: 'POST', body: '{}', ...more });
const fetchIt = (options: Partial<Parameters<typeof createProviderFetch>[0]> = {}) =>
  createProviderFetch({ apiKey, ...options });

describe('provider fetch', () => {
  it('posts and streams the response', async () => {
    const response = await fetchIt()(provider.baseUrl, post({ headers: { 'X-Key': 'k' } }));
    expect(response.status).toBe(200);
    expect(await response.text()).toBe('data: 1\n\n');
    expect(provider.requests[0]).toMatchObject({
      path: '/v1',
      headers: { 'x-key': 'k' },
      body: {},
    });
  });

  it('reuses its connection after a complete response', async () => {
    const guard = createOutboundGuard(['127.0.0.0/8']);
    const fetcher = fetchIt({ agent: guard.agentFor(new URL(provider.baseUrl)) });
    for (const _ of [1, 2, 3]) await (await fetcher(provider.baseUrl, post())).text();
    expect(provider.connections.made).toBe(1);
    guard.close();
  });

  it('connects only where the guard allows it', async () => {
    const guard = createOutboundGuard();
    const url = new URL(provider.baseUrl.replace('127.0.0.1', 'localhost'));
    const going = fetchIt({ agent: guard.agentFor(url) })(url, post());
    await expect(going).rejects.toThrow('resolves to an address that is not allowed');
    expect(provider.requests).toHaveLength(0);
    guard.close();
  });

  it('does not follow a redirect', async () => {
    provider.script((response) => {
      response.writeHead(302, { location: 'http://169.254.169.254/latest/meta-data' }).end();
    });
    await expect(fetchIt()(provider.baseUrl, post())).rejects.toThrow('The provider answered 302');
    expect(provider.requests).toHaveLength(1);
  });

  it('refuses a response that is not a stream', async () => {
    provider.script((response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"message":"Hello"}');
    });
    await expect(fetchIt()(provider.baseUrl, post())).rejects.toThrow(
      'The provider answered without a stream: Hello',
    );
  });

  it('limits the size of a frame', async () => {
    provider.script((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const piece = Buffer.alloc(1024 * 1024, 'x');
      const write = () => {
        while (!response.destroyed && response.write(piece));
      };
      response.on('drain', write);
      write();
    });
    const response = await fetchIt()(provider.baseUrl, post());
    await expect(response.text()).rejects.toThrow('a frame that is too long');
  });

  it('limits the frames of all responses together, and frees what a response held', async () => {
    const frameBytes = 40 * 1024 * 1024;
    const piece = Buffer.alloc(1024 * 1024, 'x');
    provider.script((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const pieces = Array.from({ length: frameBytes / piece.byteLength }, () => piece);
      Readable.from(pieces).pipe(response, { end: false });
    });
    /** Reads the frame, which does not end; `end` closes its connection. */
    const read = async () => {
      const response = await fetchIt()(provider.baseUrl, post());
      const reader = response.body?.getReader();
      let bytes = 0;
      while (bytes < frameBytes) bytes += (await reader?.read())?.value?.byteLength ?? frameBytes;
      return { end: () => reader?.cancel() };
    };
    const count = Math.ceil(getHeapStatistics().heap_size_limit / 16 / frameBytes) + 2;
    const readings = await Promise.allSettled(Array.from({ length: count }, read));
    const refused = readings.filter(({ status }) => status === 'rejected');
    expect(refused.length).toBeGreaterThan(0);
    expect(refused.length).toBeLessThan(count);
    for (const reading of readings) if (reading.status === 'fulfilled') await reading.value.end();
    await (await read()).end();
  });

  it('does not limit the size of a response with short frames', async () => {
    const frame = `data: ${'x'.repeat(1024 * 1024 - 8)}\n\n`;
    provider.script(async (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (let n = 0; n < 80; n += 1) {
        if (!response.write(frame)) await once(response, 'drain');
      }
      response.end();
    });
    const response = await fetchIt()(provider.baseUrl, post());
    let bytes = 0;
    for await (const chunk of response.body ?? []) bytes += chunk.byteLength;
    expect(bytes).toBe(80 * frame.length);
  });

  it('applies the timeouts for the first byte and between chunks', async () => {
    provider.script((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.flushHeaders();
      setTimeout(() => response.write('data: 1\n\n'), 300);
    });
    const response = await fetchIt({ timeouts: { firstByteMs: 5_000, idleMs: 100 } })(
      provider.baseUrl,
      post(),
    );
    const reader = response.body?.getReader();
    expect((await reader?.read())?.value?.toString()).toBeDefined();
    await expect(reader?.read()).rejects.toThrow('The provider sent nothing for 0.1 s');
  });

  it('closes the connection when its reader cancels or its signal aborts', async () => {
    provider.script((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: 1\n\n');
    });
    const left = await fetchIt()(provider.baseUrl, post());
    await left.body?.cancel();
    await expect.poll(() => provider.connections.open).toBe(0);
    const controller = new AbortController();
    const stopped = await fetchIt()(provider.baseUrl, post({ signal: controller.signal }));
    const reading = stopped.text();
    controller.abort();
    await expect(reading).rejects.toThrow('The model call was aborted');
    await expect.poll(() => provider.connections.open).toBe(0);
  });
});
