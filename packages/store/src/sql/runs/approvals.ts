import type {
  NewApproval,
  Page,
  ApprovalClosure,
  ApprovalDecision,
  ApprovalFilter,
  ApprovalRecord,
  ApprovalVotes,
  RunRef,
  VoteChange,
} from '@relay/core';
import { approvalStatuses } from '@relay/protocol';
import type { Row, Statement } from '../../drivers/driver.ts';
import { columnFilters, indexFilter, type List, selectPage, selectRows } from '../lists.ts';
import { insertInto } from '../statements.ts';
import { column, RecordCodec } from '../../codec/records.ts';
import {
  checkIntact,
  checksumOf,
  encode,
  encodeOrNull,
  jsonOrNull,
  text,
} from '../../codec/values.ts';

/** What never changes once an approval is requested; the checksum covers it. */
const requestCodec = new RecordCodec<NewApproval>({
  id: column.text(),
  runId: column.text(),
  requestedAt: column.number,
  expiresAt: column.number,
  kind: column.text(),
  agentId: column.text(),
  agentPath: column.json(),
  toolCallId: column.freeText,
  tool: column.freeText,
  params: column.json(),
  digest: column.text(),
  question: column.optional(column.json()),
  resolvedPaths: column.optional(column.json()),
  earlierDenial: column.optional(column.json()),
  rule: column.optional(column.json()),
});

const decisionCodec = new RecordCodec<Omit<ApprovalRecord, keyof NewApproval | 'edited' | 'votes'>>(
  {
    status: column.text(),
    decidedAt: column.nullable(column.number),
    decidedBy: column.nullable(column.json()),
    reason: column.nullable(column.freeText),
    answer: column.nullable(column.freeText),
    ballot: column.number,
  },
);

const fixedColumns = ['tenant_id', ...requestCodec.columns];

const insertSql = insertInto('approvals', [...fixedColumns, 'checksum', 'status']);

export function insertApproval(tenantId: string, approval: NewApproval): Statement {
  const fixed = [tenantId, ...requestCodec.encode(approval)];
  return { sql: insertSql, params: [...fixed, checksumOf(...fixed), 'pending'] };
}

const closeSql = `UPDATE approvals SET status = ?, decided_at = ?, decided_by = ?, reason = ?
  WHERE tenant_id = ? AND id = ? AND run_id = ? AND status = 'pending'`;

/**
 * An approval that has been decided cannot expire: the append is undone, and its writer finds the
 * decision in the inbox. One that is closed because its run ends keeps the decision.
 */
export function closeApproval({ tenantId, runId }: RunRef, closure: ApprovalClosure): Statement {
  const { approvalId, status, at, by, reason } = closure;
  const params = [status, at, encode(by), encode(reason), tenantId, approvalId, runId];
  return status === 'expired' ? { sql: closeSql, params, expect: 1 } : { sql: closeSql, params };
}

/** No approval stays open after its run, even if the run's state does not know it. */
export function closeOpenApprovals({ tenantId, runId }: RunRef, at: number): Statement {
  const sql = `UPDATE approvals SET status = 'closed', decided_at = ?, decided_by = ?, reason = ?
    WHERE tenant_id = ? AND run_id = ? AND status = 'pending'`;
  const by = { type: 'system', id: 'relay', name: 'relay' };
  const params = [at, encode(by), encode('The run has ended'), tenantId, runId];
  return { sql, params };
}

/** The compare-and-set: of all decisions on an approval, one succeeds. */
export function storeDecision(tenantId: string, decision: ApprovalDecision): Statement {
  const { approvalId, runId, status, at, by, reason, answer, edited, ballot, votes } = decision;
  const sql = `UPDATE approvals SET status = ?, decided_at = ?, decided_by = ?, reason = ?, answer = ?,
      executed_params = ?, executed_digest = ?${votes === undefined ? '' : ', votes = ?, votes_checksum = ?'}
    WHERE tenant_id = ? AND id = ? AND run_id = ? AND status = 'pending' AND expires_at > ?
      ${ballot === undefined ? '' : 'AND ballot = ?'}`;
  return {
    sql,
    params: [
      status,
      at,
      encode(by),
      encodeOrNull(reason),
      encode(answer),
      encodeOrNull(edited?.params),
      edited?.digest ?? null,
      ...(votes === undefined ? [] : encodeVotes(tenantId, approvalId, votes)),
      tenantId,
      approvalId,
      runId,
      at,
      ...(ballot === undefined ? [] : [ballot]),
    ],
    expect: 1,
  };
}

export function updateVotes(tenantId: string, change: VoteChange): Statement {
  const sql = `UPDATE approvals SET votes = ?, votes_checksum = ?, ballot = ballot + 1
    WHERE tenant_id = ? AND id = ? AND status = 'pending' AND expires_at > ? AND ballot = ?`;
  const { approvalId, at, ballot, votes } = change;
  const encoded = encodeVotes(tenantId, approvalId, votes);
  return { sql, params: [...encoded, tenantId, approvalId, at, ballot], expect: 1 };
}

/** Damaged votes must not decide. */
function encodeVotes(tenantId: string, approvalId: string, votes: ApprovalVotes) {
  const encoded = encode(votes);
  return [encoded, checksumOf(tenantId, approvalId, encoded)] as const;
}

const columns = [
  ...fixedColumns,
  'checksum',
  ...decisionCodec.columns,
  'executed_params',
  'executed_digest',
  'votes',
  'votes_checksum',
];

export const selectApprovalSql = `SELECT ${columns.join(', ')}
  FROM approvals WHERE tenant_id = ? AND id = ?`;

/** The most selective filter first: a run has few approvals, and few are pending. */
function listOf(tenantId: string, { runId, status, kind }: ApprovalFilter): List {
  const [first = anyStatus, ...others] = columnFilters({ run_id: runId, status, kind });
  return { tenantId, table: 'approvals', at: 'requested_at', ...indexFilter(first, others) };
}

const anyStatus = { column: 'status', values: approvalStatuses };

export function selectApprovals(tenantId: string, filter: ApprovalFilter, page: Page): Statement {
  return selectRows(listOf(tenantId, filter), columns, page);
}

export function selectApprovalIds(tenantId: string, filter: ApprovalFilter, page: Page): Statement {
  return selectPage(listOf(tenantId, filter), page);
}

export function decodeApproval(row: Row): ApprovalRecord {
  checkIntact(`Approval ${text(row, 'id')}`, row, fixedColumns);
  return {
    ...requestCodec.decode(row),
    ...decisionCodec.decode(row),
    edited: editedCall(row),
    votes: votesIn(row),
  };
}

function votesIn(row: Row): ApprovalVotes | null {
  const votes = jsonOrNull(row, 'votes') as ApprovalVotes | null;
  if (votes === null) return null;
  const columns = ['tenant_id', 'id', 'votes'];
  checkIntact(`The votes of approval ${text(row, 'id')}`, row, columns, 'votes_checksum');
  return votes;
}

function editedCall(row: Row): ApprovalRecord['edited'] {
  const params = jsonOrNull(row, 'executed_params') as Record<string, unknown> | null;
  return params === null ? null : { params, digest: text(row, 'executed_digest') };
}
