/** What can go wrong, as one line for a person and an exit code for a program. */

export const exitCodes = {
  ok: 0,
  failure: 1,
  usage: 2,
  notFound: 3,
  notAllowed: 4,
  conflict: 5,
  unreachable: 6,
  runFailed: 7,
  interrupted: 130,
} as const;
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

export interface CliErrorOptions {
  readonly exit?: ExitCode;
  /** What to do about it. */
  readonly hint?: string;
}

/** Thrown on purpose: `code` is for programs, the message for people. */
export class CliError extends Error {
  override readonly name = 'CliError';
  readonly code: string;
  readonly exit: ExitCode;
  readonly hint: string | undefined;

  constructor(code: string, message: string, options: CliErrorOptions = {}) {
    super(message);
    this.code = code;
    this.exit = options.exit ?? exitCodes.failure;
    this.hint = options.hint;
  }
}

export function usageError(message: string, hint?: string): CliError {
  const options = hint === undefined ? {} : { hint };
  return new CliError('usage', message, { exit: exitCodes.usage, ...options });
}

export interface Failure {
  readonly error: string;
  readonly code: string;
  readonly hint?: string;
  readonly exit: ExitCode;
}

/** As `RelayApiError` of the SDK looks, without loading it for that. */
interface ApiError extends Error {
  readonly code: string;
  readonly status: number;
  readonly details?: readonly { readonly path: string; readonly message: string }[];
}

export function failureOf(error: unknown): Failure {
  if (error instanceof CliError) {
    const { message, code, hint, exit } = error;
    return { error: message, code, exit, ...(hint === undefined ? {} : { hint }) };
  }
  if (error instanceof Error && error.name === 'RelayApiError')
    return apiFailure(error as ApiError);
  const message = error instanceof Error ? error.message : String(error);
  // Said for people already: settings that are wrong, a store that cannot be used.
  if (error instanceof Error && error.name === 'ConfigError') {
    return { error: message, code: 'configuration', exit: exitCodes.failure };
  }
  const { code } = (error ?? {}) as { code?: unknown };
  return {
    error: message,
    code: typeof code === 'string' ? code.toLowerCase() : 'internal',
    exit: exitCodes.failure,
  };
}

function apiFailure({ message, code, status, cause, details = [] }: ApiError): Failure {
  if (code === 'network_error') {
    const error = message
      .replace('fetch failed', reasonOf(cause))
      .replace(/^[A-Z]+ (https?:\/\/[^/\s]+)\S* failed: /, 'No answer from $1: ');
    return { error, code, exit: exitCodes.unreachable, hint: hints['network_error'] ?? '' };
  }
  const fields = details
    .filter((issue) => issue.path !== '' && !message.includes(issue.path))
    .map((issue) => `${issue.path}: ${issue.message}`);
  const error = fields.length === 0 ? message : `${message} (${fields.join('; ')})`;
  const isModelMissing = details.some(
    ({ path, message: what }) => path === 'model' && what === 'Required',
  );
  const hint = isModelMissing ? modelHint : hints[code];
  return { error, code, exit: exitFor(status), ...(hint === undefined ? {} : { hint }) };
}

/** What `fetch` hides behind "fetch failed". */
function reasonOf(error: unknown): string {
  const { cause } = (error ?? {}) as { cause?: { code?: string; message?: string } };
  return cause?.code ?? cause?.message ?? 'fetch failed';
}

function exitFor(status: number): ExitCode {
  if (status === 401 || status === 403) return exitCodes.notAllowed;
  if (status === 404 || status === 410) return exitCodes.notFound;
  if (status === 409 || status === 422) return exitCodes.conflict;
  if (status === 400 || status === 413) return exitCodes.usage;
  return exitCodes.failure;
}

const modelHint = 'name one with --model; the model "demo" needs no provider';

const hints: Readonly<Record<string, string>> = {
  network_error: 'is the server running? "relay serve" starts one, "relay doctor" looks closer',
  unauthorized:
    'it is missing, mistyped, expired or revoked; on the machine of the data folder this makes one: ' +
    'export RELAY_API_KEY=$(relay bootstrap)',
  scope_required: 'use a key with that scope; "relay keys create" makes one',
  approve_scope_required: 'use a key with the scope approve',
  credential_missing: 'store the key of the provider: "relay credentials set PROVIDER"',
  unknown_model: 'the model "demo" needs no provider; "relay credentials list" shows the others',
  approval_conflict: 'somebody answered before; "relay approvals show ID" says who',
  policy_conflict: 'somebody changed the rules meanwhile; "relay policy show" has them',
  run_ended: '"relay runs fork ID" goes on from it',
  tenant_paused: 'an administrator has paused this tenant',
};
