import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Progress } from '../../src/progress.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('progress', () => {
  it('publishes the first text at once and what follows together', () => {
    const published: string[] = [];
    const progress = new Progress((text) => published.push(text), {
      everyMs: 100,
      maxChars: 1_000,
    });
    progress.add('a');
    progress.add('b');
    progress.add('c');
    expect(published).toEqual(['a']);
    vi.advanceTimersByTime(100);
    expect(published).toEqual(['a', 'bc']);
    progress.add('d');
    progress.add('e');
    progress.end();
    expect(published).toEqual(['a', 'bc', 'd', 'e']);
  });

  it('stops at its limit', () => {
    const published: string[] = [];
    const progress = new Progress((text) => published.push(text), { everyMs: 1, maxChars: 10 });
    for (let n = 0; n < 100; n += 1) {
      progress.add('xxxx');
      vi.advanceTimersByTime(1);
    }
    progress.end();
    expect(published.join('').match(/x/g)).toHaveLength(10);
    expect(published.filter((text) => text.includes('more is not shown'))).toHaveLength(1);
  });
});
