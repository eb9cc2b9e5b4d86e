/** A conversation counts its runs as they end: the count is the run's position in it. */
import type { RunRef } from '@relay/core';
import type { Statement } from '../../drivers/driver.ts';

const countSql = `INSERT INTO conversations (tenant_id, id, ended_runs)
  SELECT tenant_id, conversation_id, 1 FROM runs WHERE tenant_id = ? AND id = ?
  ON CONFLICT (tenant_id, id) DO UPDATE SET ended_runs = conversations.ended_runs + 1`;

const placeSql = `UPDATE runs SET position = (
    SELECT c.ended_runs FROM conversations c
    WHERE c.tenant_id = runs.tenant_id AND c.id = runs.conversation_id)
  WHERE tenant_id = ? AND id = ?`;

export function countEnding({ tenantId, runId }: RunRef): Statement[] {
  const params = [tenantId, runId];
  return [
    { sql: countSql, params, expect: 1 },
    { sql: placeSql, params, expect: 1 },
  ];
}

export const countEndedSql = 'SELECT ended_runs FROM conversations WHERE tenant_id = ? AND id = ?';

export const selectEndedSql = `SELECT id, position FROM runs
  WHERE tenant_id = ? AND conversation_id = ? AND position > ? AND position <= ?
  ORDER BY position`;
