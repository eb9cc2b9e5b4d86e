import type {
  NewApproval,
  Page,
  ApprovalClosure,
  ApprovalDecision,
  ApprovalFilter,
  ApprovalRecord,
  RunRef,
} from '@relay/core';
import { approvalStatuses, defined } from '@relay/protocol';
import type { Row, Statement } from '../../drivers/driver.ts';
import { columnFilters, indexFilter, type List, selectPage, selectRows } from '../lists.ts';
import { insertInto } from '../statements.ts';
import {
  checkIntact,
  checksumOf,
  encode,
  encodeOrNull,
  freeText,
  freeTextOrNull,
  json,
  jsonOrNull,
  number,
  numberOrNull,
  text,
} from '../../codec/values.ts';

/** What never changes once an approval is requested; the checksum covers it in this order. */
const fixedColumns = [
  'tenant_id',
  'id',
  'run_id',
  'requested_at',
  'expires_at',
  'kind',
  'agent_id',
  'agent_path',
  'tool_call_id',
  'tool',
  'params',
  'digest',
  'question',
  'resolved_paths',
] as const;

const insertSql = insertInto('approvals', [...fixedColumns, 'checksum', 'status']);

export function insertApproval(tenantId: string, approval: NewApproval): Statement {
  const fixed = [
    tenantId,
    approval.id,
    approval.runId,
    approval.requestedAt,
    approval.expiresAt,
    approval.kind,
    approval.agentId,
    encode(approval.agentPath),
    encode(approval.toolCallId),
    encode(approval.tool),
    encode(approval.params),
    approval.digest,
    encodeOrNull(approval.question),
    encodeOrNull(approval.resolvedPaths),
  ];
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

const closeOpenSql = `UPDATE approvals SET status = 'closed', decided_at = ?, decided_by = ?, reason = ?
  WHERE tenant_id = ? AND run_id = ? AND status = 'pending'`;

/** No approval stays open after its run, even if the run's state does not know it. */
export function closeOpenApprovals({ tenantId, runId }: RunRef, at: number): Statement {
  const by = { type: 'system', id: 'relay', name: 'relay' };
  const params = [at, encode(by), encode('The run has ended'), tenantId, runId];
  return { sql: closeOpenSql, params };
}

const decideSql = `UPDATE approvals SET status = ?, decided_at = ?, decided_by = ?, reason = ?, answer = ?,
    executed_params = ?, executed_digest = ?
  WHERE tenant_id = ? AND id = ? AND run_id = ? AND status = 'pending' AND expires_at > ?`;

/** The compare-and-set: of all decisions on an approval, one succeeds. */
export function storeDecision(tenantId: string, decision: ApprovalDecision): Statement {
  const { approvalId, runId, status, at, by, reason, answer, edited } = decision;
  return {
    sql: decideSql,
    params: [
      status,
      at,
      encode(by),
      encodeOrNull(reason),
      encode(answer),
      encodeOrNull(edited?.params),
      edited?.digest ?? null,
      tenantId,
      approvalId,
      runId,
      at,
    ],
    expect: 1,
  };
}

const columns = [
  ...fixedColumns,
  'checksum',
  'status',
  'decided_at',
  'decided_by',
  'reason',
  'answer',
  'executed_params',
  'executed_digest',
] as const;

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
  const id = text(row, 'id');
  checkIntact(`Approval ${id}`, row, fixedColumns);
  return {
    id,
    runId: text(row, 'run_id'),
    kind: text(row, 'kind') as ApprovalRecord['kind'],
    agentId: text(row, 'agent_id'),
    agentPath: json(row, 'agent_path') as string[],
    toolCallId: freeText(row, 'tool_call_id'),
    tool: freeText(row, 'tool'),
    params: json(row, 'params'),
    digest: text(row, 'digest'),
    ...defined({
      resolvedPaths: (jsonOrNull(row, 'resolved_paths') ??
        undefined) as ApprovalRecord['resolvedPaths'],
      question: (jsonOrNull(row, 'question') ?? undefined) as ApprovalRecord['question'],
    }),
    requestedAt: number(row, 'requested_at'),
    expiresAt: number(row, 'expires_at'),
    status: text(row, 'status') as ApprovalRecord['status'],
    decidedAt: numberOrNull(row, 'decided_at'),
    decidedBy: jsonOrNull(row, 'decided_by') as ApprovalRecord['decidedBy'],
    reason: freeTextOrNull(row, 'reason'),
    edited: editedCall(row),
    answer: freeTextOrNull(row, 'answer'),
  };
}

function editedCall(row: Row): ApprovalRecord['edited'] {
  const params = jsonOrNull(row, 'executed_params') as Record<string, unknown> | null;
  return params === null ? null : { params, digest: text(row, 'executed_digest') };
}
