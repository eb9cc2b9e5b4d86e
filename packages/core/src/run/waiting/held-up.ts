/**
 * A run that goes on only with an answer, although it is not parked: a tool that may not run again
 * waits for it in memory (questions.ts). No event says so; it follows from the state.
 */
import { type AgentState, openCalls } from '../state/agent.ts';
import type { CallState } from '../state/call.ts';
import { openIn } from './open-questions.ts';
import { liveAgents, type RunState } from '../state/state.ts';

/** `isIdempotent`: such a tool is let go when it asks, and its run is parked a moment later. */
export function isHeldUp(state: RunState, isIdempotent: (tool: string) => boolean): boolean {
  const agents = liveAgents(state);
  if (state.status !== 'running' || !agents.every(isWaiting)) return false;
  return agents.some((agent) =>
    openCalls(agent).some((call) => isAsking(call) && !isIdempotent(call.name)),
  );
}

/** Its model is not asked, and each of its calls waits for a person, a client or other agents. */
function isWaiting(agent: AgentState): boolean {
  const calls = openCalls(agent);
  return calls.length > 0 && agent.turn?.finish !== null && calls.every(waits);
}

function waits(call: CallState): boolean {
  const { phase, via } = call;
  return phase === 'asking' || via === 'client' || via === 'agent' || isAsking(call);
}

function isAsking(call: CallState): boolean {
  return call.phase === 'started' && openIn(call).length > 0;
}
