/**
 * What a store needs from a database: reading, and units. A unit is a list of statements that is known
 * beforehand; it is applied wholly or not at all, and many units may share one commit. There are no
 * interactive transactions, so no lock is ever held while a caller does something else.
 *
 * SQL is written once, with `?` for each parameter; a driver translates that where it must.
 */
export type SqlValue = string | number | bigint | null | Uint8Array;

export type Row = Readonly<Record<string, SqlValue>>;

export interface Statement {
  readonly sql: string;
  readonly params: readonly SqlValue[];
  /** Rows that must be affected (or returned); otherwise the whole unit is undone. */
  readonly expect?: number;
}

export interface StatementResult {
  readonly rows: readonly Row[];
  readonly changes: number;
}

/** An expectation that was not met is a value: the caller foresaw it. */
export type UnitResult =
  | { readonly ok: true; readonly results: readonly StatementResult[] }
  | { readonly ok: false; readonly failedAt: number };

/**
 * Which rows a unit touches, for databases in which several write at once. Those of one run, and its
 * own row before the others: such units may share a commit, in the order of their runs. Left out, or
 * with `alone`: rows that other units touch in any order; such a unit has a commit of its own.
 */
export interface UnitOf {
  readonly run: string;
  readonly alone?: boolean;
}

/** Where SQLite and PostgreSQL differ, SQL is written for each. */
export type SqlDialect = 'sqlite' | 'postgres';

/** Short messages between the nodes that share a database. They may get lost. */
export interface HintChannel {
  send(message: string): void;
  /** `undefined`: some may have been lost. Returns a function that unsubscribes. */
  listen(listener: (message: string | undefined) => void): () => void;
}

/** What statements need of a database. */
export interface SqlAccess {
  readonly dialect: SqlDialect;
  /** Left out where the database has a single node. */
  readonly hints?: HintChannel;
  read(sql: string, params: readonly SqlValue[]): Promise<readonly Row[]>;
  /**
   * Resolves after the commit. A rejection means: not known to be stored. Units of one run are applied
   * in the order of their submission, and so are those of none.
   */
  transact(unit: readonly Statement[], of?: UnitOf): Promise<UnitResult>;
}

export interface SqlDriver extends SqlAccess {
  /**
   * Access to the rows of one tenant, whatever a statement says. Left out where the database cannot
   * keep tenants apart by itself.
   */
  tenant?(tenantId: string): SqlAccess;
  close(): Promise<void>;
}
