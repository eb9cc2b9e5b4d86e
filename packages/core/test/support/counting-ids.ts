import type { Ids } from '../../src/ports/index.ts';

/** Ids in the form of UUIDv7 that count up: the same in every test run, and sorted. */
export function createCountingIds(from = 0): Ids {
  let count = from;
  return {
    next() {
      count += 1;
      return `01900000-0000-7000-8000-${count.toString(16).padStart(12, '0')}`;
    },
  };
}
