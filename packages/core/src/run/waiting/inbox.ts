/**
 * The inbox of a run: decisions, results of clients, cancellations, messages, pauses. They were stored
 * before they were acknowledged. Here they enter the journal, and each command is consumed in the same
 * commit, so that it counts exactly once. Messages and pauses stay in the inbox until the run comes to
 * their boundary (messages.ts). A decision that a run was loaded for was never in the inbox: it is stored, and
 * acknowledged, with the events that follow from it.
 */
import { defined, type EventOf, type RunEvent } from '@relay/protocol';
import type { CommitExtras } from '../../journal.ts';
import type { DecisionCommand } from '../../ports/index.ts';
import type { LiveRun } from '../live-run.ts';
import { findTool } from '../agents/profile.ts';
import { agentFields, type AgentState } from '../state/agent.ts';
import { type CallState, toolCompleted, toolDenied, toolFailed } from '../state/call.ts';
import { askingCalls, openQuestions } from '../state/state.ts';
import { applyResult } from './client-calls.ts';
import { applyPauses, interruptForMessages } from './messages.ts';

type Decided = EventOf<'approval.decided'>;

/** Applies all commands in the inbox. A node that yields the run leaves them to the next node. */
export async function applyCommands(run: LiveRun): Promise<void> {
  if (run.stop?.kind === 'yield') return;
  const decision = run.takeDecision();
  if (decision !== undefined) applyDecision(run, decision.queued.command, { decision });
  const commands = await run.readCommands();
  if (commands === undefined) return;
  for (const queued of commands) {
    const { command } = queued;
    const consumeCommands = [queued.id];
    switch (command.kind) {
      case 'decision':
        applyDecision(run, command, { consumeCommands });
        break;
      case 'result':
        await applyResult(run, queued, command);
        break;
      case 'cancel':
        run.stopWith({ kind: 'cancel', reason: command.reason });
        break;
      // Applied together: what follows one of them decides.
      case 'message':
      case 'pause':
      case 'resume':
        break;
    }
  }
  applyPauses(run, commands);
  interruptForMessages(run, commands);
}

/**
 * Applies the answers to questions of interrupted tools, before these questions are closed: an answer that was
 * acknowledged is kept for another attempt. Idempotent tools are suspended, and the loop applies their answers.
 */
export async function applyAnswers(run: LiveRun): Promise<void> {
  const interrupted = openQuestions(run.state)
    .filter(({ agent, call }) => findTool(run, agent, call.name)?.idempotent !== true)
    .map(({ approval }) => approval.id);
  if (interrupted.length === 0) return;
  for (const { id, command } of await run.readInbox()) {
    if (command.kind !== 'decision' || !interrupted.includes(command.approvalId)) continue;
    const answered = answerEvent(run, command);
    if (answered !== undefined) run.take([id], [answered]);
  }
}

/** Undefined if the decision is not about an open question. */
function answerEvent(run: LiveRun, decision: DecisionCommand): Decided | undefined {
  const { approvalId, approved } = decision;
  const question = openQuestions(run.state).find(({ approval }) => approval.id === approvalId);
  if (question === undefined) return undefined;
  const answer = approved ? { answer: decision.answer as Decided['answer'] } : {};
  return { ...decidedEvent(question.agent, question.call, decision), ...answer };
}

function applyDecision(run: LiveRun, decision: DecisionCommand, stored: CommitExtras): void {
  const { approvalId, approved, reason } = decision;
  const answered = answerEvent(run, decision);
  if (answered !== undefined) {
    run.resume();
    run.journal.stage([answered], stored);
    // The tool that asked receives the answer, or runs again.
    run.answerWaiters.notify(approvalId);
    return;
  }
  const asking = askingCalls(run.state).find(({ call }) => call.approval?.id === approvalId);
  if (asking === undefined) {
    // The approval was closed before: there is nothing left to decide.
    run.journal.stage([], stored);
    return;
  }
  const { agent, call } = asking;
  run.resume();
  const decided = decidedEvent(agent, call, decision);
  run.journal.stage([decided], stored);
  if (!approved) run.journal.stage([notApproved(agent, call, reason ?? undefined)]);
  else if (decided.outcome === 'completed') {
    const result = decided.output ?? null;
    run.journal.stage([toolCompleted(agent, call, { approvalId, result })]);
  }
}

function decidedEvent(agent: AgentState, call: CallState, decision: DecisionCommand): Decided {
  const { approvalId, approved, always, reason, edited, by } = decision;
  return {
    type: 'approval.decided',
    ...agentFields(agent),
    approvalId,
    toolCallId: call.toolCallId,
    approved,
    by,
    ...defined({
      always: always ? always : undefined,
      reason: reason ?? undefined,
      input: edited?.params as Decided['input'],
      resolvedPaths: edited?.resolvedPaths,
      preview: edited?.preview,
      digest: edited?.digest,
      outcome: decision.outcome,
      output: decision.output as Decided['output'],
    }),
  };
}

function notApproved(agent: AgentState, call: CallState, reason: string | undefined): RunEvent {
  if (call.approval?.kind === 'outcome') {
    const why = reason === undefined ? '' : `: ${reason}`;
    const error = `The tool was interrupted, and a person answered that it failed${why}`;
    return toolFailed(agent, call, 'tool_failed', error);
  }
  return toolDenied(agent, call, defined({ reason, approvalId: call.approval?.id }));
}
