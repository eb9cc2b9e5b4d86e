/**
 * A relay that is about to expire says so once, while there is still time to answer it. When that is,
 * was written down as it was raised; a run that is parked is woken for it like for the expiry itself.
 */
import type { RunEvent } from '@relay/protocol';
import { agentFields } from '../state/agent.ts';
import type { OpenRelay } from '../state/call.ts';
import type { LiveRun } from '../live-run.ts';
import { openQuestions } from './open-questions.ts';
import { askingCalls } from '../state/state.ts';

const leadPart = 0.1;
const maxLeadMs = 10 * 60_000;
/** A run that is parked is found within a second. */
const minLeadMs = 2_000;

/** When to warn of a relay that lives so long from `raisedAt` on. */
export function warningTime(raisedAt: number, ttlMs: number): number {
  const lead = Math.min(Math.max(ttlMs * leadPart, minLeadMs), ttlMs / 2, maxLeadMs);
  return raisedAt + ttlMs - Math.floor(lead);
}

export function warnOfExpiry(run: LiveRun, now: number): void {
  const asking = askingCalls(run.state).flatMap(({ agent, call }) =>
    call.relay === undefined ? [] : [{ agent, call, relay: call.relay }],
  );
  for (const { agent, call, relay } of [...asking, ...openQuestions(run.state)]) {
    if (!isWarningDue(relay, now)) continue;
    const { id: relayId, expiresAt } = relay;
    const of = { ...agentFields(agent), toolCallId: call.toolCallId };
    const warning: RunEvent = { type: 'relay.expiring', ...of, relayId, expiresAt };
    run.journal.stage([warning]);
  }
}

/** Of one that has expired meanwhile there is nothing left to warn. */
function isWarningDue({ warnsAt, expiresAt }: OpenRelay, now: number): boolean {
  if (warnsAt === undefined) return false;
  return Date.parse(warnsAt) <= now && now < Date.parse(expiresAt);
}

/** When a relay must be looked at next, without an answer. */
export function nextLook({ warnsAt, expiresAt }: OpenRelay): number {
  return Date.parse(warnsAt ?? expiresAt);
}
