import type { ErrorCode } from '../errors.ts';

/** What can go wrong before a run starts, on every surface. */
export const startsRun: readonly ErrorCode[] = [
  'invalid_json',
  'invalid_request',
  'invalid_pattern',
  'unknown_model',
  'credential_missing',
  'unknown_tool',
  'unauthorized',
  'scope_required',
  'rate_limited',
  'budget_exceeded',
  'tenant_paused',
  'approve_scope_required',
  'payload_too_large',
  'unsupported_media_type',
];
