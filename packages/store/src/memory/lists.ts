/** Lists by looking at everything: whoever has very many runs keeps them in a database. */
import type {
  KeyRecord,
  Page,
  ApprovalFilter,
  ApprovalRecord,
  RunFilter,
  RunListing,
  RunRecord,
} from '@relay/core';
import { largestOpening, openingOf } from '../sql/events.ts';
import { decodeEvents } from '../sql/row-codec.ts';
import { statusesOf } from '../sql/run-lists.ts';
import { newestFirst, stored } from './state.ts';
import type { MemoryRun, MemoryState } from './state.ts';

export function listRuns(
  state: MemoryState,
  tenantId: string,
  { filter, page }: { filter: RunFilter; page: Page },
): RunListing[] {
  const places = [...state.runs.values()]
    .filter(({ record }) => record.tenantId === tenantId && isWanted(record, filter))
    .map((run) => ({ at: run.record.createdAt, id: run.record.id, entry: run }));
  return newestFirst(places, page).map(listingOf);
}

function isWanted(run: RunRecord, filter: RunFilter): boolean {
  const { label, since = -Infinity, until = Infinity } = filter;
  return (
    (statusesOf(filter)?.includes(run.status) ?? true) &&
    isSame(filter.agent, run.agent) &&
    isSame(filter.conversationId, run.conversationId) &&
    isSame(filter.workflowId, run.workflowId) &&
    isSame(filter.parentRunId, run.parentRunId) &&
    (label === undefined || run.labels[label.name] === label.value) &&
    run.createdAt >= since &&
    run.createdAt < until
  );
}

function isSame<Value>(wanted: Value | undefined, value: Value): boolean {
  return wanted === undefined || wanted === value;
}

function listingOf({ record, journal: [first] }: MemoryRun): RunListing {
  const { epoch: _, checkpoint: _c, snapshot: _s, snapshotSeq: _q, wakeAt: _w, ...shown } = record;
  const isSmall = first !== undefined && Buffer.byteLength(first.payload) <= largestOpening;
  const events = isSmall ? decodeEvents(first.payload, { seq: first.firstSeq, at: first.at }) : [];
  return { ...stored(shown), opening: openingOf(events[0]) };
}

export function listApprovals(
  state: MemoryState,
  tenantId: string,
  { filter, page }: { filter: ApprovalFilter; page: Page },
): ApprovalRecord[] {
  const places = [...state.approvals.values()]
    .filter(({ tenantId: owner, record }) => owner === tenantId && isWantedApproval(record, filter))
    .map(({ record }) => ({ at: record.requestedAt, id: record.id, entry: record }));
  return stored(newestFirst(places, page));
}

function isWantedApproval(
  approval: ApprovalRecord,
  { status, runId, kind }: ApprovalFilter,
): boolean {
  return (
    isSame(status, approval.status) && isSame(runId, approval.runId) && isSame(kind, approval.kind)
  );
}

export function listKeys(state: MemoryState, tenantId: string, page: Page): KeyRecord[] {
  const places = [...state.keys.values()]
    .filter((key) => key.tenantId === tenantId)
    .map((key) => ({ at: key.createdAt, id: key.id, entry: key }));
  return stored(newestFirst(places, page));
}
