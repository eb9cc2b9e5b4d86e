import { once } from 'node:events';
import { createServer, get, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { until } from '../../../../test/support/kernel.ts';
import type { ApiRequest } from '../../src/http/handlers/handler.ts';
import { streamJson } from '../../src/streaming/stream-json.ts';
import { settled } from '../support/journal.ts';

let pieces: () => AsyncIterable<string>;
let open = 0;
const responses: ServerResponse[] = [];
const logged: unknown[] = [];

const server = createServer((_request, response) => {
  responses.push(response);
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
      await settled();
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

/** A client that has received what fits into the buffers of the sockets, and no more. */
async function pausedClient(): Promise<{ socket: Socket; response: ServerResponse }> {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date'],
  });
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  socket.pause();
  socket.on('error', () => undefined);
  responses.length = 0;
  socket.write('GET / HTTP/1.1\r\nhost: localhost\r\n\r\n');
  let sent = -1;
  for (let quiet = 0; quiet < 50;) {
    await settled();
    const now = responses[0]?.socket?.bytesWritten ?? 0;
    const isFull = responses.some((response) => response.writableNeedDrain);
    quiet = isFull && now === sent ? quiet + 1 : 0;
    sent = now;
  }
  const [response] = responses;
  if (response === undefined) throw new Error('No request arrived');
  return { socket, response };
}

/** Lets time pass on the timers, and what they start complete. */
async function pass(ms: number): Promise<void> {
  vi.advanceTimersByTime(ms);
  for (let turn = 0; turn < 1_000; turn += 1) await settled();
}

describe('a client that takes long', () => {
  afterEach(() => {
    vi.useRealTimers();
    for (const response of responses) response.destroy();
  });

  it('is disconnected if it receives nothing for a minute', async () => {
    const seen = endless();
    const { socket } = await pausedClient();
    // The kernel still moves data between its own buffers, in its own time.
    for (let second = 0; second < 10_000 && !seen.isClosed; second += 1) {
      await pass(1_000);
    }
    expect(seen.isClosed).toBe(true);
    socket.destroy();
  });

  it('is not disconnected while it receives something, however little', async () => {
    endless();
    const { socket, response } = await pausedClient();
    const taken = { bytes: 0 };
    socket.on('data', (chunk) => {
      taken.bytes += chunk.length;
      socket.pause();
    });
    for (let round = 1; round <= 8; round += 1) {
      await pass(1_000);
      // More than the kernel of the client needs to acknowledge any of it.
      const enough = round * 1024 * 1024;
      for (let turn = 0; turn < 100_000 && taken.bytes < enough; turn += 1) {
        socket.resume();
        await settled();
      }
      expect(taken.bytes).toBeGreaterThanOrEqual(enough);
      // The kernel acknowledges in real time.
      for (let turn = 0; turn < 5_000; turn += 1) await settled();
      await pass(59_000);
      expect(response.destroyed).toBe(false);
    }
    socket.destroy();
  });
});
