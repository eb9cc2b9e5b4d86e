import type { FoundMemory, MemorySearch } from '@relay/core';
import type { SqlAccess, Statement } from '../drivers/driver.ts';
import { maxCandidates, questionOf, ranked } from '../search/relevance.ts';
import {
  type Candidate,
  decodeCandidates,
  selectCandidates,
  selectSample,
  wordsIn,
} from './memories.ts';

/** Rare words first; common ones only where those find less than is wanted. */
export async function searchMemories(
  driver: SqlAccess,
  tenantId: string,
  search: MemorySearch,
): Promise<FoundMemory[]> {
  const select = ({ sql, params }: Statement) => driver.read(sql, params);
  const sample = (await select(selectSample(tenantId, search))).map(wordsIn);
  if (sample.length === 0) return [];
  const question = questionOf(search.query, sample);
  const most = Math.max(maxCandidates, search.limit);
  const found = new Map<string, Candidate>();
  for (const kind of ['rare', 'common'] as const) {
    const words = question[kind];
    if (words.length === 0 || found.size >= search.limit) continue;
    const lookup = selectCandidates(driver.dialect, { ...search, tenantId }, { kind, words, most });
    const candidates = decodeCandidates(await select(lookup));
    for (const candidate of candidates) found.set(candidate.memory.id, candidate);
  }
  return ranked(question, [...found.values()])
    .slice(0, search.limit)
    .map(({ memory, score }) => ({ ...memory, score }));
}
