import { getEventListeners, once } from 'node:events';
import { createServer, get, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { dialects, type Frame, readSse, type StoredEvent } from '@relay/protocol';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DeadPeerDetector } from '../../src/streaming/dead-peers.ts';
import {
  encodeBatch,
  encodeFirstFrame,
  runProjection,
  SseStream,
} from '../../src/streaming/sse-stream.ts';
import { joined } from '../support/frames.ts';
import { placed, runEnded, settled, token } from '../support/journal.ts';

const run = { runId: 'run-1', conversationId: 'conversation-1', correlationId: 'request-1' };
const line = (text: string) => `data: ${text}\n\n`;
/** More than any socket buffers. */
const huge = line('x'.repeat(16 * 1024 * 1024));

interface Asked {
  readonly response: ServerResponse;
  readonly request: IncomingMessage;
}

const server = createServer();
const asked: Asked[] = [];
server.on('request', (request: IncomingMessage, response: ServerResponse) => {
  asked.push({ request, response });
});
const readers: Socket[] = [];

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});

afterEach(async () => {
  // First: spies on the fake clock would bring it back later.
  vi.restoreAllMocks();
  vi.useRealTimers();
  for (const reader of readers.splice(0)) reader.destroy();
  asked.length = 0;
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
});

const port = () => (server.address() as AddressInfo).port;

/** Polls by turns of the event loop, because timers are faked. */
async function eventually(look: () => boolean, what: string): Promise<void> {
  for (let turn = 0; turn < 100_000; turn += 1) {
    if (look()) return;
    await settled();
  }
  throw new Error(`Timed out waiting for ${what}`);
}

/** The response to the only request. */
async function askedResponse(): Promise<ServerResponse> {
  await eventually(() => asked.length > 0, 'the request');
  const [first] = asked;
  if (first === undefined) throw new Error('No request arrived');
  return first.response;
}

/** A client that reads, and its stream. */
async function readStream(headers: Record<string, string> = {}) {
  const answer = once(get({ port: port(), host: '127.0.0.1' }), 'response');
  const response = await askedResponse();
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  const stream = new SseStream(response);
  return { stream, response, answer: answer.then(([message]) => message as IncomingMessage) };
}

/** A client that does not read. */
async function stallStream() {
  const socket = connect(port(), '127.0.0.1');
  readers.push(socket);
  socket.pause();
  socket.on('error', () => undefined);
  socket.write('GET / HTTP/1.1\r\nhost: localhost\r\n\r\n');
  const response = await askedResponse();
  return { stream: new SseStream(response), response, socket };
}

/** Waits until the socket is full: a large text is sent in pieces. */
async function untilFull(response: ServerResponse): Promise<void> {
  let sent = -1;
  for (let quiet = 0; quiet < 50;) {
    await settled();
    const now = response.socket?.bytesWritten ?? 0;
    quiet = response.writableNeedDrain && now === sent ? quiet + 1 : 0;
    sent = now;
  }
}

/**
 * The intervals of this length that are started from now on. Those of other tests in this process do not
 * count.
 */
function watchIntervals(ms: number) {
  const started = vi.spyOn(globalThis, 'setInterval');
  const cleared = vi.spyOn(globalThis, 'clearInterval');
  const all = () =>
    started.mock.results.flatMap(({ value }, call) =>
      started.mock.calls[call]?.[1] === ms ? [value as unknown] : [],
    );
  const isCleared = (timer: unknown) => cleared.mock.calls.some(([given]) => given === timer);
  return {
    started: () => all().length,
    open: () => all().filter((timer) => !isCleared(timer)).length,
  };
}

async function textOf(message: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of message) text += String(chunk);
  return text;
}

describe('SseStream', () => {
  it('sends the SSE headers and forbids caching', async () => {
    const { stream, answer } = await readStream({ 'x-run-id': 'run-1' });
    const { statusCode, headers } = await answer;
    void stream.end();
    expect(statusCode).toBe(200);
    expect(headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
      'x-run-id': 'run-1',
    });
  });

  it('sends its headers before the first frame', async () => {
    const { stream, answer } = await readStream();
    expect((await answer).statusCode).toBe(200);
    void stream.end();
  });

  it('sends texts in order and then ends', async () => {
    const { stream, answer } = await readStream();
    await stream.send(line('one'));
    await stream.send('');
    await stream.send(line('two'));
    void stream.end(line('three'));
    expect(await textOf(await answer)).toBe(line('one') + line('two') + line('three'));
  });

  it('may be ended twice', async () => {
    const { stream, answer } = await readStream();
    void stream.end(line('last'));
    void stream.end();
    expect(await textOf(await answer)).toBe(line('last'));
  });

  it('sends nothing after it was ended', async () => {
    const { stream, response, answer } = await readStream();
    const faults = vi.fn();
    response.on('error', faults);
    await stream.send(line('one'));
    expect(stream.isOver).toBe(false);
    void stream.end();
    expect(stream.isOver).toBe(true);
    await stream.send(line('two'));
    expect(await textOf(await answer)).toBe(line('one'));
    await eventually(() => stream.closed.aborted, 'the close');
    await stream.send(line('three'));
    expect(faults).not.toHaveBeenCalled();
  });

  it('does not split surrogate pairs of a long text', async () => {
    for (const before of [65_534, 65_535, 65_536, 131_070, 131_071]) {
      const text = line(`${'x'.repeat(before - 'data: '.length)}💥${'y'.repeat(100_000)}`);
      const { stream, answer } = await readStream();
      const reading = textOf(await answer);
      await stream.send(text);
      void stream.end();
      expect((await reading) === text, `${before}`).toBe(true);
      asked.length = 0;
    }
  });

  it('writes a short text at once', async () => {
    const { stream, response } = await readStream();
    const writes = vi.spyOn(response, 'write');
    await stream.send(line('one') + line('two'));
    expect(writes).toHaveBeenCalledTimes(1);
    void stream.end();
  });
});

describe('the closed signal', () => {
  it('is aborted when the client disconnects', async () => {
    const { stream, socket } = await stallStream();
    expect(stream.closed.aborted).toBe(false);
    socket.destroy();
    await eventually(() => stream.closed.aborted, 'the close');
    await stream.send(line('not read'));
    void stream.end();
  });

  it('is aborted from the start if the client has disconnected already', async () => {
    const socket = connect(port(), '127.0.0.1');
    socket.write('GET / HTTP/1.1\r\nhost: localhost\r\n\r\n');
    const response = await askedResponse();
    socket.destroy();
    await eventually(() => response.closed, 'the close');
    const heartbeats = watchIntervals(1_000);
    const stream = new SseStream(response);
    expect(stream.closed.aborted).toBe(true);
    await stream.send(line('not read'));
    expect(heartbeats.started()).toBe(0);
  });
});

describe('a client that does not read', () => {
  it('applies backpressure', async () => {
    const { stream, response } = await stallStream();
    let sent = false;
    const sending = stream.send(huge).then(() => {
      sent = true;
    });
    await eventually(() => response.writableNeedDrain, 'a full socket');
    for (let turn = 0; turn < 50; turn += 1) await settled();
    expect(sent).toBe(false);
    expect(response.writableLength).toBeLessThanOrEqual(huge.length + 1024);
    response.destroy();
    await sending;
  });

  it('is disconnected after a minute', async () => {
    const { stream, response } = await stallStream();
    const timeouts = watchIntervals(60_000);
    let sent = false;
    const sending = stream.send(huge).then(() => {
      sent = true;
    });
    await untilFull(response);
    vi.advanceTimersByTime(60_000 - 1);
    for (let turn = 0; turn < 20; turn += 1) await settled();
    expect(response.destroyed).toBe(false);
    expect(sent).toBe(false);
    vi.advanceTimersByTime(1);
    await eventually(() => response.destroyed, 'the disconnection');
    await sending;
    await eventually(() => stream.closed.aborted, 'the close');
    expect([timeouts.started() > 0, timeouts.open()]).toEqual([true, 0]);
  });

  it('is disconnected if it stops at the last text', async () => {
    const { stream, response } = await stallStream();
    void stream.end(huge);
    await eventually(() => response.writableLength > 0, 'a full socket');
    for (let second = 0; second < 600 && !response.destroyed; second += 1) {
      vi.advanceTimersByTime(1_000);
      await settled();
    }
    expect(response.destroyed).toBe(true);
  });

  it('receives the last text completely, however slowly it reads', async () => {
    const { stream, response, socket } = await stallStream();
    let taken = 0;
    socket.on('data', (chunk) => {
      taken += chunk.length;
      socket.pause();
    });
    const ending = stream.end(huge);
    await untilFull(response);
    let elapsedMs = 0;
    while (!response.writableFinished && !response.destroyed) {
      vi.advanceTimersByTime(20_000);
      elapsedMs += 20_000;
      const sent = response.socket?.bytesWritten ?? 0;
      await eventually(() => {
        socket.resume();
        const sentNow = response.socket?.bytesWritten ?? Infinity;
        return sentNow > sent || response.writableFinished || response.destroyed;
      }, 'the reader to read on');
    }
    await ending;
    expect(response.writableFinished).toBe(true);
    expect(elapsedMs).toBeGreaterThan(60_000);
    await eventually(() => {
      socket.resume();
      return taken > huge.length;
    }, 'all of the text');
  });

  it('gets no heartbeat while data is buffered', async () => {
    const { stream, response } = await stallStream();
    const sending = stream.send(huge);
    await untilFull(response);
    const waits = response.writableLength;
    vi.advanceTimersByTime(15_000);
    expect(response.writableLength).toBe(waits);
    response.destroy();
    await sending;
  });

  it('continues if it reads in time', async () => {
    const { stream, response, socket } = await stallStream();
    const timeouts = watchIntervals(60_000);
    const sending = stream.send(huge);
    await untilFull(response);
    vi.advanceTimersByTime(29_000);
    let got = 0;
    socket.on('data', (chunk) => {
      got += chunk.length;
    });
    socket.resume();
    await sending;
    expect([timeouts.started() > 0, timeouts.open()]).toEqual([true, 0]);
    vi.advanceTimersByTime(60_000);
    expect(response.destroyed).toBe(false);
    void stream.end(line('the end'));
    await eventually(() => got > huge.length, 'all of the text');
  });

  it('is not disconnected while it reads slowly', async () => {
    const { stream, response, socket } = await stallStream();
    const sending = stream.send(huge);
    await untilFull(response);
    const taken = { bytes: 0 };
    socket.on('data', (chunk) => {
      taken.bytes += chunk.length;
      socket.pause();
    });
    for (const megabytes of [1, 2, 3, 4, 5, 6]) {
      vi.advanceTimersByTime(10_000);
      await eventually(() => {
        socket.resume();
        return response.destroyed || taken.bytes >= megabytes * 1024 * 1024;
      }, 'the reader to read on');
    }
    const cutOff = response.destroyed;
    response.destroy();
    await sending;
    expect(cutOff).toBe(false);
  });

  it('leaves no listeners', async () => {
    const { stream, response, socket } = await stallStream();
    const before = response.listenerCount('drain');
    const closers = getEventListeners(stream.closed, 'abort').length;
    socket.resume();
    for (let n = 0; n < 20; n += 1) await stream.send(huge.slice(0, 1024 * 1024));
    expect(response.listenerCount('drain')).toBe(before);
    expect(getEventListeners(stream.closed, 'abort')).toHaveLength(closers);
    void stream.end();
  });
});

describe('heartbeats', () => {
  it('are comments, every 15 seconds, and no frames', async () => {
    const { stream, answer } = await readStream();
    const message = await answer;
    const comments: string[] = [];
    const frames: string[] = [];
    const reading = (async () => {
      for await (const frame of readSse(message, { onComment: (text) => comments.push(text) })) {
        frames.push(frame.data);
      }
    })();
    vi.advanceTimersByTime(14_999);
    for (let turn = 0; turn < 20; turn += 1) await settled();
    expect(comments).toEqual([]);
    vi.advanceTimersByTime(1);
    await eventually(() => comments.length === 1, 'a heartbeat');
    vi.advanceTimersByTime(15_000);
    await eventually(() => comments.length === 2, 'another one');
    void stream.end(line('done'));
    await reading;
    expect(frames).toEqual(['done']);
    expect(new Set(comments)).toEqual(new Set(['heartbeat']));
  });

  it('share one timer, which stops without streams', async () => {
    const sockets = Array.from({ length: 5 }, () => {
      const socket = connect(port(), '127.0.0.1');
      readers.push(socket);
      socket.resume();
      socket.write('GET / HTTP/1.1\r\nhost: localhost\r\n\r\n');
      return socket;
    });
    await eventually(() => asked.length === 5, 'five requests');
    const heartbeats = watchIntervals(1_000);
    const streams = asked.map(({ response }) => new SseStream(response));
    expect(heartbeats.open()).toBe(1);
    for (const stream of streams.slice(0, 4)) void stream.end();
    expect(heartbeats.open()).toBe(1);
    sockets.at(-1)?.destroy();
    sockets.forEach((socket) => socket.destroy());
    await eventually(() => heartbeats.open() === 0, 'the end of the timer');
    expect(heartbeats.started()).toBe(1);
  });

  it.each([
    ['once after each heartbeat', false, 2],
    ['twice if a peer was silent at the first check', true, 4],
  ])('read the connections of the machine %s', async (_often, hasSilent, count) => {
    const check = vi.spyOn(DeadPeerDetector.prototype, 'check').mockResolvedValue();
    const silent = vi.spyOn(DeadPeerDetector.prototype, 'hasSilent', 'get');
    silent.mockReturnValue(hasSilent);
    try {
      const { stream, answer } = await readStream();
      vi.advanceTimersByTime(30_000);
      expect(check).toHaveBeenCalledTimes(count);
      void stream.end(line('done'));
      await textOf(await answer);
    } finally {
      check.mockRestore();
      silent.mockRestore();
    }
  });

  it('are never sent in the middle of a frame', async () => {
    const { stream, answer } = await readStream();
    const message = await answer;
    const frames: string[] = [];
    const reading = (async () => {
      for await (const frame of readSse(message, { maxFrameChars: 2 * huge.length })) {
        frames.push(frame.data);
      }
    })();
    let sent = false;
    const sending = stream.send(huge).then(() => {
      sent = true;
    });
    await eventually(() => {
      stream.sendHeartbeat();
      return sent;
    }, 'the frame to be sent');
    await sending;
    void stream.end();
    await reading;
    expect(frames.map((data) => data.length)).toEqual([16 * 1024 * 1024]);
  });

  it('stop when the stream ends', async () => {
    const { stream, answer } = await readStream();
    void stream.end(line('done'));
    vi.advanceTimersByTime(60_000);
    expect(await textOf(await answer)).toBe(line('done'));
  });
});

describe('encoding', () => {
  const events: StoredEvent[] = placed([token('a'), runEnded], 6);

  it('numbers frames by seq and omits events without a frame', () => {
    expect(joined(encodeBatch(events, runProjection(dialects.runs, run)))).toBe(
      'id: 7\ndata: {"type":"token","text":"a"}\n\n' +
        'id: 8\ndata: {"type":"done","status":"completed","output":"","usage":{"input_tokens":0,"output_tokens":0}}\n\n',
    );
    expect(joined(encodeBatch(events.slice(1), runProjection(dialects.chat, run)))).toBe('');
  });

  it('adds the event name if the dialect has one', () => {
    expect(joined(encodeBatch(events, runProjection(dialects.chat, run)))).toMatch(
      /^id: 7\nevent: text\ndata: \{.*\}\n\n$/,
    );
  });

  it('adds no id to the first frame', () => {
    const greeting: Frame = { type: 'connected', sessionId: 's' };
    expect(encodeFirstFrame(greeting, dialects.chat)).toBe(
      'event: connected\ndata: {"type":"connected","sessionId":"s"}\n\n',
    );
    expect(encodeFirstFrame(greeting, dialects.runs)).toBe(
      'data: {"type":"connected","sessionId":"s"}\n\n',
    );
  });

  it.each(['\n\ndata: x', '\r\r', '\r\n\r\nid: 9', 'a\u2028b\u2029c', '\0', '\ud800'])(
    'keeps %j inside one frame',
    async (text) => {
      for (const dialect of Object.values(dialects)) {
        const encoded = joined(encodeBatch(placed([token(text)], 6), runProjection(dialect, run)));
        const frames = [];
        for await (const frame of readSse(bytesOf(encoded))) frames.push(frame);
        expect(frames).toHaveLength(1);
        expect(frames[0]?.id).toBe('7');
        expect(Object.values(JSON.parse(frames[0]?.data ?? '') as object)).toContain(text);
      }
    },
  );

  async function* bytesOf(text: string): AsyncGenerator<Uint8Array> {
    yield Buffer.from(text);
  }
});
