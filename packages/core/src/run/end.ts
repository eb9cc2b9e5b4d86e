/** How a run ends, or stops being driven by this node. */
import { type RunError, type RunEvent, type Trust } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import type { MemoryRecord, RunRef, SessionWrite } from '../ports/index.ts';
import { publishStored } from '../publisher.ts';
import type { LiveRun, RunningTool } from './live-run.ts';
import { settleResults } from './agents/spawn.ts';
import { memoryOfRun } from './context/memory.ts';
import type { AgentState } from './state/agent.ts';
import { openQuestionsOf } from './state/call.ts';
import { type Command, decide } from './state/machine.ts';
import { project } from './state/projection.ts';
import { callOf, initialState, liveAgents, type RunState } from './state/state.ts';

export type Outcome = 'settled' | 'suspended' | 'yielded';

export async function suspend(run: LiveRun): Promise<Outcome> {
  const decision = decide(run.state, { type: 'suspend' });
  await run.journal.write(decision.ok ? decision.events : [], { release: true });
  run.cacheTranscripts();
  return 'suspended';
}

/** Tools get time to finish. Results are stored as they arrive: the process may be ended meanwhile. */
export async function yieldRun(run: LiveRun): Promise<Outcome> {
  const { graceMs, stopTimeoutMs } = run.engine.settings;
  const { stop } = run;
  const isLeaseLost = stop?.kind === 'yield' && stop.isLeaseLost === true;
  const onResult = async () => {
    settleResults(run);
    await run.journal.settled();
  };
  const firstMs = Math.min(graceMs, stopTimeoutMs);
  await waitForTools(run, firstMs, () => run.hasTools, onResult);
  const moreMs = isLeaseLost ? 0 : stopTimeoutMs - firstMs;
  await waitForTools(run, moreMs, () => toolsToWaitFor(run).length > 0, onResult);
  for (const { name, toolCallId } of run.runningTools) {
    const call = { runId: run.identity.id, tool: name, toolCallId };
    run.engine.log.warn('A tool did not finish in time and is interrupted', call);
  }
  stopTools(run);
  await run.journal.write([], { release: true });
  run.cacheTranscripts();
  return 'yielded';
}

export async function complete(run: LiveRun, agent: AgentState): Promise<Outcome> {
  const reason = agent.limit === null ? 'completed' : 'limit';
  const trust = await trustOf(run);
  const { events, memories } = await memoryOfRun(run, agent);
  return settle(run, { type: 'complete', reason, trust }, events, memories);
}

/** Fails a run with every call settled, as long as its journal can be written. */
export async function fail(run: LiveRun, error: RunError): Promise<Outcome> {
  run.stopWith({ kind: 'yield', reason: error.message });
  run.stopTools();
  return settle(run, { type: 'fail', error, trust: await trustOf(run) });
}

export async function cancel(run: LiveRun, reason: string): Promise<Outcome> {
  await waitForTools(run, run.engine.settings.graceMs, () => run.hasTools);
  stopTools(run);
  return settle(run, { type: 'cancel', reason, trust: await trustOf(run) });
}

async function settle(
  run: LiveRun,
  command: Command,
  events: readonly RunEvent[] = [],
  memories: readonly MemoryRecord[] = [],
): Promise<Outcome> {
  const decision = decide(run.state, command);
  if (!decision.ok) throw new TypeError(decision.reason);
  await run.journal.write([...events, ...decision.events], { memories });
  run.cacheTranscripts();
  return 'settled';
}

async function waitForTools(
  run: LiveRun,
  ms: number,
  isNeeded: () => boolean,
  onResult?: () => Promise<void>,
): Promise<void> {
  const isOver = new AbortController();
  const timeout = run.engine.clock.sleep(ms, isOver.signal).then(() => 'timeout' as const);
  try {
    while (isNeeded()) {
      if ((await Promise.race([timeout, run.waitForTool()])) === 'timeout') return;
      await onResult?.();
    }
  } finally {
    isOver.abort();
  }
}

/** Tools whose outcome would be unknown. Those that wait for a person or for a sub-agent would wait in vain. */
export function toolsToWaitFor(run: LiveRun): RunningTool[] {
  return run.runningTools.filter((running) => {
    const call = callOf(run.state, running);
    const isAsking = call !== undefined && openQuestionsOf(call).length > 0;
    return !running.idempotent && !isAsking && !hasLiveSubAgents(run, running);
  });
}

function hasLiveSubAgents(run: LiveRun, { agentId, toolCallId }: RunningTool): boolean {
  return liveAgents(run.state).some(
    ({ parentId, spawned }) => parentId === agentId && spawned?.toolCallId === toolCallId,
  );
}

function stopTools(run: LiveRun): void {
  run.stopTools();
  settleResults(run);
}

async function trustOf(run: LiveRun): Promise<Trust> {
  const { state, engine } = run;
  const evidence = await run.evidence.all(run.store, run.identity.id);
  const calls = state.toolsSucceeded + state.toolsFailed;
  return {
    toolsInvoked: [...state.toolsInvoked],
    toolFailures: state.toolsFailed,
    evidenceCitations: evidence.map(({ toolCallId, tool }) => ({ toolCallId, tool })),
    evidenceHash: engine.digest(evidence.map(({ hash }) => hash).join()),
    confidence: calls === 0 ? null : state.toolsSucceeded / calls,
    missingEvidence: [],
    verificationSteps: [],
    retryAttempts: state.retries,
    durationMs:
      state.startedAt === null ? 0 : Math.max(0, engine.clock.now() - Date.parse(state.startedAt)),
  };
}

/** Fails a run whose stored state is damaged, without folding it and without starting anything. */
export async function failCorruptRun(
  engine: Engine,
  ref: RunRef,
  epoch: number,
  error: RunError,
): Promise<void> {
  const store = engine.store.tenant(ref.tenantId);
  const head = await store.readRunHead(ref.runId);
  if (head === undefined) return;
  const { usage, lastSeq } = head;
  const events: RunEvent[] = [
    { type: 'run.errored', error },
    { type: 'run.ended', status: 'failed', output: '', usage, error },
  ];
  const now = engine.clock.now();
  const at = new Date(now).toISOString();
  const stored = events.map((event, index) => ({ ...event, seq: lastSeq + index + 1, at }));
  const state: RunState = {
    ...initialState,
    status: 'failed',
    usage,
    seq: lastSeq + events.length,
    approvals: approvalsIn(head.outputJson),
  };
  // A session that is damaged too must not keep the run from ending.
  const session = await store.sessions.readByRun(head.id).catch(() => undefined);
  const outcome = await store.append({
    ...project(stored, state, head),
    runId: head.id,
    epoch,
    afterSeq: lastSeq,
    at: now,
    events,
    // What the turn leaves behind follows from the session alone (native-turns.ts).
    ...(session === undefined ? {} : { session: dueNow(session.id, now) }),
  });
  if (outcome !== 'committed') return;
  publishStored(engine, ref, stored);
  if (session !== undefined) {
    engine.sessionDue?.({ tenantId: ref.tenantId, sessionId: session.id });
  }
}

function dueNow(sessionId: string, at: number): SessionWrite {
  return { changes: [{ sessionId, at, events: [], dueBy: at }] };
}

/** The stored decisions, as far as they can still be read. */
function approvalsIn(outputJson: string | null): RunState['approvals'] {
  try {
    const kept = JSON.parse(outputJson ?? '{}') as { approvals?: RunState['approvals'] };
    return kept.approvals ?? [];
  } catch {
    return [];
  }
}
