/** Tenants and their API keys. */
import type { KeyRecord, Page, TenantChange, TenantRecord, Workspace } from '@relay/core';
import { RelayError } from '@relay/protocol';
import type { Row, SqlValue, Statement } from '../../drivers/driver.ts';
import { selectRows } from '../lists.ts';
import { insertInto } from '../statements.ts';
import { column, RecordCodec } from '../../codec/records.ts';
import {
  checkIntact,
  checksumOf,
  encode,
  freeText,
  json,
  number,
  numberOrNull,
  text,
} from '../../codec/values.ts';

const insertSql = `INSERT INTO tenants (id, name, created_at, settings, settings_checksum)
  VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING`;

const selectByNameSql = 'SELECT id, name FROM tenants WHERE name = ?';

export function ensureTenantUnit(tenant: { id: string; name: string; at: number }): Statement[] {
  const name = encode(tenant.name);
  const settings = encode({});
  const checksum = checksumOf(tenant.id, settings);
  return [
    { sql: insertSql, params: [tenant.id, name, tenant.at, settings, checksum] },
    { sql: selectByNameSql, params: [name], expect: 1 },
  ];
}

export function selectTenantByName(name: string): Statement {
  return { sql: selectByNameSql, params: [encode(name)] };
}

export function decodeTenantName(row: Row): { id: string; name: string } {
  return { id: text(row, 'id'), name: freeText(row, 'name') };
}

const selectSql = `SELECT id, name, created_at, paused_at, settings, settings_checksum FROM tenants`;

export const selectTenantSql = `${selectSql} WHERE id = ?`;

/** Settings limit what a tenant may do: damaged ones must not allow more. */
export function decodeTenant(row: Row): TenantRecord {
  const id = text(row, 'id');
  checkIntact(`Tenant ${id}`, row, ['id', 'settings'], 'settings_checksum');
  return {
    id,
    name: freeText(row, 'name'),
    createdAt: number(row, 'created_at'),
    pausedAt: numberOrNull(row, 'paused_at'),
    settings: json(row, 'settings'),
  };
}

export function noTenant(id: string): RelayError {
  return new RelayError('internal', `There is no tenant ${id}`);
}

/** No statement if nothing changes. */
export function updateTenant(tenantId: string, change: TenantChange): Statement[] {
  const columns: string[] = [];
  const params: SqlValue[] = [];
  const before: SqlValue[] = [];
  if (change.pausedAt !== undefined) {
    columns.push('paused_at');
    params.push(change.pausedAt);
  }
  if (change.settings !== undefined) {
    const settings = encode(change.settings);
    columns.push('settings', 'settings_checksum');
    params.push(settings, checksumOf(tenantId, settings));
  }
  if (columns.length === 0) return [];
  const assignments = columns.map((column) => `${column} = ?`).join(', ');
  const { expectedSettings } = change;
  const unchanged = expectedSettings === undefined ? '' : ' AND settings = ?';
  if (expectedSettings !== undefined) before.push(encode(expectedSettings));
  const sql = `UPDATE tenants SET ${assignments} WHERE id = ?${unchanged}`;
  return [{ sql, params: [...params, tenantId, ...before], expect: 1 }];
}

/** A match in damaged settings may be wrong: `decodeTenant` detects it. */
export const selectWithWorkspaceSql = `${selectSql}
  WHERE settings LIKE '%"workspace"%' ORDER BY id`;

export function workspaceOf({ id, settings }: Pick<TenantRecord, 'id' | 'settings'>): Workspace[] {
  const named = typeof settings === 'object' && settings !== null && !Array.isArray(settings);
  const folder = named ? (settings as { workspace?: unknown }).workspace : undefined;
  return typeof folder === 'string' ? [{ tenantId: id, folder }] : [];
}

export const selectPausedSql = 'SELECT id FROM tenants WHERE paused_at IS NOT NULL ORDER BY id';

/** A damaged key must not work for another tenant or with more scopes: the checksum covers these. */
const keyCodec = new RecordCodec<Omit<KeyRecord, 'revokedAt'>>({
  id: column.text(),
  tenantId: column.text(),
  name: column.freeText,
  owner: column.nullable(column.freeText),
  role: column.nullable(column.freeText),
  scopes: column.json(),
  groups: column.json(),
  createdAt: column.number,
  expiresAt: column.nullable(column.number),
});

const keyFixedColumns = ['hash', ...keyCodec.columns];
const keyColumns = [...keyFixedColumns, 'revoked_at', 'checksum'];

const insertKeySql = insertInto('keys', keyColumns);

export function insertKey(key: KeyRecord, hash: string): Statement {
  const fixed = [hash, ...keyCodec.encode(key)];
  return { sql: insertKeySql, params: [...fixed, key.revokedAt, checksumOf(...fixed)] };
}

export const selectKeyByHashSql = `SELECT ${keyColumns.join(', ')} FROM keys WHERE hash = ?`;

export const selectKeySql = `SELECT ${keyColumns.join(', ')} FROM keys WHERE tenant_id = ? AND id = ?`;

export function selectKeys(tenantId: string, page: Page): Statement {
  return selectRows({ tenantId, table: 'keys' }, keyColumns, page);
}

export function revokeKey(tenantId: string, keyId: string, at: number): Statement {
  const sql = `UPDATE keys SET revoked_at = ?
    WHERE tenant_id = ? AND id = ? AND revoked_at IS NULL`;
  return { sql, params: [at, tenantId, keyId], expect: 1 };
}

export function decodeKey(row: Row): KeyRecord {
  checkIntact(`Key ${text(row, 'id')}`, row, keyFixedColumns);
  return { ...keyCodec.decode(row), revokedAt: numberOrNull(row, 'revoked_at') };
}
