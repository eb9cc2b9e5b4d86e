/**
 * Statements and units on one SQLite connection, for the writer thread and the in-memory driver.
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
      statement = this.#db.prepare(sql);
      this.#prepared.set(sql, statement);
    }
    return statement;
  }

  all(sql: string, params: readonly SqlValue[]): Row[] {
    return this.get(sql).all(...params);
  }
}

/** The result of a unit, or the error that its own statement caused. */
export type UnitOutcome = UnitResult | { readonly fault: SqliteFault };

const noRows: readonly Row[] = Object.freeze([]);

export class UnitRunner {
  readonly #db: DatabaseSync;
  readonly #statements: PreparedStatements;
  readonly #returnsRows = new Map<string, boolean>();
  readonly #savepoint: StatementSync;
  readonly #undo: StatementSync;
  readonly #release: StatementSync;

  constructor(db: DatabaseSync, statements = new PreparedStatements(db)) {
    this.#db = db;
    this.#statements = statements;
    this.#savepoint = db.prepare('SAVEPOINT unit');
    this.#undo = db.prepare('ROLLBACK TO unit');
    this.#release = db.prepare('RELEASE unit');
  }

  /**
   * Runs one unit inside its own savepoint; outside a transaction that is a transaction. An unmet
   * expectation and a faulty statement (a constraint, a bad parameter) undo this unit alone. Throws
   * what concerns the whole database; the caller then rolls back.
   */
  run(unit: readonly Statement[]): UnitOutcome {
    this.#savepoint.run();
    const outcome = this.#outcome(unit);
    if (!('ok' in outcome && outcome.ok)) this.#undo.run();
    this.#release.run();
    return outcome;
  }

  #outcome(unit: readonly Statement[]): UnitOutcome {
    const results: StatementResult[] = [];
    try {
      for (const { sql, params, expect } of unit) {
        const result = this.#execute(sql, params);
        if (expect !== undefined && result.changes !== expect) {
          return { ok: false, failedAt: results.length };
        }
        results.push(result);
      }
      return { ok: true, results };
    } catch (error) {
      const fault = faultOf(error);
      if (!this.#db.isTransaction || databaseFaults.has(fault.code & 0xff)) throw error;
      return { fault };
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
}

export function rollBack(db: DatabaseSync): void {
  try {
    if (db.isOpen && db.isTransaction) db.exec('ROLLBACK');
  } catch {
    // The next BEGIN fails if the connection is unusable.
  }
}
