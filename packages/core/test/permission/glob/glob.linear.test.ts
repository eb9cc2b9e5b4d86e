import { describe, expect, it } from 'vitest';
import { compileGlob } from '../../../src/permission/glob/glob.ts';

const SMALL = 16_384;
const LARGE = 65_536;

const coins = (length: number): string => {
  let seed = 1;
  let flips = '';
  while (flips.length < length) {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    flips += seed > 1_073_741_824 ? 'a' : 'b';
  }
  return flips;
};

/** The best of several runs, each over enough repetitions to be measured. */
function cost(pattern: string, value: string): number {
  const glob = compileGlob(pattern);
  const times = Array.from({ length: 9 }, () => {
    const start = performance.now();
    for (let round = 0; round < 4; round += 1) glob.matches(value);
    return performance.now() - start;
  });
  return Math.min(...times);
}

describe('the time to match grows with the value and no faster', () => {
  it.each([
    ['*a*a*a*c', 'a', 'c'],
    ['*a*a*a*c', 'a', ''],
    ['+(a|aa)', 'a', ''],
    ['+(a|aa)', 'a', 'b'],
    ['*(a+)*b', 'a', 'b'],
    ['*(*(a)|*(a|aa))b', 'a', 'b'],
    ['@(*a|*aa|*a*a)*b', 'a', 'cb'],
    ['**/*a*/**/*a*/**/b', 'a/', 'b'],
    ['*a*b*a*b*', 'coins', ''],
    [`*a${'?'.repeat(20)}b`, 'coins', 'b'],
    [`*a${'?'.repeat(300)}b`, 'coins', 'b'],
    [`@(*a${'?(?)'.repeat(60)}b|c)`, 'coins', 'b'],
  ])('%s against %s… ending in "%s"', (pattern, unit, end) => {
    const build = (size: number): string =>
      (unit === 'coins' ? coins(size) : unit.repeat(size / unit.length)) + end;
    const [small, large] = [build(SMALL), build(LARGE)];
    cost(pattern, large);
    // Four times the value: a factor of 4 if linear, of 16 if quadratic. On a machine that is busy
    // with something else one measurement says little; of a few, the best one counts.
    const ratio = () => cost(pattern, large) / Math.max(cost(pattern, small), 0.02);
    let best = ratio();
    for (let more = 0; best >= 10 && more < 5; more += 1) best = Math.min(best, ratio());
    expect(best).toBeLessThan(10);
  });

  it('and the answer is right past the point where the table of states is full', () => {
    const glob = compileGlob(`*a${'?'.repeat(20)}b`);
    const tail = 'x'.repeat(20);
    for (let round = 0; round < 3; round += 1) {
      expect(glob.matches(`${coins(5_000)}a${tail}b`)).toBe(true);
      expect(glob.matches(`${coins(5_000)}x${tail}b`)).toBe(false);
      expect(glob.matches(`${coins(5_000)}😀a${tail.slice(1)}😀b`)).toBe(true);
    }
  });
});
