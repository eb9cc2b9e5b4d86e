/**
 * A new run as one unit. It takes its idempotency key first: if another run holds the key, nothing is
 * stored.
 */
import type { IdempotencyKey, RunCreation } from '@relay/core';
import { isEnded } from '@relay/protocol';
import type { Row, SqlDialect, Statement, UnitScope } from '../../drivers/driver.ts';
import { insertAudit } from '../tenants/audit.ts';
import { takeConversation } from './conversations.ts';
import { countEnding, countUsage, countWaiting } from './counts.ts';
import { storeEvents } from './events.ts';
import { insertLabels } from './run-lists.ts';
import { insertRun, putSnapshot } from './runs.ts';
import { insertInto } from '../statements.ts';
import { insertConnection } from '../system.ts';
import { checkIntact, checksumOf, encode, freeText, number, text } from '../../codec/values.ts';

export function creationUnit(
  dialect: SqlDialect,
  tenantId: string,
  creation: RunCreation,
): Statement[] {
  const { identity, events, progress = {}, connection, idempotency } = creation;
  const { id: runId, createdAt: at } = identity;
  const run = { tenantId, runId };
  const unit: Statement[] = [];
  if (idempotency !== undefined) {
    unit.push(sweepKeys(tenantId, at), takeKey({ tenantId, holderId: runId }, idempotency, at));
  }
  const journal = storeEvents(run, { afterSeq: 0, at, events });
  unit.push(insertRun(dialect, tenantId, creation, journal.growth), takeConversation(creation));
  unit.push(...insertLabels(identity));
  unit.push(...journal.statements);
  unit.push(...putSnapshot(run, progress));
  if (connection !== undefined) unit.push(insertConnection(run, connection));
  if (isEnded(progress.status ?? 'queued')) {
    const endedAt = progress.endedAt ?? at;
    unit.push(...countEnding(run, endedAt), ...countUsage(run, endedAt));
  }
  if (progress.status === 'waiting') unit.push(...countWaiting(run));
  unit.push(...insertAudit(tenantId, creation.audit));
  return unit;
}

/** The rows of idempotency keys, conversations, sessions, counts and tenants are shared. */
export function creationScope(creation: RunCreation): UnitScope {
  const { identity, conversation, idempotency, budgets = [], progress = {} } = creation;
  const exclusive =
    conversation !== 'new' ||
    creation.session !== undefined ||
    idempotency !== undefined ||
    budgets.length > 0 ||
    progress.status === 'waiting' ||
    isEnded(progress.status ?? 'queued');
  return { run: identity.id, exclusive };
}

/** A run's key, or that of a message with its sender. */
type KeyName = string | readonly [sender: string, key: string];

const keyColumns = ['tenant_id', 'name', 'holder_id', 'fingerprint', 'expires_at'];

/** Takes a key that is free or has expired; otherwise it changes nothing. */
const takeSql = `${insertInto('idempotency_keys', [...keyColumns, 'checksum'])}
  ON CONFLICT (tenant_id, name) DO UPDATE
    SET holder_id = excluded.holder_id, fingerprint = excluded.fingerprint,
      expires_at = excluded.expires_at, checksum = excluded.checksum
    WHERE idempotency_keys.expires_at <= ?`;

export function takeKey(
  { tenantId, holderId }: { readonly tenantId: string; readonly holderId: string },
  idempotency: Omit<IdempotencyKey, 'key'> & { readonly key: KeyName },
  now: number,
): Statement {
  const fixed = [
    tenantId,
    encode(idempotency.key),
    holderId,
    encode(idempotency.fingerprint),
    idempotency.expiresAt,
  ];
  return { sql: takeSql, params: [...fixed, checksumOf(...fixed), now], expect: 1 };
}

const selectSql = `SELECT ${keyColumns.join(', ')}, checksum
  FROM idempotency_keys WHERE tenant_id = ? AND name = ?`;

export function selectKeyHolder(tenantId: string, key: KeyName): Statement {
  return { sql: selectSql, params: [tenantId, encode(key)] };
}

export function hasExpired(row: Row, now: number): boolean {
  return number(row, 'expires_at') <= now;
}

/** Taking a key deletes a few expired ones. */
export function sweepKeys(tenantId: string, now: number): Statement {
  const sql = `DELETE FROM idempotency_keys WHERE tenant_id = ? AND name IN (
    SELECT name FROM idempotency_keys WHERE tenant_id = ? AND expires_at <= ? LIMIT 20)`;
  return { sql, params: [tenantId, tenantId, now] };
}

/** A damaged key must not answer a request with the run or the message of another. */
export function decodeKeyHolder(row: Row): { holderId: string; fingerprint: string } {
  checkIntact(`The idempotency key ${text(row, 'name')}`, row, keyColumns);
  return { holderId: text(row, 'holder_id'), fingerprint: freeText(row, 'fingerprint') };
}
