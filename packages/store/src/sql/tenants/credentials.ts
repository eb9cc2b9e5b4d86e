/** Keys of providers, encrypted before they are stored (E8). */
import type { CredentialRecord, CredentialReseal, SealedCredential } from '@relay/core';
import type { Row, Statement } from '../../drivers/driver.ts';
import { insertInto } from '../statements.ts';
import {
  checkIntact,
  checksumOf,
  encode,
  encodeOrNull,
  freeText,
  freeTextOrNull,
  number,
  text,
} from '../../codec/values.ts';

/** A secret must not be sent to another URL: the checksum covers what belongs together. */
const checksumColumns = ['tenant_id', 'provider', 'id', 'sealed', 'base_url'];

const columns = [...checksumColumns, 'checksum', 'label', 'last4', 'created_at', 'updated_at'];

const replaced = columns.slice(2).map((column) => `${column} = excluded.${column}`);

const putSql = `${insertInto('credentials', columns)}
  ON CONFLICT (tenant_id, provider) DO UPDATE SET ${replaced.join(', ')}`;

export function putCredential(tenantId: string, record: CredentialRecord): Statement {
  const { id, label, last4, createdAt, updatedAt } = record;
  const sealed = encode(record.sealed);
  const bound = [tenantId, encode(record.provider), id, sealed, encodeOrNull(record.baseUrl)];
  const rest = [encodeOrNull(label), encode(last4), createdAt, updatedAt];
  return { sql: putSql, params: [...bound, checksumOf(...bound), ...rest] };
}

const selectSql = `SELECT ${columns.join(', ')} FROM credentials`;

export function selectCredential(tenantId: string, provider: string): Statement {
  const sql = `${selectSql} WHERE tenant_id = ? AND provider = ?`;
  return { sql, params: [tenantId, encode(provider)] };
}

export const selectCredentialsSql = `${selectSql} WHERE tenant_id = ?
  ORDER BY created_at DESC, id DESC`;

export const selectSealedSql = `${selectSql} WHERE id > ? ORDER BY id LIMIT ?`;

export function selectSealed({ after = '', limit }: { after?: string; limit: number }): Statement {
  return { sql: selectSealedSql, params: [after, Math.min(limit, Number.MAX_SAFE_INTEGER)] };
}

const deleteSql = 'DELETE FROM credentials WHERE tenant_id = ? AND provider = ?';

export function deleteCredential(tenantId: string, provider: string): Statement {
  return { sql: deleteSql, params: [tenantId, encode(provider)], expect: 1 };
}

export const selectToResealSql = `${selectSql} WHERE tenant_id = ? AND id = ?`;

const resealSql = `UPDATE credentials SET sealed = ?, checksum = ?
  WHERE tenant_id = ? AND id = ? AND sealed = ? AND checksum = ?`;

/** The checksum is compared too, so that the other fields must be unchanged. */
export function reseal(row: Row, { from, to }: CredentialReseal): Statement | undefined {
  checkIntegrity(row);
  const sealed = text(row, 'sealed');
  if (sealed !== encode(from)) return undefined;
  const resealed: Row = { ...row, sealed: encode(to) };
  const checksum = checksumOf(...checksumColumns.map((column) => resealed[column] ?? null));
  const before = [text(row, 'tenant_id'), text(row, 'id'), sealed, number(row, 'checksum')];
  return { sql: resealSql, params: [encode(to), checksum, ...before], expect: 1 };
}

export function decodeCredential(row: Row): CredentialRecord {
  checkIntegrity(row);
  return {
    id: text(row, 'id'),
    provider: freeText(row, 'provider'),
    label: freeTextOrNull(row, 'label'),
    baseUrl: freeTextOrNull(row, 'base_url'),
    last4: freeText(row, 'last4'),
    sealed: freeText(row, 'sealed'),
    createdAt: number(row, 'created_at'),
    updatedAt: number(row, 'updated_at'),
  };
}

export function decodeSealed(row: Row): SealedCredential {
  const { provider, id, sealed } = decodeCredential(row);
  return { tenantId: text(row, 'tenant_id'), provider, id, sealed };
}

function checkIntegrity(row: Row): void {
  checkIntact(`Credential ${text(row, 'id')}`, row, checksumColumns);
}
