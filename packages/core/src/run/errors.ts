import { type FieldIssue, RelayError, type RunError } from '@relay/protocol';

/** The message of anything that was thrown, even of a value that cannot be converted to text. */
export function errorText(thrown: unknown): string {
  try {
    const message: unknown = thrown instanceof Error ? thrown.message || thrown.name : thrown;
    return typeof message === 'string' ? message : (JSON.stringify(message) ?? typeof message);
  } catch {
    return 'A value was thrown that cannot be converted to text';
  }
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
