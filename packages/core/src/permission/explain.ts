/** How the rules would decide a call, and by which rule. No rule is used up. */
import {
  type ApproverRule,
  defined,
  type FunctionTool,
  type Permissions,
  type RuleRef,
} from '@relay/protocol';
import type { Engine } from '../engine.ts';
import { describeApprovers, findApprover } from './approvers.ts';
import {
  approverRulesFor,
  decideInTurn,
  declaredBy,
  type Grant,
  isForDefinition,
  tooLargeToDecide,
  type Verdict,
} from './decide.ts';
import { MAX_STEPS, turnAfter } from './step-budget.ts';
import type { ToolRule } from './match.ts';
import { type Policy, policiesOf } from './policy.ts';
import { isSimilar, unknownToolNote } from './tool-name.ts';
import type { TenantStore, Tool } from '../ports/index.ts';
import { parseArguments, resolvePaths } from '../run/arguments.ts';
import { loadState } from '../run/recover.ts';
import { clientTool } from '../run/waiting/client-calls.ts';
import { actionTool } from '../sessions/actions.ts';

export interface CallToExplain {
  readonly tool: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** Default: those of the run, as far as they are not used up. */
  readonly permissions?: Permissions;
  /** The function tools of the request. */
  readonly functions: readonly FunctionTool[];
  /** Its function tools and grants count, and those of its conversation. */
  readonly runId?: string;
  readonly conversationId?: string;
  readonly sessionId?: string;
  /** The person whose call it is, unless there is a run. */
  readonly owner: string;
  /** Its policy counts besides the one for all agents. Default: the agent of the run. */
  readonly agent?: string;
  /** The key of the caller, who is taken for the person who starts the run. */
  readonly keyId: string | null;
}

export interface Explanation {
  readonly decision: 'allow' | 'deny' | 'ask';
  readonly rule?: RuleRef & {
    readonly tool: string;
    readonly params?: Readonly<Record<string, string>>;
    readonly exact?: Readonly<Record<string, unknown>>;
  };
  /** Who may approve the call. */
  readonly approvers?: ApproverRule;
  readonly reason: string;
}

export async function explainCall(
  engine: Engine,
  store: TenantStore,
  call: CallToExplain,
): Promise<Explanation> {
  const { runId = '' } = call;
  const run = await runOf(store, call.runId);
  const { conversationId = run?.conversationId ?? '', agent = run?.agent ?? 'assistant' } = call;
  const { owner } = run ?? call;
  const permissions = call.permissions ?? run?.permissions ?? {};
  const usedOnce = call.permissions === undefined ? (run?.usedOnce ?? []) : [];
  const now = engine.clock.now();
  const sessionId = call.sessionId ?? run?.sessionId;
  const grants = await store.readGrants({ runId, conversationId, sessionId, owner, now });
  const policies = policiesOf(await store.policies.inForce(agent), agent);
  const requester = await findApprover(store, run === undefined ? call.keyId : run.keyId, now);
  const registry = engine.tools(store.tenantId);
  const functions = [...call.functions, ...(run?.functions ?? [])];
  const own = functions.find(({ name }) => name === call.tool);
  const tool =
    own === undefined
      ? ((await actionTool(engine, store, call.tool)) ?? registry.find(call.tool))
      : clientTool(own);
  const parsed = tool === undefined ? undefined : parseArguments(tool, call.params);
  // Rules match the arguments that the tool's schema returns, as they do when a call is decided.
  const input = parsed?.ok === true ? parsed.input : call.params;
  const location = parsed?.ok === true ? await resolvePaths(tool, parsed.input) : undefined;
  const decided = { toolCallId: '', name: call.tool, arguments: { ...input } };
  const declared = declaredBy(tool, location);
  // Others get their turn after the checks of the request, and after the decision.
  await turnAfter(MAX_STEPS);
  const verdict = await decideInTurn(decided, {
    permissions,
    usedOnce,
    grants,
    policies,
    requester,
    builtinAllow: tool?.allowedByDefault ?? false,
    ...declared,
  });
  const demanded = approverRulesFor(decided, { policies, ...declared });
  const approvers = demanded.at(-1);
  const problem = parsed?.ok === false ? parsed.problem : undefined;
  const notes = [
    ...demanded.map(approversNote),
    ...(tool === undefined
      ? [
          `${unknownToolNote(registry.list(), call.tool)} Its parameters are treated as text.`,
          ifFunction,
        ]
      : []),
    ...misnamed(registry.list(), permissions, policies, call.tool),
    ...(problem === undefined ? [] : [`The arguments do not match the tool’s schema: ${problem}.`]),
    ...(location?.ok === false ? [`The tool would refuse the path: ${location.problem}.`] : []),
  ];
  if (
    verdict.decision === 'ask' &&
    grants.some((grant) => wasForAnother(grant, call.tool, declared))
  ) {
    notes.push(definitionNote);
  }
  const demand = location?.ok === true ? location.needsApproval : undefined;
  const reason = [describe(verdict, own !== undefined, demand), ...notes].join(' ');
  const { decision, rule } = verdict;
  if (rule === undefined) return { decision, ...defined({ approvers }), reason };
  const { params, exact } = ruleAt(rule, permissions, grants, policies) ?? {};
  return {
    decision,
    rule: { ...rule, tool: call.tool, ...defined({ params, exact }) },
    ...defined({ approvers }),
    reason,
  };
}

const definitionNote =
  'A grant for this tool does not count: its MCP server has changed the definition of the tool since, or is not connected.';

function wasForAnother(
  grant: Grant,
  tool: string,
  declared: ReturnType<typeof declaredBy>,
): boolean {
  return grant.tool === tool && !isForDefinition(grant, declared);
}

function approversNote(rule: ApproverRule): string {
  return `The policy lets ${describeApprovers(rule)} approve it; rules of a request and grants count only if they come from these approvers.`;
}

const ifFunction =
  'As a function tool of the request (`tools`) it would run without an approval, unless it declares ' +
  '`needsApproval` or a rule demands one; otherwise a call of it fails.';

/** What counts for the calls of a run. */
async function runOf(store: TenantStore, runId: string | undefined) {
  const record = runId === undefined ? undefined : await store.readRun(runId);
  if (record === undefined) return undefined;
  const [spec] = await store.readEvents(record.id, { after: 0, limit: 1 });
  if (spec?.type !== 'run.created') return undefined;
  const { permissions, functions, sessionId } = spec;
  const { agent, conversationId, owner, keyId } = record;
  const { usedOnce } = await loadState(store, record);
  return { agent, conversationId, sessionId, owner, keyId, permissions, functions, usedOnce };
}

const requestLists = ['allowlist', 'allowOnce', 'denylist', 'ask'] as const;
const policyLists = ['allow', 'deny', 'ask', 'approvers'] as const;

/** Rules that seem to be about this tool, but name it differently, and so never match. */
function misnamed(
  tools: readonly Tool[],
  permissions: Permissions,
  policies: readonly Policy[],
  tool: string,
): string[] {
  const all = [
    ...requestLists.flatMap((list) => named(permissions[list] ?? [], list, 'the request')),
    ...policies.flatMap((policy) =>
      policyLists.flatMap((list) => named(policy[list], list, 'the policy')),
    ),
  ];
  return all
    .filter((rule) => rule.tool !== tool && isSimilar(tool, rule.tool))
    .filter((rule) => !tools.some(({ name }) => name === rule.tool))
    .map((rule) => `${rule.at} names \`${rule.tool}\`, so it does not apply to \`${tool}\`.`);
}

function named(rules: readonly ToolRule[], list: string, source: string) {
  return rules.map((rule, index) => ({ tool: rule.tool, at: `${list}[${index}] of ${source}` }));
}

function ruleAt(
  { list, index, source, id }: RuleRef,
  permissions: Permissions,
  grants: readonly Grant[],
  policies: readonly Policy[],
): ToolRule | undefined {
  const policy = source === 'policy' ? policies.find((each) => each.id === id) : undefined;
  switch (list) {
    case 'allow':
      return policy?.allow[index];
    case 'ask':
      return source === 'policy' ? policy?.ask[index] : permissions.ask?.[index];
    case 'allowlist':
    case 'allowOnce':
    case 'denylist':
      return permissions[list]?.[index];
    case 'grants':
      return grants.find((grant) => grant.id === id);
    case 'deny':
      return policy?.deny[index];
    case 'builtin':
    case 'needsApproval':
    case 'headless':
      return undefined;
  }
}

const effects = { allow: 'allows it', deny: 'denies it', ask: 'requires an approval' } as const;

function describe(verdict: Verdict, isFunction: boolean, demand: string | undefined): string {
  const { rule } = verdict;
  if (verdict.decision !== 'allow' && verdict.tooLarge === true) {
    return rule === undefined
      ? `${tooLargeToDecide} A deny rule could match, so it requires an approval.`
      : `${tooLargeToDecide} It requires an approval, and a headless run has no approver.`;
  }
  if (rule === undefined) return 'No rule allows this call, so it requires an approval.';
  const { list, index, source } = rule;
  if (list === 'headless') {
    return 'This call requires an approval, and a headless run has no approver.';
  }
  if (list === 'needsApproval' && demand !== undefined) {
    return `This call requires an approval, whatever allows it: ${demand}.`;
  }
  if (list === 'needsApproval') {
    return 'The tool declares `needsApproval`: each call requires an approval, whatever allows it.';
  }
  if (source === 'policy') return `${list}[${index}] of the policy ${effects[verdict.decision]}.`;
  if (verdict.decision === 'deny') return `${list}[${index}] of the request denies it.`;
  if (verdict.decision === 'ask') {
    return `${list}[${index}] of the request requires an approval, whatever allows it.`;
  }
  if (source === 'builtin' && isFunction) {
    return 'A function tool is the caller’s own code: it runs without an approval, unless a rule denies or asks, or it declares `needsApproval`.';
  }
  if (source === 'builtin') return 'The tool is allowed unless a rule denies it.';
  if (source === 'grant') return 'A grant allows it.';
  return `${list}[${index}] of the request allows it.`;
}
