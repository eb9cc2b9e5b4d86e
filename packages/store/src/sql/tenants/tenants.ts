/** Tenants and their API keys. */
import type { KeyRecord, KeyUse, Page, TenantChange, TenantRecord, Workspace } from '@relay/core';
import { defined, RelayError } from '@relay/protocol';
import type { Row, Statement } from '../../drivers/driver.ts';
import { selectRows } from '../lists.ts';
import { insertInto } from '../statements.ts';
import { column } from '../../codec/records.ts';
import { type RowSigner, SignedTable } from '../../codec/signed-table.ts';
import { encode } from '../../codec/values.ts';

interface TenantRow extends TenantRecord {
  /** The versions of the policies in force, by their agent in JSON. */
  readonly policies: Readonly<Record<string, number>>;
}

/** Settings and policies limit what a tenant may do; the name decides whose it is. */
export const tenantTable = new SignedTable<TenantRow>({
  name: 'tenants',
  subject: 'Tenant',
  key: ['id'],
  codecs: {
    id: column.text(),
    name: column.freeText,
    createdAt: column.number,
    pausedAt: column.nullable(column.number),
    settings: column.json(),
    policies: column.json(),
  },
});

const tenantColumns = tenantTable.columns;

const insertSql = `${insertInto('tenants', tenantColumns)} ON CONFLICT (name) DO NOTHING`;

const selectSql = `SELECT ${tenantColumns.join(', ')} FROM tenants`;
const selectByNameSql = `${selectSql} WHERE name = ?`;

export function ensureTenantUnit(
  signer: RowSigner,
  { id, name, at }: { id: string; name: string; at: number },
): Statement[] {
  const row = { id, name, createdAt: at, pausedAt: null, settings: {}, policies: {} };
  return [
    { sql: insertSql, params: tenantTable.encode(signer, row) },
    { sql: selectByNameSql, params: [encode(name)], expect: 1 },
  ];
}

export function selectTenantByName(name: string): Statement {
  return { sql: selectByNameSql, params: [encode(name)] };
}

export const selectTenantSql = `${selectSql} WHERE id = ?`;

export function decodeTenant(signer: RowSigner, row: Row): TenantRecord {
  const { policies: _, ...record } = tenantTable.decode(signer, row);
  return record;
}

export function noTenant(id: string): RelayError {
  return new RelayError('internal', `There is no tenant ${id}`);
}

/** Undefined if the settings are not the expected ones. */
export function updateTenant(
  signer: RowSigner,
  row: Row,
  { pausedAt, settings, expectedSettings }: TenantChange,
): Statement | undefined {
  const before = tenantTable.decode(signer, row);
  const isExpected =
    expectedSettings === undefined || encode(expectedSettings) === encode(before.settings);
  return isExpected ? tenantTable.update(signer, row, defined({ pausedAt, settings })) : undefined;
}

/** A match in changed settings may be wrong: it is verified. */
export const selectWithWorkspaceSql = `${selectSql}
  WHERE settings LIKE '%"workspace"%' ORDER BY id`;

/** None if the row is not as it was written. */
export function workspaceOf(signer: RowSigner, row: Row): Workspace[] {
  const { id: tenantId, settings } = tenantTable.find(signer, row) ?? {};
  const named = typeof settings === 'object' && settings !== null && !Array.isArray(settings);
  const folder = named ? (settings as { workspace?: unknown }).workspace : undefined;
  return tenantId !== undefined && typeof folder === 'string' ? [{ tenantId, folder }] : [];
}

export const selectIdsSql = 'SELECT id FROM tenants ORDER BY id';
export const selectPausedSql = 'SELECT id FROM tenants WHERE paused_at IS NOT NULL ORDER BY id';

type KeyRow = KeyRecord & { readonly hash: string };

/** A key must not work for another tenant, with more scopes or for longer than it was made for. */
export const keyTable = new SignedTable<KeyRow>({
  name: 'keys',
  subject: 'Key',
  key: ['id'],
  codecs: {
    hash: column.text(),
    id: column.text(),
    tenantId: column.text(),
    kind: column.text(),
    parent: column.nullable(column.text()),
    name: column.freeText,
    owner: column.nullable(column.freeText),
    role: column.nullable(column.freeText),
    scopes: column.json(),
    groups: column.json(),
    createdAt: column.number,
    expiresAt: column.nullable(column.number),
    revokedAt: column.nullable(column.number),
    lastUsedAt: column.nullable(column.number),
    replaces: column.json(),
    replacedBy: column.nullable(column.text()),
  },
  unsigned: ['lastUsedAt'],
});

const keyColumns = keyTable.columns;

const insertKeySql = insertInto('keys', keyColumns);

export function insertKey(signer: RowSigner, key: KeyRecord, hash: string): Statement {
  return { sql: insertKeySql, params: keyTable.encode(signer, { ...key, hash }) };
}

export const selectKeyByHashSql = `SELECT ${keyColumns.join(', ')} FROM keys WHERE hash = ?`;

export const selectKeySql = `SELECT ${keyColumns.join(', ')} FROM keys WHERE tenant_id = ? AND id = ?`;

export function updateKeyUse({ tenantId, keyId, at }: KeyUse): Statement {
  const sql = `UPDATE keys SET last_used_at = ?
    WHERE tenant_id = ? AND id = ? AND (last_used_at IS NULL OR last_used_at < ?)`;
  return { sql, params: [at, tenantId, keyId, at] };
}

/** Sign-ins have a parent, and always expire. */
export function deleteSignIns(expiredBefore: number, limit: number): Statement {
  const sql = `DELETE FROM keys WHERE id IN (
    SELECT id FROM keys WHERE parent IS NOT NULL AND expires_at < ? ORDER BY expires_at LIMIT ?)`;
  return { sql, params: [expiredBefore, limit] };
}

export function selectKeys(tenantId: string, page: Page): Statement {
  return selectRows({ tenantId, table: 'keys' }, keyColumns, page);
}

/** None if the row is not as it was written. */
export function decodeKey(signer: RowSigner, row: Row): KeyRecord[] {
  const found = keyTable.find(signer, row);
  if (found === undefined) return [];
  const { hash: _, ...key } = found;
  return [key];
}
