import type { RuleSet } from '../../../src/permission/decide.ts';

export type Expected = 'allow' | 'deny' | 'ask';

/** Cases of one kind of trick, in our own words, and what must come of each. */
export interface Group {
  readonly trick: string;
  readonly rules: RuleSet;
  /** The parameter that the values are of. */
  readonly parameter: string;
  readonly cases: readonly (readonly [Expected, string])[];
}

export interface Patterns {
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
  readonly ask?: readonly string[];
}

function rules(
  parameter: string,
  kind: 'command' | 'path' | 'url',
  { allow, deny = [], ask = [] }: Patterns,
) {
  const rule = (pattern: string) => ({ tool: 'tool', params: { [parameter]: pattern } });
  return {
    permissions: {
      allowlist: allow === undefined ? [{ tool: 'tool' }] : allow.map(rule),
      denylist: deny.map(rule),
      ask: ask.map(rule),
    },
    usedOnce: [],
    grants: [],
    builtinAllow: false,
    kinds: { [parameter]: kind },
    sensitive: [parameter],
  } satisfies RuleSet;
}

type Cases = Group['cases'];

export const ofKind =
  (parameter: string, kind: 'command' | 'path' | 'url') =>
  (trick: string, patterns: Patterns, cases: Cases): Group => ({
    trick,
    rules: rules(parameter, kind, patterns),
    parameter,
    cases,
  });
