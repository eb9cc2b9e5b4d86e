/**
 * The one table of errors. The code, the documentation and the OpenAPI document all read it.
 * A code is never reused for another meaning.
 */
export const errorTable = {
  invalid_json: { status: 400, retryable: false, title: 'The request body is not valid JSON' },
  invalid_request: { status: 400, retryable: false, title: 'A field is missing or invalid' },
  invalid_pattern: { status: 400, retryable: false, title: 'Invalid permission pattern' },
  unknown_model: {
    status: 400,
    retryable: false,
    title: 'No configured provider offers this model',
  },
  credential_missing: {
    status: 400,
    retryable: false,
    title: 'The tenant has no credential for the model’s provider',
  },
  base_url_refused: {
    status: 400,
    retryable: false,
    title: 'Connections to this URL are not allowed',
  },
  unknown_tool: { status: 400, retryable: false, title: 'The tenant has no such tool' },
  unknown_agent: { status: 400, retryable: false, title: 'No agent has this name' },
  unauthorized: { status: 401, retryable: false, title: 'The API key is missing or invalid' },
  scope_required: { status: 403, retryable: false, title: 'The API key lacks the required scope' },
  approve_scope_required: {
    status: 403,
    retryable: false,
    title: 'Rules that widen permissions require the scope approve',
  },
  host_not_allowed: {
    status: 403,
    retryable: false,
    title: 'Host not allowed',
  },
  origin_not_allowed: {
    status: 403,
    retryable: false,
    title: 'Origin not allowed',
  },
  denied_by_rule: {
    status: 403,
    retryable: false,
    title: 'A deny rule matches these arguments',
  },
  not_found: { status: 404, retryable: false, title: 'No such resource' },
  session_not_found: { status: 404, retryable: false, title: 'No such chat session is open' },
  relay_not_found: {
    status: 404,
    retryable: false,
    title: 'No such approval is open in this chat session',
  },
  method_not_allowed: { status: 405, retryable: false, title: 'Method not allowed' },
  request_timeout: { status: 408, retryable: true, title: 'The request was not received in time' },
  tool_result_conflict: {
    status: 409,
    retryable: false,
    title: 'The call already has a different result',
  },
  call_claimed: { status: 409, retryable: false, title: 'Another client has claimed the call' },
  result_gone: {
    status: 410,
    retryable: false,
    title: 'The run has ended without a result for this call',
  },
  approval_conflict: {
    status: 409,
    retryable: false,
    title: 'The approval was already decided differently',
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
    title: 'The given seq lies inside a turn',
  },
  cursor_past_end: {
    status: 409,
    retryable: false,
    title: 'The cursor is past the end of the journal',
  },
  payload_too_large: { status: 413, retryable: false, title: 'The request body is too large' },
  unsupported_media_type: { status: 415, retryable: false, title: 'The request body must be JSON' },
  tenant_paused: { status: 409, retryable: false, title: 'The tenant is paused' },
  budget_exceeded: { status: 429, retryable: true, title: 'A budget is exhausted' },
  rate_limited: { status: 429, retryable: true, title: 'Too many requests' },
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
    title: 'A crash interrupted the tool call; its outcome is unknown',
  },
  model_unresolved: { status: 400, retryable: false, title: 'No harness offers this model' },
  limit_reached: { status: 409, retryable: false, title: 'The run has reached a limit' },
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
  handoff_refused: { status: 409, retryable: false, title: 'Handoff to this agent is not allowed' },
  context_exceeded: {
    status: 502,
    retryable: false,
    title: 'The prompt exceeds the model’s context window',
  },
  tool_timed_out: { status: 504, retryable: false, title: 'No client posted the result in time' },
  question_declined: {
    status: 409,
    retryable: false,
    title: 'The tool’s question was declined or not answered',
  },
  tool_failed: { status: 500, retryable: false, title: 'The tool failed' },
  tool_input_invalid: {
    status: 400,
    retryable: false,
    title: 'The arguments do not match the tool’s schema',
  },
  journal_pruned: {
    status: 410,
    retryable: false,
    title: 'The journal of this run was deleted by retention',
  },
  journal_corrupt: {
    status: 500,
    retryable: false,
    title: 'Stored data is damaged or inconsistent',
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
  storage_failed: { status: 503, retryable: true, title: 'The store is not responding' },
} as const satisfies Record<string, ErrorKind>;

interface ErrorKind {
  readonly status: number;
  readonly retryable: boolean;
  readonly title: string;
}

export type ErrorCode = keyof typeof errorTable;

export interface FieldIssue {
  /** The field, such as `items[0].name`; empty for the whole value. */
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
  /** When a retry may succeed, where that is known. */
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
