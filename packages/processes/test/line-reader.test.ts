import { PassThrough } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { lineLimits, LineReader } from '../src/line-reader.ts';

/** A busy machine reads slowly. */
function createReader(limits = { ...lineLimits, slowLineMs: Infinity }) {
  const stream = new PassThrough();
  const lines: string[] = [];
  const tooLong: number[] = [];
  const reader = new LineReader(
    stream,
    { line: (line) => void lines.push(line), tooLong: (maxBytes) => tooLong.push(maxBytes) },
    limits,
  );
  return { stream, lines, tooLong, reader };
}

describe('the lines of a program', () => {
  it('are read as they are, however they are split into chunks', async () => {
    const { stream, lines } = createReader();
    for (const byte of Buffer.from('one\n\ntwo\r\né\nthe rest')) stream.write(Buffer.of(byte));
    await turn();
    expect(lines).toEqual(['one', '', 'two\r', 'é']);
  });

  it.each([
    ['in one piece', 'x'.repeat(200)],
    ['with an end', `${'x'.repeat(200)}\n`],
  ])('that are too long %s are an error, once, and nothing is read after it', async (_, long) => {
    const { stream, lines, tooLong } = createReader({
      ...lineLimits,
      slowLineMs: Infinity,
      maxLineBytes: 100,
    });
    stream.write(long);
    stream.write(`\nnext\n${'x'.repeat(200)}`);
    await turn();
    expect(tooLong).toEqual([100]);
    expect(lines).toEqual([]);
  });

  it('above the limit wait for the next second', async () => {
    const { stream, lines } = createReader({
      ...lineLimits,
      slowLineMs: Infinity,
      linesPerSecond: 10,
    });
    stream.write('line\n'.repeat(20));
    await turn();
    stream.write('line\n');
    await turn();
    expect(lines).toHaveLength(20);
    expect(stream.isPaused()).toBe(true);
    await expect.poll(() => lines.length, { timeout: 5_000 }).toBe(21);
  });

  it('that take long to handle are followed by a pause', async () => {
    vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
    try {
      const stream = new PassThrough();
      const lines: unknown[] = [];
      const reader = new LineReader(stream, {
        line: (line) => {
          lines.push(line);
          vi.advanceTimersByTime(lines.length === 1 ? 10 : 500);
        },
        tooLong: () => undefined,
      });
      stream.write('line\n');
      await turn();
      expect(lines).toHaveLength(1);
      expect(stream.isPaused()).toBe(false);
      stream.write('line\n');
      await turn();
      expect(lines).toHaveLength(2);
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

  it('wait for the promise of the line before, while the program is held back', async () => {
    const stream = new PassThrough({ highWaterMark: 64 });
    const lines: string[] = [];
    let handled = Promise.withResolvers<void>();
    const reader = new LineReader(stream, {
      line: (line) => {
        lines.push(line);
        return handled.promise;
      },
      tooLong: () => undefined,
    });
    stream.write('one\ntwo\nthr');
    await turn();
    expect(lines).toEqual(['one']);
    expect(stream.write('e'.repeat(100))).toBe(false);
    const first = handled;
    handled = Promise.withResolvers<void>();
    first.resolve();
    await turn();
    expect(lines).toEqual(['one', 'two']);
    handled.reject(new Error('a listener that fails does not stop the reading'));
    handled = Promise.withResolvers<void>();
    await turn();
    stream.write('\n');
    await turn();
    expect(lines).toEqual(['one', 'two', `thr${'e'.repeat(100)}`]);
    reader.end();
  });
});
