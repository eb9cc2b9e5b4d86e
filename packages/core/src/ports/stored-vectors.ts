/**
 * What memories mean, as vectors. Every memory waits for one from the moment it is stored; whoever
 * claims it makes one, and until then it is found by its words alone. A vector goes with its memory.
 */
import type { MemoryRecord } from './stored-memories.ts';

export interface VectorStore {
  /**
   * Memories without a vector of this model, at most `limit`. Nobody else gets them for a while, which
   * is longer the more often they were claimed in vain.
   */
  claim(by: VectorClaim): Promise<MemoryText[]>;
  /** As if these had not been claimed: it was not about them. */
  release(memoryIds: readonly string[]): Promise<void>;
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

/** More of them make no claim longer: whatever it was, it may be over by now. */
export const countedAttempts = 5;

/** How long a claim holds that was made after so many in vain: from two minutes to less than an hour. */
export function claimMs(attempts: number): number {
  const counted = Math.min(attempts, countedAttempts);
  return 120_000 * (1 + counted * counted);
}

/**
 * How long a vector is left alone by those who would make one of another model. Nodes that were told
 * different models, as while one is being changed, would otherwise undo each other's work for ever.
 */
export const remakeMs = 10 * 60_000;
