/**
 * The time limit of a run. At the deadline model calls are stopped, tools are stopped by their signal
 * and abandoned after the grace period, and approvals are closed. Each agent then has its final turn,
 * which is stopped if it takes too long.
 */
import { agentFields, openCalls } from '../state/agent.ts';
import { deadlineOf, isTimeLimitReached, limitText } from '../agents/limits.ts';
import type { LiveRun } from '../live-run.ts';
import { endOfCall } from '../state/machine.ts';
import { stopSpawned } from '../agents/spawn.ts';
import { liveAgents } from '../state/state.ts';

const why = { code: 'limit_reached', message: limitText('time') };
/** How long a final turn may take. */
const finalTurnMs = 30_000;

export function enforceTimeLimit(run: LiveRun, now: number): void {
  if (!isTimeLimitReached(run.state, now) || run.stop !== undefined) return;
  run.resume();
  const inGrace = now < (deadlineOf(run.state) ?? 0) + run.engine.settings.graceMs;
  for (const { id } of liveAgents(run.state)) {
    if (run.state.agents[id]?.limit === null) reachDeadline(run, id);
    else if ((finalTurnDeadline(run, id) ?? Infinity) <= now) run.stopAgent(id, why);
    closeCalls(run, id, inGrace);
  }
}

/** When the limit must be checked: at the deadline, after the grace period, and for final turns. */
export function timeLimitChecks(run: LiveRun): number[] {
  const deadline = deadlineOf(run.state);
  if (deadline === undefined) return [];
  const last = liveAgents(run.state).flatMap(({ id }) => finalTurnDeadline(run, id) ?? []);
  return [deadline, deadline + run.engine.settings.graceMs, ...last];
}

function finalTurnDeadline(run: LiveRun, agentId: string): number | undefined {
  const startedAt = run.modelCallStartedAt(agentId);
  const isFinal = run.state.agents[agentId]?.limit !== null;
  return startedAt === undefined || !isFinal ? undefined : startedAt + finalTurnMs;
}

function reachDeadline(run: LiveRun, agentId: string): void {
  const agent = run.state.agents[agentId];
  if (agent === undefined) return;
  const { turn } = agent;
  const answered = turn !== null && turn.finish !== null && turn.calls.length === 0;
  if (answered) return;
  run.stopAgent(agentId, why);
  run.journal.stage([{ type: 'limit.reached', ...agentFields(agent), limit: 'time' }]);
}

/** Ends calls that wait for a person or a client, and tools after the grace period. Delegated calls end with their agents. */
function closeCalls(run: LiveRun, agentId: string, inGrace: boolean): void {
  const agent = run.state.agents[agentId];
  for (const call of agent === undefined ? [] : openCalls(agent)) {
    const client = call.via === 'client';
    const delegated = call.via !== undefined && !client;
    if (agent === undefined || delegated || call.phase === 'called') continue;
    if (call.phase === 'started' && inGrace && !client) continue;
    stopSpawned(run, agent, call.toolCallId, why);
    run.abandonTool(call.toolCallId);
    run.journal.stage(endOfCall(agent, call, why));
  }
}
