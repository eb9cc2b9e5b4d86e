/**
 * Statements and units on one SQLite connection, for the drivers and the writer thread.
 * Imports only Node's own modules at run time, so that the thread starts fast.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Row, SqlValue, Statement, StatementResult, UnitResult } from '../driver.ts';

/** An error that can be copied between threads. */
export interface SqliteFault {
  /** SQLite's extended result code, or 0 where the error is not SQLite's. */
  readonly code: number;
  readonly message: string;
}

export function faultOf(error: unknown): SqliteFault {
  const code = (error as { errcode?: unknown } | null)?.errcode;
  return {
    code: typeof code === 'number' ? code : 0,
    message: error instanceof Error ? error.message : String(error),
  };
}

/** Another connection holds the lock. */
export function isBusy(fault: SqliteFault): boolean {
  return (fault.code & 0xff) === 5;
}

/** BUSY, NOMEM, READONLY, IOERR, CORRUPT, FULL, …: not caused by the statement during which they occur. */
const databaseFaults = new Set([5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 26]);

/** The prepared statements of a connection, by their SQL. */
export class PreparedStatements {
  readonly #db: DatabaseSync;
  readonly #prepared = new Map<string, StatementSync>();

  constructor(db: DatabaseSync) {
    this.#db = db;
  }

  /** Prepares at first use, because a unit may create what its next statement uses. */
  get(sql: string): StatementSync {
    let statement = this.#prepared.get(sql);
    if (statement === undefined) {
      statement = this.#db.prepare(plannedOnce(sql));
      this.#prepared.set(sql, statement);
    }
    return statement;
  }

  all(sql: string, params: readonly SqlValue[]): Row[] {
    return this.get(sql).all(...params);
  }
}

/**
 * SQLite plans a statement again at each execution if its plan may depend on the value of a parameter: of
 * `LIMIT ?` and `LIKE ?`, but not of an expression. Planning takes longer than most statements.
 */
function plannedOnce(sql: string): string {
  return sql.replaceAll('LIMIT ?', 'LIMIT ? + 0').replaceAll('LIKE ?', "LIKE ? || ''");
}

export type Unit = readonly Statement[];

/** The result of a unit, or the error that its own statement caused. */
export type UnitOutcome = UnitResult | { readonly fault: SqliteFault };

/** What became of a batch. A fault means that nothing of it is known to be stored. */
export type Commit =
  | { readonly outcomes: readonly UnitOutcome[]; readonly tookMs: number }
  | { readonly fault: SqliteFault };

export const noRows: readonly Row[] = Object.freeze([]);

/**
 * Runs units on one connection, in one transaction. An unmet expectation and a faulty statement (a
 * constraint, a bad parameter) undo their own unit alone; a fault of the database (disk full, damage, a
 * lock) undoes all.
 *
 * Few units fail, and most of those at their first statement, when there is nothing to undo. So a batch
 * runs without savepoints, and is repeated with one per unit if a unit has to be undone.
 */
export class BatchRunner {
  readonly #db: DatabaseSync;
  readonly #statements: PreparedStatements;
  readonly #returnsRows = new Map<string, boolean>();

  constructor(db: DatabaseSync, statements = new PreparedStatements(db)) {
    this.#db = db;
    this.#statements = statements;
  }

  /** Returns after the commit. Throws what concerns the whole database; then nothing is stored. */
  run(units: readonly Unit[]): { outcomes: UnitOutcome[]; tookMs: number } {
    const began = performance.now();
    try {
      const outcomes = this.#runPlainly(units) ?? this.#runWithSavepoints(units);
      return { outcomes, tookMs: performance.now() - began };
    } catch (error) {
      this.#rollBack();
      throw error;
    }
  }

  /** Undefined if a unit has to be undone; then all are. */
  #runPlainly(units: readonly Unit[]): UnitOutcome[] | undefined {
    const outcomes: UnitOutcome[] = [];
    this.#command('BEGIN IMMEDIATE');
    for (const unit of units) {
      const { outcome, isPartial } = this.#outcome(unit);
      outcomes.push(outcome);
      if (!isPartial) continue;
      this.#command('ROLLBACK');
      return units.length === 1 ? outcomes : undefined;
    }
    this.#command('COMMIT');
    return outcomes;
  }

  #runWithSavepoints(units: readonly Unit[]): UnitOutcome[] {
    this.#command('BEGIN IMMEDIATE');
    const outcomes = units.map((unit) => {
      this.#command('SAVEPOINT unit');
      const { outcome, isPartial } = this.#outcome(unit);
      if (isPartial) this.#command('ROLLBACK TO unit');
      this.#command('RELEASE unit');
      return outcome;
    });
    this.#command('COMMIT');
    return outcomes;
  }

  /** `isPartial`: it failed after some of its statements were applied. */
  #outcome(unit: Unit): { outcome: UnitOutcome; isPartial: boolean } {
    const results: StatementResult[] = [];
    try {
      for (const { sql, params, expect } of unit) {
        const result = this.#execute(sql, params);
        if (expect !== undefined && result.changes !== expect) {
          const isPartial = results.length > 0 || result.changes > 0;
          return { outcome: { ok: false, failedAt: results.length }, isPartial };
        }
        results.push(result);
      }
      return { outcome: { ok: true, results }, isPartial: false };
    } catch (error) {
      const fault = faultOf(error);
      if (!this.#db.isTransaction || databaseFaults.has(fault.code & 0xff)) throw error;
      return { outcome: { fault }, isPartial: results.length > 0 };
    }
  }

  #execute(sql: string, params: readonly SqlValue[]): StatementResult {
    const statement = this.#statements.get(sql);
    let returnsRows = this.#returnsRows.get(sql);
    if (returnsRows === undefined) {
      returnsRows = statement.columns().length > 0;
      this.#returnsRows.set(sql, returnsRows);
    }
    if (!returnsRows) return { rows: noRows, changes: statement.run(...params).changes as number };
    const rows = statement.all(...params) as Row[];
    return { rows, changes: rows.length };
  }

  #command(sql: string): void {
    this.#statements.get(sql).run();
  }

  #rollBack(): void {
    try {
      if (this.#db.isOpen && this.#db.isTransaction) this.#command('ROLLBACK');
    } catch {
      // The next BEGIN fails if the connection is unusable.
    }
  }
}
