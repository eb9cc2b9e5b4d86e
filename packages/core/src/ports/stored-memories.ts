/** Memories as a store keeps, lists and finds them. */
import type { FoundBy, MemorySource } from '@relay/protocol';

/** It never changes: whoever knows better writes another, and deletes this. */
export interface MemoryRecord {
  readonly id: string;
  readonly namespace: string;
  readonly text: string;
  /** The run that it comes from. */
  readonly runId: string | null;
  readonly source: MemorySource;
  readonly createdAt: number;
  /** From this time on it is as if it did not exist. */
  readonly expiresAt: number | null;
}

export interface MemoryFilter {
  /** Left out: all of the tenant's. */
  readonly namespace?: string;
  /** What has expired by then is left out. */
  readonly now: number;
}

export interface MemorySearch {
  readonly namespace: string;
  /** Any text; its words are what counts. */
  readonly query: string;
  readonly limit: number;
  readonly now: number;
}

export interface FoundMemory extends MemoryRecord {
  /** How much of what the query asks it speaks of, from 0 to 1; see `store/search/relevance.ts`. */
  readonly score: number;
}

/** Found by words, by meaning, or by both; see `memory-search.ts`. */
export interface RankedMemory extends MemoryRecord {
  /** As in `FoundMemory`; 0 if it was found by its meaning alone. */
  readonly score: number;
  /** How alike it and the question are, where it was found by its meaning. */
  readonly similarity?: number;
  readonly foundBy: FoundBy;
}
