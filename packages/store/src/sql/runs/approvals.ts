import type {
  NewApproval,
  Page,
  ApprovalClosure,
  ApprovalDecision,
  ApprovalFilter,
  ApprovalRecord,
  RunRef,
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
  preview: column.optional(column.json()),
  earlierDenial: column.optional(column.json()),
  rule: column.optional(column.json()),
});

const decisionCodec = new RecordCodec<Omit<ApprovalRecord, keyof NewApproval | 'edited'>>({
  status: column.text(),
  decidedAt: column.nullable(column.number),
  decidedBy: column.nullable(column.json()),
  reason: column.nullable(column.freeText),
  answer: column.nullable(column.freeText),
});

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
  const sql = `UPDATE approvals SET status = ?, decided_at = ?, decided_by = ?, reason = ?, answer = ?,
      edited = ?
    WHERE tenant_id = ? AND id = ? AND run_id = ? AND status = 'pending' AND expires_at > ?`;
  const { approvalId, runId, status, at, by, reason, answer, edited } = decision;
  return {
    sql,
    params: [
      status,
      at,
      encode(by),
      encodeOrNull(reason),
      encode(answer),
      encodeOrNull(edited),
      tenantId,
      approvalId,
      runId,
      at,
    ],
    expect: 1,
  };
}

const columns = [...fixedColumns, 'checksum', ...decisionCodec.columns, 'edited'];

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
    edited: jsonOrNull(row, 'edited') as ApprovalRecord['edited'],
  };
}
