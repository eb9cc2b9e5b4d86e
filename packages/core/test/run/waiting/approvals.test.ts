import { expect, it } from 'vitest';
import { warningTime } from '../../../src/run/waiting/approvals.ts';

it.each([
  ['a day', 24 * 3_600_000, 600_000],
  ['ten minutes', 600_000, 60_000],
  ['a minute', 60_000, 6_000],
  ['ten seconds', 10_000, 2_000],
  ['three seconds', 3_000, 1_500],
  ['a millisecond', 1, 0],
])('an approval that lives for %s is warned of in time', (_what, ttlMs, lead) => {
  expect(warningTime(5_000, ttlMs)).toBe(5_000 + ttlMs - lead);
});
