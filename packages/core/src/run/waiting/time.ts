/**
 * The end of a run's time. Whoever is at work is stopped: models at once, tools by their signal and,
 * if they do not listen, after a moment without them; people are no longer asked. Each agent then
 * has its last turn, which is cut off if it takes too long.
 */
import { agentFields, openCalls } from '../state/agent.ts';
import { deadlineOf, isTimeOver, limitText } from '../agents/limits.ts';
import type { LiveRun } from '../live-run.ts';
import { endOfCall } from '../state/machine.ts';
import { resume } from './parked.ts';
import { stopSpawned } from '../agents/spawn.ts';
import { liveAgents } from '../state/state.ts';

const why = { code: 'limit_reached', message: limitText('time') };
/** How long a last answer may take. */
const closingMs = 30_000;

export function endTime(run: LiveRun, now: number): void {
  if (!isTimeOver(run.state, now) || run.stop !== undefined) return;
  resume(run);
  const patient = now < (deadlineOf(run.state) ?? 0) + run.engine.settings.graceMs;
  for (const { id } of liveAgents(run.state)) {
    if (run.state.agents[id]?.limit === null) reachEnd(run, id);
    else if ((closingEnd(run, id) ?? Infinity) <= now) run.stopAgent(id, why);
    closeCalls(run, id, patient);
  }
}

/** When there is something to stop: at the end, after a moment, and where a last answer goes on. */
export function endingTimes(run: LiveRun): number[] {
  const deadline = deadlineOf(run.state);
  if (deadline === undefined) return [];
  const last = liveAgents(run.state).flatMap(({ id }) => closingEnd(run, id) ?? []);
  return [deadline, deadline + run.engine.settings.graceMs, ...last];
}

function closingEnd(run: LiveRun, agentId: string): number | undefined {
  const since = run.askingSince(agentId);
  const closing = run.state.agents[agentId]?.limit !== null;
  return since === undefined || !closing ? undefined : since + closingMs;
}

function reachEnd(run: LiveRun, agentId: string): void {
  const agent = run.state.agents[agentId];
  if (agent === undefined) return;
  const { turn } = agent;
  const answered = turn !== null && turn.finish !== null && turn.calls.length === 0;
  if (answered) return;
  run.stopAgent(agentId, why);
  run.journal.stage([{ type: 'limit.reached', ...agentFields(agent), limit: 'time' }]);
}

/**
 * Calls that wait for a person or a client, and tools that had their moment. What is delegated ends
 * by itself.
 */
function closeCalls(run: LiveRun, agentId: string, patient: boolean): void {
  const agent = run.state.agents[agentId];
  for (const call of agent === undefined ? [] : openCalls(agent)) {
    const client = call.via === 'client';
    const delegated = call.via !== undefined && !client;
    if (agent === undefined || delegated || call.phase === 'called') continue;
    if (call.phase === 'started' && patient && !client) continue;
    stopSpawned(run, { agent, toolCallId: call.toolCallId }, why);
    run.abandonTool(call.toolCallId);
    run.journal.stage(endOfCall(agent, call, why));
  }
}
