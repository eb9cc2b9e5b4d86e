import { describe, expect, test } from 'vitest';
import { Signal } from '../../src/runtime/signal.ts';
import { ManualClock } from '../support/index.ts';

describe('Signal', () => {
  test('wakes every waiter once', async () => {
    const signal = new Signal();
    const woken: string[] = [];
    const first = signal.wait().then(() => woken.push('first'));
    const second = signal.wait().then(() => woken.push('second'));
    expect(signal.isAwaited).toBe(true);
    signal.notify();
    await Promise.all([first, second]);
    expect(woken).toEqual(['first', 'second']);
    expect(signal.isAwaited).toBe(false);
  });

  test('does not remember a notification that no caller waited for', async () => {
    const signal = new Signal();
    const clock = new ManualClock();
    signal.notify();
    const waiting = signal.waitFor({ clock, ms: 100 });
    await clock.advance(100);
    expect(await waiting).toBe('timeout');
  });

  test('says why a wait with a timeout has ended, and removes its listeners', async () => {
    const signal = new Signal();
    const clock = new ManualClock();
    const over = new AbortController();
    const notified = signal.waitFor({ clock, ms: 100, signal: over.signal });
    signal.notify();
    expect(await notified).toBe('notified');
    const aborted = signal.waitFor({ clock, ms: 100, signal: over.signal });
    over.abort();
    expect(await aborted).toBe('aborted');
    expect(await signal.waitFor({ clock, ms: 100, signal: over.signal })).toBe('aborted');
    expect([clock.sleepers, signal.isAwaited]).toEqual([0, false]);
  });
});
