/**
 * Statistics of a tenant over a time. Indexes find what started, ended, was requested or was decided in
 * it, and on SQLite contain all that is read. A bucket is a number: times are divided as integers.
 */
import type {
  ActivityStats,
  FailureStats,
  Percentiles,
  StatsRange,
  TenantStats,
  ToolStats,
  UsageStats,
} from '@relay/core';
import { approvalKinds, approvalStatuses, runStatuses, type RunError } from '@relay/protocol';
import { freeText, json, number, numberOrNull, text } from '../../codec/values.ts';
import type { Row, SqlAccess, Statement } from '../../drivers/driver.ts';
import { placeholders, readLong } from '../statements.ts';

/** Of each list. */
const mostListed = 20;
/** A decision that was made faster was hardly read. */
const hastyMs = 3_000;

const bucketOf = (time: string) => `(${time} - CAST(? AS BIGINT)) / CAST(? AS BIGINT)`;
const count = (condition: string) =>
  `CAST(SUM(CASE WHEN ${condition} THEN 1 ELSE 0 END) AS BIGINT)`;
const sum = (column: string) => `CAST(COALESCE(SUM(${column}), 0) AS BIGINT)`;
const sumTokens = `${sum('input_tokens')} AS input, ${sum('output_tokens')} AS output`;
const sumCosts = `COALESCE(SUM(cost_usd), 0) AS cost_usd,
    ${count('cost_usd IS NULL AND input_tokens + output_tokens > 0')} AS unpriced`;
const quoted = (values: readonly string[]) => values.map((value) => `'${value}'`).join(', ');

const ended = 'FROM runs WHERE tenant_id = ? AND ended_at >= ? AND ended_at < ?';
const decided = 'FROM approvals WHERE tenant_id = ? AND decided_at >= ? AND decided_at < ?';
const requested = (kinds: readonly string[]) => `FROM approvals WHERE tenant_id = ?
  AND kind IN (${quoted(kinds)}) AND status IN (${quoted(approvalStatuses)})
  AND requested_at >= ? AND requested_at < ?`;

const startedSql = `SELECT ${bucketOf('created_at')} AS bucket, COUNT(*) AS started
  FROM runs WHERE tenant_id = ? AND status IN (${quoted(runStatuses)})
    AND created_at >= ? AND created_at < ? GROUP BY bucket`;

const endedSql = `SELECT ${bucketOf('ended_at')} AS bucket, ${count(`status = 'completed'`)} AS completed,
    ${count(`status = 'failed'`)} AS failed, ${count(`status = 'canceled'`)} AS canceled,
    ${sumTokens}, ${sumCosts}
  ${ended} GROUP BY bucket`;

const requestedSql = `SELECT ${bucketOf('requested_at')} AS bucket, COUNT(*) AS requested
  ${requested(approvalKinds)} GROUP BY bucket`;

const decidedSql = `SELECT ${bucketOf('decided_at')} AS bucket, ${count(`status = 'approved'`)} AS approved,
    ${count(`status = 'denied'`)} AS denied, ${count(`status = 'expired'`)} AS expired,
    ${count('by_person = 1')} AS by_people,
    ${count(`by_person = 1 AND decided_at - requested_at < ${hastyMs}`)} AS hasty
  ${decided} GROUP BY bucket`;

/**
 * The values of the discrete percentiles, per group and for `overall`. Equal values are counted first: a
 * window over them is smaller.
 */
const percentiles = (values: string, overall: string) => `WITH counted AS MATERIALIZED (
    SELECT bucket, value, COUNT(*) AS n FROM (${values}) AS v GROUP BY bucket, value),
  placed AS (
    SELECT bucket, value, SUM(n) OVER (PARTITION BY bucket ORDER BY value) AS place,
      SUM(n) OVER (PARTITION BY bucket) AS total
    FROM (SELECT bucket, value, n FROM counted
      UNION ALL SELECT ${overall}, value, SUM(n) FROM counted GROUP BY value) AS c)
  SELECT bucket, MIN(CASE WHEN place * 2 >= total THEN value END) AS p50,
    MIN(CASE WHEN place * 20 >= total * 19 THEN value END) AS p95
  FROM placed GROUP BY bucket`;

const wholeRange = -1;

const firstTokensSql = percentiles(
  `SELECT ${bucketOf('ended_at')} AS bucket, first_token_ms AS value
    ${ended} AND first_token_ms IS NOT NULL`,
  `${wholeRange}`,
);

const waitsSql = percentiles(
  `SELECT ${bucketOf('decided_at')} AS bucket, decided_at - requested_at AS value
    ${decided} AND by_person = 1`,
  `${wholeRange}`,
);

/** The function around the tool keeps the index by tools, which has all times, from being chosen. */
const byTool = `COALESCE(tool, '')`;

const toolsSql = `SELECT a.tool, a.asks, COALESCE(d.approved, 0) AS approved, COALESCE(d.denied, 0) AS denied
  FROM (SELECT ${byTool} AS tool, COUNT(*) AS asks ${requested(['permission'])}
    GROUP BY ${byTool} ORDER BY asks DESC, ${byTool} LIMIT ${mostListed}) AS a
  LEFT JOIN (SELECT ${byTool} AS tool, ${count(`status = 'approved'`)} AS approved,
      ${count(`status = 'denied'`)} AS denied
    ${decided} AND kind = 'permission' GROUP BY ${byTool}) AS d ON d.tool = a.tool
  ORDER BY a.asks DESC, a.tool`;

/** Names of tools are JSON, so that none is empty. */
const toolWaitsSql = (tools: number) =>
  percentiles(
    `SELECT tool AS bucket, decided_at - requested_at AS value
      ${decided} AND kind = 'permission' AND by_person = 1 AND tool IN (${placeholders(tools)})`,
    `''`,
  );

const failuresSql = `SELECT error_code, COUNT(*) AS count, MAX(ended_at) AS last_at
  ${ended} AND status = 'failed' AND error_code IS NOT NULL
  GROUP BY error_code ORDER BY count DESC, error_code LIMIT ${mostListed}`;

const lastFailureSql = `SELECT id, error FROM runs
  WHERE tenant_id = ? AND ended_at = ? AND status = 'failed' AND error_code = ?
  ORDER BY id DESC LIMIT 1`;

const agentsSql = `SELECT agent, COUNT(*) AS runs, ${sumTokens}, ${sumCosts}
  ${ended} GROUP BY agent ORDER BY runs DESC, agent LIMIT ${mostListed}`;

const modelsSql = `SELECT model, COUNT(*) AS runs, ${sumTokens}, ${sumCosts}
  ${ended} GROUP BY model ORDER BY runs DESC, model LIMIT ${mostListed}`;

const pendingSql = `SELECT COUNT(*) AS pending FROM approvals
  WHERE tenant_id = ? AND kind IN (${quoted(approvalKinds)}) AND status = 'pending'`;

interface StatsTenant extends StatsRange {
  readonly tenantId: string;
}

export function statsStatements({ tenantId, since, until, bucketMs }: StatsTenant) {
  const range = [tenantId, since, until];
  const inBuckets = (sql: string): Statement => ({ sql, params: [since, bucketMs, ...range] });
  const inRange = (sql: string, ...again: typeof range): Statement => ({
    sql,
    params: [...range, ...again],
  });
  return {
    started: inBuckets(startedSql),
    ended: inBuckets(endedSql),
    requested: inBuckets(requestedSql),
    decided: inBuckets(decidedSql),
    firstTokens: inBuckets(firstTokensSql),
    waits: inBuckets(waitsSql),
    tools: inRange(toolsSql, ...range),
    failures: inRange(failuresSql),
    agents: inRange(agentsSql),
    models: inRange(modelsSql),
    pending: { sql: pendingSql, params: [tenantId] },
  };
}

type StatsName = keyof ReturnType<typeof statsStatements>;

export async function readStats(
  driver: SqlAccess,
  of: StatsTenant,
  openRuns: number,
): Promise<TenantStats> {
  const statements = Object.entries(statsStatements(of));
  const found = await Promise.all(
    statements.map(async ([name, statement]) => [name, await readLong(driver, statement)]),
  );
  const rows = Object.fromEntries(found) as Readonly<Record<StatsName, readonly Row[]>>;
  const byBucket = (name: StatsName) =>
    new Map(rows[name].map((row) => [number(row, 'bucket'), row]));
  const [started, endings, requests] = [
    byBucket('started'),
    byBucket('ended'),
    byBucket('requested'),
  ];
  const [decisions, tokens, waits] = [
    byBucket('decided'),
    byBucket('firstTokens'),
    byBucket('waits'),
  ];
  const numbers = new Set(
    [started, endings, requests, decisions].flatMap((each) => [...each.keys()]),
  );
  const buckets = new Map<number, ActivityStats>();
  for (const bucket of [...numbers].toSorted((one, other) => one - other)) {
    const of = (each: ReadonlyMap<number, Row>) => each.get(bucket) ?? {};
    buckets.set(bucket, {
      ...countsIn(of(started), of(endings), of(requests), of(decisions)),
      firstTokenMs: percentilesIn(tokens.get(bucket)),
      approvalWaitMs: percentilesIn(waits.get(bucket)),
    });
  }
  const total = (name: StatsName): Row => {
    const sums: Record<string, number> = {};
    for (const row of rows[name]) {
      for (const column of Object.keys(row)) sums[column] = (sums[column] ?? 0) + at(row, column);
    }
    return sums;
  };
  const [ending, decision] = [total('ended'), total('decided')];
  return {
    buckets,
    totals: {
      ...countsIn(total('started'), ending, total('requested'), decision),
      firstTokenMs: percentilesIn(tokens.get(wholeRange)),
      approvalWaitMs: percentilesIn(waits.get(wholeRange)),
      unpricedRuns: at(ending, 'unpriced'),
      decisionsByPeople: at(decision, 'by_people'),
      decisionsUnder3s: at(decision, 'hasty'),
      openRuns,
      pendingApprovals: at(rows.pending[0] ?? {}, 'pending'),
    },
    tools: await toolsOf(driver, of, rows.tools),
    failures: await failuresOf(driver, of, rows.failures),
    agents: rows.agents.map((row) => ({ agent: freeText(row, 'agent'), ...usageIn(row) })),
    models: rows.models.map((row) => ({ model: freeText(row, 'model'), ...usageIn(row) })),
  };
}

function usageIn(row: Row): UsageStats {
  return {
    runs: at(row, 'runs'),
    tokens: { input: at(row, 'input'), output: at(row, 'output') },
    costUsd: at(row, 'cost_usd'),
    unpricedRuns: at(row, 'unpriced'),
  };
}

/** 0 where nothing was counted. */
function at(row: Row, column: string): number {
  return Number(row[column] ?? 0);
}

function countsIn(started: Row, ended: Row, requested: Row, decided: Row) {
  return {
    runs: {
      started: at(started, 'started'),
      completed: at(ended, 'completed'),
      failed: at(ended, 'failed'),
      canceled: at(ended, 'canceled'),
    },
    tokens: { input: at(ended, 'input'), output: at(ended, 'output') },
    costUsd: at(ended, 'cost_usd'),
    approvals: {
      requested: at(requested, 'requested'),
      approved: at(decided, 'approved'),
      denied: at(decided, 'denied'),
      expired: at(decided, 'expired'),
    },
  };
}

function percentilesIn(row: Row | undefined): Percentiles | null {
  return row === undefined ? null : { p50: number(row, 'p50'), p95: number(row, 'p95') };
}

async function toolsOf(
  driver: SqlAccess,
  { tenantId, since, until }: StatsTenant,
  rows: readonly Row[],
): Promise<ToolStats[]> {
  if (rows.length === 0) return [];
  const names = rows.map((row) => text(row, 'tool'));
  const params = [tenantId, since, until, ...names];
  const waits = await readLong(driver, { sql: toolWaitsSql(names.length), params });
  const medians = new Map(waits.map((row) => [text(row, 'bucket'), numberOrNull(row, 'p50')]));
  return rows.map((row) => ({
    tool: freeText(row, 'tool'),
    asks: at(row, 'asks'),
    approved: at(row, 'approved'),
    denied: at(row, 'denied'),
    medianWaitMs: medians.get(text(row, 'tool')) ?? null,
  }));
}

async function failuresOf(
  driver: SqlAccess,
  { tenantId }: StatsTenant,
  rows: readonly Row[],
): Promise<FailureStats[]> {
  const failures = rows.map(async (row): Promise<FailureStats[]> => {
    const lastAt = number(row, 'last_at');
    const [last] = await driver.read(lastFailureSql, [tenantId, lastAt, text(row, 'error_code')]);
    // Its conversation was deleted meanwhile.
    if (last === undefined) return [];
    const { code, message } = json(last, 'error') as RunError;
    return [{ code, count: at(row, 'count'), lastRunId: text(last, 'id'), lastAt, message }];
  });
  return (await Promise.all(failures)).flat();
}
