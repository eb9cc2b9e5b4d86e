import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseQuery, ranked, sampleSize, scoreOf } from '../../src/search/relevance.ts';
import { wordsOf } from '../../src/search/words.ts';

const sampleOf = (...texts: readonly string[]) => texts.map(wordsOf);
/** A namespace in which every memory has the first word, and one in ten the second. */
const large = Array.from({ length: sampleSize }, (_, n) =>
  wordsOf(`relay ${n % 10 === 0 ? 'deploy' : 'other'} word${n}`),
);

describe('a query', () => {
  test('leaves out function words, unless it has no others', () => {
    expect([...parseQuery('What is the colour of it?', []).weights.keys()]).toEqual(['colour']);
    expect([...parseQuery('Who am I?', []).weights.keys()]).toEqual(['who', 'am', 'i']);
    expect(parseQuery('… ?', []).weights.size).toBe(0);
  });

  test('weighs a word the less the more memories have it', () => {
    const { weights } = parseQuery('relay deploy needle', large);
    const [approval = 0, deploy = 0, needle = 0] = ['relay', 'deploy', 'needle'].map((word) =>
      weights.get(word),
    );
    expect(needle).toBe(1);
    expect(deploy).toBeLessThan(needle);
    expect(approval).toBeLessThan(0.1);
    expect(approval).toBeLessThan(deploy / 4);
  });

  test('does not judge by the chance of a few memories', () => {
    const { weights } = parseQuery('colour like', sampleOf('my colour is green'));
    expect(weights.get('colour')).toBeGreaterThan(0.7);
  });

  test('looks up only words in the whole namespace that few have', () => {
    const query = parseQuery('relay deploy needle', large);
    expect(query.rare).toEqual(['needle']);
    expect(query.common).toEqual(['deploy', 'relay']);
    const many = parseQuery(Array.from({ length: 30 }, (_, n) => `word${n}`).join(' '), large);
    expect(many.rare.length).toBeLessThan(10);
    expect(many.rare.length + many.common.length).toBe(30);
  });

  test('looks up everything where the sample is all there is', () => {
    const query = parseQuery('relay deploy', large.slice(0, 50));
    expect(query.rare.toSorted()).toEqual(['deploy', 'relay']);
    expect(query.common).toEqual([]);
  });

  test('of many words keeps the rarest, from both of its ends', () => {
    const query = `first ${'relay deploy '.repeat(5_000)} last`;
    const { weights } = parseQuery(query, large);
    expect([...weights.keys()]).toEqual(expect.arrayContaining(['first', 'last', 'deploy']));
    expect([...weights.keys()].at(-1)).toBe('relay');
    const endless = Array.from({ length: 500 }, (_, n) => `w${n}`).join(' ');
    expect(parseQuery(endless, large).weights.size).toBe(32);
  });
});

describe('a score', () => {
  const query = parseQuery('green tea leaf', sampleOf('green tea', 'black tea', 'milk'));
  const score = (text: string) => scoreOf(query, wordsOf(text));

  test('rises with what the memory speaks of, and is 0 for nothing of it', () => {
    expect(score('coffee')).toBe(0);
    expect(score('')).toBe(0);
    expect(score('tea')).toBeLessThan(score('green tea'));
    expect(score('green tea')).toBeLessThan(score('green tea leaf'));
  });

  test('rises a little with repetition, and falls with length', () => {
    expect(score('tea coffee')).toBeLessThan(score('tea tea'));
    expect(score('tea tea tea tea')).toBeLessThan(score('green tea'));
    expect(score(`tea ${'coffee '.repeat(50)}`)).toBeLessThan(score('tea coffee'));
  });

  test('of a query of many words does not need them all', () => {
    const words = Array.from({ length: 30 }, (_, n) => `topic${n}`);
    const long = parseQuery(words.join(' '), sampleOf('topic1 topic2 topic3', 'other'));
    expect(scoreOf(long, ['topic1', 'topic2', 'topic3'])).toBeGreaterThan(0.15);
    expect(scoreOf(long, ['topic1', 'more'])).toBeLessThan(0.15);
  });

  test('lies between 0 and 1, whatever is asked of whatever', () => {
    const texts = fc.array(fc.constantFrom('a', 'tea', 'green', 'x1', '咖啡', 'the'), {
      maxLength: 40,
    });
    fc.assert(
      fc.property(texts, fc.array(texts, { maxLength: 8 }), texts, (query, sample, memory) => {
        const found = scoreOf(parseQuery(query.join(' '), sample), memory);
        expect(found).toBeGreaterThanOrEqual(0);
        expect(found).toBeLessThanOrEqual(1);
      }),
    );
  });

  test('orders the best first, and of equals the newest', () => {
    const of = (id: string, createdAt: number, text: string) => ({
      memory: { id, createdAt },
      words: wordsOf(text),
    });
    const candidates = [
      of('a', 1, 'tea'),
      of('b', 3, 'tea'),
      of('d', 3, 'tea'),
      of('c', 0, 'green tea'),
    ];
    expect(ranked(query, candidates).map(({ memory }) => memory.id)).toEqual(['c', 'd', 'b', 'a']);
  });
});
