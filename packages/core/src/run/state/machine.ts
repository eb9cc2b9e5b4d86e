/**
 * The machine of a run: statuses × commands, as a total table (status.ts).
 *
 * `decide` turns a command into events, or says why not; `evolve` (state.ts) applies them. Both are
 * pure. The same machine serves the live loop, recovery and cancellation, so that a run ends in one
 * way only: open approvals closed, open calls settled, then the agent, the summary, and exactly one
 * `run.ended` (E6).
 */
import {
  addUsage,
  type AgentEnd,
  type EndedStatus,
  type Progress,
  type RunError,
  type RunEvent,
  type Trust,
  type Usage,
} from '@relay/protocol';
import { agentFields, type AgentState, openCalls } from './agent.ts';
import type { CallState } from './call.ts';
import { closeQuestions } from '../waiting/open-questions.ts';
import { liveAgents, pendingApprovals, rootAgent, type RunState } from './state.ts';
import { runTable } from './status.ts';

export { type CommandName, commands, runTable } from './status.ts';

export type Command =
  | { type: 'start'; agentId: string; agent: string; model: string }
  | { type: 'suspend' }
  | { type: 'resume' }
  | { type: 'complete'; reason: 'completed' | 'limit'; trust: Trust }
  | { type: 'fail'; error: RunError; trust: Trust }
  | { type: 'cancel'; reason: string; trust: Trust };

export type Decision =
  | { readonly ok: true; readonly events: readonly RunEvent[] }
  | { readonly ok: false; readonly reason: string };

export function decide(state: RunState, command: Command): Decision {
  const next = runTable[state.status][command.type];
  if (next === 'refused') {
    return { ok: false, reason: `A run that is ${state.status} cannot ${command.type}` };
  }
  switch (command.type) {
    case 'start': {
      const { agentId, agent: name, model } = command;
      return accept(
        { type: 'run.started', progress: progressOf(state) },
        { type: 'agent.started', agentId, name, model },
      );
    }
    case 'resume':
      return accept({ type: 'run.resumed', progress: progressOf(state) });
    case 'suspend':
      return accept({
        type: 'run.suspended',
        progress: progressOf(state),
        approvalIds: askingApprovals(state),
      });
    case 'complete': {
      const owing = Object.values(state.agents).some((agent) => openCalls(agent).length > 0);
      if (owing) return { ok: false, reason: 'A run with open tool calls cannot complete' };
      const why = { code: 'completed', message: 'The run is complete' };
      return accept(...ending(state, { status: 'completed', why, ...command }));
    }
    case 'fail':
      return accept(
        {
          type: 'run.errored',
          ...(state.rootId === null ? {} : { agentId: state.rootId }),
          error: command.error,
        },
        ...ending(state, { status: 'failed', reason: 'failed', why: command.error, ...command }),
      );
    case 'cancel':
      return accept(
        ...ending(state, {
          status: 'canceled',
          reason: 'canceled',
          why: { code: 'run_canceled', message: command.reason },
          trust: command.trust,
        }),
      );
  }
}

function accept(...events: readonly RunEvent[]): Decision {
  return { ok: true, events };
}

const partialOutputChars = 2000;

export function progressOf(state: RunState): Progress {
  const text = rootAgent(state)?.turn?.text ?? '';
  return {
    partialOutput: text.slice(-partialOutputChars),
    toolsInvoked: [...state.toolsInvoked],
  };
}

function askingApprovals(state: RunState): string[] {
  return pendingApprovals(state).map(({ id }) => id);
}

/** Why something that was still going on is over. */
export interface Why {
  readonly code: string;
  readonly message: string;
}

interface AgentEnding {
  readonly reason: AgentEnd;
  readonly why: Why;
}

interface Ending extends AgentEnding {
  readonly status: EndedStatus;
  readonly trust: Trust;
  readonly error?: RunError;
}

/**
 * Whatever is still open gets its one end: of each agent its approvals, its calls, then itself. Those
 * that were spawned last come first, because a call is settled only after its sub-agents.
 */
function ending(state: RunState, end: Ending): RunEvent[] {
  const first = rootAgent(state);
  const output = first?.turn?.text ?? '';
  const limit = first?.limit ?? null;
  return [
    ...liveAgents(state)
      .toReversed()
      .flatMap((agent) => endOfAgent({ ...agent, usage: usageOf(state, agent) }, end)),
    { type: 'run.summarized', trust: end.trust },
    {
      type: 'run.ended',
      status: end.status,
      output,
      usage: state.usage,
      ...(end.error === undefined ? {} : { error: end.error }),
      ...(limit === null || end.status !== 'completed' ? {} : { limit }),
    },
  ];
}

/** With that of its sub-agents which end in the same breath. */
function usageOf(state: RunState, agent: AgentState): Usage {
  return liveAgents(state)
    .filter(({ parentId }) => parentId === agent.id)
    .reduce((sum, child) => addUsage(sum, usageOf(state, child)), agent.usage);
}

/** How an agent ends that is stopped in the middle of whatever it does. */
export function endOfAgent(agent: AgentState, end: AgentEnding): RunEvent[] {
  return [
    ...openCalls(agent).flatMap((call) => endOfCall(agent, call, end.why)),
    {
      type: 'agent.ended',
      ...agentFields(agent),
      reason: end.reason,
      iterations: agent.iterations,
      usage: agent.usage,
    },
  ];
}

/** How a call ends that nobody will bring a result for. */
export function endOfCall(agent: AgentState, call: CallState, why: Why): RunEvent[] {
  const of = { ...agentFields(agent), toolCallId: call.toolCallId };
  const failed: RunEvent = {
    type: 'tool.failed',
    ...of,
    name: call.name,
    error: why.message,
    // It may have had its effect: that must not be hidden by the reason for stopping.
    code: hasBegun(call) ? 'outcome_unknown' : why.code,
    ...(call.phase === 'started' && call.via === 'client' ? { via: call.via } : {}),
  };
  if (call.phase !== 'asking' || call.approval === undefined) {
    return [...closeQuestions(agent, call, why.message), failed];
  }
  const { id: approvalId } = call.approval;
  return [{ type: 'approval.closed', ...of, approvalId, reason: why.message }, failed];
}

/** Its own code has started, or a client's, also if a person is being asked what became of it. */
function hasBegun({ idempotencyKey, via }: CallState): boolean {
  return idempotencyKey !== undefined && (via === undefined || via === 'client');
}
