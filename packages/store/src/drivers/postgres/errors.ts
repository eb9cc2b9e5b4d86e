import { StatementRefused } from '@relay/core';
import { RelayError } from '@relay/protocol';

/** The SQLSTATE of an error; none if the connection failed. */
function sqlState(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

export function toRelayError(error: unknown): RelayError {
  if (error instanceof RelayError) return error;
  const state = sqlState(error);
  const text = `PostgreSQL: ${messageOf(error)}${state === undefined ? '' : ` (${state})`}`;
  const cause = refusedValues.test(state ?? '') ? new StatementRefused(text) : new Error(text);
  if (state === '53100') {
    return new RelayError('storage_full', 'The disk that holds the journal is full', { cause });
  }
  if (state === 'XX001' || state === 'XX002') {
    return new RelayError('journal_corrupt', 'The database is damaged', { cause });
  }
  return new RelayError('storage_failed', 'The database operation failed', { cause });
}

/** The COMMIT got no reply: the caller must find out whether it was stored. */
export function unknownOutcome(error: unknown): RelayError {
  const cause = new Error(`PostgreSQL: ${messageOf(error)}`);
  return new RelayError(
    'storage_failed',
    'The connection was lost during COMMIT; the outcome of the write is unknown',
    { cause },
  );
}

/**
 * Values, constraints, limits: refused whenever they are sent. Missing tables and rights (42) are not
 * among them, because an operator can restore those.
 */
const refusedValues = /^(?:21|22|23|44|54)/;

/** Syntax, missing tables, constraints, values, a wrong number of parameters. */
const faultsOfStatements = /^(?:0A|21|22|23|42|44|54|P0)|^08P01$/;

/** A prepared statement that a migration has invalidated, or that no longer exists. */
const staleStatement = /^(?:0A000|26000)$/;

/** Whether the statement itself is wrong, so that other units may continue. */
export function isFaultOfStatement(error: unknown): boolean {
  const state = sqlState(error);
  return state !== undefined && faultsOfStatements.test(state) && !staleStatement.test(state);
}

const collision = /^(?:40001|40P01|55P03)$/;

/** A deadlock, a serialization failure or a lock timeout: a retry may succeed. */
export function isCollision(error: unknown): boolean {
  return collision.test(sqlState(error) ?? '');
}

const failedConnection = /^(?:08(?!P01)|57P|25P03|25P04|53300)/;

/** The connection is unusable (lost, shut down, idle too long), and a new one may work. */
export function isLostConnection(error: unknown): boolean {
  const state = sqlState(error);
  return state === undefined || failedConnection.test(state) || staleStatement.test(state);
}

export function messageOf(error: unknown): string {
  return error instanceof Error && error.message !== '' ? error.message : String(error);
}
