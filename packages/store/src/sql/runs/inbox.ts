import type { QueuedRunCommand, RunCommand, RunRef } from '@relay/core';
import type { Row, SqlDialect, Statement } from '../../drivers/driver.ts';
import { byDialect } from '../statements.ts';
import { checkIntact, checksumOf, encode, json, text } from '../../codec/values.ts';

/**
 * Finds no run to write to if the run has ended. Repeating the same command changes nothing. PostgreSQL
 * locks the run's row, so that the run cannot end meanwhile.
 */
const insertSql = byDialect(
  (dialect) => `INSERT INTO run_inbox (id, kind, command, checksum, tenant_id, run_id, position)
  SELECT ?, ?, ?, ?, r.tenant_id, r.id,
    (SELECT COALESCE(MAX(m.position), 0) + 1 FROM run_inbox m WHERE m.run_id = r.id)
  FROM runs r
  WHERE r.tenant_id = ? AND r.id = ? AND r.status IN ('queued', 'running', 'waiting')
    ${dialect === 'sqlite' ? '' : 'FOR NO KEY UPDATE OF r'}
  ON CONFLICT (run_id, id) DO UPDATE
    SET kind = excluded.kind, command = excluded.command, checksum = excluded.checksum`,
);

export function insertCommand(
  dialect: SqlDialect,
  { tenantId, runId }: RunRef,
  queued: QueuedRunCommand,
): Statement {
  const command = encode(queued.command);
  const checksum = checksumOf(tenantId, runId, queued.id, command);
  const params = [queued.id, queued.command.kind, command, checksum, tenantId, runId];
  return { sql: insertSql[dialect], params, expect: 1 };
}

export function deleteCommand({ tenantId, runId }: RunRef, commandId: string): Statement {
  const sql = 'DELETE FROM run_inbox WHERE tenant_id = ? AND run_id = ? AND id = ?';
  return { sql, params: [tenantId, runId, commandId] };
}

export function deleteCommands({ tenantId, runId }: RunRef): Statement {
  const sql = 'DELETE FROM run_inbox WHERE tenant_id = ? AND run_id = ?';
  return { sql, params: [tenantId, runId] };
}

export const selectCommandsSql =
  'SELECT id, command, checksum, tenant_id, run_id FROM run_inbox WHERE tenant_id = ? AND run_id = ? ORDER BY position, id';

/** Of all runs that a node holds. */
export const runsWithCommandsSql = `SELECT DISTINCT m.run_id FROM runs r JOIN run_inbox m ON m.run_id = r.id
  WHERE r.lease_owner = ?`;

/** A command may be a decision: a flipped bit must not turn a denial into an approval. */
export function decodeCommand(row: Row): QueuedRunCommand {
  const columns = ['tenant_id', 'run_id', 'id', 'command'];
  checkIntact(`The inbox of run ${text(row, 'run_id')}`, row, columns);
  return { id: text(row, 'id'), command: json(row, 'command') as RunCommand };
}
