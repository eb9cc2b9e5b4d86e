/**
 * Which node works on a run. Only a claim increments the epoch, which distinguishes a suspended holder
 * from the one that replaced it. `nowSql` says whose clock counts.
 */
import { type Claim, suspectAfterCrashes } from '@relay/core';
import type { SqlDialect, Statement } from '../../drivers/driver.ts';
import { byDialect, nowSql } from '../statements.ts';

const isNotPaused = 'r.tenant_id NOT IN (SELECT t.id FROM tenants t WHERE t.paused_at IS NOT NULL)';

/** With the holder of an expired lease, which may have crashed. */
const crashes = '(crashes + CASE WHEN lease_owner IS NULL THEN 0 ELSE 1 END)';

/** The claimer itself has not crashed. A process crashes once; if it is alive, its heartbeat says so. */
const countsHolder = `lease_owner <> ? AND crashed_nodes NOT LIKE '% ' || lease_owner || ' %'`;

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
    return `UPDATE runs SET crashes = crashes + CASE WHEN ${countsHolder} THEN 1 ELSE 0 END,
      crashed_nodes = CASE WHEN ${countsHolder}
        THEN crashed_nodes || ' ' || lease_owner || ' ' ELSE crashed_nodes END,
      lease_owner = ?, lease_until = ${time} + ?, epoch = epoch + 1 WHERE ${where} RETURNING epoch, crashes, journal_size`;
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
  const params = [owner, owner, owner, now, until - now, runId, now];
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

const blamedSql = `SELECT id FROM runs WHERE crashes > 0 AND status IN ('queued', 'running', 'waiting')
  AND crashed_nodes LIKE ?`;

/** The runs that a node is thought to have crashed with, in any order: SQLite would sort by reading all runs. */
export function selectBlamed(node: string): Statement {
  return { sql: blamedSql, params: [`% ${node} %`] };
}

const withdrawSql = `UPDATE runs SET crashes = crashes - 1,
    crashed_nodes = REPLACE(crashed_nodes, ?, '')
  WHERE id = ? AND crashed_nodes LIKE ?`;

/** The node is alive: that its lease expired was no crash. */
export function withdrawCrash(runId: string, node: string): Statement {
  return { sql: withdrawSql, params: [` ${node} `, runId, `% ${node} %`] };
}

/** A reason why runs without a lease have work. */
interface Reason {
  readonly name: string;
  /** The rows that have this reason, of an index that begins with the tenant. */
  readonly index: { readonly name: string; readonly table: string; readonly where: string };
  readonly ofTenants: 'active' | 'paused';
  /** The runs of the tenant `t.id`, as `r`, which this reason concerns. */
  readonly runs: (dialect: SqlDialect) => string;
  readonly order: string;
}

const isOpen = `status IN ('queued', 'running')`;
const isWaiting = `r.status = 'waiting'`;
const wakes = `status = 'waiting' AND wake_at IS NOT NULL`;

/**
 * Runs by their first command that is meant, because they may have several. The cross join and the limit
 * make the databases begin with the commands, which are few, and not with the runs.
 */
function byCommand(dialect: SqlDialect, isMeant: string): string {
  const run =
    dialect === 'sqlite' ? 'runs' : 'LATERAL (SELECT * FROM runs WHERE id = m.run_id LIMIT 1)';
  return `FROM run_inbox m CROSS JOIN ${run} AS r
    WHERE m.tenant_id = t.id AND r.id = m.run_id AND m.${isMeant}
      AND NOT EXISTS (SELECT 1 FROM run_inbox e
        WHERE e.run_id = m.run_id AND e.id < m.id AND e.${isMeant})`;
}

const reasons: readonly Reason[] = [
  {
    name: 'abandoned',
    index: { name: 'runs_open', table: 'runs', where: isOpen },
    ofTenants: 'active',
    runs: () => `FROM runs r WHERE r.tenant_id = t.id AND r.${isOpen}`,
    order: 'r.created_at, r.id',
  },
  {
    name: 'overdue',
    index: { name: 'runs_to_wake', table: 'runs', where: wakes },
    ofTenants: 'active',
    runs: () => `FROM runs r WHERE r.tenant_id = t.id AND ${isWaiting} AND r.wake_at <= :now`,
    order: 'r.wake_at, r.id',
  },
  {
    name: 'commanded',
    index: { name: 'inboxes_of_tenant', table: 'run_inbox', where: 'wakes = 1' },
    ofTenants: 'active',
    runs: (dialect) => `${byCommand(dialect, 'wakes = 1')} AND ${isWaiting}`,
    order: 'm.run_id',
  },
  {
    // Runs of a paused tenant are driven only to be canceled.
    name: 'canceled',
    index: { name: 'cancels_of_tenant', table: 'run_inbox', where: `kind = 'cancel'` },
    ofTenants: 'paused',
    runs: (dialect) =>
      `${byCommand(dialect, `kind = 'cancel'`)} AND r.status IN ('queued', 'running', 'waiting')`,
    order: 'm.run_id',
  },
];

/**
 * The tenants that have due runs for a reason. They are found by skipping from tenant to tenant in an
 * index, so that the length of no backlog matters. Each gets an equal share of the limit. SQLite would
 * choose an index that contains ended runs as well.
 */
function tenantsWith(reason: Reason, isFree: string, dialect: SqlDialect): string {
  const { name, index, ofTenants, runs } = reason;
  const { where } = index;
  const table = dialect === 'sqlite' ? `${index.table} INDEXED BY ${index.name}` : index.table;
  const isPaused = 'EXISTS (SELECT 1 FROM tenants p WHERE p.id = t.id AND p.paused_at IS NOT NULL)';
  return `${name}_in (id) AS (
      SELECT MIN(tenant_id) FROM ${table} WHERE ${where}
      UNION ALL
      SELECT (SELECT MIN(tenant_id) FROM ${table} WHERE ${where} AND tenant_id > ${name}_in.id)
      FROM ${name}_in WHERE ${name}_in.id IS NOT NULL),
    ${name}_of (id) AS MATERIALIZED (
      SELECT t.id FROM ${name}_in t WHERE t.id IS NOT NULL
        AND ${ofTenants === 'paused' ? isPaused : `NOT ${isPaused}`}
        AND EXISTS (SELECT 1 ${runs(dialect)} AND ${isFree})),
    ${name}_share (size) AS MATERIALIZED (
      SELECT COALESCE((CAST(:limit AS BIGINT) + COUNT(*) - 1) / NULLIF(COUNT(*), 0), 0) FROM ${name}_of)`;
}

/** Tenants take turns within the limit. */
function runsWith(reason: Reason, isFree: string, dialect: SqlDialect): string {
  const { name, ofTenants, runs, order } = reason;
  const found = (columns: string) => `SELECT ${columns} ${runs(dialect)} AND ${isFree}
    ORDER BY ${order} LIMIT (SELECT size FROM ${name}_share)`;
  const shares =
    dialect === 'sqlite'
      ? `${name}_of t CROSS JOIN runs d WHERE d.id IN (${found('r.id')})`
      : `${name}_of t CROSS JOIN LATERAL (${found('r.tenant_id, r.id, r.created_at')}) AS d`;
  return `SELECT tenant_id, id, created_at, ${ofTenants === 'paused' ? 1 : 0} AS canceled FROM (
      SELECT d.tenant_id, d.id, d.created_at,
        ROW_NUMBER() OVER (PARTITION BY d.tenant_id ORDER BY d.created_at, d.id) AS turn
      FROM ${shares}) AS ${name} ORDER BY turn, created_at, id LIMIT :limit`;
}

interface NamedSql {
  readonly sql: string;
  readonly names: readonly string[];
}

function named(sql: string): NamedSql {
  const names: string[] = [];
  const text = sql.replaceAll(/:(now|limit)\b/g, (_, name: string) => {
    names.push(name);
    return '?';
  });
  return { sql: text, names };
}

const due = byDialect((dialect) => {
  const time = nowSql[dialect].replace('?', ':now');
  const isFree = `(r.lease_owner IS NULL OR r.lease_until <= ${time})
    AND ${crashes} < ${suspectAfterCrashes}`;
  const tenants = reasons.map((reason) => tenantsWith(reason, isFree, dialect));
  const runs = reasons.map((reason) => `SELECT * FROM (${runsWith(reason, isFree, dialect)}) AS u`);
  return named(`WITH RECURSIVE ${tenants.join(', ')}
    SELECT tenant_id, id, canceled FROM (${runs.join(' UNION ')}) AS due ORDER BY created_at, id`);
});

/** Runs without a lease that have work, at most `limit` for each reason. */
export function selectDue(dialect: SqlDialect, now: number, limit: number): Statement {
  const { sql, names } = due[dialect];
  return { sql, params: names.map((name) => (name === 'now' ? now : limit)) };
}
