/**
 * Function tools, which clients run. Nothing runs here meanwhile, so that the run can be suspended as
 * for a person (E5). A client posts the result, which arrives as a command. A call without a result
 * fails at its deadline; the store lets only one of the two happen (E6).
 */
import { defined, type EventOf, type FunctionTool, issuesOfValue } from '@relay/protocol';
import type { QueuedRunCommand, RunCommand, Tool } from '../../ports/index.ts';
import type { LiveRun } from '../live-run.ts';
import { type CallState, toolCompleted, toolFailed } from '../state/call.ts';
import { clientCalls } from '../state/state.ts';

type Result = Exclude<EventOf<'tool.completed'>['result'], undefined>;

/** A function of the caller as a tool. It is the caller's own code: it runs unasked by default. */
export function clientTool(declared: FunctionTool): Tool {
  const { name, description = '', inputSchema, timeoutMs } = declared;
  const { needsApproval = false, kinds, sensitive } = declared;
  return {
    name,
    description,
    inputSchema,
    allowedByDefault: !needsApproval,
    needsApproval,
    idempotent: false,
    onUnknown: 'fail',
    ...defined({ kinds, sensitive }),
    client: timeoutMs === undefined ? {} : { timeoutMs },
    validate(input) {
      const issues = issuesOfValue(inputSchema, input);
      return issues.length === 0 ? { ok: true, value: input } : { ok: false, issues };
    },
    execute: () => Promise.reject(new TypeError('A client executes its own function')),
  };
}

/** Settles a call with the result that a client posted. */
export async function applyResult(
  run: LiveRun,
  queued: QueuedRunCommand,
  { toolCallId, context }: Extract<RunCommand, { kind: 'result' }>,
): Promise<void> {
  const consumeCommands = [queued.id];
  const open = clientCalls(run.state).find(({ call }) => call.toolCallId === toolCallId);
  const posted = await run.store.readClientCall(run.identity.id, toolCallId);
  if (open === undefined || posted?.result?.output === undefined) {
    // The call has ended before: there is nothing left to settle.
    run.journal.stage([], { consumeCommands });
    return;
  }
  run.resume();
  const { agent, call } = open;
  const output = posted.result.output as Result;
  const text = typeof output === 'string' ? output : JSON.stringify(output);
  const settled = posted.result.failed
    ? toolFailed(agent, call, 'tool_failed', text)
    : toolCompleted(agent, call, outputOf(output, context));
  run.journal.stage([settled], { consumeCommands });
}

/** A tool that returned only text for the model has no result. */
function outputOf(result: Result, context: string | undefined) {
  return context !== undefined && result === null ? { context } : defined({ context, result });
}

/** When the open client calls time out: a result in time may still be on its way into the store. */
export function clientCallDeadlines(run: LiveRun): number[] {
  return clientCalls(run.state).map(({ call }) => deadlineOf(run, call));
}

export function expireClientCalls(run: LiveRun, now: number): void {
  for (const { agent, call } of clientCalls(run.state)) {
    if (deadlineOf(run, call) > now) continue;
    run.resume();
    const error = 'No client posted the result before the deadline';
    run.journal.stage([toolFailed(agent, call, 'tool_timed_out', error, { via: 'client' })]);
  }
}

function deadlineOf(run: LiveRun, call: CallState): number {
  return Date.parse(call.resultBy ?? '') + run.engine.settings.lateAnswerMs;
}
