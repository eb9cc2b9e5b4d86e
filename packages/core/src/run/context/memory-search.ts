/**
 * Memory search by words and, if the tenant has an embedder, by vectors. Both run at the same time, and
 * their results are merged by reciprocal rank fusion, because the scores cannot be compared. If the
 * vector search fails, the word search answers alone and the result says so.
 */
import type { EventOf } from '@relay/protocol';
import type { Engine } from '../../engine.ts';
import { isStoreFault } from '../errors.ts';
import {
  type Embedders,
  type FoundMemory,
  type NearMemory,
  ProviderFailure,
  type RankedMemory,
} from '../../ports/index.ts';

export interface MemoryQuery {
  readonly namespace: string;
  readonly query: string;
  readonly limit: number;
  /** Memories with a lower word score are left out of the word search. */
  readonly wordFloor: number;
}

/** The model of the vector search, or why the search failed. */
type VectorSearch = NonNullable<EventOf<'memory.recalled'>['meaning']>;

export interface MemorySearchResult {
  readonly memories: RankedMemory[];
  /** Absent without a vector search: no embedder, or no vectors in the namespace. */
  readonly meaning?: VectorSearch;
}

/** Best first, in a stable order. */
export async function findMemories(
  engine: Pick<Engine, 'store' | 'clock' | 'embedders'>,
  tenantId: string,
  search: MemoryQuery,
): Promise<MemorySearchResult> {
  const { namespace, query, limit, wordFloor } = search;
  const now = engine.clock.now();
  const store = engine.store.tenant(tenantId);
  // Both searches return more than the limit: second in each list may be the best overall.
  const depth = engine.embedders === undefined ? limit : 2 * limit;
  const [words, near] = await Promise.all([
    store.searchMemories({ namespace, query, limit: depth, now }),
    searchByVector(engine, tenantId, search),
  ]);
  const byWords = words.filter(({ score }) => score >= wordFloor);
  const memories = fuse(byWords, near?.memories ?? []).slice(0, limit);
  return near === undefined ? { memories } : { memories, meaning: near.meaning };
}

interface VectorMatches {
  readonly memories: NearMemory[];
  readonly meaning: VectorSearch;
}

/** Undefined without a vector search. */
async function searchByVector(
  { store, clock, embedders }: Pick<Engine, 'store' | 'clock' | 'embedders'>,
  tenantId: string,
  { namespace, query, limit }: MemoryQuery,
): Promise<VectorMatches | undefined> {
  if (embedders === undefined || query.trim() === '') return undefined;
  const { vectors } = store.tenant(tenantId);
  const { model } = embedders;
  // The query is not sent to a provider if there is nothing to compare it with.
  if (!(await vectors.has({ namespace, model }))) return undefined;
  const embedded = await embedQuery(embedders, tenantId, query);
  if (embedded === undefined) return undefined;
  if ('failed' in embedded) return { memories: [], meaning: { model, ...embedded } };
  const search = { ...embedded, namespace, model, limit: 2 * limit, now: clock.now() };
  try {
    return { memories: await vectors.nearest(search), meaning: { model } };
  } catch (error) {
    if (isStoreFault(error)) throw error;
    return { memories: [], meaning: { model, failed: 'The vectors could not be compared' } };
  }
}

/** Providers refuse long texts, and the beginning of a query says what it is about. */
const maxChars = 8_000;

/** Rejects only if the store fails; undefined for a tenant without an embedder. */
async function embedQuery(
  embedders: Embedders,
  tenantId: string,
  query: string,
): Promise<{ vector: Float32Array; floor: number } | { failed: string } | undefined> {
  try {
    const embedder = await embedders.of(tenantId);
    const text = query.slice(0, maxChars).toWellFormed();
    const [vector] = (await embedder?.embed([text], { purpose: 'question' })) ?? [];
    if (embedder === undefined) return undefined;
    return vector === undefined
      ? { failed: 'The provider sent no vector' }
      : { vector, floor: embedder.floor };
  } catch (error) {
    if (isStoreFault(error)) throw error;
    // Messages of other errors may hold secrets (E8).
    const isKnown = error instanceof ProviderFailure;
    return { failed: isKnown ? error.message : 'The query could not be embedded' };
  }
}

/** The usual constant of reciprocal rank fusion. */
const rankConstant = 60;

function fuse(words: readonly FoundMemory[], near: readonly NearMemory[]): RankedMemory[] {
  const found = new Map<string, { memory: RankedMemory; rank: number }>();
  for (const [index, memory] of words.entries()) {
    found.set(memory.id, { memory: { ...memory, foundBy: 'words' }, rank: rankScore(index) });
  }
  for (const [index, memory] of near.entries()) {
    const { similarity } = memory;
    const known = found.get(memory.id);
    found.set(
      memory.id,
      known === undefined
        ? { memory: { ...memory, score: 0, foundBy: 'meaning' }, rank: rankScore(index) }
        : {
            memory: { ...known.memory, similarity, foundBy: 'both' },
            rank: known.rank + rankScore(index),
          },
    );
  }
  return [...found.values()]
    .toSorted(
      (a, b) =>
        b.rank - a.rank || b.memory.score - a.memory.score || (a.memory.id < b.memory.id ? 1 : -1),
    )
    .map(({ memory }) => memory);
}

function rankScore(index: number): number {
  return 1 / (rankConstant + 1 + index);
}
