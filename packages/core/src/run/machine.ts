/**
 * The machine of a run: statuses × commands, as a total table (status.ts).
 *
 * `decide` turns a command into events, or says why not; `evolve` (state.ts) applies them. Both are
 * pure. The same machine serves the live loop, recovery and cancellation, so that a run ends in one
 * way only: open relays closed, open calls settled, then the agent, the summary, and exactly one
 * `run.ended` (E6).
 */
import type { EndedStatus, Progress, RunError, RunEvent, Trust } from '@relay/protocol';
import { type AgentState, openCalls, rootAgent, type RunState } from './state.ts';
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
        relayIds: askingRelays(state),
      });
    case 'complete': {
      const owing = Object.values(state.agents).some((agent) => openCalls(agent).length > 0);
      if (owing) return { ok: false, reason: 'A run with open tool calls cannot complete' };
      return accept(...ending(state, { status: 'completed', ...command }));
    }
    case 'fail':
      return accept(
        {
          type: 'run.errored',
          ...(state.rootId === null ? {} : { agentId: state.rootId }),
          error: command.error,
        },
        ...settleOpenCalls(state, command.error),
        ...ending(state, { status: 'failed', reason: 'failed', ...command }),
      );
    case 'cancel':
      return accept(
        ...settleOpenCalls(state, { code: 'run_canceled', message: command.reason }),
        ...ending(state, { status: 'canceled', reason: 'canceled', trust: command.trust }),
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

function askingRelays(state: RunState): string[] {
  return Object.values(state.agents).flatMap((agent) =>
    openCalls(agent).flatMap((call) =>
      call.phase === 'asking' && call.relay !== undefined ? [call.relay.id] : [],
    ),
  );
}

/** Whatever is still open gets its one end, in the order of the calls. */
function settleOpenCalls(state: RunState, why: { code: string; message: string }): RunEvent[] {
  return Object.values(state.agents).flatMap((agent) =>
    openCalls(agent).flatMap((call): RunEvent[] => {
      const of = { ...agentFields(agent), toolCallId: call.toolCallId };
      const failed: RunEvent = {
        type: 'tool.failed',
        ...of,
        name: call.name,
        error: why.message,
        // It may have had its effect: that must not be hidden by the reason for stopping.
        code: call.phase === 'started' ? 'outcome_unknown' : why.code,
      };
      if (call.phase !== 'asking' || call.relay === undefined) return [failed];
      const { id: relayId } = call.relay;
      return [{ type: 'relay.closed', ...of, relayId, reason: why.message }, failed];
    }),
  );
}

interface Ending {
  readonly status: EndedStatus;
  readonly reason: 'completed' | 'limit' | 'failed' | 'canceled';
  readonly trust: Trust;
  readonly error?: RunError;
}

function ending(state: RunState, end: Ending): RunEvent[] {
  const agents = Object.values(state.agents)
    .filter((agent) => !agent.ended)
    .toReversed();
  const output = rootAgent(state)?.turn?.text ?? '';
  return [
    ...agents.map((agent): RunEvent => ({
      type: 'agent.ended',
      ...agentFields(agent),
      reason: end.reason,
      iterations: agent.iterations,
      usage: agent.usage,
    })),
    { type: 'run.summarized', trust: end.trust },
    {
      type: 'run.ended',
      status: end.status,
      output,
      usage: state.usage,
      ...(end.error === undefined ? {} : { error: end.error }),
    },
  ];
}

export function agentFields(agent: Pick<AgentState, 'id' | 'parentId'>) {
  return agent.parentId === null
    ? { agentId: agent.id }
    : { agentId: agent.id, parentId: agent.parentId };
}
