import { describe, expect, test, vi } from 'vitest';
import { anyOf, backoff, sleep } from '../src/timing.ts';

describe('backoff', () => {
  test('doubles up to ten seconds, with jitter', () => {
    for (let attempt = 0; attempt < 30; attempt += 1) {
      const most = Math.min(10_000, 250 * 2 ** attempt);
      const waits = Array.from({ length: 50 }, () => backoff(attempt));
      for (const ms of waits) {
        expect(ms).toBeGreaterThanOrEqual(most / 2);
        expect(ms).toBeLessThanOrEqual(most);
      }
      expect(new Set(waits).size).toBeGreaterThan(10);
    }
  });

  test('is never shorter than Retry-After', () => {
    expect(backoff(0, 30_000)).toBe(30_000);
    expect(backoff(20, 10)).toBeGreaterThan(1000);
  });
});

describe('sleep', () => {
  test('rejects when the signal is aborted, and leaves no listener', async () => {
    vi.useFakeTimers();
    const gone = new AbortController();
    const waiting = sleep(60_000, gone.signal);
    gone.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    expect(vi.getTimerCount()).toBe(0);
    await expect(sleep(1, gone.signal)).rejects.toThrow('enough');
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });

  test('resolves after the given time', async () => {
    const begun = performance.now();
    await sleep(20, new AbortController().signal);
    expect(performance.now() - begun).toBeGreaterThan(15);
  });
});

test('anyOf aborts with the first signal, and accepts no signals', () => {
  const one = new AbortController();
  const any = anyOf(undefined, one.signal, new AbortController().signal);
  expect(any.aborted).toBe(false);
  one.abort('why');
  expect(any.reason).toBe('why');
  expect(anyOf(undefined).aborted).toBe(false);
});
