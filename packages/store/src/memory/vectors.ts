/** Vectors of a memory store: all of a namespace are compared. */
import {
  claimMs,
  type MemoryText,
  type MemoryVector,
  type NearestSearch,
  type NearMemory,
  remakeMs,
  type VectorClaim,
  type VectorSpace,
  type VectorStore,
} from '@relay/core';
import { cosine, normalized } from '../search/signs.ts';
import { stored } from './state.ts';
import type { MemoryState, RememberedText } from './state.ts';

export class MemoryVectorStore implements VectorStore {
  readonly #state: MemoryState;
  readonly #tenantId: string;

  constructor(state: MemoryState, tenantId: string) {
    this.#state = state;
    this.#tenantId = tenantId;
  }

  async claim({ model, now, limit }: VectorClaim): Promise<MemoryText[]> {
    const isDue = (entry: RememberedText) => entry.vector?.model !== model && dueAt(entry) <= now;
    const due = this.#own().filter(isDue).slice(0, limit);
    return due.map((entry) => {
      const attempts = entry.claim?.attempts ?? 0;
      entry.claim = { attempts: attempts + 1, until: now + claimMs(attempts) };
      return { id: entry.memory.id, text: entry.memory.text };
    });
  }

  async release(memoryIds: readonly string[]): Promise<void> {
    for (const entry of this.#own()) {
      if (entry.claim === undefined || !memoryIds.includes(entry.memory.id)) continue;
      entry.claim = { attempts: entry.claim.attempts - 1, until: 0 };
    }
  }

  async put(vector: MemoryVector): Promise<boolean> {
    const entry = this.#own().find(({ memory }) => memory.id === vector.memoryId);
    if (entry === undefined) return false;
    entry.vector = { ...vector, vector: normalized(vector.vector) };
    delete entry.claim;
    return true;
  }

  async has(space: VectorSpace): Promise<boolean> {
    return this.#in(space).length > 0;
  }

  async nearest(search: NearestSearch): Promise<NearMemory[]> {
    const asked = normalized(search.vector);
    return this.#in(search)
      .filter(({ memory }) => memory.expiresAt === null || memory.expiresAt > search.now)
      .filter(({ vector }) => vector?.vector.length === asked.length)
      .map(({ memory, vector }) => ({
        ...stored(memory),
        similarity: cosine(asked, vector?.vector ?? new Float32Array()),
      }))
      .filter(({ similarity }) => similarity >= search.floor)
      .toSorted(
        (a, b) =>
          b.similarity - a.similarity || b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1),
      )
      .slice(0, search.limit);
  }

  #in({ namespace, model }: VectorSpace): RememberedText[] {
    return this.#own().filter(
      ({ memory, vector }) => memory.namespace === namespace && vector?.model === model,
    );
  }

  #own(): RememberedText[] {
    return [...this.#state.memories.values()].filter(({ tenantId }) => tenantId === this.#tenantId);
  }
}

function dueAt({ vector, claim }: RememberedText): number {
  return claim?.until ?? (vector === undefined ? 0 : vector.at + remakeMs);
}
