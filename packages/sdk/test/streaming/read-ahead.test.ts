import { describe, expect, test } from 'vitest';
import { readAhead } from '../../src/streaming/read-ahead.ts';
import { collect, settled } from '../support/fake-server.ts';

async function* counting(to: number, read: number[] = []): AsyncGenerator<number> {
  for (let n = 1; n <= to; n += 1) {
    read.push(n);
    yield n;
  }
}

const idle = () => ({ onItem: () => {}, stopped: new AbortController() });

describe('readAhead', () => {
  test('yields every item once, in order', async () => {
    const read: number[] = [];
    const source = counting(500);
    const items = readAhead({ ...idle(), source, limit: 7, onItem: (n) => read.push(n) });
    const all = await collect(items);
    expect(all).toEqual(Array.from({ length: 500 }, (_, index) => index + 1));
    expect(read).toEqual(all);
  });

  test('reads while the consumer is busy, up to the limit', async () => {
    const read: number[] = [];
    const source = counting(100);
    const items = readAhead({ ...idle(), source, limit: 10, onItem: (n) => read.push(n) });
    await items.next();
    await settled();
    expect(read.length).toBeGreaterThanOrEqual(10);
    expect(read.length).toBeLessThanOrEqual(12);
    await items.next();
    await settled();
    expect(read.length).toBeLessThanOrEqual(13);
    await items.return();
  });

  test('yields the items before a failure, then throws it', async () => {
    async function* failing() {
      yield 1;
      yield 2;
      throw new Error('broke');
    }
    const seen: number[] = [];
    const read = async () => {
      for await (const n of readAhead({ ...idle(), source: failing(), limit: 9 })) seen.push(n);
    };
    await expect(read()).rejects.toThrow('broke');
    expect(seen).toEqual([1, 2]);
  });

  test('ends a waiting source when the consumer stops', async () => {
    const stopped = new AbortController();
    let ended = false;
    async function* waiting() {
      try {
        yield 1;
        await new Promise((resolve) => stopped.signal.addEventListener('abort', resolve));
      } finally {
        ended = true;
      }
    }
    const items = readAhead({
      ...idle(),
      source: waiting(),
      limit: 9,
      stopped,
    });
    for await (const _ of items) break;
    expect(ended).toBe(true);
  });

  test('ends a source that waits for buffer space', async () => {
    const read: number[] = [];
    for await (const _ of readAhead({ ...idle(), source: counting(100, read), limit: 3 })) {
      await settled();
      break;
    }
    expect(read.length).toBeLessThan(10);
  });

  test('yields falsy items', async () => {
    async function* falsy() {
      yield 0;
      yield '';
      yield null;
      yield false;
    }
    expect(await collect(readAhead({ ...idle(), source: falsy(), limit: 9 }))).toEqual([
      0,
      '',
      null,
      false,
    ]);
  });
});
