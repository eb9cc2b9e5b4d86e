/** What runs used, counted by tenant, key and UTC day as they end, and how many have not ended. */
import type { OpenRuns, RunRef, UsageScope, UsageTotal, WorkflowTotal } from '@relay/core';
import { addUsage, noUsage, type RunStatus } from '@relay/protocol';
import type { Row, Statement } from '../../drivers/driver.ts';
import { encode, integer, realOrNull, text } from '../../codec/values.ts';

/** The run's row has its final usage by now. A run that was not started by a key counts under ''. */
const countSql = `INSERT INTO usage_days
    (tenant_id, key_id, day, input_tokens, output_tokens, cost_usd, runs)
  SELECT tenant_id, COALESCE(key_id, ''), ?, input_tokens, output_tokens, COALESCE(cost_usd, 0), 1
  FROM runs WHERE tenant_id = ? AND id = ?
  ON CONFLICT (tenant_id, key_id, day) DO UPDATE
    SET input_tokens = usage_days.input_tokens + excluded.input_tokens,
      output_tokens = usage_days.output_tokens + excluded.output_tokens,
      cost_usd = usage_days.cost_usd + excluded.cost_usd,
      runs = usage_days.runs + 1`;

export function countUsage({ tenantId, runId }: RunRef, endedAt: number): Statement {
  return { sql: countSql, params: [dayOf(endedAt), tenantId, runId], expect: 1 };
}

/** Days since the epoch, in UTC. */
function dayOf(at: number): number {
  return Math.floor(at / 86_400_000);
}

/** The casts are for databases whose sums of whole numbers are of another type. */
const totalSql = `SELECT CAST(COALESCE(SUM(input_tokens), 0) AS BIGINT) AS input_tokens,
    CAST(COALESCE(SUM(output_tokens), 0) AS BIGINT) AS output_tokens,
    COALESCE(SUM(cost_usd), 0) AS cost_usd, CAST(COALESCE(SUM(runs), 0) AS BIGINT) AS runs
  FROM usage_days WHERE tenant_id = ?`;

export function selectUsage(
  tenantId: string,
  { keyId, since }: UsageScope & { readonly since: number },
): Statement {
  const day = dayOf(since);
  if (keyId === undefined) return { sql: `${totalSql} AND day >= ?`, params: [tenantId, day] };
  return { sql: `${totalSql} AND key_id = ? AND day >= ?`, params: [tenantId, keyId, day] };
}

export function decodeUsageTotal(row: Row): UsageTotal {
  return {
    inputTokens: integer(row, 'input_tokens'),
    outputTokens: integer(row, 'output_tokens'),
    costUsd: realOrNull(row, 'cost_usd') ?? 0,
    runs: integer(row, 'runs'),
  };
}

const openSql = `SELECT status, COUNT(*) AS runs FROM runs
  WHERE tenant_id = ? AND status IN ('queued', 'running', 'waiting')`;

export function selectOpenRuns(tenantId: string, { keyId }: UsageScope): Statement {
  return keyId === undefined
    ? { sql: `${openSql} GROUP BY status`, params: [tenantId] }
    : { sql: `${openSql} AND key_id = ? GROUP BY status`, params: [tenantId, keyId] };
}

export function decodeOpenRuns(rows: readonly Row[]): OpenRuns {
  const counted = (status: keyof OpenRuns) => {
    const row = rows.find((candidate) => candidate['status'] === status);
    return row === undefined ? 0 : integer(row, 'runs');
  };
  return { queued: counted('queued'), running: counted('running'), waiting: counted('waiting') };
}

/** `unpriced`: runs that have used something that has no known cost. */
const workflowSql = `SELECT status, COUNT(*) AS runs,
    CAST(SUM(input_tokens) AS BIGINT) AS input_tokens,
    CAST(SUM(output_tokens) AS BIGINT) AS output_tokens, SUM(cost_usd) AS cost_usd,
    SUM(CASE WHEN cost_usd IS NULL AND input_tokens + output_tokens > 0 THEN 1 ELSE 0 END)
      AS unpriced
  FROM runs WHERE tenant_id = ? AND workflow_id = ? GROUP BY status`;

export function selectWorkflow(tenantId: string, workflowId: string): Statement {
  return { sql: workflowSql, params: [tenantId, encode(workflowId)] };
}

export function decodeWorkflow(rows: readonly Row[]): WorkflowTotal | undefined {
  if (rows.length === 0) return undefined;
  const runs: Partial<Record<RunStatus, number>> = {};
  let usage = noUsage;
  for (const row of rows) {
    runs[text(row, 'status') as RunStatus] = integer(row, 'runs');
    const costUsd = Number(row['unpriced']) > 0 ? null : realOrNull(row, 'cost_usd');
    usage = addUsage(usage, {
      inputTokens: integer(row, 'input_tokens'),
      outputTokens: integer(row, 'output_tokens'),
      ...(costUsd === null ? {} : { costUsd }),
    });
  }
  return { runs, usage };
}
