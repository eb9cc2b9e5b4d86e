/** Sorted, disjoint, inclusive code point ranges, flat: [low, high, low, high, …]. */
export type CodeRanges = readonly number[];

const LAST_CODE_POINT = 0x10_ff_ff;

export const ANY_CODE: CodeRanges = [0, LAST_CODE_POINT];

export function union(...parts: readonly CodeRanges[]): CodeRanges {
  const pairs: [low: number, high: number][] = [];
  for (const part of parts) {
    for (let at = 0; at + 1 < part.length; at += 2) pairs.push([part[at]!, part[at + 1]!]);
  }
  pairs.sort((a, b) => a[0] - b[0]);
  const merged: number[] = [];
  for (const [low, high] of pairs) {
    const last = merged.at(-1);
    if (last !== undefined && low <= last + 1) merged[merged.length - 1] = Math.max(last, high);
    else merged.push(low, high);
  }
  return merged;
}

export function complement(ranges: CodeRanges): CodeRanges {
  const gaps: number[] = [];
  let from = 0;
  for (let at = 0; at + 1 < ranges.length; at += 2) {
    if (ranges[at]! > from) gaps.push(from, ranges[at]! - 1);
    from = ranges[at + 1]! + 1;
  }
  if (from <= LAST_CODE_POINT) gaps.push(from, LAST_CODE_POINT);
  return gaps;
}

export function except(ranges: CodeRanges, removed: CodeRanges): CodeRanges {
  return complement(union(complement(ranges), removed));
}

export function rangesOf(text: string): CodeRanges {
  return union(...Array.from(text, (char) => [char.codePointAt(0)!, char.codePointAt(0)!]));
}

/** A parsed pattern. An assertion consumes nothing and tests the next code point. */
export type GlobNode =
  | { readonly kind: 'one'; readonly ranges: CodeRanges }
  | { readonly kind: 'all'; readonly nodes: readonly GlobNode[] }
  | { readonly kind: 'either'; readonly nodes: readonly GlobNode[] }
  | {
      readonly kind: 'repeat';
      readonly node: GlobNode;
      readonly min: 0 | 1;
      readonly many: boolean;
    }
  | { readonly kind: 'assert'; readonly next: 'notDot' | 'notEnd' | 'end' };

export const NOT_DOT: GlobNode = { kind: 'assert', next: 'notDot' };
export const NOT_END: GlobNode = { kind: 'assert', next: 'notEnd' };
export const AT_END: GlobNode = { kind: 'assert', next: 'end' };

export function one(ranges: CodeRanges): GlobNode {
  return { kind: 'one', ranges };
}

export function all(...nodes: readonly GlobNode[]): GlobNode {
  return { kind: 'all', nodes };
}

export function either(...nodes: readonly GlobNode[]): GlobNode {
  return { kind: 'either', nodes };
}

export function many(node: GlobNode): GlobNode {
  return { kind: 'repeat', node, min: 0, many: true };
}

export function maybe(node: GlobNode): GlobNode {
  return { kind: 'repeat', node, min: 0, many: false };
}

export function textNode(text: string): GlobNode {
  return all(...Array.from(text, (char) => one(rangesOf(char))));
}
