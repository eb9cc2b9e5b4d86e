/**
 * How relevant a memory is to a query: BM25, divided by the score of a perfect memory. It lies between 0
 * and 1 and does not depend on the database, which only finds candidates.
 *
 * - A word weighs less the more memories of the namespace have it, counted in the newest hundred. A few
 *   hypothetical memories without it smooth the counts of small namespaces.
 * - A query of many words is scored as if it had eight: a memory need not contain all of them.
 * - Rare words are looked up in the whole namespace, common ones only among the newest memories and only
 *   if needed, so that the cost of a search does not grow with the namespace.
 */
import { isFunctionWord, wordsOf } from './words.ts';

/** How many of the newest memories show which words are common in a namespace. */
export const sampleSize = 100;
/** How many candidates are scored. */
export const maxCandidates = 60;

const smoothingCount = 20;
const countedWords = 8;
const maxWords = 32;
/** The part of a namespace that rare words may match together. */
const rareShare = 0.05;
/** Of a long query, its beginning and its end are used. */
const endChars = 4_000;
const saturation = 0.5;
const lengthPart = 0.5;

export interface SearchQuery {
  readonly weights: ReadonlyMap<string, number>;
  /** Looked up in the whole namespace, rarest first. */
  readonly rare: readonly string[];
  /** Looked up among the newest memories. */
  readonly common: readonly string[];
  readonly meanLength: number;
}

/** `sample` holds the words of the newest memories. */
export function parseQuery(query: string, sample: readonly (readonly string[])[]): SearchQuery {
  const queryWords = queryWordsIn(query);
  const counts = new Map<string, number>();
  for (const words of sample) {
    for (const word of new Set(words.filter((each) => queryWords.has(each)))) {
      counts.set(word, (counts.get(word) ?? 0) + 1);
    }
  }
  const size = sample.length + smoothingCount + 1;
  const weigh = (word: string) => Math.log(size / ((counts.get(word) ?? 0) + 1)) / Math.log(size);
  const weights = new Map(
    [...queryWords]
      .map((word) => [word, weigh(word)] as const)
      .toSorted(([, a], [, b]) => b - a)
      .slice(0, maxWords),
  );
  const words = [...weights.keys()];
  const rare = rareOf(words, counts, sample.length);
  const length = sample.reduce((sum, words) => sum + words.length, 0);
  return {
    weights,
    rare,
    common: words.slice(rare.length),
    meanLength: Math.max(1, length / Math.max(1, sample.length)),
  };
}

/** The longest prefix of `words`, sorted by weight, that is expected to match few enough memories. */
function rareOf(words: string[], counts: ReadonlyMap<string, number>, size: number): string[] {
  // The sample is the whole namespace.
  if (size < sampleSize) return words;
  let expected = 0;
  const end = words.findIndex((word) => {
    expected += ((counts.get(word) ?? 0) + 0.5) / size;
    return expected > rareShare;
  });
  return end === -1 ? words : words.slice(0, end);
}

function queryWordsIn(query: string): Set<string> {
  const ends =
    query.length <= 2 * endChars ? query : `${query.slice(0, endChars)} ${query.slice(-endChars)}`;
  const words = new Set(wordsOf(ends));
  const meaningful = [...words].filter((word) => !isFunctionWord(word));
  return meaningful.length === 0 ? words : new Set(meaningful);
}

export function scoreOf(query: SearchQuery, words: readonly string[]): number {
  if (query.weights.size === 0) return 0;
  const times = new Map<string, number>();
  for (const word of words) {
    if (query.weights.has(word)) times.set(word, (times.get(word) ?? 0) + 1);
  }
  const length = 1 - lengthPart + (lengthPart * words.length) / query.meanLength;
  let sum = 0;
  let whole = 0;
  for (const [word, weight] of query.weights) {
    const count = times.get(word) ?? 0;
    sum += (weight * count) / (count + saturation * length);
    whole += weight;
  }
  return rounded(Math.min(1, sum / Math.min(whole, countedWords)));
}

/** Further digits mean nothing and would differ between machines. */
function rounded(score: number): number {
  return Math.round(score * 1_000) / 1_000;
}

interface Candidate {
  readonly memory: { readonly id: string; readonly createdAt: number };
  readonly words: readonly string[];
}

/** Best first, then newest. */
export function ranked<Found extends Candidate>(
  query: SearchQuery,
  candidates: readonly Found[],
): (Found & { score: number })[] {
  return candidates
    .map((candidate) => ({ ...candidate, score: scoreOf(query, candidate.words) }))
    .toSorted(
      (a, b) =>
        b.score - a.score ||
        b.memory.createdAt - a.memory.createdAt ||
        (a.memory.id < b.memory.id ? 1 : -1),
    );
}
