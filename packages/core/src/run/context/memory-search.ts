/**
 * Finding memories by words and, where the tenant has an embedder, by meaning: both are asked at the
 * same time, and what they find is fused by rank (reciprocal rank fusion), because their measures
 * cannot be compared. Meaning only ever adds: if it fails or is slow, words answer alone, and the
 * finding says so.
 */
import type { EventOf } from '@relay/protocol';
import type { Engine } from '../../engine.ts';
import {
  type Embedders,
  type FoundMemory,
  type NearMemory,
  ProviderFailure,
  type RankedMemory,
} from '../../ports/index.ts';

export interface MemoryQuestion {
  readonly namespace: string;
  readonly query: string;
  readonly limit: number;
  /** What speaks of less of the question than this is not found by its words. */
  readonly wordFloor: number;
}

/** Which model compared meanings, or why it could not. */
type Meaning = NonNullable<EventOf<'memory.recalled'>['meaning']>;

export interface MemoryFinding {
  readonly memories: RankedMemory[];
  /** Left out where meaning is not asked: no embedder, or nothing to compare with. */
  readonly meaning?: Meaning;
}

/** Best first; of equals, the same order every time. */
export async function findMemories(
  engine: Pick<Engine, 'store' | 'clock' | 'embedders'>,
  tenantId: string,
  question: MemoryQuestion,
): Promise<MemoryFinding> {
  const { namespace, query, limit, wordFloor } = question;
  const now = engine.clock.now();
  const store = engine.store.tenant(tenantId);
  // Both lists go deeper than what is wanted: what is second in each may be the best of all.
  const depth = engine.embedders === undefined ? limit : 2 * limit;
  const [words, near] = await Promise.all([
    store.searchMemories({ namespace, query, limit: depth, now }),
    nearTo(engine, tenantId, question),
  ]);
  const spoken = words.filter(({ score }) => score >= wordFloor);
  const memories = fuse(spoken, near?.memories ?? []).slice(0, limit);
  return near === undefined ? { memories } : { memories, meaning: near.meaning };
}

interface Near {
  readonly memories: NearMemory[];
  readonly meaning: Meaning;
}

/** Undefined where meaning has nothing to say. */
async function nearTo(
  { store, clock, embedders }: Pick<Engine, 'store' | 'clock' | 'embedders'>,
  tenantId: string,
  { namespace, query, limit }: MemoryQuestion,
): Promise<Near | undefined> {
  if (embedders === undefined || query.trim() === '') return undefined;
  const { vectors } = store.tenant(tenantId);
  const { model } = embedders;
  // A question is not sent anywhere for nothing.
  if (!(await vectors.has({ namespace, model }))) return undefined;
  const asked = await meaningOf(embedders, tenantId, query);
  if (asked === undefined) return undefined;
  if ('failed' in asked) return { memories: [], meaning: { model, ...asked } };
  const search = { ...asked, namespace, model, limit: 2 * limit, now: clock.now() };
  try {
    return { memories: await vectors.nearest(search), meaning: { model } };
  } catch {
    return { memories: [], meaning: { model, failed: 'The vectors could not be compared' } };
  }
}

/** Of the question: its beginning says what it is about, and providers refuse long ones. */
const maxChars = 8_000;

/** Never rejects; undefined for a tenant without an embedder. */
async function meaningOf(
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
    // Only a provider's failure is known to hold no secret (E8).
    const isKnown = error instanceof ProviderFailure;
    return { failed: isKnown ? error.message : 'The question could not be embedded' };
  }
}

/** The usual constant: how much the first places outweigh the later ones. */
const evenness = 60;

function fuse(words: readonly FoundMemory[], near: readonly NearMemory[]): RankedMemory[] {
  const found = new Map<string, { memory: RankedMemory; rank: number }>();
  for (const [place, memory] of words.entries()) {
    found.set(memory.id, { memory: { ...memory, foundBy: 'words' }, rank: rankOf(place) });
  }
  for (const [place, memory] of near.entries()) {
    const { similarity } = memory;
    const spoken = found.get(memory.id);
    found.set(
      memory.id,
      spoken === undefined
        ? { memory: { ...memory, score: 0, foundBy: 'meaning' }, rank: rankOf(place) }
        : {
            memory: { ...spoken.memory, similarity, foundBy: 'both' },
            rank: spoken.rank + rankOf(place),
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

function rankOf(place: number): number {
  return 1 / (evenness + 1 + place);
}
