/**
 * The one table of errors. The code, the documentation and the OpenAPI document all read it.
 * A code is never reused for another meaning.
 */
export const errorTable = {
  invalid_json: { status: 400, retryable: false, title: 'The body is not valid JSON' },
  invalid_request: { status: 400, retryable: false, title: 'A field is missing or malformed' },
  invalid_pattern: { status: 400, retryable: false, title: 'A permission pattern is malformed' },
  unknown_model: { status: 400, retryable: false, title: 'No provider offers this model' },
  credential_missing: {
    status: 400,
    retryable: false,
    title: 'The tenant has no credential for the model’s provider',
  },
  base_url_refused: {
    status: 400,
    retryable: false,
    title: 'The provider’s URL is not allowed',
  },
  unknown_tool: { status: 400, retryable: false, title: 'The tenant has no such tool' },
  unknown_agent: { status: 400, retryable: false, title: 'No agent has this name' },
  unauthorized: { status: 401, retryable: false, title: 'The API key is missing or not valid' },
  scope_required: { status: 403, retryable: false, title: 'The key lacks the needed scope' },
  approve_scope_required: {
    status: 403,
    retryable: false,
    title: 'Rules that allow calls need the scope approve',
  },
  host_not_allowed: {
    status: 403,
    retryable: false,
    title: 'The Host header names an unknown host',
  },
  origin_not_allowed: {
    status: 403,
    retryable: false,
    title: 'The origin of the page is not allowed',
  },
  denied_by_rule: {
    status: 403,
    retryable: false,
    title: 'A deny rule rejects these arguments',
  },
  not_found: { status: 404, retryable: false, title: 'No such resource' },
  session_not_found: { status: 404, retryable: false, title: 'The chat session is not open' },
  relay_not_found: { status: 404, retryable: false, title: 'No such open relay in this session' },
  method_not_allowed: {
    status: 405,
    retryable: false,
    title: 'The path does not support this method',
  },
  request_timeout: { status: 408, retryable: true, title: 'The request arrived too slowly' },
  tool_result_conflict: {
    status: 409,
    retryable: false,
    title: 'The call already has another result',
  },
  call_claimed: { status: 409, retryable: false, title: 'Another client has claimed the call' },
  result_gone: {
    status: 410,
    retryable: false,
    title: 'The run has ended: there is no result to wait for',
  },
  approval_conflict: {
    status: 409,
    retryable: false,
    title: 'The approval already has a different decision',
  },
  policy_conflict: {
    status: 409,
    retryable: false,
    title: 'The policy has changed since the given version',
  },
  tool_unavailable: {
    status: 409,
    retryable: false,
    title: 'The tool of this call is no longer registered',
  },
  run_ended: { status: 409, retryable: false, title: 'The run has ended; fork it to continue' },
  not_a_boundary: {
    status: 409,
    retryable: false,
    title: 'The position in the journal is inside a turn',
  },
  cursor_past_end: {
    status: 409,
    retryable: false,
    title: 'The cursor is past the end of the journal',
  },
  payload_too_large: { status: 413, retryable: false, title: 'The body is too large' },
  unsupported_media_type: { status: 415, retryable: false, title: 'The body must be JSON' },
  tenant_paused: { status: 409, retryable: false, title: 'The tenant is paused' },
  budget_exceeded: { status: 429, retryable: true, title: 'A budget is exhausted' },
  rate_limited: { status: 429, retryable: true, title: 'Too many requests from this caller' },
  checkpoint_missing: { status: 409, retryable: false, title: 'The run has no checkpoint' },
  idempotency_mismatch: {
    status: 422,
    retryable: false,
    title: 'The idempotency key was used with a different body',
  },
  approval_state_missing: {
    status: 500,
    retryable: false,
    title: 'The run has no such approval',
  },
  run_canceled: { status: 409, retryable: false, title: 'The run was canceled' },
  outcome_unknown: {
    status: 409,
    retryable: false,
    title: 'The tool was started before a crash and its outcome is unknown',
  },
  model_unresolved: { status: 400, retryable: false, title: 'No harness offers this model' },
  limit_reached: { status: 409, retryable: false, title: 'A limit of the run is reached' },
  guardrail_tripped: {
    status: 422,
    retryable: false,
    title: 'A guardrail rejected the input or the answer',
  },
  output_invalid: {
    status: 422,
    retryable: false,
    title: 'The answer does not match the output schema',
  },
  handoff_refused: {
    status: 409,
    retryable: false,
    title: 'The agent cannot hand off to that agent',
  },
  context_exceeded: {
    status: 502,
    retryable: false,
    title: 'The prompt exceeds the model’s context window',
  },
  tool_timed_out: { status: 504, retryable: false, title: 'No client posted the result in time' },
  question_declined: {
    status: 409,
    retryable: false,
    title: 'The question of the tool was declined or expired',
  },
  tool_failed: { status: 500, retryable: false, title: 'The tool failed' },
  tool_input_invalid: {
    status: 400,
    retryable: false,
    title: 'The tool call does not match the tool’s schema',
  },
  journal_pruned: {
    status: 410,
    retryable: false,
    title: 'The journal of the run was deleted by retention',
  },
  journal_corrupt: {
    status: 500,
    retryable: false,
    title: 'The stored data is damaged or inconsistent',
  },
  internal: { status: 500, retryable: false, title: 'Internal error' },
  provider_failed: { status: 502, retryable: true, title: 'The model provider failed' },
  provider_rejected: {
    status: 502,
    retryable: false,
    title: 'The model provider rejected the request',
  },
  shutting_down: { status: 503, retryable: true, title: 'The server is shutting down' },
  storage_full: { status: 503, retryable: true, title: 'The disk is full' },
  storage_failed: { status: 503, retryable: true, title: 'The store did not respond' },
} as const satisfies Record<string, ErrorKind>;

interface ErrorKind {
  readonly status: number;
  readonly retryable: boolean;
  readonly title: string;
}

export type ErrorCode = keyof typeof errorTable;

/** Where in the input something is wrong, and what. */
export interface FieldIssue {
  readonly path: string;
  readonly message: string;
}

export interface ErrorBody {
  error: string;
  code: ErrorCode;
  details?: readonly FieldIssue[];
}

/** The only error that Relay throws on purpose. Its message may be shown to the caller. */
export class RelayError extends Error {
  override readonly name = 'RelayError';
  readonly code: ErrorCode;
  readonly details: readonly FieldIssue[] | undefined;
  /** When it may work again, where that is known. */
  readonly retryAfterMs: number | undefined;

  constructor(
    code: ErrorCode,
    message: string,
    options: { details?: readonly FieldIssue[]; cause?: unknown; retryAfterMs?: number } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.details = options.details;
    this.retryAfterMs = options.retryAfterMs;
  }

  get status(): number {
    return errorTable[this.code].status;
  }

  get retryable(): boolean {
    return errorTable[this.code].retryable;
  }

  toBody(): ErrorBody {
    const body: ErrorBody = { error: this.message, code: this.code };
    if (this.details !== undefined) body.details = this.details;
    return body;
  }
}
