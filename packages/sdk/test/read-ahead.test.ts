import { describe, expect, test } from 'vitest';
import { readAhead } from '../src/read-ahead.ts';
import { collect, settled } from './support/fake-server.ts';

async function* counting(to: number, read: number[] = []): AsyncGenerator<number> {
  for (let n = 1; n <= to; n += 1) {
    read.push(n);
    yield n;
  }
}

const idle = () => ({ heard: () => {}, left: new AbortController() });

describe('reading ahead', () => {
  test('hands out everything, once and in order', async () => {
    const heard: number[] = [];
    const source = counting(500);
    const items = readAhead({ ...idle(), source, limit: 7, heard: (n) => heard.push(n) });
    const all = await collect(items);
    expect(all).toEqual(Array.from({ length: 500 }, (_, index) => index + 1));
    expect(heard).toEqual(all);
  });

  test('hears while the consumer is busy, up to a bound', async () => {
    const heard: number[] = [];
    const source = counting(100);
    const items = readAhead({ ...idle(), source, limit: 10, heard: (n) => heard.push(n) });
    await items.next();
    await settled();
    expect(heard.length).toBeGreaterThanOrEqual(10);
    expect(heard.length).toBeLessThanOrEqual(12);
    await items.next();
    await settled();
    expect(heard.length).toBeLessThanOrEqual(13);
    await items.return();
  });

  test('hands out what came before a failure, and then the failure', async () => {
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

  test('lets the source end when the consumer leaves, even while it waits', async () => {
    const left = new AbortController();
    let ended = false;
    async function* waiting() {
      try {
        yield 1;
        await new Promise((resolve) => left.signal.addEventListener('abort', resolve));
      } finally {
        ended = true;
      }
    }
    const items = readAhead({
      ...idle(),
      source: waiting(),
      limit: 9,
      left,
    });
    for await (const _ of items) break;
    expect(ended).toBe(true);
  });

  test('lets go of a source that waits for room', async () => {
    const read: number[] = [];
    for await (const _ of readAhead({ ...idle(), source: counting(100, read), limit: 3 })) {
      await settled();
      break;
    }
    expect(read.length).toBeLessThan(10);
  });

  test('hands out what is false, too', async () => {
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
