import { describe, expect, test } from 'vitest';
import {
  revisionModulus,
  SignBitCache,
  type SignBitRow,
  type SignBitSource,
} from '../../src/search/sign-bit-cache.ts';

/** A database of one space, and what was asked of it. */
function sourceOf(rows: SignBitRow[]) {
  const reads: number[] = [];
  const source: SignBitSource = {
    fingerprint: async () => ({
      count: rows.length,
      sum: rows.reduce((sum, { revision }) => sum + (revision % revisionModulus), 0),
    }),
    async *since(revision) {
      reads.push(revision);
      const found = rows
        .filter((row) => row.revision >= revision)
        .toSorted((a, b) => a.revision - b.revision);
      for (let from = 0; from < found.length; from += 2) yield found.slice(from, from + 2);
    },
  };
  return { rows, reads, source };
}

const hour = 3_600_000 * 1_000;
const row = (n: number, revision = n * hour, bytes = 8): SignBitRow => ({
  memoryId: `m${n}`,
  revision,
  signs: new Uint8Array(bytes).fill(n),
});
const idsIn = async (cache: SignBitCache, { source }: { source: SignBitSource }, name = 'a') =>
  (await cache.table(name, 2, source))?.ids;

describe('the cache of signs', () => {
  test('reads a space once, and then only looks whether it changed', async () => {
    const space = sourceOf([row(1), row(2)]);
    const cache = new SignBitCache();
    for (let n = 0; n < 3; n += 1) expect(await idsIn(cache, space)).toEqual(['m1', 'm2']);
    expect(space.reads).toEqual([0]);
  });

  test('reads on where a space has grown, and a little before', async () => {
    const space = sourceOf([row(1), row(2)]);
    const cache = new SignBitCache();
    await idsIn(cache, space);
    space.rows.push(row(3), row(4, 2 * hour - 1_000));
    expect((await idsIn(cache, space))?.toSorted()).toEqual(['m1', 'm2', 'm3', 'm4']);
    expect(space.reads).toEqual([0, 2 * hour - 60_000_000]);
    const table = await cache.table('a', 2, space.source);
    const index = table?.ids.indexOf('m3') ?? -1;
    expect(table?.signs[index * 2]).toBe(0x03030303);
  });

  test('reads a space again that has shrunk or has changed before the overlap', async () => {
    const space = sourceOf([row(2), row(3)]);
    const cache = new SignBitCache();
    await idsIn(cache, space);
    space.rows.push(row(1));
    expect(await idsIn(cache, space)).toEqual(['m1', 'm2', 'm3']);
    expect(space.reads.at(-1)).toBe(0);
    space.rows.splice(0, 1);
    expect(await idsIn(cache, space)).toEqual(['m1', 'm3']);
    expect(space.reads.at(-1)).toBe(0);
    // One goes, one comes, and their number stays.
    space.rows.splice(0, 1, row(9));
    expect(await idsIn(cache, space)).toEqual(['m1', 'm9']);
  });

  test('keeps vectors of different lengths apart, and leaves out what is damaged', async () => {
    const space = sourceOf([row(1), row(2, hour, 12), row(3, hour, 7)]);
    const cache = new SignBitCache();
    expect(await idsIn(cache, space)).toEqual(['m1']);
    expect((await cache.table('a', 3, space.source))?.ids).toEqual(['m2']);
    expect(await cache.table('a', 4, space.source)).toBeUndefined();
    expect(space.reads).toEqual([0]);
  });

  test('holds no more than it may, and lets go of what was used least lately', async () => {
    const cache = new SignBitCache({ maxBytes: 4_000 });
    const spaces = ['a', 'b', 'c', 'd', 'e'].map((name, n) => ({
      name,
      ...sourceOf([row(n), row(n + 10)]),
    }));
    for (const space of spaces) await idsIn(cache, space, space.name);
    expect(cache.bytes).toBeLessThanOrEqual(4_000);
    const [first, last] = [spaces[0], spaces[4]];
    if (first === undefined || last === undefined) throw new Error('There are five');
    await idsIn(cache, last, 'e');
    expect(last.reads).toEqual([0]);
    await idsIn(cache, first, 'a');
    expect(first.reads).toEqual([0, 0]);
    expect(cache.bytes).toBeLessThanOrEqual(4_000);
  });

  test('counts what small spaces cost, and the room that is kept for more', async () => {
    const cache = new SignBitCache({ maxBytes: 100_000 });
    const spaces = Array.from({ length: 100 }, (_, n) => sourceOf([row(n, hour, 1_024)]));
    for (const [n, { source }] of spaces.entries()) {
      expect((await cache.table(`user:${n}`, 256, source))?.signs.byteLength).toBe(1_024);
      expect(cache.bytes).toBeLessThanOrEqual(100_000);
    }
    // Each is a kilobyte of signs, and more than that of bookkeeping.
    for (const n of [99, 98, 50]) await cache.table(`user:${n}`, 256, spaces[n]!.source);
    expect([99, 98, 50].map((n) => spaces[n]?.reads.length)).toEqual([1, 1, 2]);
    const large = sourceOf(Array.from({ length: 33 }, (_, n) => row(n, n * hour, 1_024)));
    const roomy = new SignBitCache();
    const table = await roomy.table('a', 256, large.source);
    expect(roomy.bytes).toBeGreaterThanOrEqual(table?.signs.byteLength ?? Infinity);
  });

  test('drops what it shall forget', async () => {
    const space = sourceOf([row(1)]);
    const cache = new SignBitCache();
    await idsIn(cache, space);
    cache.evict('a');
    cache.evict('never seen');
    expect(cache.bytes).toBe(0);
    await idsIn(cache, space);
    expect(space.reads).toEqual([0, 0]);
    await idsIn(cache, space, 'b');
    cache.evictAll('a');
    expect(cache.bytes).toBeGreaterThan(0);
    cache.evictAll('b');
    expect(cache.bytes).toBe(0);
  });
});
