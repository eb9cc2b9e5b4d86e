import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  candidateCount,
  cosine,
  nearestByHamming,
  normalized,
  signBitsOf,
  type SignBitTable,
} from '../../src/search/sign-bits.ts';

function tableOf(vectors: readonly Float32Array[]): SignBitTable {
  const all = vectors.map(signBitsOf);
  const words = all[0]?.length ?? 0;
  const signs = Uint32Array.from(all.flatMap((each) => [...each]));
  return { ids: all.map((_, n) => `m${n}`), words, signs };
}

const vectors = (length: number) =>
  fc.array(fc.float({ min: -1, max: 1, noNaN: true }), { minLength: length, maxLength: length });

function differenceOf(one: Float32Array, other: Float32Array): number {
  return one.filter((value, index) => value > 0 !== (other[index] as number) > 0).length;
}

describe('signs', () => {
  test('are one bit a number, whatever the length', () => {
    expect([...signBitsOf(Float32Array.of(1, -1, 0, 2))]).toEqual([0b1001]);
    expect([...signBitsOf(new Float32Array(33).fill(1))]).toEqual([0xffffffff, 1]);
    expect(signBitsOf(new Float32Array())).toHaveLength(0);
  });

  test('lead to those that differ in the fewest numbers', () => {
    const many = fc.array(vectors(45), { minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(many, vectors(45), fc.integer({ min: 1, max: 45 }), (all, asked, count) => {
        const [floats, question] = [
          all.map((each) => Float32Array.from(each)),
          Float32Array.from(asked),
        ];
        const found = nearestByHamming(tableOf(floats), signBitsOf(question), count);
        expect(new Set(found).size).toBe(Math.min(count, all.length));
        const differences = floats.map((each) => differenceOf(each, question));
        const kept = found.map((id) => differences[Number(id.slice(1))] as number);
        const best = differences.toSorted((a, b) => a - b).slice(0, count);
        expect(kept.toSorted((a, b) => a - b)).toEqual(best);
      }),
    );
  });

  test('of equals lead to the ones that come last, the same every time', () => {
    const table = tableOf(Array.from({ length: 10 }, () => Float32Array.of(1, 1)));
    const asked = signBitsOf(Float32Array.of(1, 1));
    expect(nearestByHamming(table, asked, 3)).toEqual(['m9', 'm8', 'm7']);
  });

  test('of another length lead nowhere', () => {
    const table = tableOf([new Float32Array(64).fill(1)]);
    expect(nearestByHamming(table, signBitsOf(new Float32Array(32).fill(1)), 3)).toEqual([]);
  });
});

test('of short vectors more are compared, of long ones never few', () => {
  const lengths = [128, 384, 768, 1_536, 3_072];
  expect(lengths.map((each) => candidateCount(each, 10))).toEqual([256, 256, 128, 64, 64]);
  expect([64, 65, 200, 400, 600].map((wanted) => candidateCount(1_536, wanted))).toEqual([
    64, 128, 256, 512, 600,
  ]);
});

test('the cosine of normalized vectors lies between -1 and 1, and is 1 for a vector with itself', () => {
  fc.assert(
    fc.property(vectors(16), vectors(16), (a, b) => {
      const [one, other] = [a, b].map((each) => normalized(Float32Array.from(each)));
      const found = cosine(one as Float32Array, other as Float32Array);
      expect(Math.abs(found)).toBeLessThanOrEqual(1.0001);
    }),
  );
  const vector = normalized(Float32Array.of(3, 4));
  expect(cosine(vector, vector)).toBe(1);
  expect(cosine(vector, Float32Array.of(1))).toBe(0);
  expect([...normalized(new Float32Array(2))]).toEqual([0, 0]);
});
