import { describe, expect, test } from 'vitest';
import { checkNode } from '../../src/doctor/doctor.ts';
import { clockFinding, skewOf } from '../../src/doctor/server.ts';

const noon = Date.parse('2026-11-15T12:00:00Z');

describe('clock check', () => {
  test.each([
    ['finds no skew within the precision of a date', noon, noon + 900, 0],
    ['finds no skew if the response is slow', noon - 3_000, noon + 2_000, 0],
    ['finds that the server is behind', noon + 60_000, noon + 61_000, -60_000],
    ['finds that the server is ahead', noon - 62_000, noon - 60_000, 60_000],
  ])('%s', (_, sentAt, receivedAt, skew) => {
    expect(skewOf('Sun, 15 Nov 2026 12:00:00 GMT', sentAt, receivedAt)).toBe(skew);
  });

  test('finds nothing without a valid date', () => {
    expect(skewOf(null, noon, noon)).toBeUndefined();
    expect(skewOf('yesterday', noon, noon)).toBeUndefined();
  });

  test('warns about more than a minute', () => {
    expect(clockFinding(-60_000).state).toBe('ok');
    expect(clockFinding(-61_000)).toMatchObject({
      state: 'warning',
      message: "The server's clock is 61 s behind this one",
    });
    expect(clockFinding(120_000).message).toContain('120 s ahead of');
  });
});

test('an old Node version is wrong', () => {
  expect(checkNode('24.0.0').state).toBe('ok');
  expect(checkNode('20.20.2')).toMatchObject({ state: 'wrong', fix: 'install Node 24 or newer' });
});
