/** Keys of providers, encrypted before they are stored (E8). */
import type { CredentialRecord, CredentialReseal, SealedCredential } from '@relay/core';
import type { Row, Statement } from '../../drivers/driver.ts';
import { insertInto } from '../statements.ts';
import { column, RecordCodec } from '../../codec/records.ts';
import { checkIntact, checksumOf, encode, number, text } from '../../codec/values.ts';

/** A secret must not be sent to another URL: the checksum covers what belongs together. */
const checksumCodec = new RecordCodec<
  Pick<CredentialRecord, 'provider' | 'id' | 'sealed' | 'baseUrl'>
>({
  provider: column.freeText,
  id: column.text(),
  sealed: column.freeText,
  baseUrl: column.nullable(column.freeText),
});

const detailCodec = new RecordCodec<
  Pick<CredentialRecord, 'label' | 'last4' | 'createdAt' | 'updatedAt'>
>({
  label: column.nullable(column.freeText),
  last4: column.freeText,
  createdAt: column.number,
  updatedAt: column.number,
});

const checksumColumns = ['tenant_id', ...checksumCodec.columns];
const columns = [...checksumColumns, 'checksum', ...detailCodec.columns];

const replaced = columns.slice(2).map((column) => `${column} = excluded.${column}`);

const putSql = `${insertInto('credentials', columns)}
  ON CONFLICT (tenant_id, provider) DO UPDATE SET ${replaced.join(', ')}`;

export function putCredential(tenantId: string, record: CredentialRecord): Statement {
  const bound = [tenantId, ...checksumCodec.encode(record)];
  return { sql: putSql, params: [...bound, checksumOf(...bound), ...detailCodec.encode(record)] };
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

export function deleteCredential(tenantId: string, provider: string): Statement {
  const sql = 'DELETE FROM credentials WHERE tenant_id = ? AND provider = ?';
  return { sql, params: [tenantId, encode(provider)], expect: 1 };
}

export const selectToResealSql = `${selectSql} WHERE tenant_id = ? AND id = ?`;

/** The checksum is compared too, so that the other fields must be unchanged. */
export function reseal(row: Row, { from, to }: CredentialReseal): Statement | undefined {
  const sql = `UPDATE credentials SET sealed = ?, checksum = ?
    WHERE tenant_id = ? AND id = ? AND sealed = ? AND checksum = ?`;
  checkIntegrity(row);
  const sealed = text(row, 'sealed');
  if (sealed !== encode(from)) return undefined;
  const resealed: Row = { ...row, sealed: encode(to) };
  const checksum = checksumOf(...checksumColumns.map((column) => resealed[column] ?? null));
  const before = [text(row, 'tenant_id'), text(row, 'id'), sealed, number(row, 'checksum')];
  return { sql, params: [encode(to), checksum, ...before], expect: 1 };
}

export function decodeCredential(row: Row): CredentialRecord {
  checkIntegrity(row);
  return { ...checksumCodec.decode(row), ...detailCodec.decode(row) };
}

export function decodeSealed(row: Row): SealedCredential {
  const { provider, id, sealed } = decodeCredential(row);
  return { tenantId: text(row, 'tenant_id'), provider, id, sealed };
}

function checkIntegrity(row: Row): void {
  checkIntact(`Credential ${text(row, 'id')}`, row, checksumColumns);
}
