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
  const code = text.codePointAt(0);
  if (code !== undefined && text.length === (code > 0xff_ff ? 2 : 1)) return [code, code];
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

/** The text that every match starts with, ends with, and contains in one piece, as far as it is literal. */
export interface RequiredText {
  readonly prefix: string;
  readonly suffix: string;
  readonly longest: string;
}

/** The text that every value contains, in this order; empty where the pattern leaves a choice. */
export function literalRuns(root: GlobNode): string[] {
  const runs = [''];
  for (const node of flatten(root)) {
    const [low, high, ...more] = node.kind === 'one' ? node.ranges : [];
    if (low !== undefined && low === high && more.length === 0) {
      runs[runs.length - 1] += String.fromCodePoint(low);
    } else {
      runs.push('');
    }
  }
  return runs;
}

export function requiredText(root: GlobNode): RequiredText {
  const runs = literalRuns(root);
  const longest = runs.reduce((best, run) => (run.length > best.length ? run : best));
  return { prefix: runs[0]!, suffix: runs.at(-1)!, longest };
}

/** The nodes of a sequence, without the sequences inside of it. */
export function* flatten(node: GlobNode): Generator<GlobNode> {
  if (node.kind !== 'all') yield node;
  else for (const part of node.nodes) yield* flatten(part);
}

/** The number of code points that a pattern can consume. */
export function countPositions(node: GlobNode): number {
  switch (node.kind) {
    case 'one':
      return 1;
    case 'assert':
      return 0;
    case 'repeat':
      return countPositions(node.node);
    case 'all':
    case 'either':
      return node.nodes.reduce((sum, part) => sum + countPositions(part), 0);
  }
}
