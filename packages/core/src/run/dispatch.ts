/**
 * Dispatch: the only place where a tool's side effect starts.
 *
 * The intent is stored before (E2), the decision before the intent or with it (E7), the result
 * after. A tool that throws is a tool error, never the end of the run.
 */
import type { EventOf, RuleRef, RunEvent } from '@relay/protocol';
import type { Question, Task, Tool, ToolOutput } from '../ports/index.ts';
import type { Activity } from './activity.ts';
import { readArguments } from './arguments.ts';
import type { CallState } from './state/call.ts';
import { textOfError } from './error-text.ts';
import { isNestedTooDeep } from './json-depth.ts';
import { agentFields, type AgentState } from './state/agent.ts';
import { handoffToolName } from './agents/handoff-tool.ts';
import type { LiveRun } from './live-run.ts';
import { memoryFor } from './context/memory.ts';
import { askFor } from './waiting/questions.ts';
import { reachedLimit, spawnFor, type Spawning, spawning } from './agents/spawn.ts';

export interface Start {
  readonly call: CallState;
  readonly tool: Tool;
  /** The rule that allowed it, or the approval by which a person did. */
  readonly rule?: RuleRef;
  readonly approvalId?: string;
}

type Json = EventOf<'tool.started'>['input'];
type Refusal = Extract<Spawning, { ok: false }>;

/** Commits everything staged so far together with the intents, then starts the tools. */
export async function start(
  run: LiveRun,
  agent: AgentState,
  starts: readonly Start[],
): Promise<void> {
  // Nothing starts on a journal that is damaged. The model reads it next: it is only read sooner.
  if (starts.length > 0) await run.transcripts();
  const planned: { tool: Tool; intent: EventOf<'tool.started'> }[] = [];
  const events: RunEvent[] = [];
  for (const each of starts) {
    const intent = intentOf(run, agent, each);
    const delegated = delegatedTo(run, agent, { each, before: events });
    if (delegated?.ok === false) {
      run.journal.stage([...reached(run, agent, delegated), notDelegated(agent, each, delegated)]);
      continue;
    }
    events.push(intent);
    if (delegated !== undefined) events.push(delegated.event);
    if (intent.via === undefined) planned.push({ tool: each.tool, intent });
  }
  if (events.length === 0) return;
  await run.journal.write(events);
  for (const { tool, intent } of planned) if (hasStarted(run, intent)) execute(run, tool, intent);
}

/** What allowed it may have been used up by others in the last moment. */
function hasStarted({ state }: LiveRun, { agentId, toolCallId }: EventOf<'tool.started'>): boolean {
  const calls = state.agents[agentId]?.turn?.calls ?? [];
  return calls.some((call) => call.toolCallId === toolCallId && call.phase === 'started');
}

/** The sub-agent that does the work of a tool which only delegates. */
function delegatedTo(
  run: LiveRun,
  agent: AgentState,
  { each: { tool, call }, before }: { each: Start; before: readonly RunEvent[] },
): Spawning | undefined {
  const reading = tool.delegates === undefined ? undefined : readArguments(tool, call.input);
  if (tool.delegates === undefined || reading === undefined) return undefined;
  if (!reading.ok) {
    const error = `The arguments no longer fit: ${reading.problem}`;
    return { ok: false, code: 'tool_input_invalid', error } as const;
  }
  try {
    return spawning(run, agent, {
      toolCallId: call.toolCallId,
      task: tool.delegates(reading.value),
      nth: 1,
      besides: before.filter(({ type }) => type === 'agent.started').length,
    });
  } catch (error) {
    return { ok: false, code: 'tool_failed', error: textOfError(error) };
  }
}

function notDelegated(agent: AgentState, { call }: Start, { code, error }: Refusal): RunEvent {
  const of = { ...agentFields(agent), toolCallId: call.toolCallId, name: call.name };
  return { type: 'tool.failed', ...of, error, code };
}

function reached(run: LiveRun, agent: AgentState, { limit }: Refusal): RunEvent[] {
  return limit === undefined ? [] : reachedLimit(run, agent, limit);
}

function intentOf(run: LiveRun, agent: AgentState, each: Start): EventOf<'tool.started'> {
  const { call, tool, rule, approvalId } = each;
  const via = viaOf(tool);
  return {
    type: 'tool.started',
    ...agentFields(agent),
    toolCallId: call.toolCallId,
    name: call.name,
    input: call.input as Json,
    idempotencyKey: call.idempotencyKey ?? `${run.identity.id}:${call.toolCallId}`,
    ...(call.resolvedPaths === undefined ? {} : { resolvedPaths: call.resolvedPaths }),
    ...(rule === undefined ? {} : { rule }),
    ...(approvalId === undefined ? {} : { approvalId }),
    ...(via === undefined ? {} : { via }),
    ...(tool.client === undefined ? {} : { resultBy: resultBy(run, tool.client) }),
  };
}

/** Who brings the result, where it is not the tool's own code. */
function viaOf(tool: Tool): EventOf<'tool.started'>['via'] {
  if (tool.delegates !== undefined) return 'agent';
  if (tool.client !== undefined) return 'client';
  return tool.name === handoffToolName ? 'handoff' : undefined;
}

function resultBy({ engine }: LiveRun, { timeoutMs }: Tool['client'] & {}): string {
  const ms = timeoutMs ?? engine.settings.toolResultTimeoutMs;
  return new Date(engine.clock.now() + ms).toISOString();
}

function execute(run: LiveRun, tool: Tool, intent: EventOf<'tool.started'>): void {
  const { toolCallId } = intent;
  const activity = run.beginTool(toolCallId, intent.agentId);
  if (run.stop?.kind === 'cancel') {
    // The cancel came while the intent was being stored: we know that nothing has happened.
    run.toolSettled(toolCallId, neverBegan(intent, run.stop.reason), activity);
    return;
  }
  void outcomeOf(run, tool, { intent, activity }).then((settled) =>
    run.toolSettled(toolCallId, settled, activity),
  );
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
async function outcomeOf(
  run: LiveRun,
  tool: Tool,
  { intent, activity }: { intent: EventOf<'tool.started'>; activity: Activity },
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
    let spawned = 0;
    const spawn = (task: Task) => {
      const report = spawnFor(run, intent, { task, nth: (spawned += 1) });
      // A tool may leave its agents alone; nobody else would hear of a refusal.
      report.catch(() => undefined);
      return report;
    };
    const memory = memoryFor(run, intent.idempotencyKey);
    let asked = 0;
    const ask = (question: Question) => {
      const answer = askFor(run, { intent, tool, activity, question, nth: (asked += 1) });
      answer.catch(() => undefined);
      return answer;
    };
    const output = await tool.execute(reading.value, {
      signal: activity.signal,
      tenantId: run.identity.tenantId,
      runId: run.identity.id,
      agentId,
      toolCallId,
      idempotencyKey: intent.idempotencyKey,
      context: run.spec.context ?? {},
      progress: (content) => showProgress(run, of, content),
      ...(intent.resolvedPaths === undefined ? {} : { resolvedPaths: intent.resolvedPaths }),
      spawn,
      ...(memory === undefined ? {} : { memory }),
      ask,
    });
    const durationMs = clock.now() - began;
    return { type: 'tool.completed', ...of, ...asJson(output), durationMs };
  } catch (error) {
    const durationMs = clock.now() - began;
    const code = stopCode(run, activity);
    return { type: 'tool.failed', ...of, error: textOfError(error), code, durationMs };
  }
}

function stopCode(run: LiveRun, activity: Activity): string {
  if (!activity.stopped) return 'tool_failed';
  return run.stop === undefined ? 'limit_reached' : 'run_canceled';
}

function showProgress(
  run: LiveRun,
  of: { agentId: string; toolCallId: string; name: string },
  content: string,
): void {
  // A tool may call this after its end; only a running call has progress.
  if (!run.isRunning(of.toolCallId) || run.journal.broken || run.journal.closed) return;
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
