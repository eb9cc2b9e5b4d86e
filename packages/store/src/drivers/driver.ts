/**
 * What the store needs from a database: reads and units. A unit is a fixed list of statements that is
 * applied as a whole or not at all; many units may share one commit. There are no interactive
 * transactions, so no lock is held while a caller does something else.
 *
 * SQL is written with `?` for parameters; a driver translates it if necessary.
 */
export type SqlValue = string | number | bigint | null | Uint8Array;

export type Row = Readonly<Record<string, SqlValue>>;

export interface Statement {
  readonly sql: string;
  readonly params: readonly SqlValue[];
  /** The number of rows that must be changed or returned; otherwise the unit is undone. */
  readonly expect?: number;
}

export interface StatementResult {
  readonly rows: readonly Row[];
  readonly changes: number;
}

export type UnitResult =
  | { readonly ok: true; readonly results: readonly StatementResult[] }
  | { readonly ok: false; readonly failedAt: number };

/**
 * The rows that a unit changes, for databases with concurrent writers. Units of a run change its own row
 * first and may share a commit, in the order of their runs. Those of a session do the same; its name begins
 * with `~`, which sorts after all runs. A unit with `exclusive`, or without a run, changes rows that other
 * units change in any order, so it gets a commit of its own.
 */
export interface UnitScope {
  readonly run: string;
  readonly exclusive?: boolean;
}

export type SqlDialect = 'sqlite' | 'postgres';

/** Short messages between nodes that share a database. They may be lost. */
export interface HintChannel {
  send(message: string): void;
  /** `undefined` means that messages may have been lost. Returns a function that unsubscribes. */
  listen(listener: (message: string | undefined) => void): () => void;
}

export interface SqlAccess {
  readonly dialect: SqlDialect;
  /** Only where several nodes share the database. */
  readonly hints?: HintChannel;
  read(sql: string, params: readonly SqlValue[]): Promise<readonly Row[]>;
  /** A read that takes long and does not delay the event loop. Only where `read` would. */
  readLong?(sql: string, params: readonly SqlValue[]): Promise<readonly Row[]>;
  /**
   * Resolves after the commit; a rejection means that the outcome is unknown. Units of one run are
   * applied in the order of submission, and so are units without a run.
   */
  transact(unit: readonly Statement[], of?: UnitScope): Promise<UnitResult>;
}

export interface SqlDriver extends SqlAccess {
  /**
   * Access to the rows of one tenant, whatever a statement says. Only where the database itself can
   * separate tenants.
   */
  tenant?(tenantId: string): SqlAccess;
  close(): Promise<void>;
}
