import type { Permissions, RuleRef } from '@relay/protocol';
import type { ResolvedPaths, Tool } from '../ports/tool.ts';
import { Judge } from './judge.ts';
import type { ParameterKind } from './kinds.ts';
import type { ToolRule } from './match.ts';
import type { Policy } from './policy.ts';

export type { ParameterKind } from './kinds.ts';

export interface CallToDecide {
  toolCallId: string;
  name: string;
  arguments: Record<string, unknown>;
}

/** A standing answer: of one call (`exact`), of a pattern (`params`), or of the whole tool. */
export interface Grant {
  id: string;
  tool: string;
  exact?: Record<string, unknown>;
  params?: Record<string, string>;
  /** How many more calls it allows; left out: as many as come. */
  usesLeft?: number;
}

export interface RuleSet {
  permissions: Permissions;
  /** Indexes in `permissions.allowOnce` that have been used up. */
  usedOnce: readonly number[];
  grants: readonly Grant[];
  builtinAllow: boolean;
  /** The tenant's standing rules, for all agents and for the one that calls. */
  policies?: readonly Policy[];
  /** What the tool declares its parameters to be; all are text if absent. */
  kinds?: Readonly<Record<string, ParameterKind>>;
  /** Parameters that a rule must name, if it names any and the call has them. */
  sensitive?: readonly string[];
  /** Where path parameters lead, links followed. */
  resolvedPaths?: ResolvedPaths | undefined;
}

/** What a tool says about its parameters, for `decide`. */
export function declaredBy(
  tool: Pick<Tool, 'kinds' | 'sensitive'> | undefined,
  resolvedPaths?: ResolvedPaths,
): Pick<RuleSet, 'kinds' | 'sensitive' | 'resolvedPaths'> {
  return {
    ...(tool?.kinds === undefined ? {} : { kinds: tool.kinds }),
    ...(tool?.sensitive === undefined ? {} : { sensitive: tool.sensitive }),
    ...(resolvedPaths === undefined ? {} : { resolvedPaths }),
  };
}

export type Verdict =
  | { decision: 'allow'; rule: RuleRef }
  | { decision: 'deny'; rule: RuleRef; reason?: string }
  /** With the rule that wants a person asked; without one, none allows it. */
  | { decision: 'ask'; rule?: RuleRef };

/**
 * Which rule speaks about a call. Denials beat everything. What the policy wants a person asked about,
 * nothing allows. Of what allows, that which can be used up comes last, so that it is spared where a
 * standing rule allows too. What a parameter is (`kinds`) can only narrow an
 * allow. What is left to ask is denied where nobody is there. Pure: using one up is the caller's
 * append (E7).
 */
export function decide(call: CallToDecide, rules: RuleSet): Verdict {
  const verdict = judged(call, rules);
  if (verdict.decision !== 'ask' || rules.permissions.headless !== true) return verdict;
  const rule: RuleRef = { list: 'headless', index: 0, source: 'request' };
  return { decision: 'deny', rule, reason: noApprover };
}

export const noApprover = 'Nobody is there to be asked';

function judged(call: CallToDecide, rules: RuleSet): Verdict {
  const { permissions, grants, policies = [], kinds, sensitive, resolvedPaths } = rules;
  const unlimited = grants.filter(({ usesLeft }) => usesLeft === undefined);
  const standing: readonly ToolRule[] = [
    ...(permissions.allowlist ?? []),
    ...unlimited,
    ...policies.flatMap(({ allow: allowed }) => allowed),
  ];
  // An ask narrows as a denial does: where it wants to look and cannot see, nothing is allowed.
  const denylist = [
    ...(permissions.denylist ?? []),
    ...policies.flatMap(({ deny, ask }) => [...deny, ...ask]),
  ];
  const judge = new Judge(call, { standing, denylist, kinds, sensitive, resolvedPaths });
  const denies = (rule: ToolRule) => judge.denies(rule);
  const denying = denial(call, permissions, judge) ?? policyRule(policies, 'deny', denies);
  if (denying !== undefined) return { decision: 'deny', ...denying };
  const asking = policyRule(policies, 'ask', denies);
  if (asking !== undefined) return { decision: 'ask', ...asking };
  return allowance(call, rules, judge) ?? { decision: 'ask' };
}

/** The first rule of a policy's list that holds. */
function policyRule(
  policies: readonly Policy[],
  list: 'allow' | 'deny' | 'ask',
  holds: (rule: ToolRule) => boolean,
): { rule: RuleRef } | undefined {
  for (const policy of policies) {
    const index = policy[list].findIndex(holds);
    if (index >= 0) return { rule: { list, index, source: 'policy', id: policy.id } };
  }
  return undefined;
}

function denial(
  call: CallToDecide,
  permissions: Permissions,
  judge: Judge,
): { rule: RuleRef; reason?: string } | undefined {
  const byId = permissions.deny?.findIndex((entry) => entry.toolCallId === call.toolCallId) ?? -1;
  if (byId >= 0) {
    const reason = permissions.deny?.[byId]?.reason;
    const rule: RuleRef = { list: 'deny', index: byId, source: 'request' };
    return { rule, ...(reason === undefined ? {} : { reason }) };
  }
  const byRule = permissions.denylist?.findIndex((rule) => judge.denies(rule)) ?? -1;
  if (byRule < 0) return undefined;
  return { rule: { list: 'denylist', index: byRule, source: 'request' } };
}

function allowance(call: CallToDecide, rules: RuleSet, judge: Judge): Verdict | undefined {
  const { allowlist = [], allowOnce = [] } = rules.permissions;
  const listed = allowlist.findIndex((rule) => judge.allows(rule));
  if (listed >= 0) return allow({ list: 'allowlist', index: listed, source: 'request' });
  const granted = grantFor(rules, judge, 'unlimited');
  if (granted !== undefined) return granted;
  const standing = policyRule(rules.policies ?? [], 'allow', (rule) => judge.allows(rule));
  if (standing !== undefined) return allow(standing.rule);
  if (rules.builtinAllow && judge.allows({ tool: call.name })) {
    return allow({ list: 'builtin', index: 0, source: 'builtin' });
  }
  const counted = grantFor(rules, judge, 'counted');
  if (counted !== undefined) return counted;
  const once = allowOnce.findIndex(
    (rule, index) => !rules.usedOnce.includes(index) && judge.allows(rule),
  );
  return once < 0 ? undefined : allow({ list: 'allowOnce', index: once, source: 'request' });
}

function grantFor(
  { grants }: RuleSet,
  judge: Judge,
  kind: 'unlimited' | 'counted',
): Verdict | undefined {
  const index = grants.findIndex(
    (grant) => (kind === 'counted') === (grant.usesLeft !== undefined) && judge.allows(grant),
  );
  const grant = grants[index];
  if (grant === undefined) return undefined;
  const counted = kind === 'counted' ? ({ counted: true } as const) : {};
  return allow({ list: 'grants', index, source: 'grant', id: grant.id, ...counted });
}

function allow(rule: RuleRef): Verdict {
  return { decision: 'allow', rule };
}
