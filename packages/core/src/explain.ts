/** What the rules would make of a call, and which of them says so. Nothing is used up by it. */
import type { Permissions, RuleRef } from '@relay/protocol';
import type { Engine } from './engine.ts';
import { decide, declaredBy, type Grant, type Verdict } from './permission/decide.ts';
import type { TenantStore } from './ports.ts';
import { readArguments } from './run/arguments.ts';
import { locate } from './run/locate.ts';

export interface CallToExplain {
  readonly tool: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly permissions: Permissions;
  /** Whose grants count besides the tenant's. */
  readonly runId?: string;
  readonly conversationId?: string;
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
  const tool = engine.tools(store.tenantId).find(call.tool);
  const reading = tool === undefined ? undefined : readArguments(tool, call.params);
  // Rules see what the tool's schema makes of the arguments, as they do at the gate.
  const seen = reading?.ok === true ? reading.input : call.params;
  const looking = reading?.ok === true ? await locate(tool, reading.input) : undefined;
  const located = looking?.ok === true ? looking.located : undefined;
  const verdict = decide(
    { toolCallId: '', name: call.tool, arguments: { ...seen } },
    {
      permissions,
      usedOnce: [],
      grants,
      builtinAllow: tool?.allowedByDefault ?? false,
      ...declaredBy(tool, located),
    },
  );
  const problem = reading?.ok === false ? reading.problem : undefined;
  const notes = [
    ...(tool === undefined ? ['No tool of this name is registered: its parameters are text.'] : []),
    ...(problem === undefined ? [] : [`The arguments do not fit the tool: ${problem}.`]),
    ...(looking?.ok === false ? [`The tool would refuse the path: ${looking.problem}.`] : []),
  ];
  const reason = [sentenceOn(verdict), ...notes].join(' ');
  if (verdict.decision === 'ask') return { decision: 'ask', reason };
  return { decision: verdict.decision, rule: named(verdict.rule, call, grants), reason };
}

function named(
  rule: RuleRef,
  { tool, permissions }: CallToExplain,
  grants: readonly Grant[],
): NonNullable<Explanation['rule']> {
  const { params, exact } = ruleAt(rule, permissions, grants) ?? {};
  return {
    ...rule,
    tool,
    ...(params === undefined ? {} : { params }),
    ...(exact === undefined ? {} : { exact }),
  };
}

function ruleAt({ list, index }: RuleRef, permissions: Permissions, grants: readonly Grant[]) {
  switch (list) {
    case 'allowlist':
    case 'allowOnce':
    case 'denylist':
      return permissions[list]?.[index];
    case 'grants':
      return grants[index];
    case 'deny':
    case 'builtin':
      return undefined;
  }
}

function sentenceOn(verdict: Verdict): string {
  if (verdict.decision === 'ask') return 'No rule allows this call: a person is asked.';
  const { list, index, source } = verdict.rule;
  if (verdict.decision === 'deny') return `${list}[${index}] of the request denies it.`;
  if (source === 'builtin') return 'The tool is allowed unless a rule denies it.';
  if (source === 'grant') return 'A grant allows it.';
  return `${list}[${index}] of the request allows it.`;
}
