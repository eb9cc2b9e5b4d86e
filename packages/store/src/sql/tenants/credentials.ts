/** Keys of providers, encrypted before they are stored (E8). */
import type { CredentialRecord, CredentialReseal, SealedCredential } from '@relay/core';
import type { Row, SqlValue, Statement } from '../../drivers/driver.ts';
import {
  checksumOf,
  corrupt,
  encode,
  encodeOrNull,
  freeText,
  freeTextOrNull,
  integer,
  text,
} from '../../codec/values.ts';

const columns = [
  'tenant_id',
  'provider',
  'id',
  'sealed',
  'base_url',
  'checksum',
  'label',
  'last4',
  'created_at',
  'updated_at',
] as const;

const replaced = columns
  .slice(2)
  .map((column) => `${column} = excluded.${column}`)
  .join(', ');

const putSql = `INSERT INTO credentials (${columns.join(', ')})
  VALUES (${columns.map(() => '?').join(', ')})
  ON CONFLICT (tenant_id, provider) DO UPDATE SET ${replaced}`;

export function putCredential(tenantId: string, record: CredentialRecord): Statement {
  const bound: Bound = [
    tenantId,
    encode(record.provider),
    record.id,
    encode(record.sealed),
    encodeOrNull(record.baseUrl),
  ];
  const { label, last4, createdAt, updatedAt } = record;
  const rest = [encodeOrNull(label), encode(last4), createdAt, updatedAt];
  return { sql: putSql, params: [...bound, boundChecksum(bound), ...rest] };
}

/** Covers the fields that belong together: a secret must not be sent to another URL. */
type Bound = readonly [
  tenantId: string,
  provider: string,
  id: string,
  sealed: string,
  baseUrl: string | null,
];

function boundChecksum(bound: Bound): number {
  return checksumOf(...bound.map((value) => value ?? ''));
}

const selectSql = `SELECT ${columns.join(', ')} FROM credentials`;

export function selectCredential(tenantId: string, provider: string): Statement {
  const sql = `${selectSql} WHERE tenant_id = ? AND provider = ?`;
  return { sql, params: [tenantId, encode(provider)] };
}

export const selectCredentialsSql = `${selectSql} WHERE tenant_id = ?
  ORDER BY created_at DESC, id DESC`;

export const selectSealedSql = `${selectSql} WHERE id > ? ORDER BY id LIMIT ?`;

export function sealedParams(page: { after?: string; limit: number }): readonly SqlValue[] {
  return [page.after ?? '', Math.min(page.limit, Number.MAX_SAFE_INTEGER)];
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
  const [tenantId, provider, id, sealed, baseUrl] = boundOf(row);
  if (sealed !== encode(from)) return undefined;
  const checksum = boundChecksum([tenantId, provider, id, encode(to), baseUrl]);
  const before = [tenantId, id, sealed, integer(row, 'checksum')];
  return { sql: resealSql, params: [encode(to), checksum, ...before], expect: 1 };
}

export function decodeCredential(row: Row): CredentialRecord {
  const [, , id] = boundOf(row);
  return {
    id,
    provider: freeText(row, 'provider'),
    label: freeTextOrNull(row, 'label'),
    baseUrl: freeTextOrNull(row, 'base_url'),
    last4: freeText(row, 'last4'),
    sealed: freeText(row, 'sealed'),
    createdAt: integer(row, 'created_at'),
    updatedAt: integer(row, 'updated_at'),
  };
}

export function decodeSealed(row: Row): SealedCredential {
  const [tenantId, , id] = boundOf(row);
  return { tenantId, provider: freeText(row, 'provider'), id, sealed: freeText(row, 'sealed') };
}

/** Throws if these were not stored together. */
function boundOf(row: Row): Bound {
  const id = text(row, 'id');
  const bound: Bound = [
    text(row, 'tenant_id'),
    text(row, 'provider'),
    id,
    text(row, 'sealed'),
    row['base_url'] === null ? null : text(row, 'base_url'),
  ];
  if (boundChecksum(bound) !== row['checksum']) {
    throw corrupt(`Credential ${id}`, 'it does not match its checksum');
  }
  return bound;
}
