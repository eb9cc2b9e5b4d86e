/** Errors of the CLI: a one-line message, a code and an exit code. */
import { relay } from './environment.ts';

export const exitCodes = {
  ok: 0,
  failure: 1,
  usage: 2,
  notFound: 3,
  notAllowed: 4,
  conflict: 5,
  unreachable: 6,
  runFailed: 7,
  waiting: 8,
  timeout: 124,
  interrupted: 130,
} as const;
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

export interface CliErrorOptions {
  readonly exit?: ExitCode;
  /** How to fix it. */
  readonly hint?: string | undefined;
  /** Lines of a file, shown below the message. */
  readonly excerpt?: string | undefined;
  /** What could be meant, one line each. */
  readonly candidates?: readonly string[] | undefined;
}

export class CliError extends Error {
  override readonly name = 'CliError';
  readonly code: string;
  readonly exit: ExitCode;
  readonly hint: string | undefined;
  readonly excerpt: string | undefined;
  readonly candidates: readonly string[] | undefined;

  constructor(code: string, message: string, options: CliErrorOptions = {}) {
    super(message);
    this.code = code;
    this.exit = options.exit ?? exitCodes.failure;
    this.hint = options.hint;
    this.excerpt = options.excerpt;
    this.candidates = options.candidates;
  }
}

export function usageError(message: string, hint?: string): CliError {
  return new CliError('usage', message, { exit: exitCodes.usage, hint });
}

/** The shape of the SDK's `RelayApiError`, which is not imported: most commands start without it. */
interface ApiError extends Error {
  readonly code: string;
  readonly status: number;
  readonly details?: readonly { readonly path: string; readonly message: string }[];
  readonly failedRequest?: { readonly url: string; readonly reason: string };
}

export function isApiError(error: unknown): error is ApiError {
  return error instanceof Error && error.name === 'RelayApiError';
}

/** The server, or a proxy before it, cannot be reached now; it restarts, for example. */
export function isUnavailable(error: unknown): error is ApiError {
  return (
    isApiError(error) && (error.code === 'network_error' || [502, 503, 504].includes(error.status))
  );
}

/** Nothing was sent. */
export function isRefused(error: unknown): boolean {
  return isApiError(error) && error.failedRequest?.reason === 'ECONNREFUSED';
}

/** For the middle of a note. */
export function unavailableReason({ code, message }: ApiError): string {
  return code === 'network_error' ? 'no connection' : message;
}

/** The system's reason, which `fetch` hides behind "fetch failed". */
export function fetchReason(error: unknown): string | undefined {
  const { cause } = (error ?? {}) as { cause?: { code?: string; message?: string } };
  return cause?.code ?? cause?.message;
}

export interface Failure {
  readonly error: string;
  readonly code: string;
  readonly hint?: string | undefined;
  readonly candidates?: readonly string[] | undefined;
  readonly excerpt?: string | undefined;
  readonly exit: ExitCode;
}

export function failureOf(error: unknown): Failure {
  if (error instanceof CliError) {
    const { message, code, hint, exit, candidates, excerpt } = error;
    return { error: message, code, exit, hint, candidates, excerpt };
  }
  if (isApiError(error)) return apiFailure(error);
  const message = error instanceof Error ? error.message : String(error);
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

function apiFailure({ message, code, status, failedRequest, details = [] }: ApiError): Failure {
  if (code === 'network_error') {
    const error =
      failedRequest === undefined
        ? message
        : `No response from ${new URL(failedRequest.url).origin}: ${failedRequest.reason}`;
    return { error, code, exit: exitCodes.unreachable, hint: hints['network_error'] ?? '' };
  }
  // The message of the server covers one field. If several are invalid, all are listed instead.
  const fields = details.map((issue) => `${issue.path}: ${issue.message}`);
  const error = fields.length < 2 ? message : fields.join('; ');
  const isAboutModel = details.some(({ path }) => path === 'model');
  const hint = hints[code] ?? (isAboutModel ? modelHint : undefined);
  return { error, code, exit: exitFor(status), hint };
}

function exitFor(status: number): ExitCode {
  if (status === 401 || status === 403) return exitCodes.notAllowed;
  if (status === 404 || status === 410) return exitCodes.notFound;
  if (status === 409 || status === 422) return exitCodes.conflict;
  if (status === 400 || status === 413) return exitCodes.usage;
  return exitCodes.failure;
}

const modelHint = 'choose a model with --model; the model "demo" needs no provider';

const hints: Readonly<Record<string, string>> = {
  network_error: `is the server running? "${relay} dev" or "${relay} serve" starts one; "${relay} doctor" finds out more`,
  unauthorized:
    `the key is missing, mistyped, expired or revoked; sign in with "${relay} login" on the ` +
    `server's machine, or with "${relay} login URL" elsewhere, or set RELAY_API_KEY`,
  scope_required: `use a key with that scope; an administrator can create one with "${relay} keys create"`,
  approve_scope_required: 'use a key with the scope approve',
  unknown_agent: `"${relay} agents" lists all`,
  unknown_model:
    `choose another model; the model "demo" needs no provider, and "${relay} credentials list" shows ` +
    'the configured providers',
  outcome_answer_required: `use "${relay} approvals answer ID" with --completed JSON, --failed [REASON] or --rerun`,
  approval_conflict: `"${relay} approvals show ID" shows who decided`,
  policy_conflict: `the policy has changed since you read it; see "${relay} policy show"`,
  run_ended: `continue from it with "${relay} runs fork ID"`,
  capability_missing: `"${relay} sessions show SESSION" shows what it can do`,
  handle_taken: `choose another handle; "${relay} sessions list" shows those in use`,
  inbox_full: `wait until the session has taken some; see "${relay} sessions queue SESSION"`,
  tenant_paused: `an administrator has paused this tenant; "${relay} unpause" lets its runs go on`,
};
