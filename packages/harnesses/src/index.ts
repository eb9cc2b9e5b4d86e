export type {
  Harness,
  HarnessContext,
  HarnessCredential,
  HarnessInput,
  HarnessMessage,
  HarnessProcess,
  HarnessSession,
  OutgoingMessage,
  PermissionAnswer,
  PermissionRequest,
  Receipt,
} from '@relay/core';
export { checkSession } from './check-session.ts';
export { defineHarness, harnessProblem } from './define-harness.ts';
export { acp, type AcpOptions, withPresets } from './acp/acp.ts';
