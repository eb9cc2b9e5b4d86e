/**
 * An approval that is about to expire says so once, while there is still time to answer it. When that is,
 * was written down as it was raised; a run that is parked is woken for it like for the expiry itself.
 */
import type { RunEvent } from '@relay/protocol';
import { agentFields } from '../state/agent.ts';
import type { OpenApproval } from '../state/call.ts';
import type { LiveRun } from '../live-run.ts';
import { openQuestions } from './open-questions.ts';
import { askingCalls } from '../state/state.ts';

const leadPart = 0.1;
const maxLeadMs = 10 * 60_000;
/** A run that is parked is found within a second. */
const minLeadMs = 2_000;

/** When to warn of an approval that lives so long from `requestedAt` on. */
export function warningTime(requestedAt: number, ttlMs: number): number {
  const lead = Math.min(Math.max(ttlMs * leadPart, minLeadMs), ttlMs / 2, maxLeadMs);
  return requestedAt + ttlMs - Math.floor(lead);
}

export function warnOfExpiry(run: LiveRun, now: number): void {
  const asking = askingCalls(run.state).flatMap(({ agent, call }) =>
    call.approval === undefined ? [] : [{ agent, call, approval: call.approval }],
  );
  for (const { agent, call, approval } of [...asking, ...openQuestions(run.state)]) {
    if (!isWarningDue(approval, now)) continue;
    const { id: approvalId, expiresAt } = approval;
    const of = { ...agentFields(agent), toolCallId: call.toolCallId };
    const warning: RunEvent = { type: 'approval.expiring', ...of, approvalId, expiresAt };
    run.journal.stage([warning]);
  }
}

/** Of one that has expired meanwhile there is nothing left to warn. */
function isWarningDue({ warnsAt, expiresAt }: OpenApproval, now: number): boolean {
  if (warnsAt === undefined) return false;
  return Date.parse(warnsAt) <= now && now < Date.parse(expiresAt);
}

/** When an approval must be looked at next, without an answer. */
export function nextLook({ warnsAt, expiresAt }: OpenApproval): number {
  return Date.parse(warnsAt ?? expiresAt);
}
