/** How the rules would decide a call, and by which rule. No rule is used up. */
import {
  type ApproverRule,
  defined,
  type ExplainedParameter,
  type FieldIssue,
  type FunctionTool,
  type Permissions,
  type PolicyRules,
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
  type RuleSet,
  tooLargeToDecide,
  type Verdict,
} from './decide.ts';
import { MAX_STEPS, turnAfter } from './step-budget.ts';
import type { ToolRule } from './match.ts';
import { type Policy, policiesOf } from './policy.ts';
import { type NearMiss, nearMisses } from './near-misses.ts';
import { explainParameters } from './parameters.ts';
import { isSimilar, unknownToolNote } from './tool-name.ts';
import { permissionsOf } from '../commands/request-permission.ts';
import { isOfProgram, judgeCall } from '../commands/sessions/judge-call.ts';
import type {
  ApprovalRecord,
  PathResolution,
  SessionRecord,
  TenantStore,
  Tool,
} from '../ports/index.ts';
import { isObject, parseArguments, resolvePaths } from '../run/arguments.ts';
import { loadState } from '../run/recover.ts';
import { clientTool } from '../run/waiting/client-calls.ts';
import { actionTool } from '../sessions/actions.ts';
import { type AgentTool, withAbsolutePaths } from '../sessions/agent-tools.ts';

export interface CallToExplain {
  readonly tool: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** Default: those of the run, as far as they are not used up. */
  readonly permissions?: Permissions;
  /** Policies that are not saved, instead of the saved ones. */
  readonly drafts?: readonly {
    /** `null`: for all agents. */
    readonly agent: string | null;
    readonly rules: PolicyRules;
  }[];
  /** The function tools of the request. */
  readonly functions: readonly FunctionTool[];
  /** Its run, session and agents count, and its tool, as when its call was decided. */
  readonly approval?: ApprovalRecord;
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
  /** Those that the tool declares as commands, paths or URLs. */
  readonly parameters?: Readonly<Record<string, ExplainedParameter>>;
  /** Why the tool would refuse the call. */
  readonly problems?: readonly FieldIssue[];
  /** Rules for the tool that would have changed the decision, had they matched. */
  readonly nearMisses?: readonly NearMiss[];
}

export async function explainCall(
  engine: Engine,
  store: TenantStore,
  call: CallToExplain,
): Promise<Explanation> {
  const now = engine.clock.now();
  const origin = await originOf(engine, store, call);
  const { runId, conversationId, sessionId, path, permissions, usedOnce } = origin;
  const requester = await findApprover(store, origin.keyId, now);
  const owner = origin.owner ?? requester.person;
  const grants = await store.readGrants({ runId, conversationId, sessionId, owner, now });
  const { drafts = [] } = call;
  const saved = (await store.policies.inForce(...path)).filter(
    ({ agent }) => !drafts.some((draft) => draft.agent === agent),
  );
  const unsaved = drafts.map((draft) => ({ ...draft, version: 'draft' as const }));
  const policies = policiesOf([...saved, ...unsaved], ...path);
  const read = await readCall(engine, store, call, origin);
  const { tool, input, location, problems, demand } = read;
  const toolCallId = call.approval?.toolCallId ?? '';
  const decided = { toolCallId, name: call.tool, arguments: { ...input } };
  const byTool = declaredBy(tool, location);
  const isDemanded = byTool.needsApproval !== undefined && byTool.needsApproval !== false;
  const declared = demand === undefined || isDemanded ? byTool : { ...byTool, needsApproval: true };
  // Others get their turn after the checks of the request, and after the decision.
  await turnAfter(MAX_STEPS);
  const rules: RuleSet = {
    permissions,
    usedOnce,
    grants,
    policies,
    requester,
    builtinAllow: tool?.allowedByDefault ?? false,
    ...declared,
  };
  const verdict = await decideInTurn(decided, rules);
  const demanded = approverRulesFor(decided, { policies, ...declared });
  const approvers = demanded.at(-1);
  const known = engine.tools(store.tenantId).list();
  const isUnknown = tool === undefined && origin.session === undefined;
  const notes = [
    ...demanded.map(approversNote),
    ...(isUnknown
      ? [`${unknownToolNote(known, call.tool)} Its parameters are treated as text.`, ifFunction]
      : []),
    ...misnamed(known, permissions, policies, call.tool),
    ...read.notes,
  ];
  if (
    verdict.decision === 'ask' &&
    grants.some((grant) => wasForAnother(grant, call.tool, declared))
  ) {
    notes.push(definitionNote);
  }
  const unavailable = tool?.unavailable?.();
  if (unavailable !== undefined) notes.push(`A call would fail now: ${unavailable}.`);
  const reason = [describe(verdict, origin.rulesOf, read), ...notes].join(' ');
  const { decision } = verdict;
  const ruleRef = verdict.rule && sourced(verdict.rule, origin);
  const { params, exact } = (ruleRef && ruleAt(ruleRef, permissions, grants, policies)) ?? {};
  const rule = ruleRef && { ...ruleRef, tool: call.tool, ...defined({ params, exact }) };
  const missed = (await nearMisses(decided, rules, verdict)).map((miss) => ({
    ...miss,
    source: sourced(miss, origin).source,
  }));
  const parameters = explainParameters(input, declared.kinds, declared.resolvedPaths);
  return {
    decision,
    ...defined({ rule, approvers }),
    reason,
    ...defined({ parameters, problems: problems.length === 0 ? undefined : problems }),
    ...(missed.length === 0 ? {} : { nearMisses: missed }),
  };
}

/** As the gate names the rules of a program that runs agents in-process. */
function sourced(rule: RuleRef, { rulesOf }: Origin): RuleRef {
  return rule.source === 'request' && rulesOf === 'program' ? { ...rule, source: 'program' } : rule;
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

/** Whose call it is: what decides which rules and grants count. */
interface Origin {
  readonly runId: string;
  readonly conversationId: string;
  readonly sessionId: string | undefined;
  /** The calling agent, after those that delegated to it. */
  readonly path: readonly string[];
  readonly permissions: Permissions;
  readonly usedOnce: readonly number[];
  /** Whose permissions these are. */
  readonly rulesOf: 'request' | 'program' | 'session';
  readonly keyId: string | null;
  /** Default: the person with the key. */
  readonly owner: string | undefined;
  readonly functions: readonly FunctionTool[];
  /** Whose program makes the call. */
  readonly session: SessionRecord | undefined;
}

async function originOf(
  engine: Engine,
  store: TenantStore,
  { approval, ...call }: CallToExplain,
): Promise<Origin> {
  const runId = call.runId ?? approval?.runId;
  const run = await runOf(engine, store, runId);
  const { sessionId: asking } = approval ?? {};
  const session =
    run !== undefined || asking === undefined ? undefined : await store.sessions.read(asking);
  const requesting = approval && (session ?? { keyId: approval.keyId ?? null, owner: undefined });
  const { keyId, owner } = run ?? requesting ?? call;
  const { allowOnce: _, ...ofSession } = permissionsOf(session);
  const agents = approval?.agentPath ?? [run?.agent ?? 'assistant'];
  const isGiven = call.permissions !== undefined;
  return {
    runId: runId ?? '',
    conversationId: call.conversationId ?? run?.conversationId ?? approval?.conversationId ?? '',
    sessionId: call.sessionId ?? run?.sessionId ?? asking,
    path: call.agent === undefined ? agents : [call.agent],
    permissions: call.permissions ?? run?.permissions ?? ofSession,
    usedOnce: isGiven ? [] : (run?.usedOnce ?? []),
    rulesOf: isGiven
      ? 'request'
      : (run?.rulesOf ?? (session === undefined ? 'request' : 'session')),
    keyId,
    owner,
    functions: [...call.functions, ...(run?.functions ?? [])],
    session: approval !== undefined && isOfProgram(approval) ? session : undefined,
  };
}

/** What counts for the calls of a run. */
async function runOf(engine: Engine, store: TenantStore, runId: string | undefined) {
  const record = runId === undefined ? undefined : await store.readRun(runId);
  if (record === undefined) return undefined;
  const [spec] = await store.readEvents(record.id, { after: 0, limit: 1 });
  if (spec?.type !== 'run.created') return undefined;
  const { functions, sessionId } = spec;
  const { agent, conversationId, owner, keyId } = record;
  const whose = { agent, conversationId, sessionId, owner, keyId, functions };
  const program = engine.rules?.({ tenantId: store.tenantId, runId: record.id });
  if (program !== undefined) {
    // A program removes its allow-once rules itself.
    return { ...whose, permissions: program.current(), usedOnce: [], rulesOf: 'program' as const };
  }
  const { usedOnce } = await loadState(store, record);
  return { ...whose, permissions: spec.permissions, usedOnce, rulesOf: 'request' as const };
}

/** The call as rules read it, and what its tool says about it. */
interface ReadCall {
  readonly tool:
    | (AgentTool & Partial<Pick<Tool, 'allowedByDefault' | 'definitionDigest' | 'unavailable'>>)
    | undefined;
  readonly input: Readonly<Record<string, unknown>>;
  readonly location: PathResolution | undefined;
  readonly isFunction: boolean;
  /** Why a person must approve this call. */
  readonly demand: string | undefined;
  readonly problems: readonly FieldIssue[];
  readonly notes: readonly string[];
}

async function readCall(
  engine: Engine,
  store: TenantStore,
  call: CallToExplain,
  { session, functions }: Origin,
): Promise<ReadCall> {
  if (session !== undefined) return readProgramCall(engine, session, call);
  const own = functions.find(({ name }) => name === call.tool);
  const registry = engine.tools(store.tenantId);
  const tool =
    own === undefined
      ? ((await actionTool(engine, store, call.tool)) ?? registry.find(call.tool))
      : clientTool(own);
  const isFunction = own !== undefined;
  const parsed = tool === undefined ? undefined : parseArguments(tool, call.params);
  if (parsed?.ok === false) {
    const notes = [`The arguments do not match the tool’s schema: ${parsed.problem}.`];
    const problems = parsed.issues;
    const location = undefined;
    return { tool, input: call.params, location, isFunction, demand: undefined, problems, notes };
  }
  // Rules match the arguments that the tool's schema returns, as they do when a call is decided.
  const input = parsed?.input ?? call.params;
  const location = parsed === undefined ? undefined : await resolvePaths(tool, input);
  return { tool, input, isFunction, ...located(location) };
}

/** A call of a session's program, whose paths are those of the workspace. */
async function readProgramCall(
  engine: Engine,
  session: SessionRecord,
  { tool: name, params, approval }: CallToExplain,
): Promise<ReadCall> {
  const root = engine.workspace?.(session.tenantId);
  const given = withAbsolutePaths(name, { ...params }, root);
  const judged = await judgeCall(engine, session, { tool: name, input: given });
  const { tool, resolution } = judged;
  const input = isObject(judged.input) ? judged.input : params;
  const { demand, ...more } = located(resolution);
  const isConcrete = judged.isConcrete && approval?.isConcrete !== false;
  const unknown = isConcrete ? undefined : 'what it would do is not known';
  return { tool, input, isFunction: false, ...more, demand: unknown ?? demand };
}

function located(
  location: PathResolution | undefined,
): Pick<ReadCall, 'location' | 'demand' | 'problems' | 'notes'> {
  if (location?.ok !== false) {
    return { location, demand: location?.needsApproval, problems: [], notes: [] };
  }
  const { problem } = location;
  return {
    location,
    demand: undefined,
    problems: [{ path: '', message: problem }],
    notes: [`The tool would refuse the path: ${problem}.`],
  };
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

function describe(
  verdict: Verdict,
  rulesOf: Origin['rulesOf'],
  { isFunction, demand }: Pick<ReadCall, 'isFunction' | 'demand'>,
): string {
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
  const name = `Rule ${index + 1} of \`${list}\``;
  if (source === 'policy') return `${name} in the policy ${effects[verdict.decision]}.`;
  if (verdict.decision === 'deny') return `${name} in the ${rulesOf} denies it.`;
  if (verdict.decision === 'ask') {
    return `${name} in the ${rulesOf} requires an approval, whatever allows it.`;
  }
  if (source === 'builtin' && isFunction) {
    return 'A function tool is the caller’s own code: it runs without an approval, unless a rule denies or asks, or it declares `needsApproval`.';
  }
  if (source === 'builtin') return 'The tool is allowed unless a rule denies it.';
  if (source === 'grant') return 'A grant allows it.';
  return `${name} in the ${rulesOf} allows it.`;
}
