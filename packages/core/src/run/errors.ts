import { type FieldIssue, RelayError, type RunError } from '@relay/protocol';
import { StatementRefused } from '../ports/index.ts';

/** The message of anything that was thrown, even of a value that cannot be converted to text. */
export function errorText(thrown: unknown): string {
  try {
    const message: unknown = thrown instanceof Error ? thrown.message || thrown.name : thrown;
    return typeof message === 'string' ? message : (JSON.stringify(message) ?? typeof message);
  } catch {
    return 'A value was thrown that cannot be converted to text';
  }
}

/** Errors wrap each other a few times; a chain that is longer leads in a circle. */
const maxCauses = 16;

/**
 * Whether the store failed, and may work again later. The journal of the run is intact: the run is
 * released and continues. Models and tools may have wrapped the error.
 */
export function isStoreFault(error: unknown): boolean {
  let isFault = false;
  let cause = error;
  for (let depth = 0; cause instanceof Error && depth < maxCauses; depth += 1) {
    if (cause instanceof StatementRefused) return false;
    isFault ||=
      cause instanceof RelayError &&
      (cause.code === 'storage_failed' || cause.code === 'storage_full');
    ({ cause } = cause);
  }
  return isFault;
}

/** The error of a run that failed. Messages of unknown errors are not shown: they may hold secrets (E8). */
export function runErrorOf(error: unknown): RunError {
  const isKnown = error instanceof RelayError;
  return {
    code: isKnown ? error.code : 'internal',
    message: isKnown
      ? error.message
      : 'The run failed because of an internal error; see the server log',
    retryable: false,
  };
}

export function textOfIssues(issues: readonly FieldIssue[]): string {
  return issues
    .map(({ path, message }) => (path === '' ? message : `${path}: ${message}`))
    .join('; ');
}
