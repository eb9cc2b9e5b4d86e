/**
 * Which node works on a run. Only a claim increments the epoch, which distinguishes a suspended holder
 * from the one that replaced it. `nowSql` says whose clock counts.
 */
import { type Claim, suspectAfterCrashes } from '@relay/core';
import type { SqlDialect, SqlValue, Statement } from '../../drivers/driver.ts';
import { byDialect, nowSql } from '../statements.ts';

const isNotPaused = 'r.tenant_id NOT IN (SELECT t.id FROM tenants t WHERE t.paused_at IS NOT NULL)';

/** Including the crash of a node that still has its expired lease. */
const crashes = '(crashes + CASE WHEN lease_owner IS NULL THEN 0 ELSE 1 END)';

/** On PostgreSQL a node that finds the row locked gives up instead of waiting. */
const claimSqls = byDialect((dialect) => {
  const time = nowSql[dialect];
  const claimSql = (condition: string) => {
    const isClaimable = `id = ? AND status IN ('queued', 'running', 'waiting')
      AND (lease_owner IS NULL OR lease_until <= ${time}) AND ${crashes} ${condition}`;
    const where =
      dialect === 'sqlite'
        ? isClaimable
        : `id = (SELECT id FROM runs WHERE ${isClaimable} FOR NO KEY UPDATE SKIP LOCKED)`;
    return `UPDATE runs SET crashes = ${crashes}, lease_owner = ?, lease_until = ${time} + ?,
      epoch = epoch + 1 WHERE ${where} RETURNING epoch, crashes, journal_size`;
  };
  return {
    others: claimSql(`< ${suspectAfterCrashes}`),
    suspects: claimSql(`>= ${suspectAfterCrashes}`),
  };
});

export function claim(
  dialect: SqlDialect,
  runId: string,
  { owner, now, until }: Claim,
  which: 'others' | 'suspects',
): Statement {
  const params = [owner, now, until - now, runId, now];
  return { sql: claimSqls[dialect][which], params, expect: 1 };
}

/** Those with the fewest crashes first. */
export const suspectsSql = byDialect((dialect) => {
  return `SELECT r.tenant_id, r.id FROM runs r
    WHERE crashes > 0 AND status IN ('queued', 'running', 'waiting')
      AND ${crashes} >= ${suspectAfterCrashes}
      AND (r.lease_owner IS NULL OR r.lease_until <= ${nowSql[dialect]}) AND ${isNotPaused}
    ORDER BY r.crashes, r.created_at, r.id LIMIT ?`;
});

const renewSql = byDialect(
  (dialect) =>
    `UPDATE runs SET lease_until = ${nowSql[dialect]} + ? WHERE id = ? AND lease_owner = ?`,
);

export function renew(dialect: SqlDialect, runId: string, by: Claim): Statement {
  const { owner, now, until } = by;
  return { sql: renewSql[dialect], params: [now, until - now, runId, owner] };
}

export function release(runId: string, epoch: number): Statement {
  const sql = `UPDATE runs SET lease_owner = NULL, lease_until = 0
    WHERE id = ? AND epoch = ? AND lease_owner IS NOT NULL`;
  return { sql, params: [runId, epoch] };
}

export const releaseAllSql = `UPDATE runs
  SET crashes = crashes + 1, lease_owner = NULL, lease_until = 0 WHERE lease_owner IS NOT NULL`;

const oldest = 'ORDER BY r.created_at, r.id LIMIT ?';

/**
 * A run is due for one of three reasons. Each has a partial index of open runs and its own limit, so
 * that a long queue does not hide runs that have expired or have a command. Among queued and abandoned
 * runs tenants take turns, within a bounded part of the queue. Commands count for paused tenants too,
 * because one may cancel a run. The cross join makes SQLite begin with the small inbox table.
 */
export const dueSql = byDialect((dialect) => {
  const isFree = `(r.lease_owner IS NULL OR r.lease_until <= ${nowSql[dialect]})
    AND ${crashes} < ${suspectAfterCrashes}`;
  return `SELECT tenant_id, id FROM (
    SELECT tenant_id, id, created_at FROM (
      SELECT q.*, ROW_NUMBER() OVER (PARTITION BY tenant_id ORDER BY created_at, id) AS turn FROM (
        SELECT r.tenant_id, r.id, r.created_at FROM runs r
        WHERE r.status IN ('queued', 'running') AND ${isFree} AND ${isNotPaused} ${oldest}) AS q
      ORDER BY turn, created_at, id LIMIT ?) AS abandoned
    UNION
    SELECT * FROM (SELECT r.tenant_id, r.id, r.created_at FROM runs r
      WHERE r.status = 'waiting' AND r.wake_at <= ? AND ${isFree} AND ${isNotPaused} ${oldest}) AS to_wake
    UNION
    SELECT * FROM (SELECT r.tenant_id, r.id, r.created_at
      FROM (SELECT DISTINCT run_id FROM run_inbox) AS m CROSS JOIN runs r
      WHERE r.id = m.run_id AND r.status = 'waiting' AND ${isFree} ${oldest}) AS with_command
  ) AS due ORDER BY created_at, id`;
});

/** How many times `limit` queued runs are read to find runs of other tenants. */
const depth = 20;

export function dueParams(now: number, limit: number): readonly SqlValue[] {
  return [now, limit * depth, limit, now, now, limit, now, limit];
}
