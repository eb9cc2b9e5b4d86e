/**
 * Who works on a run. The epoch rises with every claim and never otherwise: it is what tells a holder
 * that was asleep from the one that took its place. Times are those of `clock.ts`: a lease lasts as
 * long as its taker said, counted from there.
 */
import type { Claim } from '@relay/core';
import type { SqlDialect, SqlValue, Statement } from '../drivers/driver.ts';
import { nowSql } from './clock.ts';

/** Where several nodes claim, they never wait for each other: whoever comes second goes away. */
const claimSql = byDialect((dialect) => {
  const time = nowSql[dialect];
  const isClaimable = `id = ? AND status IN ('queued', 'running', 'waiting')
    AND (lease_owner IS NULL OR lease_until <= ${time})`;
  const where =
    dialect === 'sqlite'
      ? isClaimable
      : `id = (SELECT id FROM runs WHERE ${isClaimable} FOR NO KEY UPDATE SKIP LOCKED)`;
  return `UPDATE runs SET lease_owner = ?, lease_until = ${time} + ?, epoch = epoch + 1
    WHERE ${where} RETURNING epoch`;
});

export function claim(dialect: SqlDialect, runId: string, by: Claim): Statement {
  const { owner, now, until } = by;
  return { sql: claimSql[dialect], params: [owner, now, until - now, runId, now], expect: 1 };
}

const renewSql = byDialect(
  (dialect) =>
    `UPDATE runs SET lease_until = ${nowSql[dialect]} + ? WHERE id = ? AND lease_owner = ?`,
);

export function renew(dialect: SqlDialect, runId: string, by: Claim): Statement {
  const { owner, now, until } = by;
  return { sql: renewSql[dialect], params: [now, until - now, runId, owner] };
}

const releaseSql = `UPDATE runs SET lease_owner = NULL, lease_until = 0
  WHERE id = ? AND epoch = ? AND lease_owner IS NOT NULL`;

export function release(runId: string, epoch: number): Statement {
  return { sql: releaseSql, params: [runId, epoch] };
}

export const reclaimSql =
  'UPDATE runs SET lease_owner = NULL, lease_until = 0 WHERE lease_owner IS NOT NULL';

const isNotPaused = 'r.tenant_id NOT IN (SELECT t.id FROM tenants t WHERE t.paused_at IS NOT NULL)';
const oldest = 'ORDER BY r.created_at, r.id LIMIT ?';

/**
 * Three reasons to look at a run, each found by an index of its own that holds open runs alone, and
 * each with its own limit: a long queue must not hide what has expired or was told.
 * Of what was left behind or is queued tenants take turns, so that one with a long queue does not
 * keep the others from being seen; as far as a bounded part of all queues reaches.
 * What a paused tenant was told counts all the same: it may be that a run shall stop.
 * The cross join makes SQLite begin with the inbox, of which there is little.
 */
export const dueSql = byDialect((dialect) => {
  const isFree = `(r.lease_owner IS NULL OR r.lease_until <= ${nowSql[dialect]})`;
  return `SELECT tenant_id, id FROM (
    SELECT tenant_id, id, created_at FROM (
      SELECT q.*, ROW_NUMBER() OVER (PARTITION BY tenant_id ORDER BY created_at, id) AS turn FROM (
        SELECT r.tenant_id, r.id, r.created_at FROM runs r
        WHERE r.status IN ('queued', 'running') AND ${isFree} AND ${isNotPaused} ${oldest}) AS q
      ORDER BY turn, created_at, id LIMIT ?) AS left_behind
    UNION
    SELECT * FROM (SELECT r.tenant_id, r.id, r.created_at FROM runs r
      WHERE r.status = 'waiting' AND r.wake_at <= ? AND ${isFree} AND ${isNotPaused} ${oldest}) AS to_wake
    UNION
    SELECT * FROM (SELECT r.tenant_id, r.id, r.created_at
      FROM (SELECT DISTINCT run_id FROM run_inbox) AS m CROSS JOIN runs r
      WHERE r.id = m.run_id AND r.status = 'waiting' AND ${isFree} ${oldest}) AS told
  ) AS due ORDER BY created_at, id`;
});

/** How much of a queue is looked through for tenants that have waited less long. */
const depth = 20;

export function dueParams(now: number, limit: number): readonly SqlValue[] {
  return [now, limit * depth, limit, now, now, limit, now, limit];
}

function byDialect(write: (dialect: SqlDialect) => string): Readonly<Record<SqlDialect, string>> {
  return { sqlite: write('sqlite'), postgres: write('postgres') };
}
