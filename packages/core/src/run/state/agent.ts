/**
 * One agent of a run: the first one, or one that another agent's call has spawned. Each has its own
 * turns; they share the run's journal, lease, rules and limits.
 */
import {
  type AgentEnd,
  type EventOf,
  type JsonSchema,
  type LimitName,
  noUsage,
  type ReasoningEffort,
  type RunError,
  type Usage,
} from '@relay/protocol';
import type { CallState } from './call.ts';

export interface TurnState {
  readonly turn: number;
  readonly startedSeq: number;
  readonly textId: string;
  readonly reasoningId: string;
  readonly text: string;
  readonly calls: readonly CallState[];
  /** Set when the model has finished; until then the turn can be discarded. */
  readonly finish: EventOf<'turn.completed'>['finishReason'] | null;
}

/** What an agent works by. */
export interface Profile {
  readonly system?: string | undefined;
  readonly tools: readonly string[];
  readonly handoffs?: readonly string[] | undefined;
  /** What its last answer has to fit. */
  readonly outputSchema?: JsonSchema | undefined;
  readonly reasoning?: ReasoningEffort | undefined;
}

/** Which call of its parent a sub-agent works for. */
export interface Spawned {
  readonly toolCallId: string;
  readonly nth: number;
  readonly maxIterations: number | null;
}

export interface AgentState {
  readonly id: string;
  readonly parentId: string | null;
  readonly name: string;
  readonly model: string;
  /** `null`: the one that the run was created with. */
  readonly profile: Profile | null;
  readonly spawned: Spawned | null;
  /** Turns that the model has completed. */
  readonly iterations: number;
  /** Its own, and that of its sub-agents that have ended. */
  readonly usage: Usage;
  readonly turn: TurnState | null;
  /** Reached: one more turn, without tools, and the agent ends. */
  readonly limit: LimitName | null;
  /** How it ended, and what it brought back. */
  readonly ended: { reason: AgentEnd; output: string; error?: RunError } | null;
}

export function startedAgent(event: EventOf<'agent.started'>): AgentState {
  const { spawned } = event;
  return {
    id: event.agentId,
    parentId: event.parentId ?? null,
    name: event.name,
    model: event.model,
    profile: spawned === undefined ? null : profileOf(spawned),
    spawned:
      spawned === undefined
        ? null
        : {
            toolCallId: spawned.toolCallId,
            nth: spawned.nth,
            maxIterations: spawned.maxIterations ?? null,
          },
    iterations: 0,
    usage: noUsage,
    turn: null,
    limit: null,
    ended: null,
  };
}

/** The same agent under another name, with another profile: the conversation goes on. */
export function switchedAgent(agent: AgentState, event: EventOf<'agent.switched'>): AgentState {
  return { ...agent, name: event.name, model: event.model, profile: profileOf(event) };
}

export function endedAgent(agent: AgentState, event: EventOf<'agent.ended'>): AgentState {
  const { reason, output = '', error } = event;
  const ended = error === undefined ? { reason, output } : { reason, output, error };
  return { ...agent, turn: null, ended };
}

function profileOf(given: Profile): Profile {
  const { system, tools, handoffs, outputSchema, reasoning } = given;
  return {
    tools,
    ...(system === undefined ? {} : { system }),
    ...(handoffs === undefined ? {} : { handoffs }),
    ...(outputSchema === undefined ? {} : { outputSchema }),
    ...(reasoning === undefined ? {} : { reasoning }),
  };
}

/** Calls of the open turn that still owe a result. */
export function openCalls(agent: AgentState): readonly CallState[] {
  return agent.turn?.calls.filter((call) => call.phase !== 'settled') ?? [];
}

/** How an event says whose it is. */
export function agentFields(agent: Pick<AgentState, 'id' | 'parentId'>) {
  return agent.parentId === null
    ? { agentId: agent.id }
    : { agentId: agent.id, parentId: agent.parentId };
}
