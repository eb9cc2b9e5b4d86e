/**
 * Calls of function tools while a client has them. Nothing is in flight here meanwhile: the run can
 * wait without a process, as it does for a person (E5). The result comes by commands; a call that nobody
 * brings one for fails when its time is over, and the store lets only one of the two happen (E6).
 */
import type { EventOf, RunEvent } from '@relay/protocol';
import type { RunCommand, QueuedRunCommand } from '../../ports/index.ts';
import { agentFields, type AgentState } from '../state/agent.ts';
import type { CallState } from '../state/call.ts';
import type { LiveRun } from '../live-run.ts';
import { resume } from './parked.ts';
import { clientCalls } from '../state/state.ts';

type Posted = Extract<RunCommand, { kind: 'result' }>;
type Json = EventOf<'tool.completed'>['result'] & {};

/** Takes a result that a client posted into the journal. */
export async function applyResult(
  run: LiveRun,
  queued: QueuedRunCommand,
  command: Posted,
): Promise<void> {
  const open = clientCalls(run.state).find(({ call }) => call.toolCallId === command.toolCallId);
  const stored = await run.store.readClientCall(run.identity.id, command.toolCallId);
  if (open === undefined || stored?.result?.output === undefined) {
    // The call ended first: the result has nothing left to settle.
    run.journal.stage([], { take: [queued.id] });
    return;
  }
  resume(run);
  const { output, failed } = stored.result;
  run.journal.stage([settlementOf(open, output as Json, failed)], { take: [queued.id] });
}

function settlementOf(
  { agent, call }: { agent: AgentState; call: CallState },
  output: Json,
  failed: boolean,
): RunEvent {
  const of = { ...agentFields(agent), toolCallId: call.toolCallId, name: call.name };
  if (!failed) return { type: 'tool.completed', ...of, result: output };
  const error = typeof output === 'string' ? output : JSON.stringify(output);
  return { type: 'tool.failed', ...of, error, code: 'tool_failed' };
}

/** When each of the calls that clients have is given up. A result in time may still be on its way. */
export function resultTimes(run: LiveRun): number[] {
  return clientCalls(run.state).map(({ call }) => dueAt(run, call));
}

export function isResultDue(run: LiveRun, now: number): boolean {
  return resultTimes(run).some((time) => time <= now);
}

export function expireClientCalls(run: LiveRun, now: number): void {
  for (const { agent, call } of clientCalls(run.state)) {
    if (dueAt(run, call) > now) continue;
    resume(run);
    run.journal.stage([
      {
        type: 'tool.failed',
        ...agentFields(agent),
        toolCallId: call.toolCallId,
        name: call.name,
        error: 'No client brought the result in time',
        code: 'tool_timed_out',
        via: 'client',
      },
    ]);
  }
}

function dueAt(run: LiveRun, call: CallState): number {
  return Date.parse(call.resultBy ?? '') + run.engine.settings.lateAnswerMs;
}
