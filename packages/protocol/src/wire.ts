/** What a browser needs: the SSE parser and the types, without a line of zod at run time. */
export * from './defined.ts';
export * from './sse/sse.ts';
export * from './defined.ts';
export type { ErrorBody, ErrorCode, FieldIssue } from './errors.ts';
export type {
  EventOf,
  EventType,
  Progress,
  RunEvent,
  Stored,
  StoredEvent,
  Trust,
} from './events/catalogue.ts';
export type { ContentPart, Message, MessageContent, MessageToolCall } from './schemas/messages.ts';
export type {
  PermissionResponse,
  Permissions,
  RelayResponse,
  ToolPermission,
} from './schemas/permissions.ts';
export type { ProviderData } from './schemas/provider-data.ts';
export type { Decider, ApprovalKind, ApprovalStatus } from './schemas/approvals.ts';
export type {
  CheckpointEnvelope,
  EndedStatus,
  RunError,
  RunStatus,
  Usage,
} from './schemas/runs.ts';
export type { ChatFrame, ChatToolOutput } from './dialects/chat-frames.ts';
export type * from './dialects/runs-frames.ts';
export type * from './schemas/shapes.ts';
export type { Limits, LimitName } from './schemas/limits.ts';
export type { Scope } from './routes/route.ts';
