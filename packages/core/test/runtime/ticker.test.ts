import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Ticker } from '../../src/runtime/ticker.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('Ticker', () => {
  test('shares one timer among its subscribers, and counts its ticks', () => {
    const ticks: string[] = [];
    const ticker = new Ticker<string>(10, (all, tick) => ticks.push(`${tick}: ${[...all].join()}`));
    ticker.add('a');
    ticker.add('b');
    expect([vi.getTimerCount(), ticker.size]).toEqual([1, 2]);
    vi.advanceTimersByTime(10);
    ticker.delete('a');
    vi.advanceTimersByTime(10);
    expect(ticks).toEqual(['1: a,b', '2: b']);
  });

  test('stops the timer with the last subscriber, and starts it again with the next', () => {
    const ticks: number[] = [];
    const ticker = new Ticker<string>(10, (_, tick) => ticks.push(tick));
    ticker.add('a');
    vi.advanceTimersByTime(20);
    ticker.delete('b');
    expect(vi.getTimerCount()).toBe(1);
    ticker.delete('a');
    expect(vi.getTimerCount()).toBe(0);
    ticker.add('c');
    vi.advanceTimersByTime(10);
    ticker.clear();
    expect([vi.getTimerCount(), ticker.size]).toEqual([0, 0]);
    expect(ticks).toEqual([1, 2, 1]);
  });

  test('does not keep the process alive', () => {
    vi.useRealTimers();
    const before = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    const ticker = new Ticker<string>(60_000, () => undefined);
    ticker.add('a');
    const after = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    ticker.clear();
    expect(after).toBe(before);
  });
});
