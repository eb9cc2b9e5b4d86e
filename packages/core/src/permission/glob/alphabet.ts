import type { CodeRanges } from './code-ranges.ts';

/**
 * The code points of a pattern, folded into classes that no part of it tells apart. A class is a
 * small number, so that a transition can be looked up in an array.
 */
export interface Alphabet {
  readonly size: number;
  readonly dot: number;
  /** The class of each ASCII code, to be looked up without a call. */
  readonly ascii: Uint16Array;
  /** For each class the indexes of the given sets that contain it. */
  readonly members: readonly (readonly number[])[];
  readonly classOf: (code: number) => number;
}

const DOT = 0x2e;
const ASCII = 0x80;

export function foldAlphabet(sets: readonly CodeRanges[]): Alphabet {
  const starts = [...boundaries(sets)].sort((a, b) => a - b);
  const inSets = membership(starts, sets);
  const classes = new Map<string, number>();
  const members: (readonly number[])[] = [];
  const classAt = starts.map((start, index) => {
    const within = inSets[index]!;
    const key = start === DOT ? 'dot' : within.join(',');
    const known = classes.get(key);
    if (known !== undefined) return known;
    classes.set(key, members.length);
    return members.push(within) - 1;
  });
  const search = (code: number): number => {
    let low = 0;
    let high = starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (starts[middle]! <= code) low = middle;
      else high = middle - 1;
    }
    return classAt[low]!;
  };
  const ascii = Uint16Array.from({ length: ASCII }, (_, code) => search(code));
  return {
    size: members.length,
    dot: search(DOT),
    ascii,
    members,
    classOf: (code) => ascii[code] ?? search(code),
  };
}

function boundaries(sets: readonly CodeRanges[]): Set<number> {
  const starts = new Set([0, DOT, DOT + 1]);
  for (const ranges of sets) {
    for (let at = 0; at + 1 < ranges.length; at += 2) {
      starts.add(ranges[at]!);
      starts.add(ranges[at + 1]! + 1);
    }
  }
  return starts;
}

function membership(starts: readonly number[], sets: readonly CodeRanges[]): readonly number[][] {
  const inSets: number[][] = starts.map(() => []);
  const indexOf = new Map(starts.map((start, index) => [start, index]));
  for (const [set, ranges] of sets.entries()) {
    for (let at = 0; at + 1 < ranges.length; at += 2) {
      const end = indexOf.get(ranges[at + 1]! + 1)!;
      for (let index = indexOf.get(ranges[at]!)!; index < end; index += 1) inSets[index]!.push(set);
    }
  }
  return inSets;
}
