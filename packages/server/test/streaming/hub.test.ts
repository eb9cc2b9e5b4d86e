import type { StoredEvent } from '@relay/protocol';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { type Follower, Hub } from '../../src/streaming/hub.ts';
import { placed, token } from '../support/journal.ts';

const batch = placed([token('a')]);

function recorder(): Follower<StoredEvent> & {
  received: (readonly StoredEvent[])[];
  lastSeq: number;
} {
  const received: (readonly StoredEvent[])[] = [];
  return {
    received,
    lastSeq: 0,
    receive(events: readonly StoredEvent[]) {
      received.push(events);
      // It reads the journal if it receives no events.
      this.lastSeq = events.at(-1)?.seq ?? Infinity;
    },
  };
}

describe('the hub', () => {
  it('publishes to every follower of the run only', () => {
    const hub = new Hub(async () => new Map());
    const [one, two, other] = [recorder(), recorder(), recorder()];
    hub.add('run-1', one);
    hub.add('run-1', two);
    hub.add('run-2', other);
    hub.publish('run-1', batch);
    expect(one.received).toEqual([batch]);
    expect(two.received).toEqual([batch]);
    expect(other.received).toEqual([]);
  });

  it('publishes batches in order', () => {
    const hub = new Hub(async () => new Map());
    const follower = recorder();
    hub.add('run-1', follower);
    const batches = [1, 2, 3].map((n) => placed([token('a')], n));
    for (const each of batches) hub.publish('run-1', each);
    expect(follower.received).toEqual(batches);
  });

  it('does not copy batches', () => {
    const hub = new Hub(async () => new Map());
    const follower = recorder();
    hub.add('run-1', follower);
    hub.publish('run-1', batch);
    expect(follower.received[0]).toBe(batch);
  });

  it('stores nothing for later followers', () => {
    const hub = new Hub(async () => new Map());
    const follower = recorder();
    hub.publish('run-1', batch);
    hub.add('run-1', follower);
    expect(follower.received).toEqual([]);
  });

  it('ignores a run without followers', () => {
    const hub = new Hub(async () => new Map());
    expect(() => hub.publish('run-1', batch)).not.toThrow();
    expect(hub.size).toBe(0);
  });

  it('publishes nothing to a removed follower', () => {
    const hub = new Hub(async () => new Map());
    const [stays, leaves] = [recorder(), recorder()];
    hub.add('run-1', stays);
    const leave = hub.add('run-1', leaves);
    leave();
    hub.publish('run-1', batch);
    expect(leaves.received).toEqual([]);
    expect(stays.received).toEqual([batch]);
  });

  it('removes a run with its last follower', () => {
    const hub = new Hub(async () => new Map());
    const leaveFirst = hub.add('run-1', recorder());
    const leaveSecond = hub.add('run-1', recorder());
    hub.add('run-2', recorder());
    expect(hub.size).toBe(2);
    leaveFirst();
    expect(hub.size).toBe(2);
    leaveSecond();
    expect(hub.size).toBe(1);
  });

  it('allows a follower to be removed twice', () => {
    const hub = new Hub(async () => new Map());
    const leave = hub.add('run-1', recorder());
    leave();
    const follower = recorder();
    hub.add('run-1', follower);
    leave();
    hub.publish('run-1', batch);
    expect(follower.received).toEqual([batch]);
    expect(hub.size).toBe(1);
  });

  it('allows a follower to be removed while it is called', () => {
    const hub = new Hub(async () => new Map());
    const follower = recorder();
    const leave = hub.add('run-1', { receive: () => leave(), lastSeq: 0 });
    hub.add('run-1', follower);
    hub.publish('run-1', batch);
    hub.publish('run-1', batch);
    expect(follower.received).toHaveLength(2);
  });
});

describe('the comparison of followed runs with their journals', () => {
  const roundMs = 20_000;
  afterEach(() => {
    vi.useRealTimers();
  });

  /** A hub whose store has these events, and the ids of each read. */
  function compared(stored: Map<string, number>) {
    vi.useFakeTimers();
    const reads: (readonly string[])[] = [];
    const hub = new Hub(async (runIds) => {
      reads.push(runIds);
      return new Map(
        runIds.flatMap((id): [string, number][] => {
          const lastSeq = stored.get(id);
          return lastSeq === undefined ? [] : [[id, lastSeq]];
        }),
      );
    });
    return { hub, reads };
  }

  it('makes the followers of a run read its journal if an event was not published', async () => {
    const stored = new Map([['run-1', 1]]);
    const { hub } = compared(stored);
    const follower = recorder();
    hub.add('run-1', follower);
    hub.publish('run-1', batch);
    await vi.advanceTimersByTimeAsync(roundMs);
    expect(follower.received).toEqual([batch]);
    stored.set('run-1', 2);
    await vi.advanceTimersByTimeAsync(roundMs);
    expect(follower.received).toEqual([batch, []]);
    await vi.advanceTimersByTimeAsync(roundMs);
    expect(follower.received).toHaveLength(2);
  });

  it('leaves followers alone that have read all events themselves', async () => {
    const { hub, reads } = compared(new Map([['run-1', 5]]));
    const follower = { ...recorder(), lastSeq: 5 };
    const slow = recorder();
    hub.add('run-1', follower);
    hub.add('run-1', slow);
    await vi.advanceTimersByTimeAsync(roundMs);
    expect(reads).not.toEqual([]);
    expect(slow.received).toEqual([[]]);
    expect(follower.received).toEqual([]);
  });

  it('compares each run once per round, many with one read', async () => {
    const { hub, reads } = compared(new Map());
    const runIds = Array.from({ length: 1_000 }, (_, index) => `run-${index}`);
    for (const runId of runIds) hub.add(runId, recorder());
    await vi.advanceTimersByTimeAsync(roundMs - 1);
    expect(reads).toHaveLength(10);
    expect(reads.flat()).toEqual(runIds);
  });

  it('continues after a failed read, and ends with the last follower', async () => {
    vi.useFakeTimers();
    let fails = true;
    let reads = 0;
    const hub = new Hub(async () => {
      reads += 1;
      if (fails) throw new Error('The store is unavailable');
      return new Map([['run-1', 1]]);
    });
    const follower = recorder();
    const leave = hub.add('run-1', follower);
    await vi.advanceTimersByTimeAsync(roundMs);
    expect(follower.received).toEqual([]);
    fails = false;
    await vi.advanceTimersByTimeAsync(roundMs);
    expect(follower.received).toEqual([[]]);
    leave();
    const before = reads;
    await vi.advanceTimersByTimeAsync(roundMs);
    expect(reads).toBe(before);
  });
});
