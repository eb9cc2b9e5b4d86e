import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Pacer } from '../src/pacer.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function open() {
  const pacer = new Pacer({ baseMs: 4, msPerStart: 1, maxMs: 10 });
  const started: string[] = [];
  const add = (...names: string[]) => {
    for (const name of names) pacer.add(() => started.push(name));
  };
  return { pacer, started, add };
}

describe('Pacer', () => {
  test('starts at once what arrives while it is idle, and then after the interval', () => {
    const { started, add } = open();
    add('a', 'b');
    expect(started).toEqual(['a']);
    vi.advanceTimersByTime(4);
    expect(started).toEqual(['a']);
    vi.advanceTimersByTime(1);
    expect(started).toEqual(['a', 'b']);
  });

  test('is idle again after an interval in which nothing was added, without a timer', () => {
    const { started, add } = open();
    add('a');
    vi.advanceTimersByTime(5);
    expect(vi.getTimerCount()).toBe(0);
    add('b');
    expect(started).toEqual(['a', 'b']);
  });

  test('makes the interval longer the more has started, up to the longest', () => {
    const { started, add } = open();
    add('a', 'b', 'c', 'd');
    vi.advanceTimersByTime(5);
    expect(started).toHaveLength(4);
    add('e');
    vi.advanceTimersByTime(6);
    expect(started).toHaveLength(4);
    vi.advanceTimersByTime(1);
    expect(started).toHaveLength(5);
    add(...Array.from({ length: 20 }, () => 'more'));
    vi.advanceTimersByTime(5);
    expect(started).toHaveLength(25);
    add('last');
    vi.advanceTimersByTime(10);
    expect(started.at(-1)).toBe('last');
  });

  test('starts once what was added several times', () => {
    const { pacer } = open();
    const start = vi.fn();
    pacer.add(() => undefined);
    pacer.add(start);
    pacer.add(start);
    vi.advanceTimersByTime(5);
    expect(start).toHaveBeenCalledTimes(1);
  });
});
