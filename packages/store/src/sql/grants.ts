import type { Grant, NewGrant } from '@relay/core';
import type { Row, SqlValue, Statement } from '../drivers/driver.ts';
import { encode, encodeOrNull, freeText, jsonOrNull, text } from './stored.ts';

const insertSql = `INSERT INTO grants
  (id, tenant_id, scope, scope_id, tool, exact, params, created_at, created_by)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`;

export function insertGrant(tenantId: string, grant: NewGrant): Statement {
  return {
    sql: insertSql,
    params: [
      grant.id,
      tenantId,
      grant.scope,
      grant.scopeId,
      encode(grant.tool),
      encodeOrNull(grant.exact),
      encodeOrNull(grant.params),
      grant.createdAt,
      encode(grant.createdBy),
    ],
  };
}

export const selectGrantsSql = `SELECT id, tool, exact, params FROM grants
  WHERE tenant_id = ? AND scope_id IN (?, ?)
    AND ((scope = 'run' AND scope_id = ?) OR (scope = 'conversation' AND scope_id = ?))
  ORDER BY created_at, id`;

export function selectGrantsParams(
  tenantId: string,
  { runId, conversationId }: { readonly runId: string; readonly conversationId: string },
): readonly SqlValue[] {
  return [tenantId, runId, conversationId, runId, conversationId];
}

export function decodeGrant(row: Row): Grant {
  const exact = jsonOrNull(row, 'exact') as Record<string, unknown> | null;
  const params = jsonOrNull(row, 'params') as Record<string, string> | null;
  return {
    id: text(row, 'id'),
    tool: freeText(row, 'tool'),
    ...(exact === null ? {} : { exact }),
    ...(params === null ? {} : { params }),
  };
}
