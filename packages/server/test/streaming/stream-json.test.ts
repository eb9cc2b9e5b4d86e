import { once } from 'node:events';
import { createServer, get, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../../../test/support/kernel.ts';
import type { ApiRequest } from '../../src/http/handlers/handler.ts';
import { streamJson } from '../../src/streaming/stream-json.ts';

let pieces: () => AsyncIterable<string>;
let open = 0;
const logged: unknown[] = [];

const server = createServer((_request, response) => {
  const call = {
    reply: { raw: response, hijack: () => undefined },
    request: { id: 'request-1' },
    caller: {},
    context: {
      streams: {
        add() {
          open += 1;
          return () => (open -= 1);
        },
      },
      log: { error: (...said: unknown[]) => logged.push(said) },
    },
  };
  void streamJson(call as unknown as ApiRequest, pieces());
});
beforeAll(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)));
afterAll(() => server.close());

async function request(): Promise<IncomingMessage> {
  const { port } = server.address() as AddressInfo;
  const [response] = (await once(get({ host: '127.0.0.1', port }), 'response')) as [
    IncomingMessage,
  ];
  return response;
}

const megabyte = 'x'.repeat(1024 * 1024);

/** Never ends; counts what is taken from it. */
function endless() {
  const seen = { taken: 0, isClosed: false };
  pieces = async function* () {
    try {
      for (;;) {
        seen.taken += 1;
        yield megabyte;
      }
    } finally {
      seen.isClosed = true;
    }
  };
  return seen;
}

describe('a JSON response that is written as it is read', () => {
  it('is complete, and its connection can be used again', async () => {
    pieces = async function* () {
      yield '{"a":[';
      yield '1';
      yield ']}';
    };
    const response = await request();
    expect(response.headers['content-type']).toBe('application/json; charset=utf-8');
    let text = '';
    for await (const chunk of response) text += String(chunk);
    expect(JSON.parse(text)).toEqual({ a: [1] });
    expect(response.complete).toBe(true);
    await until(async () => open === 0, 'the end');
  });

  it('reads no further than its client does, and stops when the client leaves', async () => {
    const seen = endless();
    const response = await request();
    response.pause();
    let before = -1;
    // What fits into the buffers of the sockets is taken, then nothing more.
    await until(async () => {
      const isStill = seen.taken === before;
      before = seen.taken;
      await new Promise((resolve) => setTimeout(resolve, 100));
      return isStill && seen.taken === before;
    }, 'the pause');
    expect(seen.taken).toBeLessThan(40);
    for (let read = 0; read < 3; read += 1) await once(response.resume(), 'data');
    await until(async () => seen.taken > before, 'more');
    response.destroy();
    await until(async () => seen.isClosed && open === 0, 'the end of reading');
    expect(logged).toEqual([]);
  });

  it('is cut off if it cannot be completed, so that a part is not taken for all', async () => {
    pieces = async function* () {
      yield '{"a":[1';
      throw new Error('The journal is damaged');
    };
    const response = await request();
    const read = async () => {
      for await (const chunk of response) void chunk;
    };
    await expect(read()).rejects.toThrow('aborted');
    expect(response.complete).toBe(false);
    await until(async () => open === 0, 'the end');
    expect(JSON.stringify(logged)).toContain('request-1');
  });
});
