import type { RunRef } from '@relay/core';
import type { Row, Statement } from '../../drivers/driver.ts';
import { text } from '../../codec/values.ts';

const insertSql = 'INSERT INTO connections (id, tenant_id, run_id, node) VALUES (?, ?, ?, ?)';

export function insertConnection(
  tenantId: string,
  runId: string,
  connection: { readonly id: string; readonly node: string },
): Statement {
  return { sql: insertSql, params: [connection.id, tenantId, runId, connection.node] };
}

export const selectConnectionSql = 'SELECT run_id FROM connections WHERE tenant_id = ? AND id = ?';

export const deleteConnectionSql = 'DELETE FROM connections WHERE tenant_id = ? AND id = ?';

const deleteOfRunSql = 'DELETE FROM connections WHERE tenant_id = ? AND run_id = ?';

/** A chat ends with its run. */
export function deleteConnectionsOf({ tenantId, runId }: RunRef): Statement {
  return { sql: deleteOfRunSql, params: [tenantId, runId] };
}

export function decodeOrphan(row: Row): { tenantId: string; id: string; runId: string } {
  return { tenantId: text(row, 'tenant_id'), id: text(row, 'id'), runId: text(row, 'run_id') };
}
