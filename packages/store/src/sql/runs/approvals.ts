import type {
  NewApproval,
  ApprovalClosure,
  ApprovalFilter,
  ApprovalRecord,
  ApprovalVotes,
  RequestDecision,
  RunRef,
  StatsRange,
  VoteChange,
} from '@relay/core';
import { approvalKinds, approvalStatuses } from '@relay/protocol';
import type { Row, Statement } from '../../drivers/driver.ts';
import { allOf, columnFilters, indexFilter, type List, type Range, selectRows } from '../lists.ts';
import { insertInto } from '../statements.ts';
import { column } from '../../codec/records.ts';
import { type Assignments, type RowSigner, SignedTable } from '../../codec/signed-table.ts';
import { encode, encodeOrNull, text } from '../../codec/values.ts';

type ApprovalRow = ApprovalRecord & { readonly tenantId: string };

/**
 * What a person sees must be what was requested, and votes must be those that were given. What was
 * decided is only shown here: the command in the inbox of the run decides.
 */
export const approvalTable = new SignedTable<ApprovalRow>({
  name: 'approvals',
  subject: 'Approval',
  key: ['id'],
  codecs: {
    tenantId: column.text(),
    id: column.text(),
    runId: column.optional(column.text()),
    sessionId: column.optional(column.text()),
    conversationId: column.optional(column.text()),
    invocationId: column.optional(column.text()),
    keyId: column.optional(column.text()),
    requestedAt: column.number,
    expiresAt: column.number,
    kind: column.text(),
    agentId: column.optional(column.text()),
    agentPath: column.json(),
    toolCallId: column.optional(column.freeText),
    tool: column.freeText,
    params: column.json(),
    digest: column.text(),
    question: column.optional(column.json()),
    resolvedPaths: column.optional(column.json()),
    definitionDigest: column.optional(column.text()),
    preview: column.optional(column.json()),
    earlierDenial: column.optional(column.json()),
    rule: column.optional(column.json()),
    shown: column.optional(column.json()),
    isConcrete: column.optional(column.boolean),
    isEditable: column.optional(column.boolean),
    status: column.text(),
    decidedAt: column.nullable(column.number),
    decidedBy: column.nullable(column.json()),
    reason: column.nullable(column.freeText),
    answer: column.nullable(column.freeText),
    edited: column.nullable(column.json()),
    ballot: column.number,
    votes: column.nullable(column.json()),
  },
  unsigned: ['status', 'decidedAt', 'decidedBy', 'reason', 'answer', 'edited'],
});

const { columns } = approvalTable;

const insertSql = insertInto('approvals', columns);

export function insertApproval(
  signer: RowSigner,
  tenantId: string,
  approval: NewApproval,
): Statement {
  const params = approvalTable.encode(signer, {
    ...approval,
    tenantId,
    status: 'pending',
    decidedAt: null,
    decidedBy: null,
    reason: null,
    answer: null,
    edited: null,
    ballot: 0,
    votes: null,
  });
  return { sql: insertSql, params };
}

/** Without a run, of an approval that has none. */
interface ApprovalOwner {
  readonly tenantId: string;
  readonly runId?: string;
}

const ofRun = (runId: string | undefined) =>
  runId === undefined ? 'run_id IS NULL' : 'run_id = ?';

/**
 * An approval that has been decided cannot expire: the append is undone, and its writer finds the
 * decision in the inbox. One that is closed because its run ends keeps the decision.
 */
export function closeApproval(
  { tenantId, runId }: ApprovalOwner,
  closure: ApprovalClosure,
): Statement {
  const { approvalId, status, at, by, reason } = closure;
  const sql = `UPDATE approvals SET status = ?, decided_at = ?, decided_by = ?, reason = ?
    WHERE tenant_id = ? AND id = ? AND ${ofRun(runId)} AND status = 'pending'`;
  const run = runId === undefined ? [] : [runId];
  const params = [status, at, encode(by), encode(reason), tenantId, approvalId, ...run];
  return status === 'expired' ? { sql, params, expect: 1 } : { sql, params };
}

/** No approval stays open after its run, even if the run's state does not know it. */
export function closeOpenApprovals({ tenantId, runId }: RunRef, at: number): Statement {
  const sql = `UPDATE approvals SET status = 'closed', decided_at = ?, decided_by = ?, reason = ?
    WHERE tenant_id = ? AND run_id = ? AND status = 'pending'`;
  const by = { type: 'system', id: 'relay', name: 'relay' };
  const params = [at, encode(by), encode('The run has ended'), tenantId, runId];
  return { sql, params };
}

/**
 * The compare-and-set: of all decisions on an approval, one succeeds. `voted` replaces the votes of the
 * row that was read.
 */
export function storeDecision(
  { tenantId, runId }: ApprovalOwner,
  decision: RequestDecision,
  voted?: VotedRow,
): Statement {
  const { approvalId, status, at, by, reason, answer, edited, ballot } = decision;
  const sql = `UPDATE approvals SET status = ?, decided_at = ?, decided_by = ?, by_person = ?, reason = ?,
      answer = ?, edited = ?${voted === undefined ? '' : `, ${voted.assignments}`}
    WHERE tenant_id = ? AND id = ? AND ${ofRun(runId)} AND status = 'pending' AND expires_at > ?
      ${ballot === undefined ? '' : 'AND ballot = ?'} ${voted === undefined ? '' : 'AND mac = ?'}`;
  return {
    sql,
    params: [
      status,
      at,
      encode(by),
      by.type === 'key' ? 1 : 0,
      encodeOrNull(reason),
      encode(answer),
      encodeOrNull(edited),
      ...(voted?.values ?? []),
      tenantId,
      approvalId,
      ...(runId === undefined ? [] : [runId]),
      at,
      ...(ballot === undefined ? [] : [ballot]),
      ...(voted === undefined ? [] : [voted.mac]),
    ],
    expect: 1,
  };
}

/** New votes for an authentic row, and the code that the row must still have. */
export interface VotedRow extends Assignments {
  readonly mac: string;
}

export function voted(
  signer: RowSigner,
  row: Row,
  changes: { readonly votes: ApprovalVotes; readonly ballot?: number },
): VotedRow {
  approvalTable.decode(signer, row);
  return { ...approvalTable.changes(signer, row, changes), mac: text(row, 'mac') };
}

export function updateVotes(tenantId: string, change: VoteChange, voted: VotedRow): Statement {
  const { approvalId, at, ballot } = change;
  const sql = `UPDATE approvals SET ${voted.assignments}
    WHERE tenant_id = ? AND id = ? AND status = 'pending' AND expires_at > ? AND ballot = ?
      AND mac = ?`;
  const before = [tenantId, approvalId, at, ballot, voted.mac];
  return { sql, params: [...voted.values, ...before], expect: 1 };
}

export const selectApprovalSql = `SELECT ${columns.join(', ')}
  FROM approvals WHERE tenant_id = ? AND id = ?`;

/**
 * A run, an invocation, a session and a conversation have few approvals, of which the wanted are picked.
 * Others are merged from those of each kind and status; or are those of a tool, of which the wanted are
 * picked, whichever are fewer.
 */
export function approvalLists(tenantId: string, filter: ApprovalFilter): readonly List[] {
  const { runId, sessionId, conversationId, invocationId, status, kind } = filter;
  const tool = columnFilters({ tool: filter.tool === undefined ? undefined : encode(filter.tool) });
  const [owner, ...others] = columnFilters({
    invocation_id: invocationId,
    run_id: runId,
    session_id: sessionId,
    conversation_id: conversationId,
  });
  const list = { tenantId, table: 'approvals', at: 'requested_at' };
  if (owner !== undefined) {
    const index = indexFilter([owner], [...others, ...tool, ...columnFilters({ kind, status })]);
    const leading = index.leading.map((condition) => allOf([condition, ...index.others]));
    return [{ ...list, leading }];
  }
  const byKind = columnFilters({ kind: kind ?? approvalKinds, status: status ?? approvalStatuses });
  const ways = [{ ...list, ...indexFilter(byKind, tool) }];
  if (tool.length > 0)
    ways.push({ ...list, ...indexFilter(tool, columnFilters({ kind, status })) });
  return ways;
}

export function selectApprovals(list: List, range: Range): Statement {
  return selectRows(list, columns, range);
}

/** Of decisions by people on permission requests, newest first. */
export function selectDecisions(
  tenantId: string,
  status: 'approved' | 'denied',
  { since, until }: Pick<StatsRange, 'since' | 'until'>,
  limit: number,
): Statement {
  const sql = `SELECT ${columns.join(', ')} FROM approvals WHERE tenant_id = ? AND id IN (
      SELECT id FROM approvals
      WHERE tenant_id = ? AND decided_at >= ? AND decided_at < ? AND status = ?
        AND kind = 'permission' AND by_person = 1
      ORDER BY decided_at DESC LIMIT ?)
    ORDER BY decided_at DESC, id DESC`;
  return { sql, params: [tenantId, tenantId, since, until, status, limit] };
}

export function decodeApproval(signer: RowSigner, row: Row): ApprovalRecord {
  const { tenantId: _, ...approval } = approvalTable.decode(signer, row);
  return approval;
}
