import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { SqlValue } from '../../../src/drivers/driver.ts';
import { WriteQueue } from '../../../src/drivers/sqlite/queue.ts';
import type { Commit, SqliteFault, Unit } from '../../../src/drivers/sqlite/units.ts';

function stored(units: readonly Unit[], tookMs: number) {
  const results = [{ rows: [], changes: 1 }];
  return { outcomes: units.map(() => ({ ok: true as const, results })), tookMs };
}

/** Commits on this thread, in no time unless told otherwise. */
class FakeConnection {
  readonly batches: number[] = [];
  tookMs = 0.1;
  fault: SqliteFault | undefined;

  run(units: readonly Unit[]) {
    if (this.fault !== undefined) {
      throw Object.assign(new Error(this.fault.message), { errcode: this.fault.code });
    }
    this.batches.push(units.length);
    return stored(units, this.tookMs);
  }
}

/** A writer thread that commits on demand. */
class FakeThread {
  readonly batches: number[] = [];
  isReady = true;
  starts = 0;
  #units: readonly Unit[] = [];
  #resolve: (commit: Commit) => void = () => undefined;

  start(): void {
    this.starts += 1;
  }

  commit(units: readonly Unit[]): Promise<Commit> {
    this.batches.push(units.length);
    this.#units = units;
    return new Promise((resolve) => (this.#resolve = resolve));
  }

  /** Commits the batch that is in flight. */
  async finish(commit: Commit = stored(this.#units, 0.1)): Promise<void> {
    this.#resolve(commit);
    await Promise.resolve();
    await Promise.resolve();
  }
}

function open() {
  const here = new FakeConnection();
  const thread = new FakeThread();
  return { here, thread, queue: new WriteQueue({ path: '/nowhere/test.db', here, thread }) };
}

const unit = (value: SqlValue) => [{ sql: 'INSERT', params: [value] }];
const many = (count: number, from = 0) =>
  Array.from({ length: count }, (_, index) => unit(from + index));
/** More than is committed on the main thread. */
const large = 'x'.repeat(100_000);

describe('the write queue', () => {
  test('what one turn of the event loop submits is one batch', async () => {
    const { here, thread, queue } = open();
    const units = [queue.submit(unit('a'))];
    await Promise.resolve();
    units.push(queue.submit(unit('b')), queue.submit(unit('c')));
    for (const result of await Promise.all(units)) {
      expect(result).toEqual({ ok: true, results: [{ rows: [], changes: 1 }] });
    }
    expect(here.batches).toEqual([3]);
    expect(thread.batches).toEqual([]);
  });

  test('small batches are committed on the main thread, and the thread is not even started', async () => {
    const { here, thread, queue } = open();
    for (const value of [1, 2, 3]) await queue.submit(unit(value));
    expect(here.batches).toEqual([1, 1, 1]);
    expect(thread.starts).toBe(0);
    expect(queue.stats).toEqual({ units: 3, commits: 3, commitsOnThread: 0 });
  });

  test.each([
    ['many units', many(17)],
    ['long texts', [unit(large)]],
  ])('a batch of %s is committed on the thread', async (_, batch) => {
    const { here, thread, queue } = open();
    const units = batch.map((each) => queue.submit(each));
    await turn();
    await thread.finish();
    await Promise.all(units);
    expect([here.batches, thread.batches]).toEqual([[], [batch.length]]);
  });

  test('what arrives while the thread commits is the next batch, on the thread', async () => {
    const { here, thread, queue } = open();
    const first = queue.submit(unit(large));
    await turn();
    const rest = [1, 2, 3].map(async (n) => {
      await turn();
      return queue.submit(unit(n));
    });
    await turn();
    await turn();
    expect(thread.batches).toEqual([1]);
    await thread.finish();
    expect(thread.batches).toEqual([1, 3]);
    await first;
    await thread.finish();
    await Promise.all(rest);
    await queue.submit(unit(4));
    expect(here.batches).toEqual([1]);
    expect(queue.stats).toEqual({ units: 5, commits: 3, commitsOnThread: 2 });
  });

  test('until the thread has started, everything is committed on the main thread', async () => {
    const { here, thread, queue } = open();
    thread.isReady = false;
    await Promise.all(many(2_500).map((each) => queue.submit(each)));
    expect(here.batches).toEqual([1_000, 1_000, 500]);
    expect(thread.starts).toBeGreaterThan(0);
    expect(thread.batches).toEqual([]);
  });

  test('when commits are slow, the thread makes them until they are fast again', async () => {
    const { here, thread, queue } = open();
    here.tookMs = 20;
    await queue.submit(unit(1));
    const commitOnThread = async (tookMs: number) => {
      const before = thread.batches.length;
      const result = queue.submit(unit(2));
      await turn();
      if (thread.batches.length > before) await thread.finish(stored([unit(2)], tookMs));
      await result;
    };
    for (let n = 0; n < 20; n += 1) await commitOnThread(20);
    expect([here.batches.length, thread.batches.length]).toEqual([1, 20]);
    here.tookMs = 0.1;
    for (let n = 0; n < 20; n += 1) await commitOnThread(0.1);
    expect(here.batches.length).toBeGreaterThan(5);
    expect(here.batches.length + thread.batches.length).toBe(41);
  });

  test('one slow commit is soon forgotten', async () => {
    const { here, thread, queue } = open();
    here.tookMs = 5_000;
    await queue.submit(unit(1));
    here.tookMs = 0.1;
    while (here.batches.length < 2) {
      const result = queue.submit(unit(2));
      await turn();
      await thread.finish();
      await result;
    }
    expect(thread.batches.length).toBeLessThan(5);
  });

  test('one batch in a while is committed on the thread, which makes the checkpoint', async () => {
    const { here, thread, queue } = open();
    for (let n = 0; n < 1_000; n += 1) {
      const result = queue.submit(unit(n));
      await turn();
      await thread.finish();
      await result;
    }
    expect(thread.batches).toHaveLength(4);
    expect(here.batches).toHaveLength(996);
  });

  test('if another process holds the lock, the thread waits for it', async () => {
    const { here, thread, queue } = open();
    here.fault = { code: 5, message: 'database is locked' };
    const units = [1, 2].map((n) => queue.submit(unit(n)));
    await turn();
    expect(thread.batches).toEqual([2]);
    await thread.finish();
    expect(await Promise.all(units)).toMatchObject([{ ok: true }, { ok: true }]);
  });

  test('a batch has at most 1,000 units', async () => {
    const { thread, queue } = open();
    const units = many(2_500).map((each) => queue.submit(each));
    await turn();
    for (const _ of [1, 2, 3]) await thread.finish();
    await Promise.all(units);
    expect(thread.batches).toEqual([1_000, 1_000, 500]);
  });

  test('a batch of large units is cut, and a unit of any size is committed alone', async () => {
    const { thread, queue } = open();
    const huge = 'x'.repeat(9 * 1024 * 1024);
    const units = [huge, 'small', huge, huge].map((text) => queue.submit(unit(text)));
    await turn();
    for (const _ of [1, 2, 3]) await thread.finish();
    await Promise.all(units);
    expect(thread.batches).toEqual([1, 2, 1]);
  });

  test('each unit gets its own answer', async () => {
    const { thread, queue } = open();
    const settled = Promise.allSettled([large, 2, 3].map((value) => queue.submit(unit(value))));
    await turn();
    const fault = { code: 19, message: 'UNIQUE constraint failed' };
    const outcomes = [
      { ok: true as const, results: [] },
      { ok: false as const, failedAt: 1 },
    ];
    await thread.finish({ outcomes: [...outcomes, { fault }], tookMs: 1 });
    expect(await settled).toMatchObject([
      { value: { ok: true } },
      { value: { ok: false, failedAt: 1 } },
      { reason: { code: 'storage_failed' } },
    ]);
  });

  const full = { code: 13, message: 'database or disk is full' };

  test('a fault on the thread rejects its whole batch and nothing after it', async () => {
    const { thread, queue } = open();
    const first = Promise.allSettled([queue.submit(unit(large)), queue.submit(unit(2))]);
    await turn();
    const next = queue.submit(unit(3));
    await thread.finish({ fault: full });
    expect(await first).toMatchObject([
      { reason: { code: 'storage_full' } },
      { reason: { code: 'storage_full' } },
    ]);
    await thread.finish();
    expect(await next).toMatchObject({ ok: true });
  });

  test('a fault on the main thread does the same, and the thread makes the next commits', async () => {
    const { here, thread, queue } = open();
    here.fault = full;
    const first = await Promise.allSettled([queue.submit(unit(1)), queue.submit(unit(2))]);
    expect(first).toMatchObject([
      { reason: { code: 'storage_full' } },
      { reason: { code: 'storage_full' } },
    ]);
    here.fault = undefined;
    const next = queue.submit(unit(3));
    await turn();
    expect([here.batches, thread.batches]).toEqual([[], [1]]);
    await thread.finish();
    expect(await next).toMatchObject({ ok: true });
  });

  test('faults get different error codes', async () => {
    const codes: Record<number, string> = {
      13: 'storage_full',
      11: 'journal_corrupt',
      267: 'journal_corrupt',
      26: 'journal_corrupt',
      10: 'storage_failed',
      0: 'storage_failed',
    };
    for (const [code, name] of Object.entries(codes)) {
      const { here, queue } = open();
      here.fault = { code: Number(code), message: 'message' };
      await expect(queue.submit(unit(1))).rejects.toMatchObject({ code: name });
    }
  });

  test('closing commits what waits, and accepts nothing more', async () => {
    const { thread, queue } = open();
    const first = queue.submit(unit(large));
    await turn();
    const second = queue.submit(unit(2));
    let isClosed = false;
    const closed = queue.close().then(() => (isClosed = true));
    await expect(queue.submit(unit(3))).rejects.toMatchObject({ code: 'storage_failed' });
    await thread.finish();
    expect(thread.batches).toEqual([1, 1]);
    expect(isClosed).toBe(false);
    await thread.finish();
    await Promise.all([first, second, closed]);
    await expect(queue.close()).resolves.toBeUndefined();
  });
});
