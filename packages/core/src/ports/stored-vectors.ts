/**
 * What memories mean, as vectors. Every memory waits for one from the moment it is stored; whoever
 * claims it makes one, and until then it is found by its words alone. A vector goes with its memory.
 */
import type { MemoryRecord } from './stored-memories.ts';

export interface VectorStore {
  /**
   * Memories without a vector of this model, at most `limit` that never had one and as many with one
   * of another model. Nobody else gets them for a while, which is longer the more often they were
   * claimed in vain.
   */
  claim(by: VectorClaim): Promise<MemoryText[]>;
  /** False if the memory is gone. */
  put(vector: MemoryVector): Promise<boolean>;
  /** Whether there is anything to compare with. */
  has(space: VectorSpace): Promise<boolean>;
  /** The most alike first; of equals, the newest. */
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
  /** Less alike ones are left out. */
  readonly floor: number;
  readonly now: number;
}

export interface NearMemory extends MemoryRecord {
  /** The cosine of the two vectors. */
  readonly similarity: number;
}

/** How long a claim holds that was made after so many in vain. */
export function claimMs(attempts: number): number {
  return 120_000 * (1 + attempts * attempts);
}
