export type {
  Harness,
  HarnessContext,
  HarnessCredential,
  HarnessInput,
  HarnessMessage,
  HarnessProcess,
  HarnessQuestion,
  HarnessSession,
  OutgoingMessage,
  PermissionAnswer,
  PermissionRequest,
  QuestionAnswer,
  Receipt,
} from '@relay/core';
export { checkSession } from './check-session.ts';
export { defineHarness, harnessProblem } from './define-harness.ts';
export { acp, type AcpOptions, withPresets } from './acp/acp.ts';
export { pty, type PtyOptions } from './pty/pty.ts';
