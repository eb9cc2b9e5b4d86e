/**
 * Dispatch: the only place where a tool's side effect starts.
 *
 * The intent is stored before (E2), the decision before the intent or with it (E7), the result
 * after. A tool that throws is a tool error, never the end of the run.
 */
import type { EventOf, RuleRef, RunEvent } from '@relay/protocol';
import type { Tool, ToolOutput } from '../ports.ts';
import { readArguments } from './arguments.ts';
import type { CallState } from './call.ts';
import { textOfError } from './error-text.ts';
import { isNestedTooDeep } from './json-depth.ts';
import type { LiveRun } from './live-run.ts';
import { agentFields } from './machine.ts';
import type { AgentState } from './state.ts';

export interface Start {
  readonly call: CallState;
  readonly tool: Tool;
  /** The rule that allowed it, or the relay by which a person did. */
  readonly rule?: RuleRef;
  readonly relayId?: string;
}

type Json = EventOf<'tool.started'>['input'];

/** Commits everything staged so far together with the intents, then starts the tools. */
export async function start(
  run: LiveRun,
  agent: AgentState,
  starts: readonly Start[],
): Promise<void> {
  const intents = starts.map((each) => intentOf(run, agent, each));
  if (intents.length === 0) return;
  await run.journal.write(intents);
  for (const [index, intent] of intents.entries()) {
    const tool = starts[index]?.tool;
    if (tool === undefined) continue;
    run.running.add(intent.toolCallId);
    if (run.stop?.kind === 'cancel') {
      // The cancel came while the intent was being stored: we know that nothing has happened.
      run.toolSettled(intent.toolCallId, neverBegan(intent, run.stop.reason));
      continue;
    }
    void execute(run, tool, intent).then((settled) => run.toolSettled(intent.toolCallId, settled));
  }
}

function intentOf(run: LiveRun, agent: AgentState, each: Start): EventOf<'tool.started'> {
  const { call, rule, relayId } = each;
  return {
    type: 'tool.started',
    ...agentFields(agent),
    toolCallId: call.toolCallId,
    name: call.name,
    input: call.input as Json,
    idempotencyKey: call.idempotencyKey ?? `${run.identity.id}:${call.toolCallId}`,
    ...(rule === undefined ? {} : { rule }),
    ...(relayId === undefined ? {} : { relayId }),
  };
}

function neverBegan(intent: EventOf<'tool.started'>, reason: string): RunEvent {
  const { agentId, parentId, toolCallId, name } = intent;
  return {
    type: 'tool.failed',
    agentId,
    ...(parentId === undefined ? {} : { parentId }),
    toolCallId,
    name,
    error: reason,
    code: 'run_canceled',
  };
}

/** Never rejects. */
async function execute(
  run: LiveRun,
  tool: Tool,
  intent: EventOf<'tool.started'>,
): Promise<RunEvent> {
  const { clock } = run.engine;
  const began = clock.now();
  const { toolCallId, name, agentId } = intent;
  const of = {
    agentId,
    ...(intent.parentId === undefined ? {} : { parentId: intent.parentId }),
    toolCallId,
    name,
  };
  try {
    const reading = readArguments(tool, intent.input);
    if (!reading.ok) throw new TypeError(`The arguments no longer fit: ${reading.problem}`);
    const output = await tool.execute(reading.value, {
      signal: run.toolSignal,
      tenantId: run.identity.tenantId,
      runId: run.identity.id,
      agentId,
      toolCallId,
      idempotencyKey: intent.idempotencyKey,
      context: run.spec.context ?? {},
      progress: (content) => showProgress(run, of, content),
    });
    const durationMs = clock.now() - began;
    return { type: 'tool.completed', ...of, ...asJson(output), durationMs };
  } catch (error) {
    const durationMs = clock.now() - began;
    const code = run.toolSignal.aborted ? 'run_canceled' : 'tool_failed';
    return { type: 'tool.failed', ...of, error: textOfError(error), code, durationMs };
  }
}

function showProgress(
  run: LiveRun,
  of: { agentId: string; toolCallId: string; name: string },
  content: string,
): void {
  // A tool may call this after its end; only a running call has progress.
  if (!run.running.has(of.toolCallId) || run.journal.broken || run.journal.closed) return;
  const progressId = run.engine.ids.next();
  run.journal.append([{ type: 'tool.progressed', ...of, progressId, content }]);
}

/** A result is stored as JSON; what JSON cannot hold is the tool's error, not the run's. */
function asJson(output: ToolOutput): { context?: string; result?: Json } {
  const { context, result } = output;
  if (context !== undefined && typeof context !== 'string') {
    throw new TypeError('The context of a tool’s output must be text');
  }
  const text = result === undefined ? undefined : JSON.stringify(result);
  if (text !== undefined && isNestedTooDeep(text)) {
    throw new TypeError('The result of the tool is nested too deep');
  }
  return {
    ...(context === undefined ? {} : { context }),
    ...(text === undefined ? {} : { result: JSON.parse(text) as Json }),
  };
}
