/**
 * Approvals: how they are requested, announced before they expire, and expire.
 *
 * The time of the warning is part of the request. A suspended run is woken for it, as for the expiry.
 */
import { defined, type EventOf, type RuleRef } from '@relay/protocol';
import { digestOfCall } from '../arguments.ts';
import type { LiveRun } from '../live-run.ts';
import { findTool, pathOf } from '../agents/profile.ts';
import { agentFields, type AgentState, approvalFields } from '../state/agent.ts';
import {
  type CallState,
  expiryReason,
  type OpenApproval,
  stoppedText,
  toolDenied,
  toolFailed,
} from '../state/call.ts';
import { askingCalls, openQuestions } from '../state/state.ts';

type ApprovalRequested = EventOf<'approval.requested'>;

/** Requests an approval of a call, or of the outcome of one that was interrupted. */
export function approvalRequested(
  run: LiveRun,
  agent: AgentState,
  call: CallState,
  kind: 'permission' | 'outcome',
  /** What demands a person, whatever allows the call. */
  rule?: RuleRef,
): ApprovalRequested {
  const digest = digestOfCall(run.engine, call);
  const earlierDenial = kind === 'permission' ? run.state.denials[digest] : undefined;
  const definitionDigest = findTool(run, agent, call.name)?.definitionDigest;
  return {
    ...requestOf(run, agent, call, kind, digest),
    ...defined({
      resolvedPaths: call.resolvedPaths,
      preview: call.preview,
      definitionDigest,
      earlierDenial,
      rule,
    }),
  };
}

/** The answer to a question is an approval of its own. */
export function questionRequested(
  run: LiveRun,
  agent: AgentState,
  call: CallState,
  question: ApprovalRequested['question'] & {},
  digest: string,
): ApprovalRequested {
  return { ...requestOf(run, agent, call, 'question', digest), question };
}

function requestOf(
  run: LiveRun,
  agent: AgentState,
  call: CallState,
  kind: ApprovalRequested['kind'],
  digest: string,
): ApprovalRequested {
  const { clock, ids, settings } = run.engine;
  const now = clock.now();
  return {
    type: 'approval.requested',
    ...agentFields(agent),
    approvalId: ids.next(),
    toolCallId: call.toolCallId,
    kind,
    tool: call.name,
    params: call.input as ApprovalRequested['params'],
    digest,
    agentPath: pathOf(run.state, agent),
    expiresAt: new Date(now + settings.approvalTtlMs).toISOString(),
    warnsAt: new Date(warningTime(now, settings.approvalTtlMs)).toISOString(),
  };
}

const leadPart = 0.1;
const maxLeadMs = 10 * 60_000;
/** The supervisor finds a suspended run within a second. */
const minLeadMs = 2_000;

/** When to warn of the expiry of an approval that was requested at `requestedAt`. */
export function warningTime(requestedAt: number, ttlMs: number): number {
  const lead = Math.min(Math.max(ttlMs * leadPart, minLeadMs), ttlMs / 2, maxLeadMs);
  return requestedAt + ttlMs - Math.floor(lead);
}

/** Announces once that an approval is about to expire. */
export function warnOfExpiry(run: LiveRun, now: number): void {
  const asking = askingCalls(run.state).flatMap(({ agent, call }) =>
    call.approval === undefined ? [] : [{ agent, call, approval: call.approval }],
  );
  for (const { agent, call, approval } of [...asking, ...openQuestions(run.state)]) {
    const { warnsAt, expiresAt } = approval;
    if (warnsAt === undefined || Date.parse(warnsAt) > now || now >= Date.parse(expiresAt))
      continue;
    const fields = approvalFields(agent, call, approval);
    run.journal.stage([{ type: 'approval.expiring', ...fields, expiresAt }]);
  }
}

/** When an approval without an answer must be checked next. */
export function nextCheckOf({ warnsAt, expiresAt }: OpenApproval): number {
  return Date.parse(warnsAt ?? expiresAt);
}

/** When an approval is expired by the loop: an answer in time may still be on its way into the store. */
export function expiryOf({ engine }: LiveRun, { expiresAt }: OpenApproval): number {
  return Date.parse(expiresAt) + engine.settings.lateAnswerMs;
}

export function isApprovalDue(run: LiveRun, approval: OpenApproval, now: number): boolean {
  return expiryOf(run, approval) <= now;
}

/** Expires approvals without an answer: their calls are denied, questions are declined. */
export function expireApprovals(run: LiveRun, now: number): void {
  const reason = expiryReason;
  for (const { agent, call } of askingCalls(run.state)) {
    if (call.approval === undefined || !isApprovalDue(run, call.approval, now)) continue;
    run.resume();
    const { id: approvalId, kind } = call.approval;
    run.journal.stage([
      { type: 'approval.expired', ...approvalFields(agent, call, call.approval) },
      kind === 'outcome'
        ? toolFailed(agent, call, 'outcome_unknown', stoppedText(reason))
        : toolDenied(agent, call, { status: 'expired', reason, approvalId }),
    ]);
  }
  for (const { agent, call, approval } of openQuestions(run.state)) {
    if (!isApprovalDue(run, approval, now)) continue;
    run.resume();
    run.journal.stage([{ type: 'approval.expired', ...approvalFields(agent, call, approval) }]);
    run.answerWaiters.notify(approval.id);
  }
}
