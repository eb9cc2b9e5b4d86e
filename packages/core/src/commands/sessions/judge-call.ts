/** A call of a session's program as rules read it, and what an approver is shown of it. */
import { defined, type Preview } from '@relay/protocol';
import type { Engine } from '../../engine.ts';
import { pathsOf } from '../../permission/decide.ts';
import type { ApprovalRecord, PathResolution, SessionRecord } from '../../ports/index.ts';
import { digestOfCall, previewCall, resolvePaths } from '../../run/arguments.ts';
import { type AgentTool, agentTool, readArguments } from '../../sessions/agent-tools.ts';

type JudgingEngine = Pick<Engine, 'tools' | 'workspace' | 'digest'>;

/** As the program describes it. */
export interface NamedCall {
  readonly tool: string;
  readonly input: unknown;
}

export interface CallOfSession {
  readonly name: string;
  /** With its paths relative to the tenant's workspace. */
  readonly input: unknown;
  /** False: no rule and no grant may allow it. */
  readonly isConcrete: boolean;
  readonly tool: AgentTool | undefined;
  readonly resolution: PathResolution;
}

/** Whether the approval is for a call of a session's program. */
export function isOfProgram({
  runId,
  invocationId,
  sessionId,
}: Pick<ApprovalRecord, 'runId' | 'invocationId' | 'sessionId'>): boolean {
  return runId === undefined && invocationId === undefined && sessionId !== undefined;
}

export async function judgeCall(
  engine: JudgingEngine,
  { tenantId, workspace: folder }: Pick<SessionRecord, 'tenantId' | 'workspace'>,
  { tool: name, input: given }: NamedCall,
): Promise<CallOfSession> {
  const root = engine.workspace?.(tenantId);
  const { input, isConcrete } = readArguments(name, given, { folder, root });
  const tool = agentTool(engine.tools(tenantId), name, folder);
  return { name, input, isConcrete, tool, resolution: await resolvePaths(tool, input) };
}

export interface ShownOfCall {
  readonly resolvedPaths?: Readonly<Record<string, string>>;
  readonly preview?: Preview;
  readonly digest: string;
}

/** What an approval is bound to. `params`: the arguments as they are shown. */
export async function shownOf(
  engine: JudgingEngine,
  { name, tool, input, resolution }: CallOfSession,
  params: unknown,
): Promise<ShownOfCall> {
  const resolved = pathsOf(resolution);
  const preview = await previewCall(tool, input, resolved);
  const shown = defined({ resolvedPaths: resolved?.paths, preview });
  return { ...shown, digest: digestOfCall(engine, { name, input: params, ...shown }) };
}
