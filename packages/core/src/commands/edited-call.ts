/**
 * Arguments that an approver has changed. The tool's schema and the deny rules check them before the
 * decision, because an approved call runs without another check. If they are refused, the approval
 * stays pending.
 */
import {
  canonicalJson,
  defined,
  type EventOf,
  type Permissions,
  RelayError,
} from '@relay/protocol';
import type { Engine } from '../engine.ts';
import { decideCall, declaredBy } from '../permission/decide.ts';
import { type Policy, policiesOf } from '../permission/policy.ts';
import type {
  ApprovalRecord,
  EditedCall,
  PathResolution,
  TenantStore,
  Tool,
} from '../ports/index.ts';
import {
  type Arguments,
  digestOfCall,
  isObject,
  parseArguments,
  previewCall,
  resolvePaths,
} from '../run/arguments.ts';
import { clientTool } from '../run/waiting/client-calls.ts';
import { actionTool } from '../sessions/actions.ts';
import { type AgentTool, agentTool, withAbsolutePaths } from '../sessions/agent-tools.ts';
import { permissionsOf as sessionPermissions } from './request-permission.ts';
import { noSuchSession } from './sessions/change-session.ts';
import { isOfProgram, judgeCall, shownOf } from './sessions/judge-call.ts';

interface CallToCheck {
  readonly tool:
    | Pick<Tool, 'needsApproval' | 'kinds' | 'sensitive' | 'definitionDigest'>
    | undefined;
  readonly params: Arguments;
  readonly resolution: PathResolution;
  readonly permissions: Permissions;
  readonly policies: readonly Policy[];
}

export function isUnchanged(approval: ApprovalRecord, input: unknown): boolean {
  return canonicalJson(input) === canonicalJson(approval.params);
}

/** The call with its changed arguments; undefined if nothing was changed. */
export async function editedCall(
  engine: Engine,
  store: TenantStore,
  approval: ApprovalRecord,
  { input, policies }: { readonly input: unknown; readonly policies: readonly Policy[] },
): Promise<EditedCall | undefined> {
  if (input === undefined || approval.kind !== 'permission' || isUnchanged(approval, input)) {
    return undefined;
  }
  if (isOfProgram(approval)) return editedProgramCall(engine, store, approval, { input, policies });
  const tool = await toolOf(engine, store, approval);
  if (tool === undefined) {
    throw new RelayError(
      'tool_unavailable',
      `The arguments cannot be changed: there is no tool named ${approval.tool} to check them`,
    );
  }
  const parsed = parseArguments(tool, input);
  if (!parsed.ok) throw invalid(parsed.problem);
  const params = parsed.input;
  const resolution = await resolvePaths(tool, params);
  if (!resolution.ok) throw invalid(resolution.problem);
  const permissions = await permissionsOf(engine, store, approval);
  rejectIfDenied(approval, { tool, params, resolution, permissions, policies });
  const { resolvedPaths } = resolution;
  const preview = await previewCall(tool, params, resolvedPaths);
  const shown = defined({ resolvedPaths: resolvedPaths?.paths, preview });
  const digest = digestOfCall(engine, { name: approval.tool, input: params, ...shown });
  return { params, ...shown, digest };
}

/** The session runs it: only its rules and those of the tenant check the arguments. */
async function editedProgramCall(
  engine: Engine,
  store: TenantStore,
  approval: ApprovalRecord,
  { input, policies }: { readonly input: unknown; readonly policies: readonly Policy[] },
): Promise<EditedCall> {
  if (approval.isEditable === false) {
    throw new RelayError(
      'capability_missing',
      'The session runs the call with its own arguments: approve it as it is, or deny it with a reason',
      { capability: { path: 'approval.input', asked: true, offered: false } },
    );
  }
  const session = await store.sessions.read(approval.sessionId ?? '');
  if (session === undefined) throw noSuchSession();
  if (!isObject(input)) throw invalid('Must be an object');
  const changed = withAbsolutePaths(approval.tool, input, engine.workspace?.(store.tenantId));
  const judged = await judgeCall(engine, session, { tool: approval.tool, input: changed });
  const { tool, resolution, input: params } = judged;
  if (!isObject(params)) throw invalid('Must be an object');
  if (!resolution.ok) throw invalid(resolution.problem);
  const permissions = sessionPermissions(session);
  rejectIfDenied(approval, { tool, params, resolution, permissions, policies });
  return { params, ...(await shownOf(engine, judged, params)) };
}

/** A tool of the tenant, or a function of the caller. */
async function toolOf(
  engine: Engine,
  store: TenantStore,
  { tool, runId }: ApprovalRecord,
): Promise<Tool | undefined> {
  if (runId === undefined) {
    return (await actionTool(engine, store, tool)) ?? engine.tools(store.tenantId).find(tool);
  }
  const { functions = [] } = await specOf(store, runId);
  const own = functions.find(({ name }) => name === tool);
  return own === undefined ? engine.tools(store.tenantId).find(tool) : clientTool(own);
}

function invalid(problem: string): RelayError {
  return new RelayError('tool_input_invalid', `input: ${problem}`, {
    details: [{ path: 'input', message: problem }],
  });
}

/** A policy may deny the call by now, although it did not when the approval was requested. */
export async function rejectIfDeniedByPolicy(
  engine: Engine,
  tenantId: string,
  approval: ApprovalRecord,
  policies: readonly Policy[],
): Promise<void> {
  const { params } = approval;
  if (typeof params !== 'object' || params === null) return;
  // Functions of the caller declare no parameter kinds.
  const tool = declaredTool(engine, tenantId, approval);
  const resolution = await resolvePaths(tool, params);
  const call = { tool, params: params as Arguments, resolution, permissions: {}, policies };
  rejectIfDenied(approval, call);
}

/** What is known of the tool of a call. The paths of an approval are those of the workspace. */
export function declaredTool(
  engine: Pick<Engine, 'tools'>,
  tenantId: string,
  approval: Pick<ApprovalRecord, 'tool' | 'runId' | 'invocationId' | 'sessionId'>,
): AgentTool | undefined {
  const tools = engine.tools(tenantId);
  return isOfProgram(approval) ? agentTool(tools, approval.tool) : tools.find(approval.tool);
}

/** The current policies for the agent that made the call, and for those that delegated to it. */
export async function policiesFor(
  store: TenantStore,
  { agentPath }: Pick<ApprovalRecord, 'agentPath'>,
): Promise<Policy[]> {
  return policiesOf(await store.policies.inForce(...agentPath), ...agentPath);
}

function rejectIfDenied(
  approval: ApprovalRecord,
  { tool, params, resolution, permissions, policies }: CallToCheck,
): void {
  const verdict = decideCall(
    { toolCallId: approval.toolCallId ?? '', name: approval.tool, arguments: params },
    {
      permissions,
      policies,
      usedOnce: [],
      grants: [],
      builtinAllow: false,
      ...declaredBy(tool, resolution),
    },
  );
  if (verdict.decision !== 'deny') return;
  const { list, index, source } = verdict.rule;
  const owner = source === 'policy' ? 'policy' : 'run';
  const why = verdict.reason === undefined ? '' : `: ${verdict.reason}`;
  throw new RelayError(
    'denied_by_rule',
    `Rule ${list}[${index}] of the ${owner} denies the call with these arguments${why}`,
    { details: [{ path: 'input', message: `Denied by ${list}[${index}]` }] },
  );
}

/** The rules of the program that the run is part of, or those that the run was started with. */
async function permissionsOf(
  engine: Engine,
  store: TenantStore,
  { runId, sessionId }: ApprovalRecord,
): Promise<Permissions> {
  if (runId === undefined) {
    return sessionPermissions(
      sessionId === undefined ? undefined : await store.sessions.read(sessionId),
    );
  }
  const program = engine.rules?.({ tenantId: store.tenantId, runId });
  if (program !== undefined) return program.current();
  return (await specOf(store, runId)).permissions;
}

async function specOf(store: TenantStore, runId: string): Promise<EventOf<'run.created'>> {
  const [spec] = await store.readEvents(runId, { after: 0, limit: 1 });
  if (spec?.type === 'run.created') return spec;
  throw new RelayError(
    'journal_corrupt',
    `The journal of run ${runId} does not start with run.created`,
  );
}
