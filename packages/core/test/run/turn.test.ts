import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { backoffMs } from '../../src/run/turn.ts';

function withRandom(value: number): void {
  vi.spyOn(Math, 'random').mockReturnValue(value);
}

afterEach(() => {
  vi.restoreAllMocks();
});

describe('the wait before another attempt', () => {
  it('doubles with each attempt', () => {
    withRandom(0);
    expect([1, 2, 3, 4].map((attempt) => backoffMs(attempt))).toEqual([125, 250, 500, 1000]);
  });

  it('varies, so that many runs do not retry at the same time', () => {
    withRandom(0.999_999);
    const latest = backoffMs(3);
    withRandom(0);
    expect(latest).toBeGreaterThan(backoffMs(3) * 1.9);
    vi.restoreAllMocks();
    expect(new Set(Array.from({ length: 20 }, () => backoffMs(3))).size).toBeGreaterThan(1);
  });

  it('is between 125 ms and 30 seconds after any number of attempts', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5000 }), (attempt) => {
        const ms = backoffMs(attempt);
        expect(ms).toBeGreaterThanOrEqual(125);
        expect(ms).toBeLessThanOrEqual(30_000);
      }),
    );
  });

  it('is as long as the provider asked for if that is longer', () => {
    expect(backoffMs(1, 7000)).toBe(7000);
    withRandom(0);
    expect(backoffMs(4, 10)).toBe(1000);
  });

  it('is never shorter than the provider asked for', () => {
    expect(backoffMs(1, 120_000)).toBeGreaterThanOrEqual(120_000);
  });
});
