import { getEventListeners } from 'node:events';
import { dialects, type StoredEvent } from '@relay/protocol';
import { describe, expect, it, vi } from 'vitest';
import { encodeBatch, runProjection } from '../../src/streaming/sse-stream.ts';
import { joined } from '../support/frames.ts';
import { Hub } from '../../src/streaming/hub.ts';
import { followRun } from '../../src/streaming/subscribe.ts';
import { HeldReads, placed, runEnded, settled, TestJournal, token } from '../support/journal.ts';

type Batches = AsyncGenerator<readonly StoredEvent[], void>;

async function setUp(tokens = 0) {
  const journal = await TestJournal.create();
  const hub = new Hub(async () => new Map([[journal.runId, journal.lastSeq]]));
  const connection = new AbortController();
  if (tokens > 0) await journal.appendTokens(tokens);
  const follow = (
    options: { after?: number; follow?: boolean; isNew?: boolean } = {},
    store = journal.store,
  ): Batches =>
    followRun(
      { store, hub, runId: journal.runId },
      { after: 0, follow: true, signal: connection.signal, ...options },
    );
  const publish = (events: readonly StoredEvent[]) => hub.publish(journal.runId, events);
  /** Stores and publishes, as a journal does. */
  const write = async (count: number) => publish(await journal.appendTokens(count));
  const end = async () => publish(await journal.append([runEnded]));
  return { journal, hub, connection, follow, publish, write, end };
}

function upTo(last: number, after = 0): number[] {
  return Array.from({ length: last - after }, (_, n) => after + n + 1);
}

async function seqsOf(batches: Batches): Promise<number[]> {
  const seqs: number[] = [];
  for await (const batch of batches) seqs.push(...batch.map(({ seq }) => seq));
  return seqs;
}

/** The next batch, or undefined if none is ready yet; the call stays open. */
async function ready(next: Promise<IteratorResult<readonly StoredEvent[], void>>) {
  const answer = await Promise.race([next, settled().then(() => undefined)]);
  return answer === undefined || answer.done === true ? undefined : answer.value;
}

describe('followRun', () => {
  it('removes its listeners when it is returned before it was ever read', async () => {
    const { hub, connection, follow, journal } = await setUp();
    const stops: string[] = [];
    const add = hub.add.bind(hub);
    vi.spyOn(hub, 'add').mockImplementation((runId, follower) => {
      const stop = add(runId, follower);
      return () => {
        stops.push(runId);
        stop();
      };
    });
    await follow({ isNew: true }).return();
    expect(stops).toEqual([journal.runId]);
    expect(getEventListeners(connection.signal, 'abort')).toEqual([]);
  });

  it('yields stored events in order, and ends after run.ended', async () => {
    const { journal, follow, end } = await setUp(3);
    await end();
    const batches: StoredEvent[] = [];
    for await (const batch of follow()) batches.push(...batch);
    expect(batches).toEqual(await journal.store.readEvents(journal.runId, { after: 0, limit: 10 }));
    expect(batches.at(-1)?.type).toBe('run.ended');
  });

  it.each([0, 1, 2, 3])('yields exactly the events after %i', async (after) => {
    const { follow, end } = await setUp(3);
    await end();
    expect(await seqsOf(follow({ after }))).toEqual(upTo(4, after));
  });

  it('reads a long journal page by page', async () => {
    const { follow, end } = await setUp(2500);
    await end();
    const sizes: number[] = [];
    for await (const batch of follow()) sizes.push(batch.length);
    expect(sizes).toEqual([...Array.from({ length: 10 }, () => 250), 1]);
  });

  it('reads a journal of large events in pages of a bounded size', async () => {
    const { journal, follow, end } = await setUp();
    for (let n = 0; n < 40; n += 1) await journal.append([token('x'.repeat(100_000))]);
    await end();
    const sizes: number[] = [];
    for await (const batch of follow()) sizes.push(batch.length);
    expect(sizes).toEqual([...Array.from({ length: 13 }, () => 3), 2]);
  });

  it('leaves the event loop free between the pages of many readers', async () => {
    const { journal, follow, end } = await setUp();
    for (let n = 0; n < 8; n += 1) await journal.append([token('x'.repeat(300_000))]);
    await end();
    let turn = 0;
    let isReading = true;
    const count = () => {
      turn += 1;
      if (isReading) setImmediate(count);
    };
    count();
    const pagesInTurn = new Map<number, number>();
    const readers = Array.from({ length: 10 }, async () => {
      for await (const [first] of follow()) {
        const isLarge = first?.type === 'text.appended';
        if (isLarge) pagesInTurn.set(turn, (pagesInTurn.get(turn) ?? 0) + 1);
      }
    });
    await Promise.all(readers);
    isReading = false;
    expect(Math.max(...pagesInTurn.values())).toBe(1);
  });

  it('yields a published batch without copying it', async () => {
    const { journal, follow, publish, end } = await setUp(1);
    const batches = follow();
    await batches.next();
    const next = batches.next();
    expect(await ready(next)).toBeUndefined();
    const live = await journal.appendTokens(2);
    publish(live);
    expect((await next).value).toBe(live);
    const rest = seqsOf(batches);
    await end();
    expect(await rest).toEqual([4]);
  });

  it('does not read the store while the hub publishes every event', async () => {
    const { journal, follow, write, end } = await setUp(1);
    const reads = vi.spyOn(journal.store, 'readPage');
    const seqs = seqsOf(follow());
    await settled();
    for (let n = 0; n < 10; n += 1) {
      await write(1);
      await settled();
    }
    await end();
    expect(await seqs).toEqual(upTo(12));
    expect(reads.mock.calls.length).toBeLessThanOrEqual(2);
  });

  it('merges batches that were published while the reader was busy', async () => {
    const { follow, write, end } = await setUp(1);
    const batches = follow();
    await batches.next();
    const next = batches.next();
    await settled();
    await write(1);
    await next;
    await write(2);
    await write(3);
    await end();
    expect((await batches.next()).value?.map(({ seq }) => seq)).toEqual(upTo(8, 2));
    expect((await batches.next()).done).toBe(true);
  });

  it('does not repeat events that it read and then receives', async () => {
    const { journal, follow, publish, end } = await setUp();
    const early = await journal.appendTokens(2);
    const batches = follow();
    expect((await batches.next()).value).toHaveLength(2);
    publish(early);
    const straddling = [...early, ...(await journal.appendTokens(1))];
    publish(straddling);
    const rest = seqsOf(batches);
    await settled();
    await end();
    expect(await rest).toEqual([3, 4]);
  });

  it('reads missed events when it receives a later one', async () => {
    const { journal, follow, write, end } = await setUp(1);
    const seqs = seqsOf(follow());
    await settled();
    await journal.appendTokens(3);
    await write(1);
    await settled();
    await end();
    expect(await seqs).toEqual(upTo(6));
  });

  it('reads missed events between two buffered batches', async () => {
    const { journal, follow, write, end } = await setUp(1);
    const batches = follow();
    await batches.next();
    const next = batches.next();
    await settled();
    await write(1);
    await next;
    await write(1);
    await journal.appendTokens(1);
    await write(1);
    const rest = seqsOf(batches);
    await settled();
    await end();
    expect(await rest).toEqual([3, 4, 5, 6]);
  });

  it('ends even if the last publish was missed', async () => {
    const { journal, follow, connection } = await setUp(1);
    await overTime(async (pass) => {
      const seqs = seqsOf(follow());
      await settled();
      await journal.append([runEnded]);
      await pass(60);
      connection.abort();
      expect(await seqs).toEqual([1, 2]);
    });
  });

  it('reads the journal of a silent run only once', async () => {
    const { journal, follow, connection } = await setUp(1);
    const reads = vi.spyOn(journal.store, 'readPage');
    await overTime(async (pass) => {
      const seqs = seqsOf(follow());
      await pass(60);
      connection.abort();
      expect(await seqs).toEqual([1]);
    });
    expect(reads).toHaveBeenCalledTimes(1);
  });
});

/** Lets seconds pass on the timers. */
async function overTime(work: (pass: (seconds: number) => Promise<void>) => Promise<void>) {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
  try {
    await work(async (seconds) => {
      for (let second = 0; second < seconds; second += 1) {
        vi.advanceTimersByTime(1_000);
        await settled();
      }
    });
  } finally {
    vi.useRealTimers();
  }
}

describe('followRun for a new run', () => {
  it('yields all published events without reading the store', async () => {
    const { journal, follow, write, end } = await setUp();
    const reads = vi.spyOn(journal.store, 'readPage');
    const batches = follow({ isNew: true });
    await write(2);
    await write(1);
    const seqs = seqsOf(batches);
    await settled();
    await end();
    expect(await seqs).toEqual([1, 2, 3, 4]);
    expect(reads).not.toHaveBeenCalled();
  });

  it('reads the store if it missed the beginning', async () => {
    const { journal, follow, write, end } = await setUp();
    const seqs = seqsOf(follow({ isNew: true }));
    await journal.appendTokens(2);
    await write(1);
    await settled();
    await end();
    expect(await seqs).toEqual([1, 2, 3, 4]);
  });

  it('reads the store if the buffer overflows', async () => {
    const { follow, write, end } = await setUp();
    const batches = follow({ isNew: true });
    for (let n = 0; n < 300; n += 1) await write(1);
    await end();
    expect(await seqsOf(batches)).toEqual(upTo(301));
  });
});

describe('a slow follower', () => {
  it('drops its buffer and reads the store', async () => {
    const { journal, follow, write, end } = await setUp(1);
    const batches = follow();
    await batches.next();
    const next = batches.next();
    await settled();
    await write(1);
    await next;
    for (let n = 0; n < 1200; n += 1) await write(1);
    const reads = vi.spyOn(journal.store, 'readPage');
    const rest = seqsOf(batches);
    await settled();
    expect(reads).toHaveBeenCalled();
    await end();
    expect(await rest).toEqual(upTo(1203, 2));
  });

  it('drops its buffer if the buffered events are large', async () => {
    const { journal, follow, publish, end } = await setUp(1);
    const batches = follow();
    await batches.next();
    const next = batches.next();
    await settled();
    publish(await journal.append([token('first')]));
    await next;
    for (let n = 0; n < 3; n += 1) publish(await journal.append([token('x'.repeat(100_000))]));
    const reads = vi.spyOn(journal.store, 'readPage');
    const rest = seqsOf(batches);
    await settled();
    expect(reads).toHaveBeenCalled();
    await end();
    expect(await rest).toEqual([3, 4, 5, 6]);
  });

  it.each([999, 1000, 1001, 1999, 2000, 2001])(
    'misses nothing with %i buffered batches',
    async (held) => {
      const { follow, write, end } = await setUp(1);
      const batches = follow();
      await batches.next();
      const next = batches.next();
      await settled();
      await write(1);
      await next;
      for (let n = 0; n < held; n += 1) await write(2);
      const rest = seqsOf(batches);
      await settled();
      await write(1);
      await settled();
      await end();
      expect(await rest).toEqual(upTo(2 * held + 4, 2));
    },
  );

  it('overflows again while it reads, and still misses nothing', async () => {
    const { journal, follow, write, end } = await setUp(1);
    const held = new HeldReads(journal.store);
    const rest = seqsOf(follow({}, held.store));
    for (let round = 0; round < 3; round += 1) {
      await settled();
      for (let n = 0; n < 300; n += 1) await write(1);
      held.look();
    }
    held.open();
    await settled();
    await end();
    expect(await rest).toEqual(upTo(902));
  });

  it('yields at most 256 KiB at once, however much was published meanwhile', async () => {
    const { hub, journal, follow } = await setUp();
    const batches = follow();
    const next = batches.next();
    await settled();
    hub.publish(journal.runId, placed([token('1')]));
    await next;
    for (let n = 0; n < 9; n += 1) {
      const tokens = Array.from({ length: 100 }, () => token(' word'));
      hub.publish(journal.runId, placed(tokens, 1 + 100 * n));
    }
    const { value } = await batches.next();
    const run = { runId: journal.runId, conversationId: journal.runId, correlationId: 'test' };
    const text = joined(encodeBatch(value ?? [], runProjection(dialects.chat, run)));
    await batches.return();
    expect(text.length).toBeGreaterThan(0);
    expect(text.length).toBeLessThanOrEqual(256 * 1024);
  });
});

describe('followRun with follow: false', () => {
  it('ends at the current end of an open journal', async () => {
    const { hub, follow } = await setUp(3);
    expect(await seqsOf(follow({ follow: false }))).toEqual([1, 2, 3]);
    expect(await seqsOf(follow({ follow: false, after: 2 }))).toEqual([3]);
    expect(await seqsOf(follow({ follow: false, after: 3 }))).toEqual([]);
    expect(hub.size).toBe(0);
  });

  it('never listens', async () => {
    const { hub, follow } = await setUp(3);
    const add = vi.spyOn(hub, 'add');
    await seqsOf(follow({ follow: false }));
    expect(add).not.toHaveBeenCalled();
  });
});

describe('ending followRun', () => {
  it('ends at once when the signal is aborted while it waits', async () => {
    const { hub, connection, follow } = await setUp(1);
    const seqs = seqsOf(follow());
    await settled();
    expect(hub.size).toBe(1);
    connection.abort();
    expect(await seqs).toEqual([1]);
    expect(hub.size).toBe(0);
  });

  it('ends when it is returned while it waits', async () => {
    const { hub, follow } = await setUp(1);
    const batches = follow();
    await batches.next();
    const waiting = batches.next();
    await settled();
    await batches.return();
    expect(await waiting).toMatchObject({ done: true });
    expect(hub.size).toBe(0);
  });

  it('yields nothing if the signal was aborted before', async () => {
    const { journal, hub, connection, follow } = await setUp(1);
    const reads = vi.spyOn(journal.store, 'readPage');
    connection.abort();
    expect(await seqsOf(follow())).toEqual([]);
    expect(reads).not.toHaveBeenCalled();
    expect(hub.size).toBe(0);
  });

  it('ends after a page if the signal was aborted meanwhile', async () => {
    const { connection, follow } = await setUp(2500);
    const batches = follow();
    expect((await batches.next()).value).toHaveLength(250);
    connection.abort();
    expect((await batches.next()).done).toBe(true);
  });

  it('leaves no listener, however it ends', async () => {
    const { journal, hub, connection, follow, end } = await setUp(1);
    const broken = new HeldReads(journal.store);
    vi.spyOn(journal.store, 'readPage').mockRejectedValueOnce(new Error('disk'));
    broken.open();
    await expect(seqsOf(follow({}, broken.store))).rejects.toThrow('disk');

    const stopped = follow();
    await stopped.next();
    await stopped.return();

    const left = follow();
    await expect(
      (async () => {
        for await (const _batch of left) throw new Error('the reader failed');
      })(),
    ).rejects.toThrow('the reader failed');

    await end();
    await seqsOf(follow());
    expect(hub.size).toBe(0);
    expect(getEventListeners(connection.signal, 'abort')).toHaveLength(0);
  });

  it('stops listening when the signal is aborted before the first batch', async () => {
    const { hub, connection, follow } = await setUp(1);
    follow();
    connection.abort();
    expect(hub.size).toBe(0);
    expect(getEventListeners(connection.signal, 'abort')).toHaveLength(0);
  });

  it('ends at once if the run has ended and no event follows', async () => {
    const { connection, follow, end } = await setUp(1);
    await end();
    let over = false;
    const seqs = seqsOf(follow({ after: 2 })).finally(() => {
      over = true;
    });
    for (let n = 0; n < 5; n += 1) await settled();
    const ended = over;
    connection.abort();
    expect(await seqs).toEqual([]);
    expect(ended).toBe(true);
  });
});
