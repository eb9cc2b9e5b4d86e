/** API keys of tenants. Only the hash of a key is stored (E8). */
import type { KeyRecord, Page } from '@relay/core';
import type { Row, Statement } from '../../drivers/driver.ts';
import { rowsOn, selectPage } from '../lists.ts';
import {
  checksumOf,
  corrupt,
  encode,
  encodeOrNull,
  freeText,
  freeTextOrNull,
  integer,
  integerOrNull,
  json,
  text,
} from '../../codec/values.ts';

/** The fields of a key that never change, in the order in which they are hashed and inserted. */
const fixedColumns = [
  'id',
  'tenant_id',
  'hash',
  'name',
  'owner',
  'scopes',
  'created_at',
  'expires_at',
] as const;

const columns = [...fixedColumns, 'revoked_at', 'checksum'] as const;

const insertSql = `INSERT INTO keys (${columns.join(', ')})
  VALUES (${columns.map(() => '?').join(', ')})`;

export function insertKey(key: KeyRecord, hash: string): Statement {
  const fixed = [
    key.id,
    key.tenantId,
    hash,
    encode(key.name),
    encodeOrNull(key.owner),
    encode(key.scopes),
    key.createdAt,
    key.expiresAt,
  ];
  return { sql: insertSql, params: [...fixed, key.revokedAt, keyChecksum(fixed)] };
}

/** A damaged key must not work for another tenant or with more scopes. */
function keyChecksum(fixed: readonly (string | number | null)[]): number {
  return checksumOf(...fixed.map((value) => value ?? ''));
}

export const selectKeyByHashSql = `SELECT ${columns.join(', ')} FROM keys WHERE hash = ?`;

export const selectKeySql = `SELECT ${columns.join(', ')} FROM keys WHERE tenant_id = ? AND id = ?`;

export function selectKeys(tenantId: string, page: Page): Statement {
  const list = { tenantId, table: 'keys', at: 'created_at', id: 'id', leading: [], others: [] };
  const rows = { tenantId, table: 'keys', columns: columns.map((column) => `r.${column}`) };
  return rowsOn(selectPage(list, page), rows);
}

const revokeSql = `UPDATE keys SET revoked_at = ?
  WHERE tenant_id = ? AND id = ? AND revoked_at IS NULL`;

export function revokeKey(tenantId: string, keyId: string, at: number): Statement {
  return { sql: revokeSql, params: [at, tenantId, keyId], expect: 1 };
}

export function decodeKey(row: Row): KeyRecord {
  const id = text(row, 'id');
  const fixed = fixedColumns.map((column) => row[column] as string | number | null);
  if (keyChecksum(fixed) !== row['checksum']) {
    throw corrupt(`Key ${id}`, 'it does not match its checksum');
  }
  return {
    id,
    tenantId: text(row, 'tenant_id'),
    name: freeText(row, 'name'),
    owner: freeTextOrNull(row, 'owner'),
    scopes: json(row, 'scopes') as string[],
    createdAt: integer(row, 'created_at'),
    expiresAt: integerOrNull(row, 'expires_at'),
    revokedAt: integerOrNull(row, 'revoked_at'),
  };
}
