import { describe, expect, test } from 'vitest';
import { runtime } from '../../src/doctor/doctor.ts';
import { clock, skewOf } from '../../src/doctor/server.ts';

const noon = Date.parse('2026-11-15T12:00:00Z');

describe('the clocks', () => {
  test.each([
    ['agree within the second that a date has', noon, noon + 900, 0],
    ['agree while the answer took its time', noon - 3_000, noon + 2_000, 0],
    ['differ if the server is behind', noon + 60_000, noon + 61_000, -60_000],
    ['differ if the server is ahead', noon - 62_000, noon - 60_000, 60_000],
  ])('%s', (_, asked, answered, skew) => {
    expect(skewOf('Sun, 15 Nov 2026 12:00:00 GMT', asked, answered)).toBe(skew);
  });

  test('say nothing where the server says none', () => {
    expect(skewOf(null, noon, noon)).toBeUndefined();
    expect(skewOf('yesterday', noon, noon)).toBeUndefined();
  });

  test('may differ by a minute', () => {
    expect(clock(-60_000).state).toBe('ok');
    expect(clock(-61_000)).toMatchObject({
      state: 'warning',
      message: "The server's clock is 61 s behind this one",
    });
    expect(clock(120_000).message).toContain('120 s ahead of');
  });
});

test('Node must be new enough', () => {
  expect(runtime('24.0.0').state).toBe('ok');
  expect(runtime('20.20.2')).toMatchObject({ state: 'wrong', mend: 'install Node 24 or newer' });
});
