export type {
  Harness,
  HarnessContext,
  HarnessInput,
  HarnessMessage,
  HarnessSession,
  OutgoingMessage,
  PermissionAnswer,
  PermissionRequest,
  Receipt,
} from '@relay/core';
export { checkSession } from './check-session.ts';
export { defineHarness, harnessProblem } from './define-harness.ts';
export { pty, type PtyOptions } from './pty/pty.ts';
