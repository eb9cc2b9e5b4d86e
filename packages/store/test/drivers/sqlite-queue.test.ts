import { EventEmitter } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { SqlValue } from '../../src/drivers/driver.ts';
import { WriteQueue } from '../../src/drivers/sqlite-queue.ts';
import type { WriterReply, WriterRequest } from '../../src/drivers/sqlite-writer.ts';

/** A writer that answers when it is told to. */
class FakeWriter extends EventEmitter {
  readonly requests: WriterRequest[] = [];

  postMessage(request: WriterRequest): void {
    this.requests.push(structuredClone(request));
  }

  answer(reply: WriterReply): void {
    this.emit('message', reply);
  }

  /** How many units each batch so far had. */
  get batches(): number[] {
    return this.requests.map((request) => (request === null ? -1 : unitsIn(request[1])));
  }
}

function unitsIn(flat: readonly SqlValue[]): number {
  let units = 0;
  for (let at = 0; at < flat.length; at += 1 + (flat[at] as number)) units += 1;
  return units;
}

function start() {
  const writer = new FakeWriter();
  return { writer, queue: new WriteQueue(writer, '/nowhere/test.db') };
}

const unit = (value: SqlValue, sql = 'INSERT') => [{ sql, params: [value] }];
const done = (count: number): WriterReply => Array.from({ length: count }, () => [0, 1]).flat();

describe('the queue of the writer', () => {
  test('an idle writer gets what one turn of the event loop brings, as one batch', async () => {
    const { writer, queue } = start();
    const units = [queue.submit(unit('a'))];
    await Promise.resolve();
    units.push(queue.submit(unit('b')), queue.submit(unit('c')));
    await turn();
    expect(writer.batches).toEqual([3]);
    writer.answer(done(3));
    for (const result of await Promise.all(units)) {
      expect(result).toEqual({ ok: true, results: [{ rows: [], changes: 1 }] });
    }
  });

  test('what arrives while it commits forms the next batch', async () => {
    const { writer, queue } = start();
    const first = queue.submit(unit('a'));
    await turn();
    const rest = [1, 2, 3, 4].map(async (n) => {
      await turn();
      return queue.submit(unit(n));
    });
    await turn();
    await turn();
    expect(writer.batches).toEqual([1]);
    writer.answer(done(1));
    expect(writer.batches).toEqual([1, 4]);
    await first;
    writer.answer(done(4));
    await Promise.all(rest);
    expect(queue.stats).toEqual({ units: 5, commits: 2 });
  });

  test('a batch has at most 1,000 units', async () => {
    const { writer, queue } = start();
    const units = Array.from({ length: 2_500 }, (_, i) => queue.submit(unit(i)));
    await turn();
    for (const size of [1_000, 1_000, 500]) writer.answer(done(size));
    await Promise.all(units);
    expect(writer.batches).toEqual([1_000, 1_000, 500]);
  });

  test('a batch of large units is cut, and a unit of any size goes over alone', async () => {
    const { writer, queue } = start();
    const large = 'x'.repeat(9 * 1024 * 1024);
    const units = [large, 'small', large, large].map((text) => queue.submit(unit(text)));
    await turn();
    for (const size of [1, 2, 1]) writer.answer(done(size));
    await Promise.all(units);
    expect(writer.batches).toEqual([1, 2, 1]);
  });

  test('a text travels once', async () => {
    const { writer, queue } = start();
    const units = [unit(1), unit(2, 'DELETE'), unit(3)].map((each) => queue.submit(each));
    await turn();
    units.push(queue.submit(unit(4, 'DELETE')), queue.submit(unit(5, 'UPDATE')));
    writer.answer(done(3));
    writer.answer(done(2));
    await Promise.all(units);
    expect(writer.requests.map((request) => request?.[0])).toEqual([
      ['INSERT', 'DELETE'],
      ['UPDATE'],
    ]);
    expect(writer.requests[1]?.[1]).toEqual([4, 1, -1, 1, 4, 4, 2, -1, 1, 5]);
  });

  test('each unit gets its own answer', async () => {
    const { writer, queue } = start();
    const units = [1, 2, 3, 4].map((n) => queue.submit([...unit(n), ...unit(n)]));
    const settled = Promise.allSettled(units);
    await turn();
    writer.answer([0, 1, [{ id: 'row' }], 1, 1, 2, 19, 'UNIQUE constraint failed', 0, 0, 2]);
    expect(await settled).toMatchObject([
      { value: { ok: true, results: [{ changes: 1 }, { rows: [{ id: 'row' }], changes: 1 }] } },
      { value: { ok: false, failedAt: 1 } },
      { reason: { code: 'storage_failed' } },
      { value: { ok: true, results: [{ changes: 0 }, { changes: 2 }] } },
    ]);
  });

  test('a fault rejects its whole batch and nothing after it', async () => {
    const { writer, queue } = start();
    const first = Promise.allSettled([queue.submit(unit(1)), queue.submit(unit(2))]);
    await turn();
    const next = queue.submit(unit(3));
    writer.answer({ fault: [13, 'database or disk is full'] });
    expect(await first).toMatchObject([
      { reason: { code: 'storage_full' } },
      { reason: { code: 'storage_full' } },
    ]);
    writer.answer(done(1));
    expect(await next).toMatchObject({ ok: true });
  });

  test('faults are told apart', async () => {
    const { writer, queue } = start();
    const codes: Record<number, string> = {
      13: 'storage_full',
      11: 'journal_corrupt',
      267: 'journal_corrupt',
      26: 'journal_corrupt',
      5: 'storage_failed',
      10: 'storage_failed',
      0: 'storage_failed',
    };
    for (const [code, name] of Object.entries(codes)) {
      const failed = queue.submit(unit(1));
      await turn();
      writer.answer({ fault: [Number(code), 'message'] });
      await expect(failed).rejects.toMatchObject({ code: name });
    }
  });

  test('when the writer ends, everything pending and later is refused', async () => {
    const { writer, queue } = start();
    const sent = queue.submit(unit(1));
    await turn();
    const waiting = queue.submit(unit(2));
    const settled = Promise.allSettled([sent, waiting]);
    writer.emit('error', new Error('out of memory'));
    writer.emit('exit', 1);
    expect(await settled).toMatchObject([
      { reason: { code: 'storage_failed' } },
      { reason: { code: 'storage_failed' } },
    ]);
    await expect(queue.submit(unit(3))).rejects.toMatchObject({ code: 'storage_failed' });
    await expect(queue.close()).resolves.toBeUndefined();
  });

  test('what cannot be sent over fails alone', async () => {
    const { writer, queue } = start();
    const bad = queue.submit(unit((() => undefined) as unknown as string, 'NEW'));
    await turn();
    await expect(bad).rejects.toMatchObject({ code: 'storage_failed' });
    const good = queue.submit(unit(1, 'NEW'));
    await turn();
    expect(writer.requests).toEqual([[['NEW'], [4, 0, -1, 1, 1]]]);
    writer.answer(done(1));
    await good;
  });

  test('closing lets what waits commit, and then asks the writer to finish', async () => {
    const { writer, queue } = start();
    const first = queue.submit(unit(1));
    await turn();
    const second = queue.submit(unit(2));
    const closed = queue.close();
    await expect(queue.submit(unit(3))).rejects.toMatchObject({ code: 'storage_failed' });
    writer.answer(done(1));
    expect(writer.batches).toEqual([1, 1]);
    writer.answer(done(1));
    expect(writer.batches).toEqual([1, 1, -1]);
    writer.emit('exit', 0);
    await Promise.all([first, second, closed]);
  });

  test('closing an idle queue twice asks once', async () => {
    const { writer, queue } = start();
    const closed = [queue.close(), queue.close()];
    writer.emit('exit', 0);
    await Promise.all(closed);
    expect(writer.batches).toEqual([-1]);
  });
});
