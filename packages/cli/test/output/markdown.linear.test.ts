import { describe, expect, test } from 'vitest';
import { MarkdownWriter } from '../../src/output/markdown.ts';

const small = 16_384;
const large = 65_536;

function cost(text: string): number {
  const times = Array.from({ length: 3 }, () => {
    const writer = new MarkdownWriter({
      paint: (_, shown) => shown,
      write: () => {},
      columns: () => 80,
    });
    const start = performance.now();
    writer.push(text);
    writer.end();
    return performance.now() - start;
  });
  return Math.min(...times);
}

describe('the time to show Markdown grows with the text and no faster', () => {
  test.each([
    ['![a](', ''],
    ['[a', ''],
    ['[a](b ', ''],
    ['[', ''],
    ['**a', ''],
    ['*a **b', ''],
    ['_a', ''],
    ['~~a', ''],
    ['`a``', ''],
    ['<https:', ''],
    ['a', ' '],
    ['世', 'a'],
    ['> ', 'a'],
    ['- ', 'a'],
    [' ', 'a b'],
    ['| ', '|\n'],
  ])('of %j, again and again, then %j', (unit, end) => {
    const build = (size: number) => {
      const text = unit.repeat(size / unit.length) + end;
      return unit === '| ' ? `| a |\n|${' '.repeat(size)}x|\n${text}` : text;
    };
    const [less, more] = [build(small), build(large)];
    // Four times the text: a factor of 4 if linear, of 16 if quadratic. Of a few measurements on a
    // busy machine the best one counts.
    const ratio = () => cost(more) / Math.max(cost(less), 0.5);
    let best = ratio();
    for (let again = 0; best >= 10 && again < 5; again += 1) best = Math.min(best, ratio());
    expect(best).toBeLessThan(10);
  });
});
