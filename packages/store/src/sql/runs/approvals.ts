import type {
  NewApproval,
  Page,
  Question,
  ApprovalClosure,
  ApprovalDecision,
  ApprovalFilter,
  ApprovalRecord,
  RunRef,
} from '@relay/core';
import { approvalStatuses } from '@relay/protocol';
import type { Decider } from '@relay/protocol';
import type { Row, Statement } from '../../drivers/driver.ts';
import { besides, leadingBy, rowsOn, selectPage } from '../lists.ts';
import type { ColumnFilter } from '../lists.ts';
import {
  checksumOf,
  corrupt,
  encode,
  encodeOrNull,
  freeText,
  freeTextOrNull,
  integer,
  integerOrNull,
  json,
  jsonOrNull,
  text,
  textOrNull,
} from '../../codec/values.ts';

/** What never changes once an approval is requested, in the order in which it is hashed and inserted. */
const fixedColumns = [
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
] as const;

const insertSql = `INSERT INTO approvals
  (${fixedColumns.join(', ')}, question, resolved_paths, tenant_id, status, checksum)
  VALUES (${fixedColumns.map(() => '?').join(', ')}, ?, ?, ?, 'pending', ?)`;

export function insertApproval(tenantId: string, approval: NewApproval): Statement {
  const fixed = [
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
  ];
  const question = encodeOrNull(approval.question);
  const resolvedPaths = encodeOrNull(approval.resolvedPaths);
  const checksum = approvalChecksum(tenantId, fixed, [question, resolvedPaths]);
  return { sql: insertSql, params: [...fixed, question, resolvedPaths, tenantId, checksum] };
}

function approvalChecksum(
  tenantId: string,
  fixed: readonly (string | number)[],
  more: readonly (string | null)[],
): number {
  return checksumOf(tenantId, ...fixed, ...more.map((value) => value ?? ''));
}

const closeSql = `UPDATE approvals SET status = ?, decided_at = ?, decided_by = ?, reason = ?
  WHERE tenant_id = ? AND id = ? AND run_id = ? AND status = 'pending'`;

/**
 * An approval that someone decided in the meantime cannot expire any more: the step is undone, and its
 * writer finds the decision in its inbox. One that is closed because its run ends keeps the decision.
 */
export function closeApproval({ tenantId, runId }: RunRef, closure: ApprovalClosure): Statement {
  const { approvalId, status, at, by, reason } = closure;
  const params = [status, at, encode(by), encode(reason), tenantId, approvalId, runId];
  return status === 'expired' ? { sql: closeSql, params, expect: 1 } : { sql: closeSql, params };
}

const closeOpenSql = `UPDATE approvals SET status = 'closed', decided_at = ?, decided_by = ?, reason = ?
  WHERE tenant_id = ? AND run_id = ? AND status = 'pending'`;

/** No approval outlives its run, not even one that the journal no longer shows. */
export function closeOpenApprovals({ tenantId, runId }: RunRef, at: number): Statement {
  const by = { type: 'system', id: 'relay', name: 'relay' };
  const params = [at, encode(by), encode('The run has ended'), tenantId, runId];
  return { sql: closeOpenSql, params };
}

const decideSql = `UPDATE approvals SET status = ?, decided_at = ?, decided_by = ?, reason = ?, answer = ?,
    executed_params = ?, executed_digest = ?
  WHERE tenant_id = ? AND id = ? AND run_id = ? AND status = 'pending' AND expires_at > ?`;

/** The compare-and-set: of all decisions on an approval, one succeeds. */
export function decide(tenantId: string, decision: ApprovalDecision): Statement {
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
  'tenant_id',
  'checksum',
  'status',
  'decided_at',
  'decided_by',
  'reason',
  'answer',
  'executed_params',
  'executed_digest',
  'question',
  'resolved_paths',
] as const;

export const selectApprovalSql = `SELECT ${columns.join(', ')}
  FROM approvals WHERE tenant_id = ? AND id = ?`;

export function selectApprovals(tenantId: string, filter: ApprovalFilter, page: Page): Statement {
  const rows = { tenantId, table: 'approvals', columns: columns.map((column) => `r.${column}`) };
  return rowsOn(selectApprovalIds(tenantId, filter, page), rows);
}

/** The most selective first: a run has few approvals, and few are pending. */
export function selectApprovalIds(tenantId: string, filter: ApprovalFilter, page: Page): Statement {
  const { runId, status, kind } = filter;
  const wanted = [
    { column: 'run_id', value: runId },
    { column: 'status', value: status },
    { column: 'kind', value: kind },
  ];
  const [first = ofAnyStatus, ...rest] = wanted.flatMap<ColumnFilter>(({ column, value }) =>
    value === undefined ? [] : [{ column, values: [value] }],
  );
  const filters = { leading: leadingBy(first), others: rest.map((other) => besides(other)) };
  return selectPage(
    { tenantId, table: 'approvals', at: 'requested_at', id: 'id', ...filters },
    page,
  );
}

const ofAnyStatus: ColumnFilter = { column: 'status', values: approvalStatuses };

export function decodeApproval(row: Row): ApprovalRecord {
  const id = text(row, 'id');
  const fixed = fixedColumns.map((column) => row[column] as string | number);
  const question = textOrNull(row, 'question');
  const resolvedPaths = textOrNull(row, 'resolved_paths');
  if (
    approvalChecksum(text(row, 'tenant_id'), fixed, [question, resolvedPaths]) !== row['checksum']
  ) {
    throw corrupt(`Approval ${id}`, 'it does not match its checksum');
  }
  return {
    id,
    runId: text(row, 'run_id'),
    kind: text(row, 'kind') as ApprovalRecord['kind'],
    agentId: text(row, 'agent_id'),
    agentPath: json(row, 'agent_path') as string[],
    toolCallId: freeText(row, 'tool_call_id'),
    tool: freeText(row, 'tool'),
    params: json(row, 'params'),
    ...(resolvedPaths === null
      ? {}
      : { resolvedPaths: json(row, 'resolved_paths') as Record<string, string> }),
    digest: text(row, 'digest'),
    ...(question === null ? {} : { question: json(row, 'question') as Question }),
    requestedAt: integer(row, 'requested_at'),
    expiresAt: integer(row, 'expires_at'),
    status: text(row, 'status') as ApprovalRecord['status'],
    decidedAt: integerOrNull(row, 'decided_at'),
    decidedBy: jsonOrNull(row, 'decided_by') as Decider | null,
    reason: freeTextOrNull(row, 'reason'),
    edited: editedCall(row),
    answer: freeTextOrNull(row, 'answer'),
  };
}

function editedCall(row: Row): ApprovalRecord['edited'] {
  const params = jsonOrNull(row, 'executed_params') as Record<string, unknown> | null;
  return params === null ? null : { params, digest: text(row, 'executed_digest') };
}
