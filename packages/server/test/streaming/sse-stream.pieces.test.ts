import { createServer, get } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dialects, readSse } from '@relay/protocol';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { encodeBatch, runProjection, SseStream } from '../../src/streaming/sse-stream.ts';
import { placed, token } from '../support/journal.ts';

const run = { runId: 'r', conversationId: 'c', correlationId: 'k' };
const faces = '😀'.repeat(100_000);
let sending: (stream: SseStream) => Promise<void>;

const server = createServer((_request, response) => {
  const stream = new SseStream(response);
  void sending(stream).then(() => stream.end());
});
beforeAll(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)));
afterAll(() => server.close());

function received(): Promise<string[]> {
  const { port } = server.address() as AddressInfo;
  return new Promise((resolve, reject) => {
    get({ host: '127.0.0.1', port }, (response) => {
      void dataOf(response).then(resolve, reject);
    }).once('error', reject);
  });
}

async function dataOf(body: AsyncIterable<Uint8Array>): Promise<string[]> {
  const all: string[] = [];
  for await (const { data } of readSse(body)) all.push(data);
  return all;
}

describe('a large text', () => {
  it.each([0, 1, 2, 3])(
    'is split between characters, never within one (%i before it)',
    async (n) => {
      const text = 'x'.repeat(n) + faces;
      sending = (stream) => stream.send(`data: ${text}\n\n`);
      expect(await received()).toEqual([text]);
    },
  );

  it('is encoded in pieces that end between frames', () => {
    const events = placed(Array.from({ length: 300 }, (_, n) => token('word '.repeat(n))));
    const pieces: string[] = [];
    for (const making = encodeBatch(events, runProjection(dialects.chat, run)); ;) {
      const { value, done } = making.next();
      pieces.push(value);
      if (done === true) break;
    }
    expect(pieces.length).toBeGreaterThan(2);
    const frames = events.map(
      (event) => encodeBatch([event], runProjection(dialects.chat, run)).next().value,
    );
    expect(pieces.join('')).toBe(frames.join(''));
    for (const piece of pieces) expect(piece.endsWith('\n\n')).toBe(true);
  });
});
