import type { RunCommand, QueuedRunCommand, RunRef } from '@relay/core';
import type { Row, SqlDialect, Statement } from '../../drivers/driver.ts';
import { checksumOf, corrupt, encode, json, text } from '../../codec/values.ts';

/** Where others write at the same time, the run's row is locked, so that it cannot end meanwhile. */
const locked: Readonly<Record<SqlDialect, string>> = {
  sqlite: '',
  postgres: 'FOR NO KEY UPDATE OF r',
};

/** Finds no run to write to if the run is over; repeating the same command changes nothing. */
const insertSql = (
  dialect: SqlDialect,
) => `INSERT INTO run_inbox (id, command, checksum, tenant_id, run_id, position)
  SELECT ?, ?, ?, r.tenant_id, r.id,
    (SELECT COALESCE(MAX(m.position), 0) + 1 FROM run_inbox m WHERE m.run_id = r.id)
  FROM runs r
  WHERE r.tenant_id = ? AND r.id = ? AND r.status IN ('queued', 'running', 'waiting') ${locked[dialect]}
  ON CONFLICT (run_id, id) DO UPDATE SET command = excluded.command, checksum = excluded.checksum`;

const insertSqls = { sqlite: insertSql('sqlite'), postgres: insertSql('postgres') };

export function insertCommand(
  dialect: SqlDialect,
  { tenantId, runId }: RunRef,
  queued: QueuedRunCommand,
): Statement {
  const command = encode(queued.command);
  const checksum = commandChecksum({ tenantId, runId }, queued.id, command);
  return {
    sql: insertSqls[dialect],
    params: [queued.id, command, checksum, tenantId, runId],
    expect: 1,
  };
}

const deleteSql = 'DELETE FROM run_inbox WHERE tenant_id = ? AND run_id = ? AND id = ?';

export function deleteCommand({ tenantId, runId }: RunRef, commandId: string): Statement {
  return { sql: deleteSql, params: [tenantId, runId, commandId] };
}

const deleteAllSql = 'DELETE FROM run_inbox WHERE tenant_id = ? AND run_id = ?';

export function deleteCommands({ tenantId, runId }: RunRef): Statement {
  return { sql: deleteAllSql, params: [tenantId, runId] };
}

export const selectCommandsSql =
  'SELECT id, command, checksum, tenant_id, run_id FROM run_inbox WHERE tenant_id = ? AND run_id = ? ORDER BY position, id';

/** Of all runs that a node holds. */
export const runsWithCommandsSql = `SELECT DISTINCT m.run_id FROM runs r JOIN run_inbox m ON m.run_id = r.id
  WHERE r.lease_owner = ?`;

export function decodeCommand(row: Row): QueuedRunCommand {
  const id = text(row, 'id');
  const run = { tenantId: text(row, 'tenant_id'), runId: text(row, 'run_id') };
  if (commandChecksum(run, id, text(row, 'command')) !== row['checksum']) {
    throw corrupt(`The inbox of run ${run.runId}`, 'it does not match its checksum');
  }
  return { id, command: json(row, 'command') as RunCommand };
}

/** A command may be a decision: a flipped bit must not turn a denial into an approval. */
function commandChecksum({ tenantId, runId }: RunRef, id: string, command: string): number {
  return checksumOf(tenantId, runId, id, command);
}
