import type { Grant, NewGrant } from '@relay/core';
import type { Row, SqlValue, Statement } from '../drivers/driver.ts';
import { checksumOf, corrupt, encode, encodeOrNull, freeText, jsonOrNull, text } from './stored.ts';

/** What a grant allows, in the order in which it is summed up and inserted. */
const fixedColumns = ['id', 'scope', 'scope_id', 'tool', 'exact', 'params'] as const;

const insertSql = `INSERT INTO grants
  (${fixedColumns.join(', ')}, tenant_id, checksum, created_at, created_by)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;

export function insertGrant(tenantId: string, grant: NewGrant): Statement {
  const fixed = [
    grant.id,
    grant.scope,
    grant.scopeId,
    encode(grant.tool),
    encodeOrNull(grant.exact),
    encodeOrNull(grant.params),
  ];
  const checksum = grantChecksum(tenantId, fixed);
  return {
    sql: insertSql,
    params: [...fixed, tenantId, checksum, grant.createdAt, encode(grant.createdBy)],
  };
}

/** A grant lets tools run unasked: a damaged one must not widen what a person allowed. */
function grantChecksum(tenantId: string, fixed: readonly (string | null)[]): number {
  return checksumOf(tenantId, ...fixed.map((value) => value ?? ''));
}

export const selectGrantsSql = `SELECT ${fixedColumns.join(', ')}, tenant_id, checksum FROM grants
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
  const fixed = fixedColumns.map((column) => row[column] as string | null);
  if (grantChecksum(text(row, 'tenant_id'), fixed) !== row['checksum']) {
    throw corrupt(`Grant ${text(row, 'id')}`, 'it does not match its checksum');
  }
  const exact = jsonOrNull(row, 'exact') as Record<string, unknown> | null;
  const params = jsonOrNull(row, 'params') as Record<string, string> | null;
  return {
    id: text(row, 'id'),
    tool: freeText(row, 'tool'),
    ...(exact === null ? {} : { exact }),
    ...(params === null ? {} : { params }),
  };
}
