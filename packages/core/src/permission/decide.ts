import type { Permissions, RuleRef } from '@relay/protocol';
import { matchesDenial, matchesExact, matchesPermission } from './match.ts';

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
}

export interface RuleSet {
  permissions: Permissions;
  /** Indexes in `permissions.allowOnce` that have been used up. */
  usedOnce: readonly number[];
  grants: readonly Grant[];
  builtinAllow: boolean;
}

export type Verdict =
  | { decision: 'allow'; rule: RuleRef }
  | { decision: 'deny'; rule: RuleRef; reason?: string }
  | { decision: 'ask' };

/**
 * Which rule speaks about a call. Denials beat everything; an allow-once comes last, so that it is
 * not used up where a standing rule already allows. Pure: using one up is the caller's append (E7).
 */
export function decide(call: CallToDecide, rules: RuleSet): Verdict {
  return denial(call, rules.permissions) ?? allowance(call, rules) ?? { decision: 'ask' };
}

function denial(call: CallToDecide, permissions: Permissions): Verdict | undefined {
  const byId = permissions.deny?.findIndex((entry) => entry.toolCallId === call.toolCallId) ?? -1;
  if (byId >= 0) {
    const reason = permissions.deny?.[byId]?.reason;
    const rule: RuleRef = { list: 'deny', index: byId, source: 'request' };
    return { decision: 'deny', rule, ...(reason === undefined ? {} : { reason }) };
  }
  const byRule = permissions.denylist?.findIndex((rule) => matchesDenial(call, rule)) ?? -1;
  if (byRule < 0) return undefined;
  return { decision: 'deny', rule: { list: 'denylist', index: byRule, source: 'request' } };
}

function allowance(call: CallToDecide, rules: RuleSet): Verdict | undefined {
  const { allowlist = [], allowOnce = [] } = rules.permissions;
  const standing = allowlist.findIndex((rule) => matchesPermission(call, rule));
  if (standing >= 0) return allow({ list: 'allowlist', index: standing, source: 'request' });
  const granted = rules.grants.findIndex((grant) => matchesGrant(call, grant));
  if (granted >= 0) {
    const { id } = rules.grants[granted]!;
    return allow({ list: 'grants', index: granted, source: 'grant', id });
  }
  if (rules.builtinAllow) return allow({ list: 'builtin', index: 0, source: 'builtin' });
  const once = allowOnce.findIndex(
    (rule, index) => !rules.usedOnce.includes(index) && matchesPermission(call, rule),
  );
  return once < 0 ? undefined : allow({ list: 'allowOnce', index: once, source: 'request' });
}

function allow(rule: RuleRef): Verdict {
  return { decision: 'allow', rule };
}

function matchesGrant(call: CallToDecide, grant: Grant): boolean {
  const { tool, exact, params } = grant;
  if (exact !== undefined && !matchesExact(call, { tool, exact })) return false;
  return matchesPermission(call, params === undefined ? { tool } : { tool, params });
}
