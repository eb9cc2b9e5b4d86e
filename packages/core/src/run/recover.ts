/**
 * Taking a run up: from its snapshot and what the journal holds beyond it, to a state from which the
 * loop can go on, whatever moment the last process died at.
 *
 * - A turn that the model had not finished is void: it is marked as discarded and asked anew.
 * - A call with an intent and no result has an unknown outcome. An idempotent tool runs again with
 *   the same key; for another one a person is asked, or the call fails. It never silently runs twice.
 * - A call that was delegated has nothing unknown about it: its sub-agent is taken up like any other.
 */
import { type EventOf, RelayError, type RunEvent } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import type { RunRecord, RunRef, TenantStore } from '../ports/index.ts';
import { agentFields, type AgentState } from './state/agent.ts';
import type { CallState } from './state/call.ts';
import { start, type Start } from './dispatch.ts';
import { raised } from './gate.ts';
import { isHeadless } from './waiting/headless.ts';
import { isTimeOver } from './agents/limits.ts';
import { LiveRun } from './live-run.ts';
import { decide } from './state/machine.ts';
import { pagesOf } from './context/pages.ts';
import { findTool } from './agents/profile.ts';
import { closeQuestions, openIn } from './waiting/open-questions.ts';
import { stopSpawned } from './agents/spawn.ts';
import { readSnapshot } from './state/snapshot.ts';
import { evolveAll, initialState, liveAgents, type RunState } from './state/state.ts';

/** Reads a run back into memory. Damage in what is stored throws `journal_corrupt`. */
export async function load(
  engine: Engine,
  ref: RunRef,
  epoch: number,
): Promise<LiveRun | undefined> {
  const store = engine.store.tenant(ref.tenantId);
  const record = await store.readRun(ref.runId);
  if (record === undefined) return undefined;
  const [spec] = await store.readEvents(record.id, { after: 0, limit: 1 });
  if (spec?.type !== 'run.created') {
    throw new RelayError('journal_corrupt', `The journal of run ${record.id} has no beginning`);
  }
  const state = await loadState(store, record);
  return new LiveRun({ engine, identity: record, spec, epoch, state });
}

/** What a run is now, as it is stored. */
export async function loadState(store: TenantStore, record: RunRecord): Promise<RunState> {
  let state = readSnapshot(record.snapshot) ?? initialState;
  const span = { after: state.seq, to: record.lastSeq };
  for await (const page of pagesOf(store, record.id, span)) state = evolveAll(state, page);
  if (state.seq === record.lastSeq) return state;
  throw new RelayError(
    'journal_corrupt',
    `The journal of run ${record.id} ends at ${state.seq}, not at ${record.lastSeq}`,
  );
}

/** Brings a loaded run to where the loop can go on. Starts nothing in a run that waits. */
export async function recover(run: LiveRun): Promise<void> {
  if (run.state.status === 'queued') {
    begin(run);
    return;
  }
  if (run.stop !== undefined) return;
  // Parents come before those they spawned: a call that cannot go on takes its agents with it.
  for (const { id } of liveAgents(run.state)) {
    const agent = run.state.agents[id];
    if (agent !== undefined && agent.ended === null) await recoverAgent(run, agent);
  }
}

async function recoverAgent(run: LiveRun, agent: AgentState): Promise<void> {
  if (agent.turn === null) return;
  if (agent.turn.finish === null) {
    run.journal.stage([discarded(agent, agent.turn)]);
    return;
  }
  await takeUpCalls(run, agent, (call) => call.phase === 'started');
}

/**
 * Calls that have started and whose tools are not running. One that may run again does, unless it
 * still waits for an answer; of any other one the outcome is unknown.
 */
export async function takeUpCalls(
  run: LiveRun,
  agent: AgentState,
  isMeant: (call: CallState) => boolean,
): Promise<void> {
  const again: Start[] = [];
  // When the time is over nothing starts any more, and nobody is asked.
  const late = isTimeOver(run.state, run.engine.clock.now());
  for (const call of agent.turn?.calls ?? []) {
    // What a sub-agent or a handoff brings is in the journal, or will be.
    if (call.via !== undefined || !isMeant(call)) continue;
    const tool = findTool(run, agent, call.name);
    if (tool?.idempotent === true && !late) {
      if (openIn(call).length === 0) again.push({ call, tool });
      continue;
    }
    const ask = tool?.onUnknown === 'ask' && !late && !isHeadless(run);
    const why = { code: 'outcome_unknown', message: 'The call that it worked for was interrupted' };
    stopSpawned(run, { agent, toolCallId: call.toolCallId }, why);
    run.journal.stage(closeQuestions(agent, call, 'The tool that asked was interrupted'));
    run.journal.stage([unknownOutcome(run, agent, { call, ask })]);
  }
  await start(run, agent, again);
}

function begin(run: LiveRun): void {
  const { agent, model } = run.spec;
  const decision = decide(run.state, {
    type: 'start',
    agentId: run.engine.ids.next(),
    agent,
    model,
  });
  if (decision.ok) run.journal.stage(decision.events);
}

function discarded(agent: AgentState, turn: NonNullable<AgentState['turn']>): RunEvent {
  const event: EventOf<'turn.discarded'> = {
    type: 'turn.discarded',
    ...agentFields(agent),
    turn: turn.turn,
    textId: turn.textId,
    after: turn.startedSeq,
    reason: 'crash',
  };
  return event;
}

function unknownOutcome(
  run: LiveRun,
  agent: AgentState,
  { call, ask }: { call: CallState; ask: boolean },
): RunEvent {
  if (ask) return raised(run, agent, { call, kind: 'outcome' });
  return {
    type: 'tool.failed',
    ...agentFields(agent),
    toolCallId: call.toolCallId,
    name: call.name,
    error: 'The tool was interrupted and its outcome is unknown',
    code: 'outcome_unknown',
  };
}
