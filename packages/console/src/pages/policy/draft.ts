/** Changes to a policy before they are saved: what differs, what is wrong, and what others have saved meanwhile. */
import { canonicalJson, type FieldIssue, isObject, type Policy } from '@relay/protocol/wire';
import { parseExactly } from '../../text/exact-json.ts';

/** In the order in which they decide. */
export const policyLists = ['deny', 'ask', 'allow', 'approvers'] as const;
export type PolicyList = (typeof policyLists)[number];

export type Rules = Readonly<Pick<Policy, PolicyList>>;
export type ToolRule = Rules['deny'][number];
export type ApproverRule = Rules['approvers'][number];

export interface Draft {
  /** The version that was changed. */
  readonly base: Rules & Pick<Policy, 'version'>;
  readonly rules: Rules;
}

export function rulesOf({ deny, ask, allow, approvers }: Rules): Rules {
  return { deny, ask, allow, approvers };
}

export function isSameRules(one: Rules, other: Rules): boolean {
  return canonicalJson(rulesOf(one)) === canonicalJson(rulesOf(other));
}

interface Changes {
  readonly added: number;
  readonly removed: number;
}

/** A changed rule counts as removed and added. */
export function countChanges(before: Rules, after: Rules): Changes {
  let [added, removed] = [0, 0];
  for (const list of policyLists) {
    added += without(after[list], before[list]).length;
    removed += without(before[list], after[list]).length;
  }
  return { added, removed };
}

export function changesText({ added, removed }: Changes): string {
  const parts = [
    ...(added === 0 ? [] : [`${added} added`]),
    ...(removed === 0 ? [] : [`${removed} removed`]),
  ];
  return parts.length === 0 ? 'order changed' : parts.join(', ');
}

/** The rules that are not among others; each of the others takes away one that is equal. */
function without<Rule>(rules: readonly Rule[], others: readonly Rule[]): Rule[] {
  const left = new Map<string, number>();
  for (const other of others) {
    const text = canonicalJson(other);
    left.set(text, (left.get(text) ?? 0) + 1);
  }
  return rules.filter((rule) => {
    const text = canonicalJson(rule);
    const count = left.get(text) ?? 0;
    left.set(text, count - 1);
    return count < 1;
  });
}

/** The changes from `base` to `mine`, made to `theirs`. What is new comes last in its list. */
export function combine(base: Rules, mine: Rules, theirs: Rules): Rules {
  const combined = <Rule>(was: readonly Rule[], own: readonly Rule[], other: readonly Rule[]) => {
    const kept = without(other, without(was, own));
    return [...kept, ...without(without(own, was), without(other, was))];
  };
  return {
    deny: combined(base.deny, mine.deny, theirs.deny),
    ask: combined(base.ask, mine.ask, theirs.ask),
    allow: combined(base.allow, mine.allow, theirs.allow),
    approvers: combined(base.approvers, mine.approvers, theirs.approvers),
  };
}

/** One line per rule, so that a comparison by lines is one by rules. */
export function linesOf(rules: Rules): string {
  return policyLists
    .flatMap((list) => rules[list].map((rule) => `${list}  ${ruleText(rule)}\n`))
    .join('');
}

function ruleText({ tool, ...rest }: ToolRule | ApproverRule): string {
  const conditions = Object.keys(rest).length === 0 ? '' : ` ${canonicalJson(rest)}`;
  return `${tool}${conditions}`;
}

export function jsonOf(rules: Rules): string {
  return JSON.stringify(rulesOf(rules), null, 2);
}

/** The lists of a text in JSON, or what is wrong with it. The server checks the rest. */
export function parseRules(text: string): Rules | { readonly problem: string } {
  let value: unknown;
  try {
    value = parseExactly(text);
  } catch (error) {
    return { problem: `This is not JSON: ${error instanceof Error ? error.message : 'unknown'}` };
  }
  if (!isObject(value)) return { problem: 'Write an object with the lists of rules' };
  const unknown = Object.keys(value).find((name) => !policyLists.some((list) => list === name));
  if (unknown !== undefined) {
    return { problem: `There is no list "${unknown}": use ${policyLists.join(', ')}` };
  }
  for (const list of policyLists) {
    const rules = value[list] ?? [];
    if (!Array.isArray(rules)) return { problem: `${list} must be a list` };
    for (const [index, rule] of rules.entries()) {
      const problem = problemOf(rule);
      if (problem !== undefined) return { problem: `${ruleKey(list, index)} ${problem}` };
    }
  }
  return rulesOf({ deny: [], ask: [], allow: [], approvers: [], ...(value as Partial<Rules>) });
}

/** What keeps a rule from being shown. */
function problemOf(rule: unknown): string | undefined {
  if (!isObject(rule) || typeof rule['tool'] !== 'string') return 'must be an object with a "tool"';
  const { params = {}, exact = {} } = rule;
  if (!isObject(params) || Object.values(params).some((pattern) => typeof pattern !== 'string')) {
    return 'has "params" that are no patterns';
  }
  if (!isObject(exact)) return 'has "exact" arguments that are no object';
  const wrong = ['roles', 'groups', 'keys'].find((name) => {
    const given = rule[name] ?? [];
    return !Array.isArray(given) || given.some((each) => typeof each !== 'string');
  });
  return wrong === undefined ? undefined : `has "${wrong}" that are no list of names`;
}

export interface RuleIssues {
  /** Keyed by `deny[0]`. */
  readonly byRule: ReadonlyMap<string, readonly FieldIssue[]>;
  /** About no single rule. */
  readonly others: readonly FieldIssue[];
}

export const noIssues: RuleIssues = { byRule: new Map(), others: [] };

export function ruleKey(list: PolicyList, index: number): string {
  return `${list}[${index}]`;
}

/** The problems that the server names by path, at their rules. The paths are then relative to the rule. */
export function issuesByRule(issues: readonly FieldIssue[]): RuleIssues {
  const byRule = new Map<string, FieldIssue[]>();
  const others: FieldIssue[] = [];
  for (const { path, message } of issues) {
    const [, key, rest = ''] = /^((?:deny|ask|allow|approvers)\[\d+\])\.?(.*)$/.exec(path) ?? [];
    if (key === undefined) others.push({ path, message });
    else byRule.set(key, [...(byRule.get(key) ?? []), { path: rest, message }]);
  }
  return { byRule, others };
}
