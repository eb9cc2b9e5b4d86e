import { type ApproverRule, defined, type Permissions, type RuleRef } from '@relay/protocol';
import type { PathResolution, ResolvedPaths, Tool } from '../ports/tool.ts';
import { type Approver, isQuorum } from './approvers.ts';
import { CallMatcher, type ParameterKind, type ToolRule } from './match.ts';
import type { Policy } from './policy.ts';
import { turnAfter, withinSteps } from './step-budget.ts';

export interface CallToDecide {
  toolCallId: string;
  name: string;
  arguments: Record<string, unknown>;
}

/** Allows one exact call, calls that match patterns (`params`), or all calls of the tool. */
export interface Grant {
  id: string;
  tool: string;
  exact?: Record<string, unknown>;
  params?: Record<string, string>;
  /** Holds only for this definition of the tool. */
  definitionDigest?: string;
  /** How many more calls it allows. Default: unlimited. */
  usesLeft?: number;
  /** The persons who made it. */
  approvers?: readonly Approver[];
}

export interface RuleSet {
  permissions: Permissions;
  /** Indexes in `permissions.allowOnce` that have been used up. */
  usedOnce: readonly number[];
  grants: readonly Grant[];
  builtinAllow: boolean;
  /** The tenant's policies: for all agents, and for the calling one. */
  policies?: readonly Policy[];
  /** The person who started the run, whose decision the allow rules of the request are. */
  requester?: Approver | undefined;
  /** The tool demands a person for each call, or, for this reason, for this one. */
  needsApproval?: boolean | string;
  /** What the tool declares its parameters to be. Default: text. */
  kinds?: Readonly<Record<string, ParameterKind>>;
  /** Parameters that a rule with any parameters must name if the call has them. */
  sensitive?: readonly string[];
  /** The path parameters with all links resolved. */
  resolvedPaths?: ResolvedPaths | undefined;
  /** Of the tool: grants for another definition do not count. */
  definitionDigest?: string;
}

/** What a tool declares about its calls and their parameters, and about this call (`resolvePaths`). */
export function declaredBy(
  tool: Pick<Tool, 'needsApproval' | 'kinds' | 'sensitive' | 'definitionDigest'> | undefined,
  resolution?: PathResolution,
): Pick<RuleSet, 'needsApproval' | 'kinds' | 'sensitive' | 'resolvedPaths' | 'definitionDigest'> {
  const { kinds, sensitive, definitionDigest } = tool ?? {};
  const demand = resolution?.ok === true ? resolution.needsApproval : undefined;
  const needsApproval = tool?.needsApproval === true || (demand ?? false);
  const resolvedPaths = pathsOf(resolution);
  return { needsApproval, ...defined({ kinds, sensitive, resolvedPaths, definitionDigest }) };
}

export function pathsOf(resolution: PathResolution | undefined): ResolvedPaths | undefined {
  return resolution?.ok === true ? resolution.resolvedPaths : undefined;
}

export type Verdict =
  | { decision: 'allow'; rule: RuleRef }
  | { decision: 'deny'; rule: RuleRef; reason?: string; tooLarge?: true }
  /** With the `ask` rule, or without a rule if none allows the call. */
  | { decision: 'ask'; rule?: RuleRef; tooLarge?: true };

/**
 * Decides a call by the first rule that matches: deny rules, then what demands a person (`ask` rules,
 * and `needsApproval` of the tool), then allow rules. Allow rules that are used up come last, so that
 * they are kept while a standing rule allows the call too. Parameter kinds can only narrow an allow
 * rule. Where the policy names approvers for the call, only what they allow counts, and the policy's own
 * allow rules. In a headless run, a call that would need approval is denied. Pure: the caller stores the use
 * of a rule (E7).
 *
 * The work is bounded (`step-budget.ts`). What exceeds it is too large to decide: a deny rule could
 * match, so it needs approval, whatever would allow it.
 */
export function decideCall(call: CallToDecide, rules: RuleSet): Verdict {
  return decideCounted(call, rules).verdict;
}

/** For a caller that decides many calls: others get their turn of the event loop in between. */
export async function decideInTurn(call: CallToDecide, rules: RuleSet): Promise<Verdict> {
  const { verdict, steps } = decideCounted(call, rules);
  await turnAfter(steps);
  return verdict;
}

/** The verdict, and the steps that it took. */
export function decideCounted(
  call: CallToDecide,
  rules: RuleSet,
): { readonly verdict: Verdict; readonly steps: number } {
  const { result, steps } = withinSteps(() => evaluate(call, rules));
  const verdict: Verdict = result ?? { decision: 'ask', tooLarge: true };
  if (verdict.decision !== 'ask' || rules.permissions.headless !== true) return { verdict, steps };
  const rule: RuleRef = { list: 'headless', index: 0, source: 'request' };
  const { tooLarge } = verdict;
  const reason = tooLarge === true ? `${tooLargeToDecide} ${noApprover}` : noApprover;
  return { verdict: { decision: 'deny', rule, reason, ...defined({ tooLarge }) }, steps };
}

export const tooLargeToDecide =
  'The call is too large to decide: its arguments and the rules about them take more steps than one decision may.';

export const noApprover = 'The run is headless: it has no approver';

/** Whether the grant was given for the tool as it is defined now. */
export function isForDefinition(
  grant: Pick<Grant, 'definitionDigest'>,
  { definitionDigest }: Pick<RuleSet, 'definitionDigest'>,
): boolean {
  return grant.definitionDigest === definitionDigest && definitionDigest !== '';
}

function evaluate(call: CallToDecide, all: RuleSet): Verdict {
  const { counted, matcher } = matcherFor(call, all);
  const { permissions, policies = [] } = counted;
  const denies = (rule: ToolRule) => matcher.denies(rule);
  const denial = findDenial(call, permissions, denies) ?? policyRule(policies, 'deny', denies);
  if (denial !== undefined) return { decision: 'deny', ...denial };
  const ask = findDemand(counted, denies);
  if (ask !== undefined) return { decision: 'ask', ...ask };
  return findAllowance(call, counted, matcher) ?? { decision: 'ask' };
}

/** The rules that count for a call, and what matches them. */
export function matcherFor(
  call: CallToDecide,
  all: RuleSet,
): { readonly counted: RuleSet; readonly matcher: CallMatcher } {
  const grants = all.grants.filter((grant) => isForDefinition(grant, all));
  const rules = { ...all, grants };
  const approvers = approverRulesFor(call, rules);
  const counted = approvers.length === 0 ? rules : allowedByApprovers(rules, approvers);
  const { permissions, policies = [], kinds, sensitive, resolvedPaths } = counted;
  const standing: readonly ToolRule[] = [
    ...(permissions.allowlist ?? []),
    ...counted.grants.filter(({ usesLeft }) => usesLeft === undefined),
    ...policies.flatMap(({ allow: allowed }) => allowed),
  ];
  // An ask rule narrows like a deny rule: nothing is allowed that it cannot read.
  const denylist = [
    ...(permissions.denylist ?? []),
    ...(permissions.ask ?? []),
    ...policies.flatMap(({ deny, ask }) => [...deny, ...ask]),
  ];
  const matcher = new CallMatcher(call, { standing, denylist, kinds, sensitive, resolvedPaths });
  return { counted, matcher };
}

/**
 * The policy's rules about who may decide about the call: the first that matches. Rules before it that
 * may be about the call, because they cannot read it, must be met too: otherwise a call could be
 * disguised to get the approvers of another rule. So must those of the agents that delegated the call.
 */
export function approverRulesFor(
  call: CallToDecide,
  { policies = [], ...declared }: Pick<RuleSet, 'policies' | 'kinds' | 'resolvedPaths'>,
): ApproverRule[] {
  const own = policies.filter(({ delegated }) => delegated !== true);
  const delegated = policies.filter((policy) => policy.delegated === true);
  const lists = [...delegated.map((each) => each.approvers), own.flatMap((each) => each.approvers)];
  const found = lists.flatMap((list) => firstThatMatches(call, list, declared));
  return [...new Set(found)];
}

function firstThatMatches(
  call: CallToDecide,
  list: readonly ApproverRule[],
  { kinds, resolvedPaths }: Pick<RuleSet, 'kinds' | 'resolvedPaths'>,
): ApproverRule[] {
  const rules = list.filter(({ tool }) => tool === call.name);
  if (rules.length === 0) return [];
  const matcher = new CallMatcher(call, { standing: [], kinds, resolvedPaths });
  const found: ApproverRule[] = [];
  let read = 0;
  const { result } = withinSteps(() => {
    for (const rule of rules) {
      if (matcher.concerns(rule)) {
        found.push(rule);
        if (matcher.denies(rule)) return true;
      }
      read += 1;
    }
    return true;
  });
  // A call that is too large to read may be about any of the remaining rules.
  return result === undefined ? [...new Set([...found, ...rules.slice(read)])] : found;
}

/** Without the allow rules and grants that are not a decision of enough approvers. */
function allowedByApprovers(rules: RuleSet, demanded: readonly ApproverRule[]): RuleSet {
  const { permissions, grants, requester } = rules;
  const decided = (approvers: readonly Approver[]) =>
    demanded.every((rule) => isQuorum(rule, approvers, requester?.person ?? ''));
  return {
    ...rules,
    permissions:
      requester !== undefined && decided([requester])
        ? permissions
        : { ...permissions, allowlist: [], allowOnce: [] },
    grants: grants.filter(({ approvers = [] }) => decided(approvers)),
    builtinAllow: false,
  };
}

/** What demands a person for the call, whatever allows it. */
function findDemand(
  { permissions, policies = [], needsApproval }: RuleSet,
  matches: (rule: ToolRule) => boolean,
): { rule: RuleRef } | undefined {
  const asked = permissions.ask?.findIndex(matches) ?? -1;
  if (asked >= 0) return { rule: { list: 'ask', index: asked, source: 'request' } };
  const rule = policyRule(policies, 'ask', matches);
  if (rule !== undefined || needsApproval === undefined || needsApproval === false) return rule;
  const reason = needsApproval === true ? undefined : needsApproval;
  return { rule: { list: 'needsApproval', index: 0, source: 'builtin', ...defined({ reason }) } };
}

/** The first rule of the policies' lists that matches. */
function policyRule(
  policies: readonly Policy[],
  list: 'allow' | 'deny' | 'ask',
  matches: (rule: ToolRule) => boolean,
): { rule: RuleRef } | undefined {
  for (const policy of policies) {
    const index = policy[list].findIndex(matches);
    if (index >= 0) return { rule: { list, index, source: 'policy', id: policy.id } };
  }
  return undefined;
}

function findDenial(
  call: CallToDecide,
  permissions: Permissions,
  denies: (rule: ToolRule) => boolean,
): { rule: RuleRef; reason?: string } | undefined {
  const byId = permissions.deny?.findIndex((entry) => entry.toolCallId === call.toolCallId) ?? -1;
  if (byId >= 0) {
    const reason = permissions.deny?.[byId]?.reason;
    const rule: RuleRef = { list: 'deny', index: byId, source: 'request' };
    return defined({ rule, reason });
  }
  const byRule = permissions.denylist?.findIndex(denies) ?? -1;
  if (byRule < 0) return undefined;
  return { rule: { list: 'denylist', index: byRule, source: 'request' } };
}

function findAllowance(
  call: CallToDecide,
  rules: RuleSet,
  matcher: CallMatcher,
): Verdict | undefined {
  const { allowlist = [], allowOnce = [] } = rules.permissions;
  const listed = allowlist.findIndex((rule) => matcher.allows(rule));
  if (listed >= 0) return allow({ list: 'allowlist', index: listed, source: 'request' });
  const granted = findGrant(rules, matcher, 'unlimited');
  if (granted !== undefined) return granted;
  const standing = policyRule(rules.policies ?? [], 'allow', (rule) => matcher.allows(rule));
  if (standing !== undefined) return allow(standing.rule);
  if (rules.builtinAllow && matcher.allows({ tool: call.name })) {
    return allow({ list: 'builtin', index: 0, source: 'builtin' });
  }
  const counted = findGrant(rules, matcher, 'counted');
  if (counted !== undefined) return counted;
  const once = allowOnce.findIndex(
    (rule, index) => !rules.usedOnce.includes(index) && matcher.allows(rule),
  );
  return once < 0 ? undefined : allow({ list: 'allowOnce', index: once, source: 'request' });
}

function findGrant(
  { grants }: RuleSet,
  matcher: CallMatcher,
  kind: 'unlimited' | 'counted',
): Verdict | undefined {
  const index = grants.findIndex(
    (grant) => (kind === 'counted') === (grant.usesLeft !== undefined) && matcher.allows(grant),
  );
  const grant = grants[index];
  if (grant === undefined) return undefined;
  const counted = kind === 'counted' ? ({ counted: true } as const) : {};
  return allow({ list: 'grants', index, source: 'grant', id: grant.id, ...counted });
}

function allow(rule: RuleRef): Verdict {
  return { decision: 'allow', rule };
}
