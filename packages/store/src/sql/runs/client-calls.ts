import type { CallClaim, ClientCallRecord, NewClientCall, PostedResult, RunRef } from '@relay/core';
import type { Row, Statement } from '../../drivers/driver.ts';
import {
  checkIntact,
  checksumOf,
  encode,
  freeText,
  json,
  number,
  numberOrNull,
  text,
  textOrNull,
} from '../../codec/values.ts';

export function insertClientCall({ tenantId, runId }: RunRef, call: NewClientCall): Statement {
  const sql = `INSERT INTO client_calls
    (run_id, tool_call_id, tenant_id, status, result_by, claimed_until, failed)
    VALUES (?, ?, ?, 'pending', ?, 0, 0)`;
  const { toolCallId, resultBy } = call;
  return { sql, params: [runId, encode(toolCallId), tenantId, resultBy] };
}

/** If a result has been posted, the append is undone, and its writer finds the result in the inbox. */
export function timeOutClientCall({ tenantId, runId }: RunRef, toolCallId: string): Statement {
  const sql = `UPDATE client_calls SET status = 'closed'
    WHERE tenant_id = ? AND run_id = ? AND tool_call_id = ? AND status = 'pending'`;
  return { sql, params: [tenantId, runId, encode(toolCallId)], expect: 1 };
}

export function closeClientCalls({ tenantId, runId }: RunRef): Statement {
  const sql = `UPDATE client_calls SET output = NULL, checksum = NULL,
      status = CASE WHEN status = 'pending' THEN 'closed' ELSE status END
    WHERE tenant_id = ? AND run_id = ?`;
  return { sql, params: [tenantId, runId] };
}

/** The compare-and-set: of all results of a call, one is accepted. */
export function answerClientCall(tenantId: string, posted: PostedResult): Statement {
  const sql = `UPDATE client_calls
    SET status = 'answered', digest = ?, failed = ?, output = ?, checksum = ?
    WHERE tenant_id = ? AND run_id = ? AND tool_call_id = ? AND status = 'pending' AND result_by > ?`;
  const { runId, toolCallId, at } = posted;
  const { digest, failed } = posted.result;
  const output = encode(posted.result.output);
  const id = encode(toolCallId);
  const kept = [digest, failed ? 1 : 0, output] as const;
  const checksum = checksumOf(tenantId, runId, id, ...kept);
  return { sql, params: [...kept, checksum, tenantId, runId, id, at], expect: 1 };
}

export function claimClientCall(tenantId: string, claim: CallClaim): Statement {
  const sql = `UPDATE client_calls SET claim_id = ?, claimed_until = ?,
      claimed_before = CASE WHEN claim_id <> ? THEN 1 ELSE claimed_before END
    WHERE tenant_id = ? AND run_id = ? AND tool_call_id = ? AND status = 'pending'
      AND (claimed_until <= ? OR claim_id = ?)`;
  const { runId, toolCallId, claimId, now, until } = claim;
  const params = [claimId, until, claimId, tenantId, runId, encode(toolCallId), now, claimId];
  return { sql, params, expect: 1 };
}

/** What the checksum of a result covers, in this order. */
const resultColumns = ['tenant_id', 'run_id', 'tool_call_id', 'digest', 'failed', 'output'];

const selectSql = `SELECT ${resultColumns.join(', ')}, status, result_by, claim_id, claimed_before, checksum
  FROM client_calls WHERE tenant_id = ? AND run_id = ? AND tool_call_id = ?`;

export function selectClientCall({ tenantId, runId }: RunRef, toolCallId: string): Statement {
  return { sql: selectSql, params: [tenantId, runId, encode(toolCallId)] };
}

export function decodeClientCall(row: Row): ClientCallRecord {
  return {
    runId: text(row, 'run_id'),
    toolCallId: freeText(row, 'tool_call_id'),
    status: text(row, 'status') as ClientCallRecord['status'],
    resultBy: number(row, 'result_by'),
    claimId: textOrNull(row, 'claim_id'),
    claimedBefore: numberOrNull(row, 'claimed_before') === 1,
    result: resultOf(row),
  };
}

function resultOf(row: Row): ClientCallRecord['result'] {
  const digest = textOrNull(row, 'digest');
  if (digest === null) return null;
  const failed = number(row, 'failed') === 1;
  if (row['output'] === null) return { digest, failed };
  checkIntact(`The result of call ${text(row, 'tool_call_id')}`, row, resultColumns);
  return { digest, failed, output: json(row, 'output') };
}
