import type { Grant, GrantFilter, GrantRecord, NewGrant, Page } from '@relay/core';
import { defined } from '@relay/protocol';
import type { Row, Statement } from '../../drivers/driver.ts';
import { residualFilter, columnFilters, selectRows } from '../lists.ts';
import { insertInto } from '../statements.ts';
import {
  checkIntact,
  checksumOf,
  corrupt,
  encode,
  encodeOrNull,
  freeText,
  json,
  jsonOrNull,
  number,
  numberOrNull,
  text,
} from '../../codec/values.ts';

/** A damaged grant must not allow more than a person allowed: the checksum covers these, in order. */
const fixedColumns = [
  'tenant_id',
  'id',
  'scope',
  'scope_id',
  'tool',
  'exact',
  'params',
  'expires_at',
  'uses',
] as const;

const columns = [
  ...fixedColumns,
  'checksum',
  'uses_left',
  'created_at',
  'created_by',
  'revoked_at',
] as const;

const insertSql = insertInto('grants', columns);

export function insertGrant(tenantId: string, grant: NewGrant): Statement {
  const { expiresAt = null, uses = null } = grant;
  const fixed = [
    tenantId,
    grant.id,
    grant.scope,
    grant.scopeId,
    encode(grant.tool),
    encodeOrNull(grant.exact),
    encodeOrNull(grant.params),
    expiresAt,
    uses,
  ];
  const rest = [uses, grant.createdAt, encode(grant.createdBy), null];
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

const revokeSql = `UPDATE grants SET revoked_at = ?
  WHERE tenant_id = ? AND id = ? AND revoked_at IS NULL`;

export function revokeGrant(tenantId: string, grantId: string, at: number): Statement {
  return { sql: revokeSql, params: [at, tenantId, grantId], expect: 1 };
}

export const useGrantSql = `UPDATE grants SET uses_left = uses_left - 1
  WHERE tenant_id = ? AND id = ? AND uses_left > 0 AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > ?)`;

/** If no use is left, nothing of the append is stored. */
export function useGrant(tenantId: string, grantId: string, at: number): Statement {
  return { sql: useGrantSql, params: [tenantId, grantId, at], expect: 1 };
}

export function decodeGrant(row: Row): Grant {
  const { id, tool, exact, params, usesLeft } = decodeGrantRecord(row);
  return { id, tool, ...defined({ exact, params, usesLeft }) };
}

export function decodeGrantRecord(row: Row): GrantRecord {
  const id = text(row, 'id');
  checkIntact(`Grant ${id}`, row, fixedColumns);
  const uses = numberOrNull(row, 'uses');
  const usesLeft = numberOrNull(row, 'uses_left');
  if ((uses === null) !== (usesLeft === null) || (usesLeft ?? 0) > (uses ?? 0)) {
    throw corrupt(`Grant ${id}`, 'usesLeft is greater than uses');
  }
  return {
    id,
    tool: freeText(row, 'tool'),
    scope: text(row, 'scope') as GrantRecord['scope'],
    scopeId: text(row, 'scope_id'),
    createdAt: number(row, 'created_at'),
    createdBy: json(row, 'created_by') as GrantRecord['createdBy'],
    ...defined({
      exact: (jsonOrNull(row, 'exact') ?? undefined) as GrantRecord['exact'],
      params: (jsonOrNull(row, 'params') ?? undefined) as GrantRecord['params'],
      expiresAt: numberOrNull(row, 'expires_at') ?? undefined,
      uses: uses ?? undefined,
      usesLeft: usesLeft ?? undefined,
      revokedAt: numberOrNull(row, 'revoked_at') ?? undefined,
    }),
  };
}
