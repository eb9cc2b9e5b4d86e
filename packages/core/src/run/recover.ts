/**
 * Recovery: loads a run from its snapshot and the journal after it, and brings it to a state from
 * which the loop can continue, at whatever point the last process died.
 *
 * - A turn that the model had not finished is discarded, and the model is called again.
 * - A call with an intent and no result has an unknown outcome. An idempotent tool runs again with the
 *   same key; for any other, a person is asked or the call fails. It never silently runs twice.
 * - A delegated call has no unknown outcome: its sub-agent is recovered like any other agent.
 */
import { RelayError } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import { readJournal } from '../journal.ts';
import type { RunRecord, TenantStore } from '../ports/index.ts';
import { type CallStart, startCalls } from './dispatch.ts';
import { LiveRun, type LiveRunOptions } from './live-run.ts';
import { isTimeLimitReached } from './agents/limits.ts';
import { findTool } from './agents/profile.ts';
import { stopSpawned } from './agents/spawn.ts';
import { type AgentState, turnDiscarded } from './state/agent.ts';
import { type CallState, openQuestionsOf, toolFailed } from './state/call.ts';
import { closeQuestions, decide } from './state/machine.ts';
import { evolveAll, initialState, liveAgents, readSnapshot, type RunState } from './state/state.ts';
import { approvalRequested } from './waiting/approvals.ts';
import { applyAnswers } from './waiting/inbox.ts';

/** Loads a run, under its lease or for a decision. Damaged data throws `journal_corrupt`. */
export async function load(
  engine: Engine,
  record: RunRecord,
  held: Pick<LiveRunOptions, 'epoch' | 'memory' | 'resumption'>,
): Promise<LiveRun> {
  const store = engine.store.tenant(record.tenantId);
  const [[spec], state] = await Promise.all([
    store.readEvents(record.id, { after: 0, limit: 1 }),
    loadState(store, record),
  ]);
  if (spec?.type !== 'run.created') {
    throw new RelayError(
      'journal_corrupt',
      `The journal of run ${record.id} does not start with run.created`,
    );
  }
  return new LiveRun({ engine, identity: record, spec, state, ...held });
}

/** The stored state of a run. */
export async function loadState(store: TenantStore, record: RunRecord): Promise<RunState> {
  let state = readSnapshot(record.snapshot) ?? initialState;
  const range = { after: state.seq, to: record.lastSeq };
  for await (const page of readJournal(store, record.id, range)) state = evolveAll(state, page);
  if (state.seq === record.lastSeq) return state;
  throw new RelayError(
    'journal_corrupt',
    `The journal of run ${record.id} ends at ${state.seq}, not at ${record.lastSeq}`,
  );
}

/** Brings a loaded run to where the loop can continue. */
export async function recover(run: LiveRun): Promise<void> {
  if (run.state.status === 'queued') {
    const { agent, model } = run.spec;
    const agentId = run.engine.ids.next();
    const decision = decide(run.state, { type: 'start', agentId, agent, model });
    if (decision.ok) run.journal.stage(decision.events);
    return;
  }
  if (run.stop !== undefined) return;
  await applyAnswers(run);
  // Parents first: a call that cannot continue stops the agents that it spawned.
  for (const { id } of liveAgents(run.state)) {
    const agent = run.state.agents[id];
    if (agent === undefined || agent.ended !== null || agent.turn === null) continue;
    if (agent.turn.finish === null) {
      run.journal.stage([turnDiscarded(agent, agent.turn, 'crash')]);
    } else {
      await resumeCalls(run, agent, (call) => call.phase === 'started');
    }
  }
}

/**
 * Resumes started calls whose tools are not running. An idempotent tool runs again unless it waits for
 * an answer; the outcome of any other is unknown.
 */
export async function resumeCalls(
  run: LiveRun,
  agent: AgentState,
  isAffected: (call: CallState) => boolean,
): Promise<void> {
  const starts: CallStart[] = [];
  // After the time limit no tool starts, and no approval is requested.
  const late = isTimeLimitReached(run.state, run.engine.clock.now());
  for (const call of agent.turn?.calls ?? []) {
    // Calls with a `via` are settled by events in the journal.
    if (call.via !== undefined || !isAffected(call)) continue;
    const tool = findTool(run, agent, call.name);
    if (tool?.idempotent === true && !late) {
      if (openQuestionsOf(call).length === 0) starts.push({ call, tool });
      continue;
    }
    const reason = {
      code: 'outcome_unknown',
      message: 'The parent tool call was interrupted',
    };
    stopSpawned(run, agent, call.toolCallId, reason);
    run.journal.stage(closeQuestions(agent, call, 'The tool that asked was interrupted'));
    const asks = tool?.onUnknown === 'ask' && !late && !run.isHeadless;
    const error = 'The tool was interrupted and its outcome is unknown';
    run.journal.stage([
      asks
        ? approvalRequested(run, agent, call, 'outcome')
        : toolFailed(agent, call, 'outcome_unknown', error),
    ]);
  }
  await startCalls(run, agent, starts);
}
