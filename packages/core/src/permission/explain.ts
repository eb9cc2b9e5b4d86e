/** What the rules would make of a call, and which of them says so. Nothing is used up by it. */
import type { Permissions, RuleRef } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import { decide, declaredBy, type Grant, type Verdict } from './decide.ts';
import type { ToolRule } from './match.ts';
import { type Policy, policiesOf } from './policy.ts';
import type { TenantStore } from '../ports/index.ts';
import { readArguments } from '../run/arguments.ts';
import { resolvePaths } from '../run/arguments.ts';

export interface CallToExplain {
  readonly tool: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly permissions: Permissions;
  /** Whose grants count besides the tenant's. */
  readonly runId?: string;
  readonly conversationId?: string;
  /** Whose policy counts besides the one for all. */
  readonly agent: string;
}

export interface Explanation {
  readonly decision: 'allow' | 'deny' | 'ask';
  readonly rule?: RuleRef & {
    readonly tool: string;
    readonly params?: Readonly<Record<string, string>>;
    readonly exact?: Readonly<Record<string, unknown>>;
  };
  readonly reason: string;
}

export async function explainCall(
  engine: Engine,
  store: TenantStore,
  call: CallToExplain,
): Promise<Explanation> {
  const { permissions, runId = '', conversationId = '' } = call;
  const now = engine.clock.now();
  const grants = await store.readGrants({ runId, conversationId, now });
  const policies = policiesOf(await store.policies.inForce(call.agent));
  const tool = engine.tools(store.tenantId).find(call.tool);
  const reading = tool === undefined ? undefined : readArguments(tool, call.params);
  // Rules see what the tool's schema makes of the arguments, as they do at the gate.
  const seen = reading?.ok === true ? reading.input : call.params;
  const looking = reading?.ok === true ? await resolvePaths(tool, reading.input) : undefined;
  const resolvedPaths = looking?.ok === true ? looking.resolvedPaths : undefined;
  const verdict = decide(
    { toolCallId: '', name: call.tool, arguments: { ...seen } },
    {
      permissions,
      usedOnce: [],
      grants,
      policies,
      builtinAllow: tool?.allowedByDefault ?? false,
      ...declaredBy(tool, resolvedPaths),
    },
  );
  const problem = reading?.ok === false ? reading.problem : undefined;
  const notes = [
    ...(tool === undefined ? ['No tool of this name is registered: its parameters are text.'] : []),
    ...(problem === undefined ? [] : [`The arguments do not fit the tool: ${problem}.`]),
    ...(looking?.ok === false ? [`The tool would refuse the path: ${looking.problem}.`] : []),
  ];
  const reason = [sentenceOn(verdict), ...notes].join(' ');
  const { decision, rule } = verdict;
  if (rule === undefined) return { decision, reason };
  const found = ruleAt(rule, permissions, { grants, policies });
  return { decision, rule: named(rule, call.tool, found), reason };
}

function named(
  rule: RuleRef,
  tool: string,
  found: Pick<ToolRule, 'params' | 'exact'> | undefined,
): NonNullable<Explanation['rule']> {
  const { params, exact } = found ?? {};
  return {
    ...rule,
    tool,
    ...(params === undefined ? {} : { params }),
    ...(exact === undefined ? {} : { exact }),
  };
}

function ruleAt(
  { list, index, source, id }: RuleRef,
  permissions: Permissions,
  { grants, policies }: { grants: readonly Grant[]; policies: readonly Policy[] },
): ToolRule | undefined {
  const policy = source === 'policy' ? policies.find((each) => each.id === id) : undefined;
  switch (list) {
    case 'allow':
    case 'ask':
      return policy?.[list][index];
    case 'allowlist':
    case 'allowOnce':
    case 'denylist':
      return permissions[list]?.[index];
    case 'grants':
      return grants[index];
    case 'deny':
      return policy?.deny[index];
    case 'builtin':
    case 'headless':
      return undefined;
  }
}

const sayings = { allow: 'allows it', deny: 'denies it', ask: 'wants a person asked' } as const;

function sentenceOn(verdict: Verdict): string {
  const { rule } = verdict;
  if (rule === undefined) return 'No rule allows this call: a person is asked.';
  const { list, index, source } = rule;
  if (list === 'headless') {
    return 'No rule allows this call without a person, and nobody is there to be asked.';
  }
  if (source === 'policy') return `${list}[${index}] of the policy ${sayings[verdict.decision]}.`;
  if (verdict.decision === 'deny') return `${list}[${index}] of the request denies it.`;
  if (source === 'builtin') return 'The tool is allowed unless a rule denies it.';
  if (source === 'grant') return 'A grant allows it.';
  return `${list}[${index}] of the request allows it.`;
}
