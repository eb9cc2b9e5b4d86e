/** Keys of providers, encrypted before they are stored (E8). */
import type { CredentialRecord, CredentialReseal, SealedCredential } from '@relay/core';
import type { Row, Statement } from '../../drivers/driver.ts';
import { insertInto } from '../statements.ts';
import { column } from '../../codec/records.ts';
import { type RowSigner, SignedTable } from '../../codec/signed-table.ts';
import { encode } from '../../codec/values.ts';

type CredentialRow = CredentialRecord & { readonly tenantId: string };

/** A secret must not be sent to another URL, nor be used by another tenant. */
export const credentialTable = new SignedTable<CredentialRow>({
  name: 'credentials',
  subject: 'Credential',
  key: ['tenant_id', 'provider'],
  codecs: {
    tenantId: column.text(),
    provider: column.freeText,
    id: column.text(),
    sealed: column.freeText,
    baseUrl: column.nullable(column.freeText),
    label: column.nullable(column.freeText),
    last4: column.freeText,
    createdAt: column.number,
    updatedAt: column.number,
  },
});

const { columns } = credentialTable;

const replaced = columns.slice(2).map((column) => `${column} = excluded.${column}`);

const putSql = `${insertInto('credentials', columns)}
  ON CONFLICT (tenant_id, provider) DO UPDATE SET ${replaced.join(', ')}`;

export function putCredential(
  signer: RowSigner,
  tenantId: string,
  record: CredentialRecord,
): Statement {
  return { sql: putSql, params: credentialTable.encode(signer, { ...record, tenantId }) };
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

export function reseal(
  signer: RowSigner,
  row: Row,
  { from, to }: CredentialReseal,
): Statement | undefined {
  const record = credentialTable.find(signer, row);
  return record?.sealed === from ? credentialTable.update(signer, row, { sealed: to }) : undefined;
}

export function decodeCredential(signer: RowSigner, row: Row): CredentialRecord {
  const { tenantId: _, ...record } = credentialTable.decode(signer, row);
  return record;
}

/** Unverified: one damaged row must not keep a server from starting. `reseal` verifies it. */
export function decodeSealed(row: Row): SealedCredential {
  const { tenantId, provider, id, sealed, baseUrl, label } = credentialTable.decodeUnverified(row);
  return { tenantId, provider, id, sealed, baseUrl, label };
}
