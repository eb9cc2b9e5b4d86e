/**
 * Dispatch: the only place where a tool's side effect starts.
 *
 * The intent (`tool.started`) is stored before it (E2), the decision before the intent or with it
 * (E7), the result after it. A tool that throws is a tool error and never ends the run.
 */
import {
  type AttachmentPart,
  attachmentPartSchema,
  defined,
  type EventOf,
  type ParsedInput,
  type RuleRef,
  type RunEvent,
  type ToolSchema,
} from '@relay/protocol';
import type { Engine } from '../engine.ts';
import type { OnGrantExhausted } from '../journal.ts';
import type { Question, Task, Tool, ToolContext, ToolOutput } from '../ports/index.ts';
import type { Activity } from './activity.ts';
import { idempotencyKeyOf, isNestedTooDeep, parseArguments } from './arguments.ts';
import { errorText, isStoreFault } from './errors.ts';
import type { LiveRun } from './live-run.ts';
import { sessionFor } from './messaging.ts';
import { handoffToolName } from './agents/profile.ts';
import { reachedLimit, spawnFor, type SpawnPlan, planSpawn } from './agents/spawn.ts';
import { memoryFor } from './context/memory.ts';
import type { AgentState } from './state/agent.ts';
import {
  callFields,
  type CallState,
  stoppedText,
  toolCompleted,
  toolFailed,
} from './state/call.ts';
import { callOf } from './state/state.ts';
import { askFor } from './waiting/questions.ts';

export interface CallStart {
  readonly call: CallState;
  readonly tool: Tool;
  /** The rule that allowed the call, or the approval. */
  readonly rule?: RuleRef;
  readonly approvalId?: string;
}

type Intent = EventOf<'tool.started'>;
type Json = Intent['input'];

/** Commits everything staged so far together with the intents, then starts the tools. */
export async function startCalls(
  run: LiveRun,
  agent: AgentState,
  starts: readonly CallStart[],
  onGrantExhausted?: OnGrantExhausted,
): Promise<void> {
  // Nothing starts on a damaged journal.
  if (starts.length > 0) await run.checkJournal();
  const planned: { tool: Tool; intent: Intent }[] = [];
  const events: RunEvent[] = [];
  for (const each of starts) {
    const intent = intentOf(run, agent, each);
    const spawn = delegate(run, agent, each, events);
    if (spawn?.ok === false) {
      const { limit, code, error } = spawn;
      const reached = limit === undefined ? [] : reachedLimit(run, agent, limit);
      run.journal.stage([...reached, toolFailed(agent, each.call, code, error)]);
      continue;
    }
    events.push(intent);
    if (spawn !== undefined) events.push(spawn.event);
    if (intent.via === undefined) planned.push({ tool: each.tool, intent });
  }
  if (events.length === 0) return;
  await run.journal.write(events, { onGrantExhausted });
  for (const { tool, intent } of planned) {
    // The grant that allowed a call may have been exhausted before the intent was stored.
    if (callOf(run.state, intent)?.phase === 'started') execute(run, agent, tool, intent);
  }
}

/** The sub-agent of a tool that delegates; undefined for any other tool. */
function delegate(
  run: LiveRun,
  agent: AgentState,
  { tool, call }: CallStart,
  planned: readonly RunEvent[],
): SpawnPlan | undefined {
  if (tool.delegates === undefined) return undefined;
  const parsed = parseArguments(tool, call.input);
  if (!parsed.ok) {
    const error = `The arguments are no longer valid: ${parsed.problem}`;
    return { ok: false, code: 'tool_input_invalid', error };
  }
  try {
    return planSpawn(run, agent, {
      toolCallId: call.toolCallId,
      task: tool.delegates(parsed.value),
      nth: 1,
      planned: planned.filter(({ type }) => type === 'agent.started').length,
    });
  } catch (error) {
    return { ok: false, code: 'tool_failed', error: errorText(error) };
  }
}

function intentOf(run: LiveRun, agent: AgentState, each: CallStart): Intent {
  const { call, tool, rule, approvalId } = each;
  return {
    type: 'tool.started',
    ...callFields(agent, call),
    input: call.input as Json,
    idempotencyKey: call.idempotencyKey ?? idempotencyKeyOf(run.identity.id, call.toolCallId),
    ...defined({
      resolvedPaths: call.resolvedPaths,
      // A rule allows what a call does now; a person approved what was shown.
      previewDigest: approvalId === undefined ? undefined : call.preview?.digest,
      rule,
      approvalId,
      via: viaOf(tool),
      resultBy: tool.client === undefined ? undefined : resultBy(run, tool.client),
    }),
  };
}

/** What settles the call, where it is not the tool's own code. */
function viaOf(tool: Tool): Intent['via'] {
  if (tool.delegates !== undefined) return 'agent';
  if (tool.client !== undefined) return 'client';
  return tool.name === handoffToolName ? 'handoff' : undefined;
}

function resultBy({ engine }: LiveRun, { timeoutMs }: Tool['client'] & {}): string {
  const ms = timeoutMs ?? engine.settings.toolResultTimeoutMs;
  return new Date(engine.clock.now() + ms).toISOString();
}

function execute(run: LiveRun, agent: AgentState, tool: Tool, intent: Intent): void {
  const { toolCallId } = intent;
  const activity = run.beginTool(toolCallId, agent.id, tool);
  if (run.stop?.kind === 'cancel') {
    // Canceled while the intent was being stored: the tool has certainly not run.
    const failed = toolFailed(agent, intent, 'run_canceled', run.stop.reason);
    run.toolSettled(toolCallId, failed, activity);
    return;
  }
  void settlementOf(run, agent, tool, intent, activity).then(
    (event) => run.toolSettled(toolCallId, event, activity),
    (error: unknown) => run.toolInterrupted(toolCallId, error, activity),
  );
}

/** Runs the tool. It rejects only if the tool failed by a fault of the store and may run again. */
async function settlementOf(
  run: LiveRun,
  agent: AgentState,
  tool: Tool,
  intent: Intent,
  activity: Activity,
): Promise<RunEvent> {
  const { clock } = run.engine;
  const startedAt = clock.now();
  try {
    const parsed = parseArguments(tool, intent.input);
    if (!parsed.ok) throw new TypeError(`The arguments are no longer valid: ${parsed.problem}`);
    const output = await tool.execute(parsed.value, contextFor(run, agent, tool, intent, activity));
    const durationMs = clock.now() - startedAt;
    return toolCompleted(agent, intent, { ...asJson(output, run.engine), durationMs });
  } catch (error) {
    if (isStoreFault(error) && tool.idempotent && !activity.stopped) throw error;
    const durationMs = clock.now() - startedAt;
    const text = redacted(run.engine, errorText(error));
    const reason = activity.stopped ? stoppedText(text) : text;
    return toolFailed(agent, intent, failureCode(run, activity), reason, { durationMs });
  }
}

function contextFor(
  run: LiveRun,
  agent: AgentState,
  tool: Tool,
  intent: Intent,
  activity: Activity,
): ToolContext {
  const { toolCallId, idempotencyKey, resolvedPaths, previewDigest } = intent;
  let spawned = 0;
  let asked = 0;
  return {
    signal: activity.signal,
    tenantId: run.identity.tenantId,
    runId: run.identity.id,
    agentId: agent.id,
    toolCallId,
    idempotencyKey,
    allowedBy: callOf(run.state, intent)?.allowedBy ?? 'rule',
    context: run.spec.context ?? {},
    progress(content) {
      // A tool may call this after its end, or after its suspension.
      if (!run.isCurrent(toolCallId, activity) || run.journal.broken || run.journal.closed) return;
      const progressId = run.engine.ids.next();
      const fields = { ...callFields(agent, intent), progressId };
      const text = redacted(run.engine, content);
      run.journal.append([{ type: 'tool.progressed', ...fields, content: text }]);
    },
    // Rejections of promises that the tool does not await are not unhandled.
    spawn: (task: Task) =>
      suppressUnhandledRejection(spawnFor(run, intent, activity, task, (spawned += 1))),
    ask: <Schema extends ToolSchema>(question: Question<Schema>) =>
      suppressUnhandledRejection(
        askFor(run, { intent, tool, activity, question, nth: (asked += 1) }),
      ) as Promise<ParsedInput<Schema>>,
    ...defined({
      resolvedPaths,
      previewDigest,
      memory: memoryFor(run, idempotencyKey, activity),
      session: tool.needsSession === true ? sessionFor(run, idempotencyKey, activity) : undefined,
    }),
  };
}

function suppressUnhandledRejection<Value>(promise: Promise<Value>): Promise<Value> {
  promise.catch(() => undefined);
  return promise;
}

function failureCode(run: LiveRun, activity: Activity): string {
  if (!activity.stopped) return 'tool_failed';
  return run.stop === undefined ? 'limit_reached' : 'run_canceled';
}

/** Results are stored as JSON. A result that JSON cannot represent is an error of the tool. */
function asJson(
  { context, result, attachments = [] }: ToolOutput,
  engine: Engine,
): {
  context?: string;
  result?: Json;
  attachments?: AttachmentPart[];
} {
  if (context !== undefined && typeof context !== 'string') {
    throw new TypeError('The context of a tool’s output must be text');
  }
  const text = result === undefined ? undefined : JSON.stringify(result);
  if (text !== undefined && isNestedTooDeep(text)) {
    throw new TypeError('The result of the tool is nested too deep');
  }
  return defined({
    context: context === undefined ? undefined : redacted(engine, context),
    result: text === undefined ? undefined : (JSON.parse(redacted(engine, text)) as Json),
    attachments: attachments.length === 0 ? undefined : attachments.map(checkedAttachment),
  });
}

function redacted({ redact = (same) => same }: Engine, text: string): string {
  return redact(text);
}

function checkedAttachment(attachment: AttachmentPart): AttachmentPart {
  const checked = attachmentPartSchema.safeParse(attachment);
  if (checked.success) return checked.data;
  const [issue] = checked.error.issues;
  const where = issue?.path.join('.') ?? '';
  throw new TypeError(`An attachment of the tool’s output is invalid: ${where}: ${issue?.message}`);
}
