import { type CodeRanges, rangesOf } from './code-ranges.ts';

/** What a pattern means. An assertion consumes nothing and looks at the next code point. */
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
