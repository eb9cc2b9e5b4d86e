import { describe, expect, test } from 'vitest';
import { findMemories } from '../../../src/run/context/memory-search.ts';
import type {
  Embedder,
  MemorySearch,
  NearestSearch,
  SystemStore,
} from '../../../src/ports/index.ts';
import { ProviderFailure } from '../../../src/ports/index.ts';
import { ManualClock } from '../../support/index.ts';

const record = (id: string) => ({
  id,
  namespace: 'n',
  text: `Text of ${id}`,
  runId: null,
  source: 'api' as const,
  createdAt: 0,
  expiresAt: null,
});

interface Scene {
  readonly words?: Readonly<Record<string, number>>;
  readonly near?: Readonly<Record<string, number>>;
  readonly embed?: Embedder['embed'];
  readonly of?: () => Promise<Embedder | undefined>;
  /** No embedder at all. */
  readonly isOff?: boolean;
  readonly isEmpty?: boolean;
  /** Vectors cannot be compared. */
  readonly isBroken?: boolean;
}

function setUp(scene: Scene) {
  const asked: { texts: string[]; words: MemorySearch[]; near: NearestSearch[] } = {
    texts: [],
    words: [],
    near: [],
  };
  const tenant = {
    async searchMemories(search: MemorySearch) {
      asked.words.push(search);
      return Object.entries(scene.words ?? {})
        .map(([id, score]) => ({ ...record(id), score }))
        .slice(0, search.limit);
    },
    vectors: {
      has: async () => scene.isEmpty !== true,
      async nearest(search: NearestSearch) {
        asked.near.push(search);
        if (scene.isBroken === true) throw new Error('The disk is full');
        const near = Object.entries(scene.near ?? {});
        return near
          .map(([id, similarity]) => ({ ...record(id), similarity }))
          .slice(0, search.limit);
      },
    },
  };
  const embedder: Embedder = {
    model: 'test:a',
    floor: 0.3,
    embed:
      scene.embed ??
      (async (texts) => {
        asked.texts.push(...texts);
        return texts.map(() => Float32Array.of(1, 0));
      }),
  };
  const of = scene.of ?? (async () => embedder);
  const engine = {
    store: { tenant: () => tenant } as unknown as SystemStore,
    clock: new ManualClock(),
    ...(scene.isOff === true
      ? {}
      : { embedders: { model: 'test:a', of, memoryAdded: () => undefined } }),
  };
  const find = (over: object = {}) =>
    findMemories(engine, 't', {
      namespace: 'n',
      query: 'Which pet?',
      limit: 3,
      wordFloor: 0.15,
      ...over,
    });
  return { asked, find };
}

const idsOf = (found: { memories: readonly { id: string }[] }) =>
  found.memories.map(({ id }) => id);

describe('memories found by words and by meaning', () => {
  test('are merged by rank: what both searches found comes first', async () => {
    const { find } = setUp({ words: { a: 0.9, b: 0.5 }, near: { c: 0.8, b: 0.7, d: 0.6 } });
    const found = await find();
    expect(found.memories.map(({ id, foundBy }) => [id, foundBy])).toEqual([
      ['b', 'both'],
      ['a', 'words'],
      ['c', 'meaning'],
    ]);
    expect(found.memories[0]).toMatchObject({ score: 0.5, similarity: 0.7 });
    expect(found.memories[1]).not.toHaveProperty('similarity');
    expect(found.memories[2]).toMatchObject({ score: 0, similarity: 0.8 });
    expect(found.meaning).toEqual({ model: 'test:a' });
  });

  test('are fused before they are cut: what is second for both is the best of all', async () => {
    const { find } = setUp({ words: { a: 0.9, b: 0.8 }, near: { c: 0.9, b: 0.8 } });
    const found = await find({ limit: 1 });
    expect(found.memories).toMatchObject([{ id: 'b', foundBy: 'both', score: 0.8 }]);
    const { find: byWords, asked } = setUp({ words: { a: 0.9, b: 0.8 }, isOff: true });
    expect(idsOf(await byWords({ limit: 1 }))).toEqual(['a']);
    expect(asked.words).toMatchObject([{ limit: 1 }]);
  });

  test('come in the same order every time, also where ranks are equal', async () => {
    const orders = [];
    for (let n = 0; n < 3; n += 1) {
      const { find } = setUp({ words: { a: 0, z: 0 }, near: { b: 0.5, y: 0.5 } });
      orders.push(idsOf(await find({ wordFloor: 0, limit: 4 })));
    }
    for (const order of orders) expect(order).toEqual(['b', 'a', 'z', 'y']);
  });

  test('have a floor each', async () => {
    const { find, asked } = setUp({ words: { a: 0.1, b: 0.15 }, near: {} });
    expect(idsOf(await find())).toEqual(['b']);
    expect(asked.near).toMatchObject([{ floor: 0.3, model: 'test:a', namespace: 'n' }]);
  });

  test('are found by words alone where there is no embedder, or none for the tenant', async () => {
    for (const scene of [{ isOff: true }, { of: async () => undefined }]) {
      const found = await setUp({ words: { a: 0.9 }, near: { b: 1 }, ...scene }).find();
      expect(found.memories).toEqual([{ ...record('a'), score: 0.9, foundBy: 'words' }]);
      expect(found).not.toHaveProperty('meaning');
    }
  });

  test('a query is not embedded if there are no vectors, or if it is blank', async () => {
    const empty = setUp({ isEmpty: true });
    expect(await empty.find()).toEqual({ memories: [] });
    const silent = setUp({});
    await silent.find({ query: ' \n' });
    expect([...empty.asked.texts, ...silent.asked.texts]).toEqual([]);
  });

  test('of a long question the beginning is sent, well formed', async () => {
    const { find, asked } = setUp({});
    await find({ query: `${'x'.repeat(7_999)}😀 and more` });
    expect(asked.texts[0]).toBe(`${'x'.repeat(7_999)}\ufffd`);
  });

  test('a provider failure is reported with its message, and the word search answers alone', async () => {
    const failed = new ProviderFailure('The provider answered 503', { retryable: true });
    const { find } = setUp({
      words: { a: 0.9 },
      near: { b: 1 },
      embed: () => Promise.reject(failed),
    });
    expect(await find()).toMatchObject({
      memories: [{ id: 'a' }],
      meaning: { model: 'test:a', failed: 'The provider answered 503' },
    });
  });

  test('if vectors cannot be compared, the word search answers alone', async () => {
    const found = await setUp({ words: { a: 0.9 }, isBroken: true }).find();
    expect(found).toMatchObject({
      memories: [{ id: 'a', foundBy: 'words' }],
      meaning: { model: 'test:a', failed: 'The vectors could not be compared' },
    });
  });

  test('any other failure is reported without its message, which may hold a secret', async () => {
    const secret = () => Promise.reject(new Error('sk-secret'));
    for (const scene of [{ embed: secret }, { of: secret }]) {
      const found = await setUp(scene).find();
      expect(found.meaning).toEqual({
        model: 'test:a',
        failed: 'The query could not be embedded',
      });
    }
  });

  test('an answer without a vector is a failure', async () => {
    const found = await setUp({ embed: async () => [] }).find();
    expect(found.meaning?.failed).toBe('The provider sent no vector');
  });
});
