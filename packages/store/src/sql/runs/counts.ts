/**
 * Counts of runs. A conversation counts its runs as they end, which gives a run its position in it.
 * Usage is counted per tenant, key and UTC day as runs end, and for budgets also as they start to wait;
 * and per workflow as they end. That of programs is counted as they report it.
 * Open runs and pending approvals are counted when they are asked for, at a cost that does not grow with
 * what has ended.
 */
import type {
  OpenRuns,
  ReportedUsage,
  RunRef,
  StoreStats,
  UsageScope,
  UsageTotal,
  WorkflowTotal,
} from '@relay/core';
import { addUsage, approvalKinds, defined, noUsage, type RunStatus } from '@relay/protocol';
import type { Row, Statement } from '../../drivers/driver.ts';
import { encode, number, numberOrNull, text } from '../../codec/values.ts';

const countEndingSql = `UPDATE conversations SET ended_runs = ended_runs + 1, ended_at = ?
  WHERE tenant_id = ? AND id = (SELECT r.conversation_id FROM runs r WHERE r.id = ?)`;

export function countEnding({ tenantId, runId }: RunRef, endedAt: number): Statement[] {
  const sql = `UPDATE runs SET position = (
      SELECT c.ended_runs FROM conversations c
      WHERE c.tenant_id = runs.tenant_id AND c.id = runs.conversation_id)
    WHERE tenant_id = ? AND id = ?`;
  const params = [tenantId, runId];
  return [
    { sql: countEndingSql, params: [endedAt, ...params], expect: 1 },
    { sql, params, expect: 1 },
  ];
}

export const countEndedSql = 'SELECT ended_runs FROM conversations WHERE tenant_id = ? AND id = ?';

export const selectEndedSql = `SELECT id, position, journal_size FROM runs
  WHERE tenant_id = ? AND conversation_id = ? AND position > ? AND position <= ?
  ORDER BY position`;

/**
 * A run counts for the day of its end. What waiting runs have used counts for this day until then, which
 * lies in every period: however many runs wait, a budget reads one row. A run knows what is counted so of
 * its usage, also after it has resumed, which therefore changes no row that runs share.
 */
const notEnded = Number.MAX_SAFE_INTEGER;

/** The rows of usage are locked in the order of the days. Runs without a key count under ''. */
function upsertUsage(counted: string): string {
  return `INSERT INTO usage_days
      (tenant_id, key_id, day, input_tokens, output_tokens, cost_usd, runs)
    ${counted}
    ON CONFLICT (tenant_id, key_id, day) DO UPDATE
      SET input_tokens = usage_days.input_tokens + excluded.input_tokens,
        output_tokens = usage_days.output_tokens + excluded.output_tokens,
        cost_usd = usage_days.cost_usd + excluded.cost_usd,
        runs = usage_days.runs + excluded.runs`;
}

const hasCounted = '(counted_input_tokens, counted_output_tokens, counted_usd) <> (0, 0, 0)';

/** These run after the fence has written the usage. */
const countUsageSql = upsertUsage(`
    SELECT tenant_id, COALESCE(key_id, ''), ?, input_tokens, output_tokens, COALESCE(cost_usd, 0), 1
    FROM runs WHERE tenant_id = ? AND id = ?
    UNION ALL
    SELECT tenant_id, COALESCE(key_id, ''), ${notEnded},
      -counted_input_tokens, -counted_output_tokens, -counted_usd, 0
    FROM runs WHERE tenant_id = ? AND id = ? AND ${hasCounted}`);

export function countUsage(run: RunRef, endedAt: number): Statement[] {
  const { tenantId, runId } = run;
  const params = [dayOf(endedAt), tenantId, runId, tenantId, runId];
  return [{ sql: countUsageSql, params }, countInWorkflow(run)];
}

const isUncounted = `(input_tokens, output_tokens, COALESCE(cost_usd, 0))
  <> (counted_input_tokens, counted_output_tokens, counted_usd)`;

const countWaitingSql = upsertUsage(`
    SELECT tenant_id, COALESCE(key_id, ''), ${notEnded}, input_tokens - counted_input_tokens,
      output_tokens - counted_output_tokens, COALESCE(cost_usd, 0) - counted_usd, 0
    FROM runs WHERE tenant_id = ? AND id = ? AND ${isUncounted}`);

const markCountedSql = `UPDATE runs SET counted_input_tokens = input_tokens,
    counted_output_tokens = output_tokens, counted_usd = COALESCE(cost_usd, 0)
  WHERE tenant_id = ? AND id = ? AND ${isUncounted}`;

export function countWaiting({ tenantId, runId }: RunRef): Statement[] {
  const params = [tenantId, runId];
  return [
    { sql: countWaitingSql, params },
    { sql: markCountedSql, params },
  ];
}

/**
 * The most that the reports of programs add up to in a row. They can be wrong, and must not make the sums
 * that budgets are compared with too large for a number.
 */
const mostReported = { tokens: 1_000_000_000_000, costUsd: 1_000_000_000 };

const upTo = (column: 'input_tokens' | 'cost_usd') => `CASE WHEN usage_days.${column} < ?
  THEN usage_days.${column} + excluded.${column} ELSE usage_days.${column} END`;

const countReportedSql = `INSERT INTO usage_days
    (tenant_id, key_id, day, input_tokens, output_tokens, cost_usd, runs)
  VALUES (?, ?, ?, ?, 0, ?, 0)
  ON CONFLICT (tenant_id, key_id, day) DO UPDATE
    SET input_tokens = ${upTo('input_tokens')}, cost_usd = ${upTo('cost_usd')}`;

/** Programs report tokens without saying which: they count as input. */
export function countReported(
  tenantId: string,
  { keyId, at, tokens, costUsd }: ReportedUsage,
): Statement {
  const most = mostReported;
  const amount = [Math.min(Math.ceil(tokens), most.tokens), Math.min(costUsd, most.costUsd)];
  const params = [tenantId, keyId ?? '', dayOf(at), ...amount, most.tokens, most.costUsd];
  return { sql: countReportedSql, params };
}

/** Days since the epoch, in UTC. */
export function dayOf(at: number): number {
  return Math.floor(at / 86_400_000);
}

/** Of ended runs. The casts are for PostgreSQL, where a sum of integers has another type. */
const totalSql = `SELECT CAST(COALESCE(SUM(input_tokens), 0) AS BIGINT) AS input_tokens,
    CAST(COALESCE(SUM(output_tokens), 0) AS BIGINT) AS output_tokens,
    COALESCE(SUM(cost_usd), 0) AS cost_usd, CAST(COALESCE(SUM(runs), 0) AS BIGINT) AS runs
  FROM usage_days WHERE tenant_id = ? AND day >= ? AND day < ${notEnded}`;

export function selectUsage(
  tenantId: string,
  { keyId, since }: UsageScope & { readonly since: number },
): Statement {
  const params = [tenantId, dayOf(since)];
  if (keyId === undefined) return { sql: totalSql, params };
  return { sql: `${totalSql} AND key_id = ?`, params: [...params, keyId] };
}

export function decodeUsageTotal(row: Row): UsageTotal {
  return {
    inputTokens: number(row, 'input_tokens'),
    outputTokens: number(row, 'output_tokens'),
    costUsd: numberOrNull(row, 'cost_usd') ?? 0,
    runs: number(row, 'runs'),
  };
}

const openStatuses = ['queued', 'running', 'waiting'] as const;

const isOpen = `r.status IN (${openStatuses.map((status) => `'${status}'`).join(', ')})`;

/** One count per status: SQLite takes five times as long to count by the values of a column. */
const countOpen = (condition: string) =>
  openStatuses.map((status) => ({
    status,
    count: `(SELECT COUNT(*) FROM runs r WHERE ${condition} AND r.status = '${status}')`,
  }));

export function selectOpenRuns(tenantId: string, { keyId }: UsageScope): Statement {
  const scope = keyId === undefined ? '' : 'AND r.key_id = ?';
  const counts = countOpen(`r.tenant_id = ? ${scope}`);
  const params = keyId === undefined ? [tenantId] : [tenantId, keyId];
  return {
    sql: `SELECT ${counts.map(({ status, count }) => `${count} AS ${status}`).join(', ')}`,
    params: counts.flatMap(() => params),
  };
}

export function decodeOpenRuns(row: Row): OpenRuns {
  return {
    queued: number(row, 'queued'),
    running: number(row, 'running'),
    waiting: number(row, 'waiting'),
  };
}

const workflowColumns = 'status, runs, input_tokens, output_tokens, cost_usd, unpriced';

/** Whether its usage has an unknown cost. */
const isUnpriced = `CASE WHEN cost_usd IS NULL AND input_tokens + output_tokens > 0 THEN 1 ELSE 0 END`;

/** Nothing if the run belongs to no workflow. */
const countInWorkflowSql = `INSERT INTO workflow_totals (tenant_id, workflow_id, ${workflowColumns})
  SELECT tenant_id, workflow_id, status, 1, input_tokens, output_tokens, cost_usd, ${isUnpriced}
  FROM runs WHERE tenant_id = ? AND id = ? AND workflow_id IS NOT NULL
  ON CONFLICT (tenant_id, workflow_id, status) DO UPDATE
    SET runs = workflow_totals.runs + 1,
      input_tokens = workflow_totals.input_tokens + excluded.input_tokens,
      output_tokens = workflow_totals.output_tokens + excluded.output_tokens,
      cost_usd = COALESCE(workflow_totals.cost_usd + excluded.cost_usd, workflow_totals.cost_usd,
        excluded.cost_usd),
      unpriced = workflow_totals.unpriced + excluded.unpriced`;

function countInWorkflow({ tenantId, runId }: RunRef): Statement {
  return { sql: countInWorkflowSql, params: [tenantId, runId] };
}

/** What has ended is counted, what is open is read. */
const workflowSql = `SELECT ${workflowColumns} FROM workflow_totals
    WHERE tenant_id = ? AND workflow_id = ?
  UNION ALL
  SELECT status, COUNT(*), CAST(SUM(input_tokens) AS BIGINT), CAST(SUM(output_tokens) AS BIGINT),
    SUM(cost_usd), SUM(${isUnpriced})
  FROM runs r WHERE tenant_id = ? AND workflow_id = ? AND ${isOpen} GROUP BY status`;

export function selectWorkflow(tenantId: string, workflowId: string): Statement {
  const params = [tenantId, encode(workflowId)];
  return { sql: workflowSql, params: [...params, ...params] };
}

export function decodeWorkflow(rows: readonly Row[]): WorkflowTotal | undefined {
  if (rows.length === 0) return undefined;
  const runs: Partial<Record<RunStatus, number>> = {};
  let usage = noUsage;
  for (const row of rows) {
    runs[text(row, 'status') as RunStatus] = number(row, 'runs');
    const costUsd =
      Number(row['unpriced']) > 0 ? undefined : (numberOrNull(row, 'cost_usd') ?? undefined);
    usage = addUsage(usage, {
      inputTokens: number(row, 'input_tokens'),
      outputTokens: number(row, 'output_tokens'),
      ...defined({ costUsd }),
    });
  }
  return { runs, usage };
}

const sumsOfOpen = countOpen('r.tenant_id = t.id')
  .map(({ status, count }) => `CAST(COALESCE(SUM(${count}), 0) AS BIGINT) AS ${status}`)
  .join(', ');

/** Of all tenants, or of the one that the statement is read with. */
export const openRunsSql = (ofTenant: boolean) =>
  `SELECT ${sumsOfOpen} FROM tenants t ${ofTenant ? 'WHERE t.id = ?' : ''}`;

const kinds = approvalKinds.map((kind) => `'${kind}'`).join(', ');

/** The cross join makes SQLite begin with the tenants: it would read the decided ones too. */
export const openApprovalsSql = (
  ofTenant: boolean,
) => `SELECT COUNT(*) AS pending, MIN(a.requested_at) AS oldest
  FROM tenants t CROSS JOIN approvals a
  WHERE a.tenant_id = t.id AND a.kind IN (${kinds}) AND a.status = 'pending' ${ofTenant ? 'AND t.id = ?' : ''}`;

export function decodeStats(runs: Row, approvals: Row): StoreStats {
  const pending = number(approvals, 'pending');
  const oldestAt = numberOrNull(approvals, 'oldest');
  return { runs: decodeOpenRuns(runs), approvals: { pending, oldestAt } };
}
