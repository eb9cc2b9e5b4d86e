import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Progress } from '../../src/workspace/progress.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('progress', () => {
  it('tells the first words at once and the next together', () => {
    const told: string[] = [];
    const progress = new Progress((text) => told.push(text), { everyMs: 100, maxChars: 1_000 });
    progress.add('a');
    progress.add('b');
    progress.add('c');
    expect(told).toEqual(['a']);
    vi.advanceTimersByTime(100);
    expect(told).toEqual(['a', 'bc']);
    progress.add('d');
    progress.add('e');
    progress.end();
    expect(told).toEqual(['a', 'bc', 'd', 'e']);
  });

  it('is not endless', () => {
    const told: string[] = [];
    const progress = new Progress((text) => told.push(text), { everyMs: 1, maxChars: 10 });
    for (let n = 0; n < 100; n += 1) {
      progress.add('xxxx');
      vi.advanceTimersByTime(1);
    }
    progress.end();
    expect(told.join('').match(/x/g)).toHaveLength(10);
    expect(told.filter((text) => text.includes('more is not shown'))).toHaveLength(1);
  });
});
