/**
 * Sub-agents: how a call spawns one, what it brings back, and how it ends with its call.
 *
 * - A sub-agent lives in its parent's run and works for one call of the parent (`spawned`). It has a
 *   profile of its own, journaled when it starts; rules, grants and limits are the run's.
 * - A call that was delegated (`via: 'agent'`) is settled by its sub-agent's end, in the same commit.
 *   A tool that spawned one with `ctx.spawn` is told, and settles its call itself.
 * - A call is settled only when all its sub-agents have ended: whoever still works is stopped.
 */
import {
  catalogue,
  type EventOf,
  type LimitName,
  RelayError,
  type RunEvent,
} from '@relay/protocol';
import type { AgentReport, Task } from '../../ports/index.ts';
import { agentFields, type AgentState } from '../state/agent.ts';
import { depthLimit, limitText, subAgentLimit, usedUp } from './limits.ts';
import type { LiveRun } from '../live-run.ts';
import { endOfAgent, type Why } from '../state/machine.ts';
import { answerFields, depthOf, profileOf } from './profile.ts';
import { closeQuestions } from '../waiting/open-questions.ts';

export interface SpawningCall {
  readonly toolCallId: string;
  readonly task: Task;
  /** Its place among the agents that this call spawns. */
  readonly nth: number;
  /** Sub-agents that are about to be started in the same breath. */
  readonly besides?: number;
}

export type Spawning =
  | { readonly ok: true; readonly event: EventOf<'agent.started'> }
  | { readonly ok: false; readonly code: string; readonly error: string; limit?: LimitName };

/** The start of a sub-agent, or why there can be none. */
export function spawning(run: LiveRun, parent: AgentState, call: SpawningCall): Spawning {
  const { task, toolCallId, nth } = call;
  const { state, engine, identity } = run;
  const { limits, subAgents } = state;
  const over = parent.limit === 'time' ? parent.limit : usedUp(state);
  if (over !== undefined) return beyond(over);
  if (depthOf(state, parent) >= depthLimit(limits)) return beyond('depth');
  if (subAgents + (call.besides ?? 0) >= subAgentLimit(limits)) return beyond('subAgents');
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
    return refused('invalid_request', `The cost is limited and the model ${model} has no price`);
  }
  const inherited = profileOf(run, parent);
  const system = task.instructions ?? named?.instructions;
  const maxIterations = task.maxIterations ?? named?.maxIterations;
  const spawned = {
    toolCallId,
    nth,
    task: task.prompt,
    tools: [...(task.tools ?? named?.tools ?? inherited.tools)],
    ...(system === undefined ? {} : { system }),
    ...(named?.handoffs === undefined ? {} : { handoffs: [...named.handoffs] }),
    ...answerFields(named ?? {}),
    ...(maxIterations === undefined ? {} : { maxIterations }),
  };
  // It comes from a tool's own code, and whatever enters the journal stays there.
  if (!catalogue['agent.started'].schema.shape.spawned.safeParse(spawned).success) {
    return refused('invalid_request', 'The task for the sub-agent is malformed');
  }
  const name = named?.name ?? 'agent';
  const of = { agentId: engine.ids.next(), parentId: parent.id };
  return { ok: true, event: { type: 'agent.started', ...of, name, model, spawned } };
}

function refused(code: string, error: string): Spawning {
  return { ok: false, code, error };
}

function beyond(limit: LimitName): Spawning {
  return { ok: false, code: 'limit_reached', error: limitText(limit), limit };
}

/** Whoever reaches a limit says so once. */
export function reachedLimit(
  run: LiveRun,
  agent: Pick<AgentState, 'id' | 'parentId'>,
  limit: LimitName,
): RunEvent[] {
  if (run.state.agents[agent.id]?.limit !== null) return [];
  return [{ type: 'limit.reached', ...agentFields(agent), limit }];
}

/**
 * For a tool: spawns its n-th agent, or finds it where an earlier attempt at the call had spawned it.
 * The tool hears of the end when it is stored: what it does next may rest on it (E1).
 */
export async function spawnFor(
  run: LiveRun,
  intent: EventOf<'tool.started'>,
  asked: { task: Task; nth: number },
): Promise<AgentReport> {
  const report = await reportFor(run, intent, asked);
  await run.journal.settled();
  return report;
}

function reportFor(
  run: LiveRun,
  { toolCallId, agentId }: EventOf<'tool.started'>,
  asked: { task: Task; nth: number },
): AgentReport | Promise<AgentReport> {
  const parent = run.state.agents[agentId];
  if (parent === undefined || !run.isRunning(toolCallId) || run.journal.closed) {
    throw new RelayError('tool_failed', 'The call is over: it can spawn nobody');
  }
  if (run.stop?.kind === 'cancel') throw new RelayError('run_canceled', run.stop.reason);
  // Those that were stopped when the call was interrupted are of no use to another attempt.
  const known = spawnedBy(run, parent, toolCallId).find(
    ({ spawned, ended }) => spawned?.nth === asked.nth && ended?.reason !== 'canceled',
  );
  if (known !== undefined) {
    return known.ended === null ? run.whenEnded(known.id) : reportOf(known);
  }
  const spawn = spawning(run, parent, { toolCallId, ...asked });
  if (!spawn.ok) {
    if (spawn.limit !== undefined) run.journal.append(reachedLimit(run, parent, spawn.limit));
    const code = spawn.limit === undefined ? 'invalid_request' : 'limit_reached';
    throw new RelayError(code, spawn.error);
  }
  run.journal.append([spawn.event]);
  run.lookAgain();
  return run.whenEnded(spawn.event.agentId);
}

function spawnedBy(run: LiveRun, parent: AgentState, toolCallId: string): AgentState[] {
  return Object.values(run.state.agents).filter(
    ({ parentId, spawned }) => parentId === parent.id && spawned?.toolCallId === toolCallId,
  );
}

/** The end of a sub-agent that has nothing left to do. With it, a call that was delegated is settled. */
export function endSubAgent(run: LiveRun, agent: AgentState, end: AgentState['ended'] & {}): void {
  run.journal.stage([
    {
      type: 'agent.ended',
      ...agentFields(agent),
      reason: end.reason,
      iterations: agent.iterations,
      usage: agent.usage,
      output: end.output,
      ...(end.error === undefined ? {} : { error: end.error }),
    },
  ]);
  const report = reportOf({ ...agent, ended: end });
  const parent = run.state.agents[agent.parentId ?? ''];
  const call = parent?.turn?.calls.find(
    ({ toolCallId }) => toolCallId === agent.spawned?.toolCallId,
  );
  if (parent !== undefined && call?.via === 'agent' && call.phase === 'started') {
    const of = { ...agentFields(parent), toolCallId: call.toolCallId, name: call.name };
    run.journal.stage([settlementOf(report, of)]);
  }
  run.agentEnded(report);
}

type OfCall = { agentId: string; parentId?: string; toolCallId: string; name: string };

function settlementOf(report: AgentReport, of: OfCall): RunEvent {
  const { error, usage: _, ...result } = report;
  if (error !== undefined) {
    return { type: 'tool.failed', ...of, error: error.message, code: error.code };
  }
  return { type: 'tool.completed', ...of, context: report.output, result };
}

function reportOf(agent: AgentState): AgentReport {
  const { reason, output, error } = agent.ended ?? { reason: 'canceled', output: '' };
  return {
    agentId: agent.id,
    agent: agent.name,
    reason,
    output,
    usage: agent.usage,
    ...(error === undefined ? {} : { error }),
  };
}

/**
 * What tools have brought since the last look, the deepest first. Agents that a tool left behind end
 * before its call.
 */
export function takeResults(run: LiveRun): void {
  const results = run
    .takeHappened()
    .filter((event) => event.type === 'tool.completed' || event.type === 'tool.failed');
  const depth = ({ agentId }: { agentId: string }) => {
    const agent = run.state.agents[agentId];
    return agent === undefined ? 0 : depthOf(run.state, agent);
  };
  for (const event of results.toSorted((a, b) => depth(b) - depth(a))) {
    const agent = run.state.agents[event.agentId];
    const call = agent?.turn?.calls.find(({ toolCallId }) => toolCallId === event.toolCallId);
    if (agent === undefined || call?.phase !== 'started') continue;
    const why = { code: 'run_canceled', message: 'The call that it worked for is over' };
    stopSpawned(run, { agent, toolCallId: event.toolCallId }, why);
    run.journal.stage([...closeQuestions(agent, call, why.message), event]);
  }
}

/** Ends all agents below a call, the deepest first. */
export function stopSpawned(
  run: LiveRun,
  call: { agent: AgentState; toolCallId: string },
  why: Why,
): void {
  for (const child of spawnedBy(run, call.agent, call.toolCallId)) {
    if (child.ended !== null) continue;
    for (const { toolCallId } of child.turn?.calls ?? []) {
      stopSpawned(run, { agent: child, toolCallId }, why);
    }
    run.stopAgent(child.id, why);
    const present = run.state.agents[child.id] ?? child;
    for (const { toolCallId } of present.turn?.calls ?? []) run.abandonTool(toolCallId);
    run.journal.stage(endOfAgent(present, { reason: 'canceled', why }));
    run.agentEnded(reportOf({ ...present, ended: { reason: 'canceled', output: '' } }));
  }
}
