import type { Grant, GrantFilter, GrantRecord, NewGrant, Page } from '@relay/core';
import { defined } from '@relay/protocol';
import type { Row, Statement } from '../../drivers/driver.ts';
import { residualFilter, columnFilters, selectRows } from '../lists.ts';
import { insertInto } from '../statements.ts';
import { column, RecordCodec } from '../../codec/records.ts';
import { checkIntact, checksumOf, corrupt, encode, text } from '../../codec/values.ts';

/** A damaged grant must not allow more than a person allowed: the checksum covers these fields. */
const allowedCodec = new RecordCodec<Omit<NewGrant, 'createdAt' | 'createdBy'>>({
  id: column.text(),
  scope: column.text(),
  scopeId: column.text(),
  tool: column.freeText,
  exact: column.optional(column.json()),
  params: column.optional(column.json()),
  expiresAt: column.optional(column.number),
  uses: column.optional(column.number),
  approvers: column.optional(column.json()),
});

type GrantState = Pick<GrantRecord, 'usesLeft' | 'createdAt' | 'createdBy' | 'revokedAt'>;

const stateCodec = new RecordCodec<GrantState>({
  usesLeft: column.optional(column.number),
  createdAt: column.number,
  createdBy: column.json(),
  revokedAt: column.optional(column.number),
});

const fixedColumns = ['tenant_id', ...allowedCodec.columns];
const columns = [...fixedColumns, 'checksum', ...stateCodec.columns];

const insertSql = insertInto('grants', columns);

export function insertGrant(tenantId: string, grant: NewGrant): Statement {
  const fixed = [tenantId, ...allowedCodec.encode(grant)];
  const { createdAt, createdBy, uses: usesLeft } = grant;
  const rest = stateCodec.encode({ createdAt, createdBy, ...defined({ usesLeft }) });
  return { sql: insertSql, params: [...fixed, checksumOf(...fixed), ...rest] };
}

const activeSql = `g.revoked_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > ?)
    AND (g.uses_left IS NULL OR g.uses_left > 0)`;

export const selectGrantsSql = `SELECT ${columns.join(', ')} FROM grants g
  WHERE g.tenant_id = ? AND g.scope_id IN (?, ?, ?)
    AND ((g.scope = 'run' AND g.scope_id = ?) OR (g.scope = 'conversation' AND g.scope_id = ?)
      OR (g.scope = 'tenant' AND g.scope_id = ?))
    AND ${activeSql}
  ORDER BY g.created_at, g.id`;

export function selectGrants(
  tenantId: string,
  scope: { readonly runId: string; readonly conversationId: string; readonly now: number },
): Statement {
  const ids = [scope.runId, scope.conversationId, tenantId];
  return { sql: selectGrantsSql, params: [tenantId, ...ids, ...ids, scope.now] };
}

export const selectGrantSql = `SELECT ${columns.join(', ')} FROM grants
  WHERE tenant_id = ? AND id = ?`;

export function selectGrantList(tenantId: string, filter: GrantFilter, page: Page): Statement {
  const { scope, scopeId, tool, activeAt } = filter;
  const others = columnFilters({
    scope,
    scope_id: scopeId,
    tool: tool === undefined ? undefined : encode(tool),
  }).map((column) => residualFilter(column));
  if (activeAt !== undefined) {
    others.push({ sql: activeSql.replaceAll('g.', 't.'), params: [activeAt] });
  }
  return selectRows({ tenantId, table: 'grants', others }, columns, page);
}

export function revokeGrant(tenantId: string, grantId: string, at: number): Statement {
  const sql = `UPDATE grants SET revoked_at = ?
    WHERE tenant_id = ? AND id = ? AND revoked_at IS NULL`;
  return { sql, params: [at, tenantId, grantId], expect: 1 };
}

export const useGrantSql = `UPDATE grants SET uses_left = uses_left - 1
  WHERE tenant_id = ? AND id = ? AND uses_left > 0 AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > ?)`;

/** If no use is left, nothing of the append is stored. */
export function useGrant(tenantId: string, grantId: string, at: number): Statement {
  return { sql: useGrantSql, params: [tenantId, grantId, at], expect: 1 };
}

export function decodeGrant(row: Row): Grant {
  const { id, tool, exact, params, usesLeft, approvers } = decodeGrantRecord(row);
  return { id, tool, ...defined({ exact, params, usesLeft, approvers }) };
}

export function decodeGrantRecord(row: Row): GrantRecord {
  const subject = `Grant ${text(row, 'id')}`;
  checkIntact(subject, row, fixedColumns);
  const grant = { ...allowedCodec.decode(row), ...stateCodec.decode(row) };
  const { uses, usesLeft } = grant;
  if ((uses === undefined) !== (usesLeft === undefined) || (usesLeft ?? 0) > (uses ?? 0)) {
    throw corrupt(subject, 'usesLeft is greater than uses');
  }
  return grant;
}
