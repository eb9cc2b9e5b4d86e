/** Memories, the vectors that represent their meaning, and the embedders that make them. */
import type { FoundBy, MemorySource } from '@relay/protocol';

/** Never changed after it is stored. */
export interface MemoryRecord {
  readonly id: string;
  readonly namespace: string;
  readonly text: string;
  /** The run that it comes from. */
  readonly runId: string | null;
  readonly source: MemorySource;
  readonly createdAt: number;
  /** Hidden from this time on, and deleted later. */
  readonly expiresAt: number | null;
}

export interface MemoryFilter {
  /** Default: all namespaces of the tenant. */
  readonly namespace?: string;
  /** Memories that have expired by this time are omitted. */
  readonly now: number;
}

export interface MemorySearch {
  readonly namespace: string;
  /** Free text; its words are matched. */
  readonly query: string;
  readonly limit: number;
  readonly now: number;
}

export interface FoundMemory extends MemoryRecord {
  /** The relevance to the query, from 0 to 1; see `store/src/search/relevance.ts`. */
  readonly score: number;
}

/** Found by words, by vectors, or by both; see `memory-search.ts`. */
export interface RankedMemory extends MemoryRecord {
  /** As in `FoundMemory`; 0 if it was found by its vector alone. */
  readonly score: number;
  /** The cosine of its vector and the query's, if it was found by its vector. */
  readonly similarity?: number;
  readonly foundBy: FoundBy;
}

/** A memory without a vector is found by its words alone. Its vector is deleted with it. */
export interface VectorStore {
  /**
   * Memories without a vector of this model, at most `limit`, locked for `claimMs`, which grows with
   * the number of failed attempts.
   */
  claim(by: VectorClaim): Promise<MemoryText[]>;
  /** Undoes a claim: the failure was not caused by these memories. */
  release(memoryIds: readonly string[]): Promise<void>;
  /** False if the memory no longer exists. */
  put(vector: MemoryVector): Promise<boolean>;
  /** Whether the space contains any vector. */
  has(space: VectorSpace): Promise<boolean>;
  /** Most similar first, then newest. */
  nearest(search: NearestSearch): Promise<NearMemory[]>;
}

export interface VectorClaim {
  readonly model: string;
  readonly now: number;
  readonly limit: number;
}

export interface MemoryText {
  readonly id: string;
  readonly text: string;
}

export interface MemoryVector {
  readonly memoryId: string;
  readonly model: string;
  readonly vector: Float32Array;
  readonly at: number;
}

export interface VectorSpace {
  readonly namespace: string;
  readonly model: string;
}

export interface NearestSearch extends VectorSpace {
  readonly vector: Float32Array;
  readonly limit: number;
  /** The minimum similarity. */
  readonly floor: number;
  readonly now: number;
}

export interface NearMemory extends MemoryRecord {
  /** The cosine of the two vectors. */
  readonly similarity: number;
}

/** Further attempts do not make a claim longer. */
export const maxCountedAttempts = 5;

/** How long a claim holds after this many failed attempts: from two minutes to less than an hour. */
export function claimMs(attempts: number): number {
  const counted = Math.min(attempts, maxCountedAttempts);
  return 120_000 * (1 + counted * counted);
}

/**
 * How long a vector is kept before one of another model may replace it. Otherwise nodes that are
 * configured with different models, as during a change of it, would replace each other's vectors.
 */
export const modelChangeDelayMs = 10 * 60_000;

export interface Embedder {
  /** Such as `openai:text-embedding-3-small`. Vectors of different models cannot be compared. */
  readonly model: string;
  /** The minimum cosine of two texts that are related. */
  readonly floor: number;
  /**
   * One vector per text, in order. A question has a short timeout; memories are retried. Fails by
   * throwing a `ProviderFailure`.
   */
  embed(texts: readonly string[], options: EmbedOptions): Promise<readonly Float32Array[]>;
}

export interface EmbedOptions {
  readonly purpose: 'question' | 'memory';
  readonly signal?: AbortSignal;
}

/** Without an embedder no memory is sent to a provider. */
export interface Embedders {
  /** The same for all tenants. */
  readonly model: string;
  /** `undefined` for a tenant without a credential for the model. */
  of(tenantId: string): Promise<Embedder | undefined>;
  /** The tenant has a new memory, which needs a vector. */
  memoryAdded(tenantId: string): void;
}
