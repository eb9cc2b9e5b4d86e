/** The events that settle a tool call. Every call gets exactly one of them (E6). */
import type { EventOf } from '@relay/protocol';
import { agentFields, type AgentState } from './agent.ts';
import type { CallState } from './call.ts';

type Agent = Pick<AgentState, 'id' | 'parentId'>;
type Call = Pick<CallState, 'toolCallId' | 'name'>;
type Details<Type extends 'tool.completed' | 'tool.failed' | 'tool.denied'> = Omit<
  EventOf<Type>,
  'type' | 'agentId' | 'parentId' | 'toolCallId' | 'name'
>;

/** The fields by which an event names its call. */
export function callFields(agent: Agent, { toolCallId, name }: Call) {
  return { ...agentFields(agent), toolCallId, name };
}

export function toolCompleted(
  agent: Agent,
  call: Call,
  details: Details<'tool.completed'>,
): EventOf<'tool.completed'> {
  return { type: 'tool.completed', ...callFields(agent, call), ...details };
}

export function toolFailed(
  agent: Agent,
  call: Call,
  code: string,
  error: string,
  details: Omit<Details<'tool.failed'>, 'code' | 'error'> = {},
): EventOf<'tool.failed'> {
  return { type: 'tool.failed', ...callFields(agent, call), error, code, ...details };
}

export function toolDenied(
  agent: Agent,
  call: Call,
  details: Omit<Details<'tool.denied'>, 'status'> & Partial<Pick<Details<'tool.denied'>, 'status'>>,
): EventOf<'tool.denied'> {
  return { type: 'tool.denied', ...callFields(agent, call), status: 'denied', ...details };
}
