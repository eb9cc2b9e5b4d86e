/**
 * How well a memory fits a question: one formula for all stores, on candidates that each finds by
 * its own index. It is BM25, divided by what a perfect memory would get, so that it lies between 0
 * and 1 and can be compared with a floor: the part of the question that the memory speaks of.
 *
 * - A word weighs the less the more memories of the namespace have it, counted in the newest hundred.
 *   A few imagined memories without it keep a small namespace from judging by chance.
 * - A question of many words is measured as if it had eight: a memory need not mention everything.
 * - Only rare words are looked up in the whole namespace, and common ones, where those find too
 *   little, among the newest memories: a search never costs the whole namespace.
 */
import { isFunctionWord, wordsOf } from './words.ts';

/** How many of the newest memories show which words are common in a namespace. */
export const sampleSize = 100;
/** How many candidates are looked at for the best few. */
export const maxCandidates = 60;

const imagined = 20;
const wholeQuestion = 8;
const maxWords = 32;
/** The part of a namespace that may have one of the words that are looked up in all of it. */
const rareShare = 0.05;
/** Each end of a long question. */
const endChars = 4_000;
const saturation = 0.5;
const lengthPart = 0.5;

export interface Question {
  readonly weights: ReadonlyMap<string, number>;
  /** What to look up in the whole namespace, the rarest first. */
  readonly rare: readonly string[];
  /** What so many have that looking at the newest is enough. */
  readonly common: readonly string[];
  readonly meanLength: number;
}

/** `sample` is the newest memories, as their words. */
export function questionOf(query: string, sample: readonly (readonly string[])[]): Question {
  const asked = askedIn(query);
  const counts = new Map<string, number>();
  for (const words of sample) {
    for (const word of new Set(words.filter((each) => asked.has(each)))) {
      counts.set(word, (counts.get(word) ?? 0) + 1);
    }
  }
  const size = sample.length + imagined + 1;
  const weigh = (word: string) => Math.log(size / ((counts.get(word) ?? 0) + 1)) / Math.log(size);
  const weights = new Map(
    [...asked]
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

/** `words` come by their weight: the longest beginning that is expected to be had by few enough. */
function rareOf(words: string[], counts: ReadonlyMap<string, number>, size: number): string[] {
  // The sample is all there is.
  if (size < sampleSize) return words;
  let expected = 0;
  const end = words.findIndex((word) => {
    expected += ((counts.get(word) ?? 0) + 0.5) / size;
    return expected > rareShare;
  });
  return end === -1 ? words : words.slice(0, end);
}

function askedIn(query: string): Set<string> {
  const ends =
    query.length <= 2 * endChars ? query : `${query.slice(0, endChars)} ${query.slice(-endChars)}`;
  const words = new Set(wordsOf(ends));
  const meaningful = [...words].filter((word) => !isFunctionWord(word));
  return meaningful.length === 0 ? words : new Set(meaningful);
}

export function scoreOf(question: Question, words: readonly string[]): number {
  if (question.weights.size === 0) return 0;
  const times = new Map<string, number>();
  for (const word of words) {
    if (question.weights.has(word)) times.set(word, (times.get(word) ?? 0) + 1);
  }
  const length = 1 - lengthPart + (lengthPart * words.length) / question.meanLength;
  let sum = 0;
  let whole = 0;
  for (const [word, weight] of question.weights) {
    const count = times.get(word) ?? 0;
    sum += (weight * count) / (count + saturation * length);
    whole += weight;
  }
  return rounded(Math.min(1, sum / Math.min(whole, wholeQuestion)));
}

/** Digits beyond these mean nothing, and would differ from one machine to another. */
function rounded(score: number): number {
  return Math.round(score * 1_000) / 1_000;
}

interface Candidate {
  readonly memory: { readonly id: string; readonly createdAt: number };
  readonly words: readonly string[];
}

/** The best first; of equals, the newest. */
export function ranked<Found extends Candidate>(
  question: Question,
  candidates: readonly Found[],
): (Found & { score: number })[] {
  return candidates
    .map((candidate) => ({ ...candidate, score: scoreOf(question, candidate.words) }))
    .toSorted(
      (a, b) =>
        b.score - a.score ||
        b.memory.createdAt - a.memory.createdAt ||
        (a.memory.id < b.memory.id ? 1 : -1),
    );
}
