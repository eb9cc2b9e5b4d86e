import type { Grant, GrantedTo, GrantFilter, GrantRecord, NewGrant, Page } from '@relay/core';
import { defined } from '@relay/protocol';
import type { Row, Statement } from '../../drivers/driver.ts';
import { residualFilter, columnFilters, selectRows } from '../lists.ts';
import { insertInto, placeholders } from '../statements.ts';
import { column } from '../../codec/records.ts';
import { type RowSigner, SignedTable } from '../../codec/signed-table.ts';
import { encode, text } from '../../codec/values.ts';

type GrantRow = GrantRecord & { readonly tenantId: string };

/** A grant must not allow more than a person allowed. */
export const grantTable = new SignedTable<GrantRow>({
  name: 'grants',
  subject: 'Grant',
  key: ['id'],
  codecs: {
    tenantId: column.text(),
    id: column.text(),
    scope: column.text(),
    scopeId: column.text(),
    tool: column.freeText,
    exact: column.optional(column.json()),
    params: column.optional(column.json()),
    expiresAt: column.optional(column.number),
    uses: column.optional(column.number),
    approvers: column.optional(column.json()),
    definitionDigest: column.optional(column.text()),
    usesLeft: column.optional(column.number),
    createdAt: column.number,
    createdBy: column.json(),
    revokedAt: column.optional(column.number),
  },
});

const { columns } = grantTable;

const insertSql = insertInto('grants', columns);

export function insertGrant(signer: RowSigner, tenantId: string, grant: NewGrant): Statement {
  const { uses: usesLeft } = grant;
  const row = { ...grant, tenantId, ...defined({ usesLeft }) };
  return { sql: insertSql, params: grantTable.encode(signer, row) };
}

/** The grant of a session ends with it. */
const activeSql = `g.revoked_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > ?)
    AND (g.uses_left IS NULL OR g.uses_left > 0)
    AND (g.scope <> 'session' OR EXISTS (SELECT 1 FROM sessions s WHERE s.id = g.scope_id
      AND COALESCE(s.tenant_id, '') = g.tenant_id AND s.released_at IS NULL AND s.pruning IS NULL))`;

export const selectGrantsSql = `SELECT ${columns.join(', ')} FROM grants g
  WHERE g.tenant_id = ? AND g.scope_id IN (?, ?, ?, ?)
    AND ((g.scope = 'run' AND g.scope_id = ?) OR (g.scope = 'conversation' AND g.scope_id = ?
        AND NOT EXISTS (SELECT 1 FROM conversations c
          WHERE c.tenant_id = g.tenant_id AND c.id = g.scope_id AND c.owner <> ?))
      OR (g.scope = 'session' AND g.scope_id = ?) OR (g.scope = 'tenant' AND g.scope_id = ?))
    AND ${activeSql}
  ORDER BY g.created_at, g.id`;

export function selectGrants(
  tenantId: string,
  scope: GrantedTo & { readonly now: number },
): Statement {
  // No id is empty.
  const { runId = '', conversationId = '', sessionId = '', owner, now } = scope;
  const ids = [runId, conversationId, sessionId, tenantId];
  const held = [runId, conversationId, encode(owner), sessionId, tenantId];
  return { sql: selectGrantsSql, params: [tenantId, ...ids, ...held, now] };
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

export function selectGrantsById(tenantId: string, ids: readonly string[]): Statement {
  const sql = `SELECT ${columns.join(', ')} FROM grants
    WHERE tenant_id = ? AND id IN (${placeholders(ids.length)})`;
  return { sql, params: [tenantId, ...ids] };
}

/** The uses of counted grants by one append, one for each mention. */
export interface GrantUses {
  readonly statements: readonly Statement[];
  /** Whether all of them could be used when they were read. */
  readonly available: boolean;
}

/** Fails the unit: there is no such row. */
const refused: Statement = { sql: 'SELECT id FROM grants WHERE id IS NULL', params: [], expect: 1 };

/** `rows` are those of the grants. If another append uses one first, nothing of this one is stored. */
export function useGrants(
  signer: RowSigner,
  rows: readonly Row[],
  { ids, at }: { readonly ids: readonly string[]; readonly at: number },
): GrantUses {
  const statements = [...new Set(ids)].map((grantId) => {
    const row = rows.find((one) => text(one, 'id') === grantId);
    const grant = row === undefined ? undefined : grantTable.find(signer, row);
    if (row === undefined || grant === undefined) return refused;
    const usesLeft = (grant.usesLeft ?? 0) - ids.filter((id) => id === grantId).length;
    const holds = grant.revokedAt === undefined && (grant.expiresAt ?? Infinity) > at;
    return holds && usesLeft >= 0 ? grantTable.update(signer, row, { usesLeft }) : refused;
  });
  return { statements, available: !statements.includes(refused) };
}

/** None if the row is not as it was written. */
export function decodeGrant(signer: RowSigner, row: Row): Grant[] {
  return decodeGrantRecord(signer, row).map((grant) => {
    const { id, tool, exact, params, usesLeft, approvers, definitionDigest } = grant;
    return { id, tool, ...defined({ exact, params, usesLeft, approvers, definitionDigest }) };
  });
}

/** None if the row is not as it was written. */
export function decodeGrantRecord(signer: RowSigner, row: Row): GrantRecord[] {
  const found = grantTable.find(signer, row);
  if (found === undefined) return [];
  const { tenantId: _, ...record } = found;
  return [record];
}
