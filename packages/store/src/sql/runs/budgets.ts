/**
 * Budgets are checked in the unit that creates a run or reserves more for one, after its own change.
 * What counts is derived from the rows of runs, so that nothing has to be released.
 */
import type { OverBudget, Reserved, RunBudget } from '@relay/core';
import { number, numberOrNull } from '../../codec/values.ts';
import type { Row, SqlDialect, SqlValue, Statement } from '../../drivers/driver.ts';

const ofKey = 'AND key_id = ?';

/** Of ended runs in the period, and of open ones: a waiting run has reserved nothing. */
function useSql({ keyId }: RunBudget, columns: { used: string; reserved: string; zero: string }) {
  const { used, reserved, zero } = columns;
  const scope = keyId === undefined ? '' : ofKey;
  return `(COALESCE((SELECT SUM(${used}) FROM usage_days
      WHERE tenant_id = ? ${scope} AND day >= ?), ${zero})
    + COALESCE((SELECT SUM(CASE WHEN status <> 'waiting' AND ${reserved} > ${used} THEN ${reserved} ELSE ${used} END)
      FROM runs WHERE tenant_id = ? ${scope} AND status IN ('queued', 'running', 'waiting') AND id <> ?), ${zero}))`;
}

const tokens = { used: '(input_tokens + output_tokens)', reserved: 'reserved_tokens', zero: '0' };
const cost = { used: 'COALESCE(cost_usd, 0)', reserved: 'reserved_usd', zero: '0.0' };

function useParams(tenantId: string, { keyId, since }: RunBudget, exceptRun: string): SqlValue[] {
  const key = keyId === undefined ? [] : [keyId];
  const day = Math.floor(since / 86_400_000);
  return [tenantId, ...key, day, tenantId, ...key, exceptRun];
}

export function selectUse(tenantId: string, budget: RunBudget, exceptRun: string): Statement {
  const params = useParams(tenantId, budget, exceptRun);
  return {
    sql: `SELECT CAST(${useSql(budget, tokens)} AS BIGINT) AS tokens, ${useSql(budget, cost)} AS cost_usd`,
    params: [...params, ...params],
  };
}

export function decodeUse(row: Row): Reserved {
  return { tokens: number(row, 'tokens'), costUsd: numberOrNull(row, 'cost_usd') ?? 0 };
}

/** Nodes check the budgets of a tenant one after another. A file has one writer. */
const lockSql = 'SELECT id FROM tenants WHERE id = ? FOR NO KEY UPDATE';

/** Rounding of dollars that were added up in another order. */
const tolerance = 1e-9;

/** Statements that fail if the runs of the tenant exceed a budget with the change of this unit. */
export class BudgetChecks {
  readonly statements: readonly Statement[];
  readonly #outcomes = new Map<Statement, OverBudget>();

  constructor(dialect: SqlDialect, tenantId: string, budgets: readonly RunBudget[]) {
    const lock = { sql: lockSql, params: [tenantId], expect: 1 };
    for (const budget of budgets) this.#add(tenantId, budget);
    const checks = [...this.#outcomes.keys()];
    this.statements = dialect === 'postgres' && checks.length > 0 ? [lock, ...checks] : checks;
  }

  /** What a unit that failed at this statement has exceeded. */
  outcomeOf(statement: Statement | undefined): OverBudget | undefined {
    return statement === undefined ? undefined : this.#outcomes.get(statement);
  }

  #add(tenantId: string, budget: RunBudget): void {
    const { keyId, concurrentRuns } = budget;
    const check = (exceeded: OverBudget['exceeded'], sql: string, params: readonly SqlValue[]) =>
      this.#outcomes.set({ sql, params, expect: 1 }, { kind: 'over-budget', budget, exceeded });
    if (concurrentRuns !== undefined) {
      const key = keyId === undefined ? [] : [keyId];
      const open = `SELECT COUNT(*) FROM runs WHERE tenant_id = ? ${keyId === undefined ? '' : ofKey}
        AND status IN ('queued', 'running')`;
      const params = [tenantId, ...key, concurrentRuns];
      check('concurrentRuns', `SELECT 1 AS fits WHERE (${open}) <= ?`, params);
    }
    const params = useParams(tenantId, budget, '');
    if (budget.tokens !== undefined) {
      const sql = `SELECT 1 AS fits WHERE ${useSql(budget, tokens)} <= ?`;
      check('tokens', sql, [...params, budget.tokens]);
    }
    if (budget.costUsd !== undefined) {
      const sql = `SELECT 1 AS fits WHERE ${useSql(budget, cost)} <= ?`;
      check('costUsd', sql, [...params, budget.costUsd + tolerance]);
    }
  }
}

export function updateReserved(
  tenantId: string,
  run: { readonly runId: string; readonly epoch: number; readonly reserved: Reserved },
): Statement {
  const { runId, epoch, reserved } = run;
  const sql = `UPDATE runs SET reserved_tokens = ?, reserved_usd = ?
    WHERE tenant_id = ? AND id = ? AND epoch = ? AND lease_owner IS NOT NULL`;
  return { sql, params: [reserved.tokens, reserved.costUsd, tenantId, runId, epoch], expect: 1 };
}
