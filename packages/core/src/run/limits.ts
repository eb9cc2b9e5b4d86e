import type { EventOf, Message } from '@relay/protocol';
import type { AgentState } from './state.ts';

type Spec = Pick<EventOf<'run.created'>, 'maxIterations'>;

/** The turn after the last allowed one has no tools: it asks for an answer with what there is. */
export function isLastTurn(agent: AgentState, spec: Spec): boolean {
  return agent.iterations >= spec.maxIterations;
}

export function endReason(agent: AgentState, spec: Spec): 'completed' | 'limit' {
  return agent.iterations > spec.maxIterations ? 'limit' : 'completed';
}

export const closingInstruction: Message = {
  role: 'system',
  content:
    'The limit of turns is reached and no tool can be called any more. ' +
    'Answer now with what you have, and say what is missing.',
};
