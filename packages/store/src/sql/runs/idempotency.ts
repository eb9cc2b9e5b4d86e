/** Which run an idempotency key belongs to. */
import type { IdempotencyKey, RunRef } from '@relay/core';
import type { Row, Statement } from '../../drivers/driver.ts';
import { checksumOf, corrupt, encode, freeText, integer, text } from '../../codec/values.ts';

/** Takes a key that is free or has expired; otherwise it changes nothing. */
const takeSql = `INSERT INTO idempotency_keys
    (tenant_id, name, run_id, fingerprint, expires_at, checksum) VALUES (?, ?, ?, ?, ?, ?)
  ON CONFLICT (tenant_id, name) DO UPDATE
    SET run_id = excluded.run_id, fingerprint = excluded.fingerprint,
      expires_at = excluded.expires_at, checksum = excluded.checksum
    WHERE idempotency_keys.expires_at <= ?`;

export function takeKey(run: RunRef, idempotency: IdempotencyKey, now: number): Statement {
  const fixed = [
    run.tenantId,
    encode(idempotency.key),
    run.runId,
    encode(idempotency.fingerprint),
    idempotency.expiresAt,
  ];
  return { sql: takeSql, params: [...fixed, checksumOf(...fixed), now], expect: 1 };
}

const selectSql = `SELECT tenant_id, name, run_id, fingerprint, expires_at, checksum
  FROM idempotency_keys WHERE tenant_id = ? AND name = ?`;

export function selectKeyHolder(tenantId: string, key: string): Statement {
  return { sql: selectSql, params: [tenantId, encode(key)] };
}

export function hasExpired(row: Row, now: number): boolean {
  return integer(row, 'expires_at') <= now;
}

const sweepSql = `DELETE FROM idempotency_keys WHERE tenant_id = ? AND name IN (
  SELECT name FROM idempotency_keys WHERE tenant_id = ? AND expires_at <= ? LIMIT 20)`;

/** Taking a key deletes a few expired ones. */
export function sweepKeys(tenantId: string, now: number): Statement {
  return { sql: sweepSql, params: [tenantId, tenantId, now] };
}

/** A damaged one must not answer a request with the run of another. */
export function decodeKeyHolder(row: Row): { runId: string; fingerprint: string } {
  const name = text(row, 'name');
  const runId = text(row, 'run_id');
  const fixed = [text(row, 'tenant_id'), name, runId, text(row, 'fingerprint')];
  if (checksumOf(...fixed, integer(row, 'expires_at')) !== row['checksum']) {
    throw corrupt(`The idempotency key ${name}`, 'it does not match its checksum');
  }
  return { runId, fingerprint: freeText(row, 'fingerprint') };
}
