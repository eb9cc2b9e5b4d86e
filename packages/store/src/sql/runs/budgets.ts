/**
 * Budgets are checked in the unit that creates a run or reserves more for one, after its own change.
 * What counts is derived from rows that change together with those of runs, so that nothing has to be
 * released.
 */
import type { OverBudget, Reserved, RunBudget } from '@relay/core';
import { number, numberOrNull } from '../../codec/values.ts';
import type { Row, SqlDialect, Statement } from '../../drivers/driver.ts';
import type { Condition } from '../lists.ts';
import { dayOf } from './counts.ts';

interface Amount {
  readonly used: string;
  readonly reserved: string;
  /** The part of what a run has used that the day of waiting runs contains. */
  readonly counted: string;
  readonly zero: string;
}

const tokens: Amount = {
  used: '(input_tokens + output_tokens)',
  reserved: 'reserved_tokens',
  counted: '(counted_input_tokens + counted_output_tokens)',
  zero: '0',
};

const cost: Amount = {
  used: 'COALESCE(cost_usd, 0)',
  reserved: 'reserved_usd',
  counted: 'counted_usd',
  zero: '0.0',
};

/** The rows of usage and of runs that count for a budget. */
function scopeOf(tenantId: string, { keyId }: RunBudget): Condition {
  if (keyId === undefined) return { sql: 'tenant_id = ?', params: [tenantId] };
  return { sql: 'tenant_id = ? AND key_id = ?', params: [tenantId, keyId] };
}

const isActive = `status IN ('queued', 'running')`;
const isOpen = `status IN ('queued', 'running', 'waiting')`;

/** Of ended and waiting runs by days, and of active ones, which also have reserved something. */
function useOf(
  scope: Condition,
  { since, exceptRun = '' }: { readonly since: number; readonly exceptRun?: string },
  { used, reserved, counted, zero }: Amount,
): Condition {
  const { sql, params } = scope;
  return {
    sql: `(COALESCE((SELECT SUM(${used}) FROM usage_days WHERE ${sql} AND day >= ?), ${zero})
      - COALESCE((SELECT ${counted} FROM runs WHERE ${sql} AND id = ? AND ${isOpen}), ${zero})
      + COALESCE((SELECT SUM(CASE WHEN ${reserved} > ${used} THEN ${reserved} ELSE ${used} END - ${counted})
        FROM runs WHERE ${sql} AND id <> ? AND ${isActive}), ${zero}))`,
    params: [...params, dayOf(since), ...params, exceptRun, ...params, exceptRun],
  };
}

export function selectUse(tenantId: string, budget: RunBudget, exceptRun: string): Statement {
  const of = { since: budget.since, exceptRun };
  const scope = scopeOf(tenantId, budget);
  const inTokens = useOf(scope, of, tokens);
  const inDollars = useOf(scope, of, cost);
  return {
    sql: `SELECT CAST(${inTokens.sql} AS BIGINT) AS tokens, ${inDollars.sql} AS cost_usd`,
    params: [...inTokens.params, ...inDollars.params],
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
    const scope = scopeOf(tenantId, budget);
    const check = (exceeded: OverBudget['exceeded'], { sql, params }: Condition, most: number) => {
      const statement = {
        sql: `SELECT 1 AS fits WHERE ${sql} <= ?`,
        params: [...params, most],
        expect: 1,
      };
      this.#outcomes.set(statement, { kind: 'over-budget', budget, exceeded });
    };
    if (budget.concurrentRuns !== undefined) {
      const sql = `(SELECT COUNT(*) FROM runs WHERE ${scope.sql} AND ${isActive})`;
      check('concurrentRuns', { sql, params: scope.params }, budget.concurrentRuns);
    }
    if (budget.tokens !== undefined) check('tokens', useOf(scope, budget, tokens), budget.tokens);
    if (budget.costUsd !== undefined) {
      check('costUsd', useOf(scope, budget, cost), budget.costUsd + tolerance);
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
