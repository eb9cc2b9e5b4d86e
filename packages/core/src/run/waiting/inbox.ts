/**
 * What was said while the run was going on or parked: decisions, results, cancellations. They were
 * stored before they were acknowledged; here they enter the journal, and their commands is taken in the
 * same commit, so that each counts exactly once.
 */
import { RelayError, type RunEvent } from '@relay/protocol';
import type { EditedCall, RunCommand, QueuedRunCommand, Tool } from '../../ports/index.ts';
import { agentFields, type AgentState } from '../state/agent.ts';
import type { CallState, OpenApproval } from '../state/call.ts';
import { applyResult, isResultDue } from './client-calls.ts';
import { start, type Start } from '../dispatch.ts';
import { digestOf, gateAgain } from '../gate.ts';
import type { LiveRun } from '../live-run.ts';
import { leadsThere, locate } from '../locate.ts';
import { resume } from './parked.ts';
import { findTool } from '../agents/profile.ts';
import { type OpenQuestion, openQuestions } from './open-questions.ts';
import { askingCalls, pendingApprovals } from '../state/state.ts';

type Decision = Extract<RunCommand, { kind: 'decision' }>;
type Json = Extract<RunEvent, { type: 'approval.decided' }>['output'];

/** Takes all commands that waits into the journal. A node that lets go leaves it to the next one. */
export async function applyCommands(run: LiveRun): Promise<void> {
  if (run.stop?.kind === 'yield') return;
  for (const queued of await run.takeCommands()) {
    const { command } = queued;
    if (command.kind === 'decision') applyDecision(run, queued, command);
    else if (command.kind === 'result') await applyResult(run, queued, command);
    else run.stopWith({ kind: 'cancel', reason: command.reason });
  }
}

/** Starts what people approved: at once, whatever its siblings wait for. */
export async function startApproved(run: LiveRun, agent: AgentState): Promise<void> {
  const starts: Start[] = [];
  const answered = agent.turn?.calls.filter(({ phase }) => phase === 'answered') ?? [];
  const looked = await Promise.all(
    answered.map(async (call) => {
      const tool = findTool(run, agent, call.name);
      return { call, tool, looking: await locate(tool, call.input) };
    }),
  );
  for (const { call, tool, looking } of looked) {
    if (tool === undefined) run.journal.stage([gone(agent, call)]);
    else if (!looking.ok) run.journal.stage([notThere(agent, call, looking.problem)]);
    else if (leadsThere(call.resolvedPaths, looking.resolvedPaths)) {
      starts.push(approvedStart(run, call, tool));
    } else await gateAgain(run, agent, { call, resolvedPaths: looking.resolvedPaths });
  }
  await start(run, agent, starts);
}

/** The tool was there when it was asked about, and is not any more. */
function gone(agent: AgentState, call: CallState): RunEvent {
  return {
    type: 'tool.failed',
    ...agentFields(agent),
    toolCallId: call.toolCallId,
    name: call.name,
    error: `There is no tool named ${call.name} any more`,
    code: 'unknown_tool',
  };
}

/** Where it leads by now, the tool may not go. */
function notThere(agent: AgentState, call: CallState, problem: string): RunEvent {
  return {
    type: 'tool.failed',
    ...agentFields(agent),
    toolCallId: call.toolCallId,
    name: call.name,
    error: problem,
    code: 'path_refused',
  };
}

function applyDecision(run: LiveRun, queued: QueuedRunCommand, decision: Decision): void {
  const asking = askingCalls(run.state).find(
    ({ call }) => call.approval?.id === decision.approvalId,
  );
  const asked = openQuestions(run.state).find(
    ({ approval }) => approval.id === decision.approvalId,
  );
  if (asked !== undefined) {
    answerQuestion(run, asked, { queued, decision });
    return;
  }
  if (asking === undefined) {
    // The approval was closed first: the decision has nothing left to decide.
    run.journal.stage([], { take: [queued.id] });
    return;
  }
  const { agent, call } = asking;
  resume(run);
  const { approvalId, approved, always, reason, edited, by } = decision;
  const output = decision.output as Json;
  const decided: RunEvent = {
    type: 'approval.decided',
    ...agentFields(agent),
    approvalId,
    toolCallId: call.toolCallId,
    approved,
    ...(always ? { always } : {}),
    ...(reason === null ? {} : { reason }),
    ...(edited === undefined ? {} : editOf(edited)),
    ...(output === undefined ? {} : { output }),
    by,
  };
  run.journal.stage([decided], { take: [queued.id] });
  if (!approved) run.journal.stage([refused(agent, call, reason)]);
  else if (call.approval?.kind === 'outcome' && output !== undefined) {
    const { toolCallId, name } = call;
    const of = { ...agentFields(agent), toolCallId, name, approvalId };
    run.journal.stage([{ type: 'tool.completed', ...of, result: output }]);
  }
}

function editOf({ params, resolvedPaths, digest }: EditedCall) {
  return {
    input: params as Json,
    ...(resolvedPaths === undefined ? {} : { resolvedPaths }),
    digest,
  };
}

/** The tool that asked hears of it, or is run again. */
function answerQuestion(
  run: LiveRun,
  { agent, call, approval }: OpenQuestion,
  { queued, decision }: { queued: QueuedRunCommand; decision: Decision },
): void {
  const { approved, reason, by } = decision;
  resume(run);
  const decided: RunEvent = {
    type: 'approval.decided',
    ...agentFields(agent),
    approvalId: approval.id,
    toolCallId: call.toolCallId,
    approved,
    ...(reason === null ? {} : { reason }),
    ...(approved ? { answer: decision.answer as Json } : {}),
    by,
  };
  run.journal.stage([decided], { take: [queued.id] });
  run.answers.arrived(approval.id);
}

/** The approval is bound to what was shown: anything else must not run. */
function approvedStart(run: LiveRun, call: CallState, tool: Tool): Start {
  const { approval } = call;
  if (approval?.approved !== true || digestOf(run, call) !== approval.digest) {
    throw new RelayError('journal_corrupt', `Call ${call.toolCallId} is not what was approved`);
  }
  return { call, tool, approvalId: approval.id };
}

function refused(agent: AgentState, call: CallState, reason: string | null): RunEvent {
  const of = { ...agentFields(agent), toolCallId: call.toolCallId, name: call.name };
  if (call.approval?.kind === 'outcome') {
    const error = reason ?? 'The tool was interrupted and nobody vouches for its outcome';
    return { type: 'tool.failed', ...of, error, code: 'outcome_unknown' };
  }
  return {
    type: 'tool.denied',
    ...of,
    status: 'denied',
    ...(reason === null ? {} : { reason }),
    ...(call.approval === undefined ? {} : { approvalId: call.approval.id }),
  };
}

/** Something is about to expire: an answer may have been stored of which nobody told. */
export function isAnswerDue(run: LiveRun, now: number): boolean {
  if (isResultDue(run, now)) return true;
  return pendingApprovals(run.state).some((approval) => isDue(run, approval, now));
}

function isDue(run: LiveRun, approval: OpenApproval, now: number): boolean {
  return Date.parse(approval.expiresAt) + run.engine.settings.lateAnswerMs <= now;
}

/** An approval that nobody answered in time never becomes an approval. */
export function expireApprovals(run: LiveRun, now: number): void {
  for (const { agent, call } of askingCalls(run.state)) {
    if (call.approval === undefined || !isDue(run, call.approval, now)) continue;
    resume(run);
    const of = { ...agentFields(agent), toolCallId: call.toolCallId };
    const { id: approvalId, kind } = call.approval;
    const reason = 'Nobody answered in time';
    run.journal.stage([
      { type: 'approval.expired', ...of, approvalId },
      kind === 'outcome'
        ? { type: 'tool.failed', ...of, name: call.name, error: reason, code: 'outcome_unknown' }
        : { type: 'tool.denied', ...of, name: call.name, status: 'expired', reason, approvalId },
    ]);
  }
  for (const { agent, call, approval } of openQuestions(run.state)) {
    if (!isDue(run, approval, now)) continue;
    resume(run);
    const of = { ...agentFields(agent), toolCallId: call.toolCallId };
    run.journal.stage([{ type: 'approval.expired', ...of, approvalId: approval.id }]);
    run.answers.arrived(approval.id);
  }
}
