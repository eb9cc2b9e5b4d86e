import type { Append, CallClaim, PostedResult } from '@relay/core';
import { isEnded } from '@relay/protocol';
import { post } from './inbox.ts';
import { type MemoryRun, stored } from './state.ts';

/** A result that came in the meantime counts. */
export function canTimeOut(run: MemoryRun, step: Append): boolean {
  return (step.givenUp ?? []).every(
    (id) => run.clientCalls.get(id)?.record.status === 'pending' || isAwaited(step, id),
  );
}

function isAwaited({ awaited = [] }: Append, id: string): boolean {
  return awaited.some(({ toolCallId }) => toolCallId === id);
}

export function awaitCalls(run: MemoryRun, step: Append): void {
  for (const { toolCallId, resultBy } of step.awaited ?? []) {
    const { id: runId } = run.record;
    const record = { runId, toolCallId, resultBy, status: 'pending', result: null } as const;
    run.clientCalls.set(toolCallId, { record, claim: null });
  }
  for (const id of step.givenUp ?? []) close(run, id);
}

function close(run: MemoryRun, id: string): void {
  const call = run.clientCalls.get(id);
  if (call?.record.status === 'pending') call.record = { ...call.record, status: 'closed' };
}

/** What a client brought lies in the journal by now. */
export function closeClientCalls(run: MemoryRun): void {
  for (const [id, call] of run.clientCalls) {
    close(run, id);
    const { result } = call.record;
    if (result === null) continue;
    const { digest, failed } = result;
    call.record = { ...call.record, result: { digest, failed } };
  }
}

export function postResult(run: MemoryRun | undefined, posted: PostedResult): boolean {
  const call = run?.clientCalls.get(posted.toolCallId);
  if (run === undefined || call === undefined || isEnded(run.record.status)) return false;
  if (call.record.status !== 'pending' || call.record.resultBy <= posted.at) return false;
  call.record = { ...call.record, status: 'answered', result: stored(posted.result) };
  post(run, posted.mail);
  return true;
}

export function claimCall(run: MemoryRun | undefined, claim: CallClaim): boolean {
  const call = run?.clientCalls.get(claim.toolCallId);
  if (call?.record.status !== 'pending') return false;
  const { claimId, now, until } = claim;
  if (call.claim !== null && call.claim.until > now && call.claim.claimId !== claimId) return false;
  call.claim = { claimId, until };
  return true;
}
