import type { WorkflowTotal } from '@relay/core';
import { addUsage, noUsage, type RunStatus } from '@relay/protocol';
import type { Row, Statement } from '../drivers/driver.ts';
import { encode, integer, realOrNull, text } from './stored.ts';

/** `unpriced`: runs that have used something whose cost nobody knows. */
const totalSql = `SELECT status, COUNT(*) AS runs,
    CAST(SUM(input_tokens) AS BIGINT) AS input_tokens,
    CAST(SUM(output_tokens) AS BIGINT) AS output_tokens, SUM(cost_usd) AS cost_usd,
    SUM(CASE WHEN cost_usd IS NULL AND input_tokens + output_tokens > 0 THEN 1 ELSE 0 END)
      AS unpriced
  FROM runs WHERE tenant_id = ? AND workflow_id = ? GROUP BY status`;

export function selectWorkflow(tenantId: string, workflowId: string): Statement {
  return { sql: totalSql, params: [tenantId, encode(workflowId)] };
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
