/**
 * Handing the conversation over: the agent stays the same in the tree, and goes on under another
 * name, with another profile. It happens when everything else that the turn had called is settled,
 * so that no call loses the tool which it was made with.
 */
import type { RunEvent } from '@relay/protocol';
import { agentFields, type AgentState } from '../state/agent.ts';
import type { CallState } from '../state/call.ts';
import type { LiveRun } from '../live-run.ts';
import { answerFields, profileOf } from './profile.ts';

export function handOver(run: LiveRun, agent: AgentState): void {
  const handoffs = (agent.turn?.calls ?? []).filter(
    ({ phase, via }) => phase === 'started' && via === 'handoff',
  );
  let accepted = false;
  for (const call of handoffs) {
    const events: readonly RunEvent[] = accepted
      ? [refused(agent, call, 'The conversation has already been handed over')]
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
    return [refused(agent, call, `The cost is limited and the model ${model} has no price`)];
  }
  const of = agentFields(agent);
  const { toolCallId, name } = call;
  return [
    { type: 'tool.completed', ...of, toolCallId, name, context: `Handed over to ${to}` },
    { type: 'agent.handed-off', ...of, from: agent.name, to },
    {
      type: 'agent.switched',
      ...of,
      name: to,
      model,
      tools: [...(target.tools ?? profileOf(run, agent).tools)],
      ...(target.instructions === undefined ? {} : { system: target.instructions }),
      ...(target.handoffs === undefined ? {} : { handoffs: [...target.handoffs] }),
      // Whoever goes on owes the same answer, unless it has its own way to answer.
      ...answerFields(profileOf(run, agent)),
      ...answerFields(target),
    },
  ];
}

function refused(agent: AgentState, call: CallState, error: string): RunEvent {
  const { toolCallId, name } = call;
  const of = { ...agentFields(agent), toolCallId, name };
  return { type: 'tool.failed', ...of, error, code: 'handoff_refused' };
}
