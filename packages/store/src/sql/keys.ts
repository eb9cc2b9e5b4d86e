/** Tenants and the keys that speak for them. A key is known by its hash alone (E8). */
import type { KeyRecord } from '@relay/core';
import type { Row, Statement } from '../drivers/driver.ts';
import { encode, freeText, integer, integerOrNull, json, text } from './stored.ts';

const insertTenantSql = `INSERT INTO tenants (id, name, created_at) VALUES (?, ?, ?)
  ON CONFLICT (name) DO NOTHING`;

const selectTenantSql = 'SELECT id, name FROM tenants WHERE name = ?';

export function ensureTenantUnit(tenant: { id: string; name: string; at: number }): Statement[] {
  const name = encode(tenant.name);
  return [
    { sql: insertTenantSql, params: [tenant.id, name, tenant.at] },
    { sql: selectTenantSql, params: [name], expect: 1 },
  ];
}

export function selectTenant(name: string): Statement {
  return { sql: selectTenantSql, params: [encode(name)] };
}

export function decodeTenant(row: Row): { id: string; name: string } {
  return { id: text(row, 'id'), name: freeText(row, 'name') };
}

const insertKeySql = `INSERT INTO keys
  (id, tenant_id, hash, name, scopes, created_at, expires_at, revoked_at)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?)`;

export function insertKey(key: KeyRecord, hash: string): Statement {
  return {
    sql: insertKeySql,
    params: [
      key.id,
      key.tenantId,
      hash,
      encode(key.name),
      encode(key.scopes),
      key.createdAt,
      key.expiresAt,
      key.revokedAt,
    ],
  };
}

export const selectKeySql = `SELECT id, tenant_id, name, scopes, created_at, expires_at, revoked_at
  FROM keys WHERE hash = ?`;

export function decodeKey(row: Row): KeyRecord {
  return {
    id: text(row, 'id'),
    tenantId: text(row, 'tenant_id'),
    name: freeText(row, 'name'),
    scopes: json(row, 'scopes') as string[],
    createdAt: integer(row, 'created_at'),
    expiresAt: integerOrNull(row, 'expires_at'),
    revokedAt: integerOrNull(row, 'revoked_at'),
  };
}
