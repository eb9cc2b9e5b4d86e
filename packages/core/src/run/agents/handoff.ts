/**
 * Handoffs: the agent stays the same in the tree and continues under another name, with another
 * profile. A handoff waits until all other calls of its turn are settled, because they need the tools
 * of the old profile.
 */
import { defined, type RunEvent } from '@relay/protocol';
import { agentFields, type AgentState } from '../state/agent.ts';
import { type CallState, toolCompleted, toolFailed } from '../state/call.ts';
import type { LiveRun } from '../live-run.ts';
import { missingPrice } from './limits.ts';
import { answerFields, profileOf } from './profile.ts';

export function applyHandoff(run: LiveRun, agent: AgentState): void {
  const handoffs = (agent.turn?.calls ?? []).filter(
    ({ phase, via }) => phase === 'started' && via === 'handoff',
  );
  let accepted = false;
  for (const call of handoffs) {
    const events: readonly RunEvent[] = accepted
      ? [refused(agent, call, 'The conversation has already been handed off')]
      : accept(run, agent, call);
    accepted ||= events.length > 1;
    run.journal.stage(events);
  }
}

function accept(run: LiveRun, agent: AgentState, call: CallState): RunEvent[] {
  const { agent: to } = call.input as { agent: string };
  const { engine, identity } = run;
  const target = engine.agents(identity.tenantId).find(to);
  if (target === undefined) return [refused(agent, call, `There is no agent named ${to}`)];
  const model = target.model ?? agent.model;
  const models = engine.models(identity.tenantId);
  if (models.resolve(model) === undefined) {
    return [refused(agent, call, `No provider offers the model ${model} of ${to}`)];
  }
  if (run.state.limits.costUsd !== undefined && models.price?.(model) === undefined) {
    return [refused(agent, call, missingPrice(model))];
  }
  const fields = agentFields(agent);
  return [
    toolCompleted(agent, call, { context: `Handed off to ${to}` }),
    { type: 'agent.handed-off', ...fields, from: agent.name, to },
    {
      type: 'agent.switched',
      ...fields,
      name: to,
      model,
      tools: [...(target.tools ?? profileOf(run, agent).tools)],
      ...defined({
        system: target.instructions,
        handoffs: target.handoffs === undefined ? undefined : [...target.handoffs],
      }),
      // The target answers in the same form, unless it has its own.
      ...answerFields(profileOf(run, agent)),
      ...answerFields(target),
    },
  ];
}

function refused(agent: AgentState, call: CallState, error: string): RunEvent {
  return toolFailed(agent, call, 'handoff_refused', error);
}
