import type { StoredEvent } from '@relay/protocol';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Hub } from '../../src/streaming/hub.ts';
import { placed, token } from '../support/journal.ts';

const batch = placed([token('a')]);

function recorder() {
  const received: (readonly StoredEvent[])[] = [];
  return { received, receive: (events: readonly StoredEvent[]) => void received.push(events) };
}

describe('the hub', () => {
  it('publishes to every listener of the run only', () => {
    const hub = new Hub(async () => new Map());
    const [one, two, other] = [recorder(), recorder(), recorder()];
    hub.listen('run-1', one.receive);
    hub.listen('run-1', two.receive);
    hub.listen('run-2', other.receive);
    hub.publish('run-1', batch);
    expect(one.received).toEqual([batch]);
    expect(two.received).toEqual([batch]);
    expect(other.received).toEqual([]);
  });

  it('publishes batches in order', () => {
    const hub = new Hub(async () => new Map());
    const { received, receive } = recorder();
    hub.listen('run-1', receive);
    const batches = [1, 2, 3].map((n) => placed([token('a')], n));
    for (const each of batches) hub.publish('run-1', each);
    expect(received).toEqual(batches);
  });

  it('does not copy batches', () => {
    const hub = new Hub(async () => new Map());
    const { received, receive } = recorder();
    hub.listen('run-1', receive);
    hub.publish('run-1', batch);
    expect(received[0]).toBe(batch);
  });

  it('stores nothing for later listeners', () => {
    const hub = new Hub(async () => new Map());
    const { received, receive } = recorder();
    hub.publish('run-1', batch);
    hub.listen('run-1', receive);
    expect(received).toEqual([]);
  });

  it('ignores a run without listeners', () => {
    const hub = new Hub(async () => new Map());
    expect(() => hub.publish('run-1', batch)).not.toThrow();
    expect(hub.size).toBe(0);
  });

  it('publishes nothing to a removed listener', () => {
    const hub = new Hub(async () => new Map());
    const [stays, leaves] = [recorder(), recorder()];
    hub.listen('run-1', stays.receive);
    const leave = hub.listen('run-1', leaves.receive);
    leave();
    hub.publish('run-1', batch);
    expect(leaves.received).toEqual([]);
    expect(stays.received).toEqual([batch]);
  });

  it('removes a run with its last listener', () => {
    const hub = new Hub(async () => new Map());
    const leaveFirst = hub.listen('run-1', recorder().receive);
    const leaveSecond = hub.listen('run-1', recorder().receive);
    hub.listen('run-2', recorder().receive);
    expect(hub.size).toBe(2);
    leaveFirst();
    expect(hub.size).toBe(2);
    leaveSecond();
    expect(hub.size).toBe(1);
  });

  it('allows a listener to be removed twice', () => {
    const hub = new Hub(async () => new Map());
    const leave = hub.listen('run-1', recorder().receive);
    leave();
    const { received, receive } = recorder();
    hub.listen('run-1', receive);
    leave();
    hub.publish('run-1', batch);
    expect(received).toEqual([batch]);
    expect(hub.size).toBe(1);
  });

  it('allows a listener to be removed while it is called', () => {
    const hub = new Hub(async () => new Map());
    const { received, receive } = recorder();
    const leave = hub.listen('run-1', () => leave());
    hub.listen('run-1', receive);
    hub.publish('run-1', batch);
    hub.publish('run-1', batch);
    expect(received).toHaveLength(2);
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

  it('makes the listeners of a run read its journal if an event was not published', async () => {
    const stored = new Map([['run-1', 1]]);
    const { hub } = compared(stored);
    const { received, receive } = recorder();
    hub.listen('run-1', receive);
    hub.publish('run-1', batch);
    await vi.advanceTimersByTimeAsync(roundMs);
    expect(received).toEqual([batch]);
    stored.set('run-1', 2);
    await vi.advanceTimersByTimeAsync(roundMs);
    expect(received).toEqual([batch, []]);
    await vi.advanceTimersByTimeAsync(roundMs);
    expect(received).toHaveLength(2);
  });

  it('compares each run once per round, many with one read', async () => {
    const { hub, reads } = compared(new Map());
    const runIds = Array.from({ length: 1_000 }, (_, index) => `run-${index}`);
    for (const runId of runIds) hub.listen(runId, recorder().receive);
    await vi.advanceTimersByTimeAsync(roundMs - 1);
    expect(reads).toHaveLength(10);
    expect(reads.flat()).toEqual(runIds);
  });

  it('continues after a failed read, and ends with the last listener', async () => {
    vi.useFakeTimers();
    let fails = true;
    let reads = 0;
    const hub = new Hub(async () => {
      reads += 1;
      if (fails) throw new Error('The store is unavailable');
      return new Map([['run-1', 1]]);
    });
    const { received, receive } = recorder();
    const leave = hub.listen('run-1', receive);
    await vi.advanceTimersByTimeAsync(roundMs);
    expect(received).toEqual([]);
    fails = false;
    await vi.advanceTimersByTimeAsync(roundMs);
    expect(received).toEqual([[]]);
    leave();
    const before = reads;
    await vi.advanceTimersByTimeAsync(roundMs);
    expect(reads).toBe(before);
  });
});
