/** What tools have asked people and nobody has answered yet (questions.ts). */
import type { RunEvent } from '@relay/protocol';
import { agentFields, type AgentState } from '../state/agent.ts';
import type { CallState, QuestionState } from '../state/call.ts';
import { liveAgents, type RunState } from '../state/state.ts';

export interface OpenQuestion {
  readonly agent: AgentState;
  readonly call: CallState;
  readonly approval: QuestionState;
}

export function openQuestions(state: RunState): OpenQuestion[] {
  return liveAgents(state).flatMap((agent) =>
    (agent.turn?.calls ?? []).flatMap((call) =>
      openIn(call).map((approval) => ({ agent, call, approval })),
    ),
  );
}

export function openIn(call: CallState): QuestionState[] {
  return call.questions?.filter(({ state }) => state === 'open') ?? [];
}

/** Nobody will hear the answers any more. */
export function closeQuestions(
  agent: Pick<AgentState, 'id' | 'parentId'>,
  call: CallState,
  reason: string,
): RunEvent[] {
  const of = { ...agentFields(agent), toolCallId: call.toolCallId };
  return openIn(call).map(({ id }) => ({ type: 'approval.closed', ...of, approvalId: id, reason }));
}
