/**
 * One agent of a run: the root agent, or one that a call of another agent spawned. Each has its own
 * turns; they share the run's journal, lease, rules and limits.
 */
import {
  type AgentEnd,
  defined,
  type EventOf,
  type FinishReason,
  type JsonSchema,
  type LimitName,
  noUsage,
  type ReasoningEffort,
  type RunError,
  type Usage,
} from '@relay/protocol';
import { type GrowingText, noText, textOf } from '../../runtime/growing-text.ts';
import type { CallState, OpenApproval } from './call.ts';

export interface TurnState {
  readonly turn: number;
  readonly startedSeq: number;
  readonly textId: string;
  readonly reasoningId: string;
  readonly text: GrowingText;
  readonly calls: readonly CallState[];
  /** Set when the model has finished; until then the turn can be discarded. */
  readonly finish: EventOf<'turn.completed'>['finishReason'] | null;
}

/** How an agent works. */
export interface Profile {
  readonly system?: string | undefined;
  readonly tools: readonly string[];
  readonly handoffs?: readonly string[] | undefined;
  /** The JSON Schema of its final answer. */
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
  /** `null`: the profile that the run was created with. */
  readonly profile: Profile | null;
  readonly spawned: Spawned | null;
  /** Turns that the model has completed. */
  readonly iterations: number;
  /** Including the usage of its ended sub-agents. */
  readonly usage: Usage;
  readonly turn: TurnState | null;
  /** The limit that was reached: the agent gets one final turn without tools. */
  readonly limit: LimitName | null;
  /** How it ended, and its output. */
  readonly ended: { reason: AgentEnd; output: string; error?: RunError } | null;
}

export function startedAgent(event: EventOf<'agent.started'>): AgentState {
  const { spawned } = event;
  return {
    id: event.agentId,
    parentId: event.parentId ?? null,
    name: event.name,
    model: event.model,
    profile: spawned === undefined ? null : profileFields(spawned),
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

/** The same agent in the tree, under another name and with another profile. */
export function switchedAgent(agent: AgentState, event: EventOf<'agent.switched'>): AgentState {
  return { ...agent, name: event.name, model: event.model, profile: profileFields(event) };
}

export function endedAgent(agent: AgentState, event: EventOf<'agent.ended'>): AgentState {
  const { reason, output = '', error } = event;
  return { ...agent, turn: null, ended: { reason, output, ...defined({ error }) } };
}

function profileFields({ system, tools, handoffs, outputSchema, reasoning }: Profile): Profile {
  return defined({ system, tools, handoffs, outputSchema, reasoning });
}

/** What the agent has written in its open turn. */
export function answerOf(agent: Pick<AgentState, 'turn'> | undefined): string {
  return textOf(agent?.turn?.text ?? noText);
}

/** Calls of the open turn that are not settled. */
export function openCalls(agent: AgentState): readonly CallState[] {
  return agent.turn?.calls.filter((call) => call.phase !== 'settled') ?? [];
}

/** How the agent's last answer ended; undefined if there is none, or the provider did not say. */
export function finishReasonOf({ turn }: Pick<AgentState, 'turn'>): FinishReason | undefined {
  const finish = turn?.finish ?? null;
  return finish === null || finish === 'tool_calls' || finish === 'other' ? undefined : finish;
}

/** The fields by which an event names its agent. */
export function agentFields(agent: Pick<AgentState, 'id' | 'parentId'>) {
  return agent.parentId === null
    ? { agentId: agent.id }
    : { agentId: agent.id, parentId: agent.parentId };
}

/** What names an open approval in the events about it. */
export function approvalFields(
  agent: Pick<AgentState, 'id' | 'parentId'>,
  { toolCallId, name: tool }: Pick<CallState, 'toolCallId' | 'name'>,
  { id: approvalId, kind }: Pick<OpenApproval, 'id' | 'kind'>,
) {
  return { ...agentFields(agent), approvalId, toolCallId, kind, tool };
}

/** Discards a turn that the model has not finished. */
export function turnDiscarded(
  agent: AgentState,
  { turn, textId, startedSeq }: TurnState,
  reason: EventOf<'turn.discarded'>['reason'],
): EventOf<'turn.discarded'> {
  return {
    type: 'turn.discarded',
    ...agentFields(agent),
    turn,
    textId,
    after: startedSeq,
    reason,
  };
}
