import { describe, expect, test } from 'vitest';
import { AsyncQueue } from '../../src/runtime/async-queue.ts';

async function all<Item>(queue: AsyncIterable<Item>): Promise<Item[]> {
  const items: Item[] = [];
  for await (const item of queue) items.push(item);
  return items;
}

describe('AsyncQueue', () => {
  test('gives what is pushed, in order, before or after a reader waits for it', async () => {
    const queue = new AsyncQueue<number>();
    queue.push(1);
    const first = queue.next();
    const [second, third] = [queue.next(), queue.next()];
    queue.push(2);
    queue.push(3);
    expect(await Promise.all([first, second, third])).toEqual([
      { done: false, value: 1 },
      { done: false, value: 2 },
      { done: false, value: 3 },
    ]);
  });

  test('can be read to its end after it has ended', async () => {
    const queue = new AsyncQueue<number>();
    queue.push(1);
    queue.push(2);
    queue.end();
    queue.push(3);
    expect(await all(queue)).toEqual([1, 2]);
    expect(await queue.next()).toEqual({ done: true, value: undefined });
  });

  test('ends for everyone who waits', async () => {
    const queue = new AsyncQueue<number>();
    const waiting = [queue.next(), queue.next()];
    queue.end();
    expect(await Promise.all(waiting)).toEqual([
      { done: true, value: undefined },
      { done: true, value: undefined },
    ]);
  });

  test('holds many items without slowing down', async () => {
    const queue = new AsyncQueue<number>();
    for (let n = 0; n < 200_000; n += 1) queue.push(n);
    queue.end();
    const began = performance.now();
    const items = await all(queue);
    expect(items).toHaveLength(200_000);
    expect(items.every((item, index) => item === index)).toBe(true);
    // Shifting an array would take minutes.
    expect(performance.now() - began).toBeLessThan(15_000);
  });

  test('keeps the order when it is filled while it is being read', async () => {
    const queue = new AsyncQueue<number>();
    for (let n = 0; n < 1_500; n += 1) queue.push(n);
    const items: number[] = [];
    for await (const item of queue) {
      items.push(item);
      if (item < 1_500) queue.push(item + 1_500);
      if (item === 2_999) queue.end();
    }
    expect(items).toEqual(Array.from({ length: 3_000 }, (_, n) => n));
  });
});

describe('a failure', () => {
  test('comes after what is in the queue, and once', async () => {
    const queue = new AsyncQueue<number>();
    queue.push(1);
    queue.fail(new Error('Broken'));
    expect(await queue.next()).toEqual({ done: false, value: 1 });
    await expect(queue.next()).rejects.toThrow('Broken');
    expect(await queue.next()).toEqual({ done: true, value: undefined });
  });

  test('reaches the first waiting read; the others receive the end', async () => {
    const queue = new AsyncQueue<number>();
    const waiting = [queue.next(), queue.next()];
    queue.fail(new Error('Broken'));
    await expect(waiting[0]).rejects.toThrow('Broken');
    expect(await waiting[1]).toEqual({ done: true, value: undefined });
  });

  test('after the end is none', async () => {
    const queue = new AsyncQueue<number>();
    queue.end();
    queue.fail(new Error('Too late'));
    expect(await all(queue)).toEqual([]);
    expect(await queue.next()).toEqual({ done: true, value: undefined });
  });
});

describe('a reader that leaves', () => {
  test('is waited for, and its owner gets what was left unread', async () => {
    const told: unknown[] = [];
    const queue = new AsyncQueue<number>({
      left: async (unread) => {
        await new Promise((resolve) => setTimeout(resolve, 5));
        told.push(unread);
      },
      finished: () => told.push('finished'),
    });
    for (const n of [1, 2, 3]) queue.push(n);
    for await (const item of queue) {
      expect(item).toBe(1);
      break;
    }
    expect(told).toEqual(['finished', [2, 3]]);
    expect(await queue.next()).toEqual({ done: true, value: undefined });
  });

  test('leaves once, however often it says so', async () => {
    let left = 0;
    const queue = new AsyncQueue<number>({ left: async () => void (left += 1) });
    await Promise.all([queue.return(), queue.return(), queue[Symbol.asyncDispose]()]);
    expect(left).toBe(1);
  });

  test('may be waiting for the next item', async () => {
    let left = 0;
    const queue = new AsyncQueue<number>({ left: async () => void (left += 1) });
    const waiting = queue.next();
    await queue.return();
    expect(await waiting).toEqual({ done: true, value: undefined });
    expect(left).toBe(1);
  });

  test('leaves with its error when its loop throws', async () => {
    let left = 0;
    const queue = new AsyncQueue<number>({ left: async () => void (left += 1) });
    queue.push(1);
    const reading = (async () => {
      for await (const _ of queue) throw new Error('Of the reader');
    })();
    await expect(reading).rejects.toThrow('Of the reader');
    expect(left).toBe(1);
    await expect(queue.throw(new Error('Thrown in'))).rejects.toThrow('Thrown in');
  });

  test('leaves nothing unread after it received the end', async () => {
    const told: string[] = [];
    const queue = new AsyncQueue<number>({
      left: async () => void told.push('left'),
      finished: () => told.push('finished'),
    });
    queue.end();
    expect(told).toEqual([]);
    await all(queue);
    await queue.return();
    expect(told).toEqual(['finished']);
  });

  test('reports the unread items even after the end', async () => {
    const told: unknown[] = [];
    const queue = new AsyncQueue<number>({ left: async (unread) => void told.push(unread) });
    queue.push(1);
    queue.end();
    await queue.return();
    expect(told).toEqual([[1]]);
  });

  test('receives no failure', async () => {
    const queue = new AsyncQueue<number>();
    queue.fail(new Error('Broken'));
    await queue.return();
    expect(await queue.next()).toEqual({ done: true, value: undefined });
  });

  test('gets nothing that is pushed later', async () => {
    const queue = new AsyncQueue<number>();
    await queue.return();
    queue.push(1);
    expect(await queue.next()).toEqual({ done: true, value: undefined });
  });
});

describe('the owner', () => {
  test('is notified of the first read, once', async () => {
    let started = 0;
    const queue = new AsyncQueue<number>({ started: () => void (started += 1) });
    queue.push(1);
    expect(started).toBe(0);
    await queue.next();
    void queue.next();
    expect(started).toBe(1);
    queue.end();
  });

  test('may reopen the queue until the reader has received the end', async () => {
    const queue = new AsyncQueue<number>();
    queue.push(1);
    queue.end();
    queue.reopen();
    queue.push(2);
    queue.end();
    expect(await all(queue)).toEqual([1, 2]);
    queue.reopen();
    queue.push(3);
    expect(await queue.next()).toEqual({ done: true, value: undefined });
  });

  test('cannot open again what has failed', async () => {
    const queue = new AsyncQueue<number>();
    queue.fail(new Error('Broken'));
    queue.reopen();
    await expect(queue.next()).rejects.toThrow('Broken');
  });
});
