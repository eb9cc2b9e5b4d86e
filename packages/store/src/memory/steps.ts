/**
 * The steps that change several things at once. Each checks everything first and changes afterwards,
 * and none of them waits in between: that is what makes them atomic.
 */
import type {
  Append,
  AppendOutcome,
  CreationOutcome,
  ApprovalDecision,
  RunCreation,
  RunProgress,
  RunRecord,
} from '@relay/core';
import { isEnded, noUsage, RelayError } from '@relay/protocol';
import type { RunEvent } from '@relay/protocol';
import { encodeEvents } from '../sql/row-codec.ts';
import { lonelySnapshot } from '../sql/snapshots.ts';
import { putAudit, refuseTakenAudit } from './audit.ts';
import { canUse, putGrant, useGrants } from './grants.ts';
import { awaitCalls, canTimeOut, closeClientCalls } from './client-calls.ts';
import { post } from './inbox.ts';
import { addMemory } from './memories.ts';
import { keyOf, refuseTaken, stored } from './state.ts';
import type { MemoryRun, MemoryState } from './state.ts';
import { countUsage } from './usage.ts';
import { putNotices } from './webhooks.ts';

const newProgress: RunProgress = {
  status: 'queued',
  startedAt: null,
  endedAt: null,
  usage: noUsage,
  error: null,
  checkpoint: null,
  outputJson: null,
  snapshot: null,
  snapshotSeq: 0,
  wakeAt: null,
};

export function createRun(
  state: MemoryState,
  tenantId: string,
  creation: RunCreation,
): CreationOutcome {
  const { identity, lease, events, progress = {}, connection, idempotency } = creation;
  if (identity.tenantId !== tenantId) {
    throw new RelayError('internal', 'A run can only be made in its own tenant');
  }
  const taken = state.idempotency.get(keyOf(tenantId, idempotency?.key ?? ''));
  if (idempotency !== undefined && taken !== undefined && taken.expiresAt > identity.createdAt) {
    return { kind: 'exists', runId: taken.runId, fingerprint: taken.fingerprint };
  }
  refuseTaken(state.runs, identity.id);
  refuseTakenAudit(state, creation.audit);
  if (connection !== undefined) refuseTaken(state.connections, connection.id);
  const blank = { ...stored(identity), ...newProgress, lastSeq: 0, epoch: lease === null ? 0 : 1 };
  const run: MemoryRun = {
    record: progressed(blank, progress),
    lease: lease === null ? null : { ...lease },
    position: null,
    journal: [],
    pruned: false,
    approvalIds: [],
    connectionId: connection?.id ?? null,
    queued: [],
    clientCalls: new Map(),
  };
  if (idempotency !== undefined) {
    sweepKeys(state, tenantId, identity.createdAt);
    const holder = { ...stored(idempotency), runId: identity.id };
    state.idempotency.set(keyOf(tenantId, idempotency.key), holder);
  }
  state.runs.set(identity.id, run);
  putAudit(state, tenantId, creation.audit);
  state.open.add(identity.id);
  write(run, events, identity.createdAt);
  if (connection !== undefined) {
    const { id, node } = connection;
    state.connections.set(id, { tenantId, id, runId: identity.id, node });
  }
  if (isEnded(run.record.status)) end(state, run, identity.createdAt);
  return { kind: 'created' };
}

function sweepKeys(state: MemoryState, tenantId: string, now: number): void {
  const own = `${keyOf(tenantId).slice(0, -1)},`;
  for (const [place, { expiresAt }] of state.idempotency) {
    if (expiresAt <= now && place.startsWith(own)) state.idempotency.delete(place);
  }
}

export function append(state: MemoryState, tenantId: string, step: Append): AppendOutcome {
  const run = state.runs.get(step.runId);
  if (run === undefined || !holds(run, tenantId, step)) return 'fenced';
  for (const { id } of step.raise ?? []) refuseTaken(state.approvals, id);
  for (const { id } of step.remember ?? []) refuseTaken(state.memories, id);
  refuseTakenAudit(state, step.audit);
  const raised = new Set((step.raise ?? []).map(({ id }) => id));
  const closures = (step.close ?? []).filter(({ approvalId }) => {
    const approval = state.approvals.get(approvalId);
    const isOpen = approval?.record.status === 'pending' && approval.record.runId === step.runId;
    return isOpen || raised.has(approvalId);
  });
  // Decided in the meantime: see `closeApproval` of the SQL store.
  const missing = (step.close ?? []).filter((closure) => !closures.includes(closure));
  if (missing.some(({ status }) => status === 'expired')) return 'fenced';
  if (!canTimeOut(run, step)) return 'fenced';
  for (const { toolCallId } of step.awaited ?? []) refuseTaken(run.clientCalls, toolCallId);
  const grantIds = step.useGrants ?? [];
  if (!canUse(state, tenantId, { grantIds, at: step.at })) return 'refused';
  useGrants(state, grantIds);
  putAudit(state, tenantId, step.audit);
  putNotices(state, tenantId, step.notices);
  run.record = progressed(run.record, step.progress ?? {});
  write(run, step.events, step.at);
  for (const approval of step.raise ?? []) {
    const open = {
      status: 'pending',
      decidedAt: null,
      decidedBy: null,
      reason: null,
      edited: null,
      answer: null,
    } as const;
    const record = { ...stored(approval), params: stored(approval.params ?? null), ...open };
    state.approvals.set(approval.id, { tenantId, record: { ...record, runId: step.runId } });
    run.approvalIds.push(approval.id);
  }
  for (const closure of closures) {
    const approval = state.approvals.get(closure.approvalId);
    if (approval === undefined) continue;
    const { status, at: decidedAt, by: decidedBy, reason } = stored(closure);
    approval.record = { ...approval.record, status, decidedAt, decidedBy, reason };
  }
  awaitCalls(run, step);
  run.queued = run.queued.filter(({ id }) => !(step.take ?? []).includes(id));
  for (const record of step.remember ?? []) addMemory(state, tenantId, { record });
  if (step.release === true) run.lease = null;
  if (isEnded(run.record.status)) end(state, run, step.at);
  return 'committed';
}

export function decideApproval(
  state: MemoryState,
  tenantId: string,
  decision: ApprovalDecision,
): boolean {
  const { approvalId, runId, at, queued, grant } = decision;
  const approval = state.approvals.get(approvalId);
  const run = state.runs.get(runId);
  if (approval === undefined || approval.tenantId !== tenantId || approval.record.runId !== runId)
    return false;
  if (approval.record.status !== 'pending' || approval.record.expiresAt <= at) return false;
  if (run === undefined || isEnded(run.record.status)) return false;
  if (grant !== undefined) refuseTaken(state.grants, grant.id);
  refuseTakenAudit(state, decision.audit);
  const { status, by: decidedBy, reason, edited = null, answer } = stored(decision);
  approval.record = {
    ...approval.record,
    status,
    decidedAt: at,
    decidedBy,
    reason,
    edited,
    answer,
  };
  post(run, queued);
  if (grant !== undefined) putGrant(state, tenantId, grant);
  putAudit(state, tenantId, decision.audit);
  putNotices(state, tenantId, decision.notices);
  return true;
}

function holds(run: MemoryRun, tenantId: string, step: Append): boolean {
  const { record, lease } = run;
  return (
    record.tenantId === tenantId &&
    record.lastSeq === step.afterSeq &&
    record.epoch === step.epoch &&
    lease !== null
  );
}

function progressed(record: RunRecord, progress: Partial<RunProgress>): RunRecord {
  const { snapshot, snapshotSeq } = progress;
  if (snapshot !== null && (snapshot === undefined) !== (snapshotSeq === undefined)) {
    throw lonelySnapshot();
  }
  return { ...record, ...stored(progress), ...(snapshot === null ? { snapshotSeq: 0 } : {}) };
}

function write(run: MemoryRun, events: readonly RunEvent[], at: number): void {
  if (events.length === 0) return;
  const firstSeq = run.record.lastSeq + 1;
  const lastSeq = run.record.lastSeq + events.length;
  run.journal.push({
    firstSeq,
    lastSeq,
    at: new Date(at).toISOString(),
    payload: encodeEvents(events),
  });
  run.record = { ...run.record, lastSeq };
}

function end(state: MemoryState, run: MemoryRun, at: number): void {
  const { id, tenantId, conversationId } = run.record;
  countUsage(state, run.record, run.record.endedAt ?? at);
  const key = keyOf(tenantId, conversationId);
  const ended = state.ended.get(key) ?? [];
  state.ended.set(key, ended);
  run.position = ended.push(id);
  run.queued = [];
  run.lease = null;
  state.open.delete(id);
  closeOpenApprovals(state, run);
  closeClientCalls(run);
  if (run.connectionId !== null) state.connections.delete(run.connectionId);
}

/** No approval outlives its run. */
function closeOpenApprovals(state: MemoryState, run: MemoryRun): void {
  const decidedBy = { type: 'system', id: 'relay', name: 'relay' } as const;
  const reason = 'The run has ended';
  for (const id of run.approvalIds) {
    const approval = state.approvals.get(id);
    if (approval?.record.status !== 'pending') continue;
    const { endedAt: decidedAt } = run.record;
    approval.record = { ...approval.record, status: 'closed', decidedAt, decidedBy, reason };
  }
}
