import type { StoredEvent } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import { Hub } from '../../src/streaming/hub.ts';
import { placed, token } from '../support/journal.ts';

const batch = placed([token('a')]);

function recorder() {
  const heard: (readonly StoredEvent[])[] = [];
  return { heard, hear: (events: readonly StoredEvent[]) => void heard.push(events) };
}

describe('the hub', () => {
  it('publishes to every listener of the run only', () => {
    const hub = new Hub();
    const [one, two, other] = [recorder(), recorder(), recorder()];
    hub.listen('run-1', one.hear);
    hub.listen('run-1', two.hear);
    hub.listen('run-2', other.hear);
    hub.publish('run-1', batch);
    expect(one.heard).toEqual([batch]);
    expect(two.heard).toEqual([batch]);
    expect(other.heard).toEqual([]);
  });

  it('publishes batches in order', () => {
    const hub = new Hub();
    const { heard, hear } = recorder();
    hub.listen('run-1', hear);
    const batches = [1, 2, 3].map((n) => placed([token('a')], n));
    for (const each of batches) hub.publish('run-1', each);
    expect(heard).toEqual(batches);
  });

  it('does not copy batches', () => {
    const hub = new Hub();
    const { heard, hear } = recorder();
    hub.listen('run-1', hear);
    hub.publish('run-1', batch);
    expect(heard[0]).toBe(batch);
  });

  it('stores nothing for later listeners', () => {
    const hub = new Hub();
    const { heard, hear } = recorder();
    hub.publish('run-1', batch);
    hub.listen('run-1', hear);
    expect(heard).toEqual([]);
  });

  it('ignores a run without listeners', () => {
    const hub = new Hub();
    expect(() => hub.publish('run-1', batch)).not.toThrow();
    expect(hub.size).toBe(0);
  });

  it('publishes nothing to a removed listener', () => {
    const hub = new Hub();
    const [stays, leaves] = [recorder(), recorder()];
    hub.listen('run-1', stays.hear);
    const leave = hub.listen('run-1', leaves.hear);
    leave();
    hub.publish('run-1', batch);
    expect(leaves.heard).toEqual([]);
    expect(stays.heard).toEqual([batch]);
  });

  it('removes a run with its last listener', () => {
    const hub = new Hub();
    const leaveFirst = hub.listen('run-1', recorder().hear);
    const leaveSecond = hub.listen('run-1', recorder().hear);
    hub.listen('run-2', recorder().hear);
    expect(hub.size).toBe(2);
    leaveFirst();
    expect(hub.size).toBe(2);
    leaveSecond();
    expect(hub.size).toBe(1);
  });

  it('allows a listener to be removed twice', () => {
    const hub = new Hub();
    const leave = hub.listen('run-1', recorder().hear);
    leave();
    const { heard, hear } = recorder();
    hub.listen('run-1', hear);
    leave();
    hub.publish('run-1', batch);
    expect(heard).toEqual([batch]);
    expect(hub.size).toBe(1);
  });

  it('allows a listener to be removed while it is called', () => {
    const hub = new Hub();
    const { heard, hear } = recorder();
    const leave = hub.listen('run-1', () => leave());
    hub.listen('run-1', hear);
    hub.publish('run-1', batch);
    hub.publish('run-1', batch);
    expect(heard).toHaveLength(2);
  });
});
