import type { Grant, GrantFilter, GrantRecord, NewGrant, Page } from '@relay/core';
import type { Decider } from '@relay/protocol';
import type { Row, SqlValue, Statement } from '../../drivers/driver.ts';
import { besides, rowsOn, selectPage } from '../lists.ts';
import type { Condition } from '../lists.ts';
import {
  checksumOf,
  corrupt,
  encode,
  encodeOrNull,
  freeText,
  integer,
  integerOrNull,
  json,
  jsonOrNull,
  text,
} from '../../codec/values.ts';

/** What a grant allows, in the order in which it is hashed and inserted. */
const ruleColumns = ['id', 'scope', 'scope_id', 'tool', 'exact', 'params'] as const;
/** When it ends without being revoked. */
const boundColumns = ['expires_at', 'uses'] as const;

const insertSql = `INSERT INTO grants
  (${[...ruleColumns, ...boundColumns].join(', ')}, uses_left, tenant_id, checksum, created_at, created_by)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;

export function insertGrant(tenantId: string, grant: NewGrant): Statement {
  const rule = [
    grant.id,
    grant.scope,
    grant.scopeId,
    encode(grant.tool),
    encodeOrNull(grant.exact),
    encodeOrNull(grant.params),
  ];
  const { expiresAt = null, uses = null } = grant;
  const checksum = grantChecksum(tenantId, rule, [expiresAt, uses]);
  const made = [tenantId, checksum, grant.createdAt, encode(grant.createdBy)];
  return { sql: insertSql, params: [...rule, expiresAt, uses, uses, ...made] };
}

/** A grant lets tools run without approval: a damaged one must not widen what a person allowed. */
function grantChecksum(
  tenantId: string,
  rule: readonly (string | null)[],
  bounds: readonly (number | null)[],
): number {
  return checksumOf(tenantId, ...[...rule, ...bounds].map((value) => value ?? ''));
}

const activeSql = `g.revoked_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > ?)
    AND (g.uses_left IS NULL OR g.uses_left > 0)`;

const columns = [
  ...ruleColumns,
  ...boundColumns,
  'uses_left',
  'revoked_at',
  'created_at',
  'created_by',
  'tenant_id',
  'checksum',
];

export const selectGrantsSql = `SELECT ${columns.join(', ')} FROM grants g
  WHERE g.tenant_id = ? AND g.scope_id IN (?, ?, ?)
    AND ((g.scope = 'run' AND g.scope_id = ?) OR (g.scope = 'conversation' AND g.scope_id = ?)
      OR (g.scope = 'tenant' AND g.scope_id = ?))
    AND ${activeSql}
  ORDER BY g.created_at, g.id`;

export function selectGrantsParams(
  tenantId: string,
  scope: { readonly runId: string; readonly conversationId: string; readonly now: number },
): readonly SqlValue[] {
  const ids = [scope.runId, scope.conversationId, tenantId];
  return [tenantId, ...ids, ...ids, scope.now];
}

export const selectGrantSql = `SELECT ${columns.join(', ')} FROM grants
  WHERE tenant_id = ? AND id = ?`;

export function selectGrantList(tenantId: string, filter: GrantFilter, page: Page): Statement {
  const { scope, scopeId, tool, activeAt } = filter;
  const wanted = [
    { column: 'scope', value: scope },
    { column: 'scope_id', value: scopeId },
    { column: 'tool', value: tool === undefined ? undefined : encode(tool) },
  ];
  const others: Condition[] = wanted.flatMap(({ column, value }) =>
    value === undefined ? [] : [besides({ column, values: [value] })],
  );
  if (activeAt !== undefined) {
    others.push({ sql: activeSql.replaceAll('g.', 't.'), params: [activeAt] });
  }
  const list = { tenantId, table: 'grants', at: 'created_at', id: 'id', leading: [], others };
  const rows = { tenantId, table: 'grants', columns: columns.map((column) => `r.${column}`) };
  return rowsOn(selectPage(list, page), rows);
}

const revokeSql = `UPDATE grants SET revoked_at = ?
  WHERE tenant_id = ? AND id = ? AND revoked_at IS NULL`;

export function revokeGrant(tenantId: string, grantId: string, at: number): Statement {
  return { sql: revokeSql, params: [at, tenantId, grantId], expect: 1 };
}

export const useGrantSql = `UPDATE grants SET uses_left = uses_left - 1
  WHERE tenant_id = ? AND id = ? AND uses_left > 0 AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > ?)`;

/** Uses one of its calls; if none is left, nothing of the step is stored. */
export function useGrant(tenantId: string, grantId: string, at: number): Statement {
  return { sql: useGrantSql, params: [tenantId, grantId, at], expect: 1 };
}

export function decodeGrant(row: Row): Grant {
  const { id, tool, exact, params, usesLeft } = decodeGrantRecord(row);
  return {
    id,
    tool,
    ...(exact === undefined ? {} : { exact }),
    ...(params === undefined ? {} : { params }),
    ...(usesLeft === undefined ? {} : { usesLeft }),
  };
}

export function decodeGrantRecord(row: Row): GrantRecord {
  const id = text(row, 'id');
  const rule = ruleColumns.map((column) => row[column] as string | null);
  const [expiresAt = null, uses = null] = boundColumns.map((name) => integerOrNull(row, name));
  if (grantChecksum(text(row, 'tenant_id'), rule, [expiresAt, uses]) !== row['checksum']) {
    throw corrupt(`Grant ${id}`, 'it does not match its checksum');
  }
  const usesLeft = integerOrNull(row, 'uses_left');
  if ((uses === null) !== (usesLeft === null) || (usesLeft ?? 0) > (uses ?? 0)) {
    throw corrupt(`Grant ${id}`, 'it has more uses left than it was given');
  }
  const exact = jsonOrNull(row, 'exact') as Record<string, unknown> | null;
  const params = jsonOrNull(row, 'params') as Record<string, string> | null;
  const revokedAt = integerOrNull(row, 'revoked_at');
  return {
    id,
    tool: freeText(row, 'tool'),
    ...(exact === null ? {} : { exact }),
    ...(params === null ? {} : { params }),
    scope: text(row, 'scope') as GrantRecord['scope'],
    scopeId: text(row, 'scope_id'),
    createdAt: integer(row, 'created_at'),
    createdBy: json(row, 'created_by') as Decider,
    ...(expiresAt === null ? {} : { expiresAt }),
    ...(uses === null ? {} : { uses }),
    ...(usesLeft === null ? {} : { usesLeft }),
    ...(revokedAt === null ? {} : { revokedAt }),
  };
}
