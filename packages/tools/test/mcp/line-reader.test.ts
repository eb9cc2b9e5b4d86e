import { PassThrough } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import type { JSONRPCMessage } from '@modelcontextprotocol/client';
import { describe, expect, it, vi } from 'vitest';
import { lineLimits, LineReader } from '../../src/mcp/line-reader.ts';

/** A busy machine reads slowly. */
function createReader(limits = { ...lineLimits, slowParseMs: Infinity }) {
  const stream = new PassThrough();
  const messages: JSONRPCMessage[] = [];
  const errors: string[] = [];
  const reader = new LineReader(
    stream,
    { message: (message) => messages.push(message), failed: ({ message }) => errors.push(message) },
    limits,
  );
  return { stream, messages, errors, reader };
}

const message = (id: number) => JSON.stringify({ jsonrpc: '2.0', id, method: 'ping' });

describe('the lines of a program', () => {
  it('are parsed as messages, however they are split into chunks', async () => {
    const { stream, messages } = createReader();
    const bytes = Buffer.from(`${message(1)}\n${message(2)}\r\n{"jsonrpc":"2.0","method":"é"}\n`);
    for (const byte of bytes) stream.write(Buffer.of(byte));
    await turn();
    expect(messages).toEqual([
      JSON.parse(message(1)),
      JSON.parse(message(2)),
      { jsonrpc: '2.0', method: 'é' },
    ]);
  });

  it('that are not messages are skipped', async () => {
    const { stream, messages, errors } = createReader();
    stream.write(`Welcome!\n\n{broken\n[1]\n{"id":{}}\nnull\n${message(1)}\n`);
    await turn();
    expect(messages).toHaveLength(1);
    expect(errors).toEqual([]);
  });

  it.each([
    ['in one piece', 'x'.repeat(200)],
    ['with an end', `${'x'.repeat(200)}\n`],
  ])('that are too long %s are an error, once, and nothing is read after it', async (_, long) => {
    const { stream, messages, errors } = createReader({
      ...lineLimits,
      slowParseMs: Infinity,
      maxLineBytes: 100,
    });
    stream.write(long);
    stream.write(`\n${message(1)}\n${'x'.repeat(200)}`);
    await turn();
    expect(errors).toEqual(['The MCP program sent a line of more than 100 bytes']);
    expect(messages).toEqual([]);
  });

  it('above the limit wait for the next second', async () => {
    const { stream, messages } = createReader({
      ...lineLimits,
      slowParseMs: Infinity,
      linesPerSecond: 10,
    });
    stream.write(`${message(1)}\n`.repeat(20));
    await turn();
    stream.write(`${message(2)}\n`);
    await turn();
    expect(messages).toHaveLength(20);
    expect(stream.isPaused()).toBe(true);
    await expect.poll(() => messages.length, { timeout: 5_000 }).toBe(21);
  });

  it('that take long to parse are followed by a pause', async () => {
    vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
    try {
      const stream = new PassThrough();
      const heard: unknown[] = [];
      const reader = new LineReader(stream, {
        message: (message) => {
          heard.push(message);
          vi.advanceTimersByTime(heard.length === 1 ? 10 : 500);
        },
        failed: (error) => heard.push(error),
      });
      const line = '{"jsonrpc":"2.0","method":"x"}\n';
      stream.write(line);
      await turn();
      expect(heard).toHaveLength(1);
      expect(stream.isPaused()).toBe(false);
      stream.write(line);
      await turn();
      expect(heard).toHaveLength(2);
      expect(stream.isPaused()).toBe(true);
      vi.advanceTimersByTime(1_999);
      expect(stream.isPaused()).toBe(true);
      vi.advanceTimersByTime(1);
      expect(stream.isPaused()).toBe(false);
      reader.end();
    } finally {
      vi.useRealTimers();
    }
  });
});
