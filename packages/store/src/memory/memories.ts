/** Memories of a memory store: found by looking at all of a namespace. */
import type { FoundMemory, MemoryFilter, MemoryRecord, MemorySearch, Page } from '@relay/core';
import { questionOf, ranked, sampleSize } from '../search/relevance.ts';
import { wordsOf } from '../search/words.ts';
import { newestFirst, refuseTaken, stored } from './state.ts';
import type { MemoryState, RememberedText } from './state.ts';

export function addMemory(
  state: MemoryState,
  tenantId: string,
  { record, once }: { record: MemoryRecord; once?: string | undefined },
): MemoryRecord {
  const present = [...state.memories.values()].find(
    (entry) => once !== undefined && entry.tenantId === tenantId && entry.once === once,
  );
  if (present !== undefined) return stored(present.memory);
  refuseTaken(state.memories, record.id);
  const memory = stored(record);
  const words = wordsOf(record.text);
  state.memories.set(record.id, { tenantId, memory, words, once: once ?? null });
  return stored(record);
}

export function listMemories(
  state: MemoryState,
  tenantId: string,
  { filter, page }: { filter: MemoryFilter; page: Page },
): MemoryRecord[] {
  return stored(newestFirst(placesOf(state, tenantId, filter), page)).map(({ memory }) => memory);
}

function placesOf(state: MemoryState, tenantId: string, { namespace, now }: MemoryFilter) {
  return [...state.memories.values()]
    .filter(
      ({ tenantId: owner, memory }) =>
        owner === tenantId &&
        (namespace === undefined || memory.namespace === namespace) &&
        !hasExpired(memory, now),
    )
    .map((entry) => ({ at: entry.memory.createdAt, id: entry.memory.id, entry }));
}

export function searchMemories(
  state: MemoryState,
  tenantId: string,
  search: MemorySearch,
): FoundMemory[] {
  const entries = newestFirst(placesOf(state, tenantId, search), { limit: Infinity });
  const question = questionOf(
    search.query,
    entries.slice(0, sampleSize).map(({ words }) => words),
  );
  const having = (words: readonly string[]) => {
    const wanted = new Set(words);
    return entries.filter((entry) => entry.words.some((word) => wanted.has(word)));
  };
  const rare = having(question.rare);
  const isEnough = rare.length >= search.limit;
  const found = isEnough ? rare : having([...question.rare, ...question.common]);
  return ranked(question, found)
    .slice(0, search.limit)
    .map(({ memory, score }) => ({ ...stored(memory), score }));
}

export function deleteMemory(
  state: MemoryState,
  tenantId: string,
  { memoryId, namespace }: { memoryId: string; namespace?: string | undefined },
): boolean {
  const entry = state.memories.get(memoryId);
  if (entry?.tenantId !== tenantId) return false;
  if (namespace !== undefined && entry.memory.namespace !== namespace) return false;
  return state.memories.delete(memoryId);
}

export function clearMemories(
  state: MemoryState,
  tenantId: string,
  { namespace, limit }: { namespace: string; limit: number },
): number {
  const isMeant = (entry: RememberedText) =>
    entry.tenantId === tenantId && entry.memory.namespace === namespace;
  return deleteSome(state, isMeant, limit);
}

export function sweepMemories(state: MemoryState, now: number, limit: number): number {
  return deleteSome(state, ({ memory }) => hasExpired(memory, now), limit);
}

function deleteSome(
  state: MemoryState,
  isMeant: (entry: RememberedText) => boolean,
  limit: number,
): number {
  const meant = [...state.memories.values()].filter(isMeant).slice(0, limit);
  for (const { memory } of meant) state.memories.delete(memory.id);
  return meant.length;
}

function hasExpired({ expiresAt }: MemoryRecord, now: number): boolean {
  return expiresAt !== null && expiresAt <= now;
}
