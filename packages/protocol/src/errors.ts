import type { CapabilityDetails } from './schemas/sessions.ts';

/**
 * The error table, read by the code, the documentation and the OpenAPI document. A code is never reused
 * with another meaning.
 */
export const errorTable = {
  invalid_json: permanent(400, 'The request body is not valid JSON'),
  invalid_request: permanent(400, 'A field is missing or invalid'),
  invalid_pattern: permanent(400, 'A permission rule contains an invalid pattern'),
  outcome_answer_required: permanent(
    400,
    'An approval of kind outcome requires rerun, completed or failed',
  ),
  unknown_model: permanent(400, 'No configured provider offers this model'),
  credential_missing: permanent(400, 'The tenant has no credential for the model’s provider'),
  base_url_refused: permanent(400, 'Connections to this URL are not allowed'),
  unknown_tool: permanent(400, 'There is no such tool, or the agent does not have it'),
  unknown_agent: permanent(400, 'No agent has this name'),
  unauthorized: permanent(401, 'The API key is missing or invalid'),
  scope_required: permanent(403, 'The API key lacks the required scope'),
  key_required: permanent(403, 'Callers without an API key may not use this'),
  not_run_owner: permanent(403, 'The run belongs to another owner'),
  scope_not_held: permanent(403, 'A key cannot give away a scope that it lacks'),
  approve_scope_required: permanent(403, 'Rules that allow calls require the scope approve'),
  host_not_allowed: permanent(403, 'The Host is not in RELAY_ALLOWED_HOSTS'),
  origin_not_allowed: permanent(
    403,
    'The Origin is not allowed, or not with the cookie of the console',
  ),
  not_an_approver: permanent(403, 'The policy names other approvers for this call'),
  denied_by_rule: permanent(403, 'A deny rule denies this call'),
  action_denied: permanent(
    403,
    'A rule or an approver denied the action, or the caller may not invoke it',
  ),
  not_sender: permanent(403, 'Requires the sender of the message'),
  not_found: permanent(404, 'No such resource'),
  session_not_found: permanent(404, 'No such chat session is open'),
  relay_not_found: permanent(404, 'No such approval is open in this chat session'),
  method_not_allowed: permanent(405, 'Method not allowed'),
  request_timeout: retryable(408, 'The request was not received in time'),
  tool_result_conflict: permanent(409, 'The call already has a different result'),
  call_claimed: permanent(409, 'Another client has claimed the call'),
  result_gone: permanent(410, 'The run has ended without a result for this call'),
  approval_conflict: permanent(409, 'The approval was already decided, has expired or is closed'),
  approval_changed: permanent(409, 'The arguments of the call were changed since they were shown'),
  policy_conflict: permanent(409, 'The policy has changed since the given version'),
  tool_unavailable: permanent(
    409,
    'The tool was removed or changed, or its MCP server is not connected',
  ),
  run_ended: permanent(409, 'The run has ended; fork it to continue'),
  not_a_boundary: permanent(409, 'Forks and snapshots begin only between two turns'),
  capability_missing: permanent(409, 'The session does not declare the required capability'),
  loop_limit: permanent(409, 'Agents have answered each other too often'),
  handle_taken: permanent(409, 'Another session that is in use has this handle'),
  session_conflict: permanent(409, 'The status of the session does not allow this'),
  workspace_missing: permanent(409, 'The tenant has no workspace'),
  message_delivered: permanent(409, 'The message was handed over to a recipient'),
  receipt_conflict: permanent(409, 'Another final receipt, answer or result was given before'),
  action_name_taken: permanent(409, 'Another action has this name'),
  action_gone: permanent(410, 'The action ended before it was started'),
  cursor_past_end: permanent(409, 'The requested position is after the end of the journal'),
  payload_too_large: permanent(413, 'The request body or the message is too large'),
  unsupported_media_type: permanent(415, 'The request body must be uncompressed JSON in UTF-8'),
  key_ended: permanent(409, 'The key is revoked, has expired or was rotated already'),
  tenant_paused: permanent(409, 'The tenant is paused'),
  budget_exceeded: retryable(429, 'A budget is exhausted'),
  inbox_full: retryable(429, 'The inbox of the session is full'),
  rate_limited: retryable(429, 'Too many requests'),
  too_many_open: retryable(
    429,
    'Too many streams, waiting requests, request bodies or agents are open',
  ),
  checkpoint_missing: permanent(409, 'The run has no checkpoint to resume from'),
  idempotency_mismatch: permanent(422, 'The idempotency key was used with a different body'),
  event_undeclared: permanent(422, 'The session does not declare events of this type'),
  approval_state_missing: permanent(500, 'The run has no approval for this tool call'),
  run_canceled: permanent(409, 'The run or the sub-agent was canceled'),
  outcome_unknown: permanent(
    409,
    'The call was interrupted and has no known result; it may have taken effect',
  ),
  model_unresolved: permanent(400, 'No model with this name is registered'),
  limit_reached: permanent(409, 'The run has reached a limit'),
  guardrail_tripped: permanent(422, 'A guardrail rejected the input or the answer'),
  output_invalid: permanent(422, 'The answer or the output of an action does not match its schema'),
  model_refused: permanent(422, 'The model refused to answer'),
  content_filtered: permanent(422, 'The provider’s content filter blocked the answer'),
  handoff_refused: permanent(409, 'The handoff failed'),
  answer_too_large: permanent(502, 'The model’s answer exceeds RELAY_MAX_ANSWER_CHARS'),
  context_exceeded: permanent(502, 'The conversation does not fit into the model’s context window'),
  tool_timed_out: permanent(504, 'No client posted the result of the function tool in time'),
  action_failed: permanent(502, 'The action failed'),
  action_timed_out: permanent(504, 'The action took too long'),
  command_failed: permanent(502, 'The program of the session failed to carry out the command'),
  command_timed_out: permanent(
    504,
    'The program of the session did not answer the command in time',
  ),
  harness_failed: permanent(502, 'The harness failed to create or attach the session'),
  question_declined: permanent(409, 'The tool’s question was declined or not answered'),
  tool_failed: permanent(500, 'The tool failed'),
  tool_input_invalid: permanent(400, 'The arguments do not match the tool’s schema'),
  resume_crashed: permanent(500, 'The server process died each time it resumed the run'),
  journal_pruned: permanent(
    410,
    'The journal, or this part of it, was deleted after its retention period',
  ),
  journal_corrupt: permanent(500, 'Stored data is damaged or inconsistent'),
  internal: permanent(500, 'Internal error'),
  provider_failed: retryable(502, 'The model provider failed'),
  provider_rejected: permanent(502, 'The model provider rejected the request'),
  shutting_down: retryable(503, 'The server is shutting down'),
  storage_full: retryable(503, 'The disk is full'),
  storage_failed: retryable(503, 'The database operation failed'),
} as const satisfies Record<string, ErrorKind>;

interface ErrorKind {
  readonly status: number;
  readonly retryable: boolean;
  readonly title: string;
}

function permanent(status: number, title: string): ErrorKind {
  return { status, retryable: false, title };
}

function retryable(status: number, title: string): ErrorKind {
  return { status, retryable: true, title };
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
  /** The invalid fields, or the capability of a `capability_missing`. */
  details?: readonly FieldIssue[] | CapabilityDetails;
}

/** An error with a code of the table. Its message may be shown to the caller. */
export class RelayError extends Error {
  override readonly name = 'RelayError';
  readonly code: ErrorCode;
  readonly details: readonly FieldIssue[] | undefined;
  /** The capability of a `capability_missing`; the `details` of its body. */
  readonly capability: CapabilityDetails | undefined;
  /** When a retry may succeed, where that is known. */
  readonly retryAfterMs: number | undefined;

  constructor(
    code: ErrorCode,
    message: string,
    options: {
      details?: readonly FieldIssue[];
      capability?: CapabilityDetails;
      cause?: unknown;
      retryAfterMs?: number;
    } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.details = options.details;
    this.capability = options.capability;
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
    const details = this.details ?? this.capability;
    if (details !== undefined) body.details = details;
    return body;
  }
}
