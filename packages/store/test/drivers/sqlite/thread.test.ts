import { EventEmitter } from 'node:events';
import { describe, expect, test } from 'vitest';
import type { SqlValue } from '../../../src/drivers/driver.ts';
import { WriterThread } from '../../../src/drivers/sqlite/thread.ts';
import type { WriterReply, WriterRequest } from '../../../src/drivers/sqlite/writer.ts';

/** A worker that replies on demand. */
class FakeWorker extends EventEmitter {
  readonly requests: WriterRequest[] = [];

  postMessage(request: WriterRequest): void {
    this.requests.push(structuredClone(request));
  }

  reply(reply: WriterReply): void {
    this.emit('message', reply);
  }
}

function startable() {
  const workers: FakeWorker[] = [];
  const thread = new WriterThread(() => {
    const worker = new FakeWorker();
    workers.push(worker);
    return worker;
  });
  const latest = () => {
    const worker = workers.at(-1);
    if (worker === undefined) throw new Error('No thread was started');
    return worker;
  };
  return { thread, workers, latest };
}

const unit = (value: SqlValue, sql = 'INSERT') => [{ sql, params: [value] }];
const tookMs = 0.5;
const stored = { ok: true, results: [{ rows: [], changes: 1 }] };

describe('the writer thread', () => {
  test('starts with the first batch, and is ready when it says so', async () => {
    const { thread, workers, latest } = startable();
    expect(workers).toEqual([]);
    const first = thread.commit([unit('a')]);
    expect(thread.isReady).toBe(false);
    latest().reply({ ready: true });
    expect(thread.isReady).toBe(true);
    latest().reply([tookMs, 0, 1]);
    expect(await first).toEqual({ outcomes: [stored], tookMs });
    thread.start();
    expect(workers).toHaveLength(1);
  });

  test('receives each SQL text once', async () => {
    const { thread, latest } = startable();
    const first = thread.commit([unit(1), unit(2, 'DELETE'), unit(3)]);
    latest().reply([tookMs, 0, 1, 0, 1, 0, 1]);
    await first;
    void thread.commit([unit(4, 'DELETE'), unit(5, 'UPDATE')]);
    expect(latest().requests).toEqual([
      [
        ['INSERT', 'DELETE'],
        [4, 0, -1, 1, 1, 4, 1, -1, 1, 2, 4, 0, -1, 1, 3],
      ],
      [['UPDATE'], [4, 1, -1, 1, 4, 4, 2, -1, 1, 5]],
    ]);
  });

  test('answers each unit of a batch', async () => {
    const { thread, latest } = startable();
    const done = thread.commit([1, 2, 3, 4].map((n) => [...unit(n), ...unit(n)]));
    const first = [0, 1, [{ id: 'row' }]];
    latest().reply([tookMs, ...first, 1, 1, 2, 19, 'UNIQUE constraint failed', 0, 0, 2]);
    expect(await done).toMatchObject({
      outcomes: [
        { ok: true, results: [{ changes: 1 }, { rows: [{ id: 'row' }], changes: 1 }] },
        { ok: false, failedAt: 1 },
        { fault: { code: 19, message: 'UNIQUE constraint failed' } },
        { ok: true, results: [{ changes: 0 }, { changes: 2 }] },
      ],
    });
  });

  test('reports a fault of the whole batch', async () => {
    const { thread, latest } = startable();
    const failed = thread.commit([unit(1)]);
    const fault = { code: 13, message: 'database or disk is full' };
    latest().reply({ fault });
    expect(await failed).toEqual({ fault });
  });

  test('a batch that cannot be copied fails, and the next one sends its texts again', async () => {
    const { thread, latest } = startable();
    const bad = await thread.commit([unit((() => undefined) as unknown as string, 'NEW')]);
    expect(bad).toMatchObject({ fault: { code: 0 } });
    void thread.commit([unit(1, 'NEW')]);
    expect(latest().requests).toEqual([[['NEW'], [4, 0, -1, 1, 1]]]);
  });

  test('one that exits fails its batch, and the next batch starts another', async () => {
    const { thread, workers, latest } = startable();
    const lost = thread.commit([unit(1)]);
    latest().reply({ ready: true });
    latest().emit('error', new Error('out of memory'));
    latest().emit('exit', 1);
    expect(await lost).toEqual({ fault: { code: 0, message: 'out of memory' } });
    expect(thread.isReady).toBe(false);
    const next = thread.commit([unit(2)]);
    expect(workers).toHaveLength(2);
    expect(latest().requests).toEqual([[['INSERT'], [4, 0, -1, 1, 2]]]);
    latest().emit('exit', 1);
    expect(await next).toMatchObject({ fault: { message: 'The writer thread has exited' } });
  });

  test('closing asks it to finish and waits until it has exited', async () => {
    const { thread, latest } = startable();
    thread.start();
    let isClosed = false;
    const closed = thread.close().then(() => (isClosed = true));
    expect(latest().requests).toEqual([null]);
    await Promise.resolve();
    expect(isClosed).toBe(false);
    latest().emit('exit', 0);
    await closed;
  });

  test('one that was never started is closed at once', async () => {
    const { thread, workers } = startable();
    await thread.close();
    expect(workers).toEqual([]);
  });
});
