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
export { type AgentClient, type AgentConnection, connectAgent } from './acp/connection.ts';
export { AgentSupervisor, type AgentSupervisorOptions } from './acp/supervisor.ts';
export { AgentProcess } from './acp/agent-process.ts';
export { pty, type PtyOptions } from './pty/pty.ts';
