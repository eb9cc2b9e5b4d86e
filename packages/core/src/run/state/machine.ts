/**
 * The state machine of a run: statuses × commands, as a total table (status.ts).
 *
 * `decide` turns a command into events or refuses it; `evolve` (state.ts) applies events. Both are
 * pure. The loop, recovery and cancellation share this machine, so that every run ends in the same
 * way: open approvals are closed, open calls settled, then the agents end, then come the summary and
 * exactly one `run.ended` (E6).
 */
import {
  addUsage,
  type AgentEnd,
  defined,
  type EndedStatus,
  type EventOf,
  type Progress,
  type RunError,
  type RunEvent,
  type Trust,
  type Usage,
} from '@relay/protocol';
import {
  agentFields,
  type AgentState,
  answerOf,
  approvalFields,
  finishReasonOf,
  openCalls,
} from './agent.ts';
import { type CallState, openQuestionsOf, stoppedText, toolFailed } from './call.ts';
import {
  isInTurn,
  liveAgents,
  partialOutputOf,
  pendingApprovals,
  rootAgent,
  type RunState,
} from './state.ts';
import { runTable } from './status.ts';

export { type CommandName, commands, runTable } from './status.ts';

export type Command =
  | { type: 'start'; agentId: string; agent: string; model: string }
  | { type: 'message'; message: Omit<EventOf<'message.added'>, 'type' | 'agentId'> }
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
    case 'message': {
      const agentId = state.rootId;
      if (agentId === null || isInTurn(state)) {
        return { ok: false, reason: 'A run in a turn cannot take a message' };
      }
      return accept({ type: 'message.added', agentId, ...command.message });
    }
    case 'resume':
      return accept({ type: 'run.resumed', progress: progressOf(state) });
    case 'suspend':
      return accept({
        type: 'run.suspended',
        progress: progressOf(state),
        approvalIds: pendingApprovals(state).map(({ id }) => id),
      });
    case 'complete': {
      const hasOpenCalls = Object.values(state.agents).some((agent) => openCalls(agent).length > 0);
      if (hasOpenCalls) return { ok: false, reason: 'A run with open tool calls cannot complete' };
      const why = { code: 'completed', message: 'The run is complete' };
      return accept(...ending(state, { status: 'completed', why, ...command }));
    }
    case 'fail':
      return accept(
        {
          type: 'run.errored',
          ...defined({ agentId: state.rootId ?? undefined }),
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

export function progressOf(state: RunState): Progress {
  return {
    partialOutput: partialOutputOf(answerOf(rootAgent(state))),
    toolsInvoked: [...state.toolsInvoked],
  };
}

/** Why a call or an agent is stopped. */
export interface StopReason {
  readonly code: string;
  readonly message: string;
}

interface AgentEnding {
  readonly reason: AgentEnd;
  readonly why: StopReason;
}

interface Ending extends AgentEnding {
  readonly status: EndedStatus;
  readonly trust: Trust;
  readonly error?: RunError;
}

/**
 * Ends everything that is open: for each agent its approvals, its calls, then itself. Agents that were
 * spawned last come first, because a call is settled only after its sub-agents have ended.
 */
function ending(state: RunState, end: Ending): RunEvent[] {
  const root = rootAgent(state);
  const output = answerOf(root);
  const limit = root?.limit ?? null;
  return [
    ...liveAgents(state)
      .toReversed()
      .flatMap((agent) => {
        const progress = agent.id === root?.id ? progressOf(state) : undefined;
        return endOfAgent({ ...agent, usage: usageOf(state, agent) }, end, progress);
      }),
    { type: 'run.summarized', trust: end.trust },
    {
      type: 'run.ended',
      status: end.status,
      output,
      usage: state.usage,
      ...defined({
        agent: root?.name,
        error: end.error,
        limit: end.status === 'completed' ? (limit ?? undefined) : undefined,
        finishReason: root === undefined ? undefined : finishReasonOf(root),
      }),
    },
  ];
}

/** Including the sub-agents that end in the same commit. */
function usageOf(state: RunState, agent: AgentState): Usage {
  return liveAgents(state)
    .filter(({ parentId }) => parentId === agent.id)
    .reduce((sum, child) => addUsage(sum, usageOf(state, child)), agent.usage);
}

/** Ends an agent that is stopped before it has finished. */
export function endOfAgent(agent: AgentState, end: AgentEnding, progress?: Progress): RunEvent[] {
  return [
    ...openCalls(agent).flatMap((call) => endOfCall(agent, call, end.why)),
    {
      type: 'agent.ended',
      ...agentFields(agent),
      reason: end.reason,
      iterations: agent.iterations,
      usage: agent.usage,
      ...defined({ progress, finishReason: finishReasonOf(agent) }),
    },
  ];
}

/** Ends a call that will get no result. */
export function endOfCall(agent: AgentState, call: CallState, why: StopReason): RunEvent[] {
  const begun = hasBegun(call);
  const code = begun ? 'outcome_unknown' : why.code;
  const error = begun ? stoppedText(why.message) : why.message;
  const isWithClient = call.phase === 'started' && call.via === 'client';
  const details = isWithClient ? { via: 'client' as const } : {};
  const failed = toolFailed(agent, call, code, error, details);
  if (call.phase !== 'asking' || call.approval === undefined) {
    return [...closeQuestions(agent, call, why.message), failed];
  }
  const fields = approvalFields(agent, call, call.approval);
  return [{ type: 'approval.closed', ...fields, reason: why.message }, failed];
}

/** Closes the open questions of a call whose tool will not read the answers. */
export function closeQuestions(
  agent: Pick<AgentState, 'id' | 'parentId'>,
  call: CallState,
  reason: string,
): RunEvent[] {
  return openQuestionsOf(call).map((question) => ({
    type: 'approval.closed',
    ...approvalFields(agent, call, question),
    reason,
  }));
}

/** Its tool or a client has started it, even if an approval asks for its outcome now. */
function hasBegun({ idempotencyKey, via }: CallState): boolean {
  return idempotencyKey !== undefined && (via === undefined || via === 'client');
}
