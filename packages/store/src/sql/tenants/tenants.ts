import type { TenantChange, TenantRecord, Workspace } from '@relay/core';
import { RelayError } from '@relay/protocol';
import type { Row, SqlValue, Statement } from '../../drivers/driver.ts';
import {
  checksumOf,
  corrupt,
  encode,
  freeText,
  integer,
  integerOrNull,
  json,
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

export const selectTenantSql = `SELECT id, name, created_at, paused_at, settings, settings_checksum
  FROM tenants WHERE id = ?`;

/** Settings limit what a tenant may do: damaged ones must not allow more. */
export function decodeTenant(row: Row): TenantRecord {
  const id = text(row, 'id');
  if (checksumOf(id, text(row, 'settings')) !== row['settings_checksum']) {
    throw corrupt(`The settings of tenant ${id}`, 'they do not match their checksum');
  }
  return {
    id,
    name: freeText(row, 'name'),
    createdAt: integer(row, 'created_at'),
    pausedAt: integerOrNull(row, 'paused_at'),
    settings: json(row, 'settings'),
  };
}

export function noTenant(id: string): RelayError {
  return new RelayError('internal', `There is no tenant ${id}`);
}

/** Nothing to change is no statement. */
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
export const selectWithWorkspaceSql = `SELECT id, name, created_at, paused_at, settings, settings_checksum
  FROM tenants WHERE settings LIKE '%"workspace"%' ORDER BY id`;

export function workspaceOf({ id, settings }: Pick<TenantRecord, 'id' | 'settings'>): Workspace[] {
  const named = typeof settings === 'object' && settings !== null && !Array.isArray(settings);
  const folder = named ? (settings as { workspace?: unknown }).workspace : undefined;
  return typeof folder === 'string' ? [{ tenantId: id, folder }] : [];
}

export const selectPausedSql = 'SELECT id FROM tenants WHERE paused_at IS NOT NULL ORDER BY id';
