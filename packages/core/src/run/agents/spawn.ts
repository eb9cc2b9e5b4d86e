/**
 * Sub-agents: how a call spawns one, receives its report, and ends it.
 *
 * - A sub-agent belongs to its parent's run and works for one call of the parent (`spawned`). Its
 *   profile is stored in the journal when it starts; rules, grants and limits are the run's.
 * - A delegated call (`via: 'agent'`) is settled by the end of its sub-agent, in the same commit. A
 *   tool that uses `ctx.spawn` receives the report and settles its call itself.
 * - A call is settled only when all its sub-agents have ended: live ones are stopped.
 */
import {
  catalogue,
  defined,
  type EventOf,
  type LimitName,
  RelayError,
  type RunEvent,
} from '@relay/protocol';
import type { AgentReport, Task } from '../../ports/index.ts';
import type { Activity } from '../activity.ts';
import { agentFields, type AgentState, finishReasonOf } from '../state/agent.ts';
import { depthLimit, exhaustedLimit, limitText, missingPrice, subAgentLimit } from './limits.ts';
import type { LiveRun } from '../live-run.ts';
import { toolCompleted, toolFailed } from '../state/call.ts';
import { closeQuestions, endOfAgent, type StopReason } from '../state/machine.ts';
import { callOf } from '../state/state.ts';
import { answerFields, depthOf, profileOf } from './profile.ts';

interface SpawnRequest {
  readonly toolCallId: string;
  readonly task: Task;
  /** The number of the sub-agent within its call, from 1. */
  readonly nth: number;
  /** How many sub-agents are started in the same commit before this one. */
  readonly planned?: number;
}

export type SpawnPlan =
  | { readonly ok: true; readonly event: EventOf<'agent.started'> }
  | { readonly ok: false; readonly code: string; readonly error: string; limit?: LimitName };

/** The start of a sub-agent, or why it cannot start. */
export function planSpawn(run: LiveRun, parent: AgentState, request: SpawnRequest): SpawnPlan {
  const { task, toolCallId, nth, planned = 0 } = request;
  const { state, engine, identity } = run;
  const { limits, subAgents } = state;
  const over = parent.limit === 'time' ? parent.limit : exhaustedLimit(state);
  if (over !== undefined) return beyondLimit(over);
  if (depthOf(state, parent) >= depthLimit(limits)) return beyondLimit('depth');
  if (subAgents + planned >= subAgentLimit(limits)) return beyondLimit('subAgents');
  const named =
    task.agent === undefined ? undefined : engine.agents(identity.tenantId).find(task.agent);
  if (task.agent !== undefined && named === undefined) {
    return refused('unknown_agent', `There is no agent named ${task.agent}`);
  }
  const model = task.model ?? named?.model ?? parent.model;
  const models = engine.models(identity.tenantId);
  if (models.resolve(model) === undefined) {
    return refused('unknown_model', `No provider offers the model ${model}`);
  }
  if (limits.costUsd !== undefined && models.price?.(model) === undefined) {
    return refused('invalid_request', missingPrice(model));
  }
  const inherited = profileOf(run, parent);
  const system = task.instructions ?? named?.instructions;
  const maxIterations = task.maxIterations ?? named?.maxIterations;
  const spawned = {
    toolCallId,
    nth,
    task: task.prompt,
    tools: [...(task.tools ?? named?.tools ?? inherited.tools)],
    ...answerFields(named ?? {}),
    ...defined({
      system,
      handoffs: named?.handoffs === undefined ? undefined : [...named.handoffs],
      maxIterations,
    }),
  };
  // Tasks come from a tool's code, and what enters the journal must be valid.
  if (!catalogue['agent.started'].schema.shape.spawned.safeParse(spawned).success) {
    return refused('invalid_request', 'The task for the sub-agent is malformed');
  }
  const name = named?.name ?? 'agent';
  const ids = { agentId: engine.ids.next(), parentId: parent.id };
  return { ok: true, event: { type: 'agent.started', ...ids, name, model, spawned } };
}

function refused(code: string, error: string): SpawnPlan {
  return { ok: false, code, error };
}

function beyondLimit(limit: LimitName): SpawnPlan {
  return { ok: false, code: 'limit_reached', error: limitText(limit), limit };
}

/** The event for a limit that an agent reaches; none if it has reached one before. */
export function reachedLimit(
  run: LiveRun,
  agent: Pick<AgentState, 'id' | 'parentId'>,
  limit: LimitName,
): RunEvent[] {
  if (run.state.agents[agent.id]?.limit !== null) return [];
  return [{ type: 'limit.reached', ...agentFields(agent), limit }];
}

/**
 * For a tool: spawns its n-th agent, or finds the one that an earlier attempt at the call spawned. The
 * tool receives the report when it is stored (E1).
 */
export async function spawnFor(
  run: LiveRun,
  intent: EventOf<'tool.started'>,
  attempt: Activity,
  task: Task,
  nth: number,
): Promise<AgentReport> {
  const report = await reportFor(run, intent, attempt, task, nth);
  await run.journal.settled();
  return report;
}

function reportFor(
  run: LiveRun,
  { toolCallId, agentId }: EventOf<'tool.started'>,
  attempt: Activity,
  task: Task,
  nth: number,
): AgentReport | Promise<AgentReport> {
  const parent = run.state.agents[agentId];
  if (parent === undefined || !run.isCurrent(toolCallId, attempt) || run.journal.closed) {
    throw new RelayError('tool_failed', 'The tool call has ended, so it cannot spawn an agent');
  }
  if (run.stop?.kind === 'cancel') throw new RelayError('run_canceled', run.stop.reason);
  // Agents that were stopped when the call was interrupted are not reused.
  const known = spawnedBy(run, parent, toolCallId).find(
    ({ spawned, ended }) => spawned?.nth === nth && ended?.reason !== 'canceled',
  );
  if (known !== undefined) {
    return known.ended === null ? run.waitForAgent(known.id) : reportOf(known);
  }
  const spawn = planSpawn(run, parent, { toolCallId, task, nth });
  if (!spawn.ok) {
    if (spawn.limit !== undefined) run.journal.append(reachedLimit(run, parent, spawn.limit));
    const code = spawn.limit === undefined ? 'invalid_request' : 'limit_reached';
    throw new RelayError(code, spawn.error);
  }
  run.journal.append([spawn.event]);
  run.markChanged();
  return run.waitForAgent(spawn.event.agentId);
}

function spawnedBy(run: LiveRun, parent: AgentState, toolCallId: string): AgentState[] {
  return Object.values(run.state.agents).filter(
    ({ parentId, spawned }) => parentId === parent.id && spawned?.toolCallId === toolCallId,
  );
}

/** Ends a sub-agent that has finished, and settles its delegated call. */
export function endSubAgent(run: LiveRun, agent: AgentState, end: AgentState['ended'] & {}): void {
  run.journal.stage([
    {
      type: 'agent.ended',
      ...agentFields(agent),
      reason: end.reason,
      iterations: agent.iterations,
      usage: agent.usage,
      output: end.output,
      ...defined({ error: end.error, finishReason: finishReasonOf(agent) }),
    },
  ]);
  const report = reportOf({ ...agent, ended: end });
  const parent = run.state.agents[agent.parentId ?? ''];
  const call = parent?.turn?.calls.find(
    ({ toolCallId }) => toolCallId === agent.spawned?.toolCallId,
  );
  if (parent !== undefined && call?.via === 'agent' && call.phase === 'started') {
    const { error, usage: _, ...result } = report;
    run.journal.stage([
      error === undefined
        ? toolCompleted(parent, call, { context: report.output, result })
        : toolFailed(parent, call, error.code, error.message),
    ]);
  }
  run.agentEnded(report);
}

function reportOf(agent: AgentState): AgentReport {
  const { reason, output, error } = agent.ended ?? { reason: 'canceled', output: '' };
  return {
    agentId: agent.id,
    agent: agent.name,
    reason,
    output,
    usage: agent.usage,
    ...defined({ error }),
  };
}

/** Settles calls whose tools have ended, the deepest first. Their live sub-agents are stopped before. */
export function settleResults(run: LiveRun): void {
  const results = run
    .takeToolResults()
    .filter((event) => event.type === 'tool.completed' || event.type === 'tool.failed');
  const depth = ({ agentId }: { agentId: string }) => {
    const agent = run.state.agents[agentId];
    return agent === undefined ? 0 : depthOf(run.state, agent);
  };
  for (const event of results.toSorted((a, b) => depth(b) - depth(a))) {
    const agent = run.state.agents[event.agentId];
    const call = callOf(run.state, event);
    if (agent === undefined || call?.phase !== 'started') continue;
    const why = { code: 'run_canceled', message: 'The parent tool call has ended' };
    stopSpawned(run, agent, event.toolCallId, why);
    run.journal.stage([...closeQuestions(agent, call, why.message), event]);
  }
}

/** Ends all agents below a call, the deepest first. */
export function stopSpawned(
  run: LiveRun,
  agent: AgentState,
  toolCallId: string,
  why: StopReason,
): void {
  for (const child of spawnedBy(run, agent, toolCallId)) {
    if (child.ended !== null) continue;
    for (const call of child.turn?.calls ?? []) stopSpawned(run, child, call.toolCallId, why);
    run.stopAgent(child.id, why);
    const current = run.state.agents[child.id] ?? child;
    for (const call of current.turn?.calls ?? []) run.abandonTool(call.toolCallId);
    run.journal.stage(endOfAgent(current, { reason: 'canceled', why }));
    run.agentEnded(reportOf({ ...current, ended: { reason: 'canceled', output: '' } }));
  }
}
