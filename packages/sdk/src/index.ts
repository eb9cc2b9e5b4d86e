export { createClient, type ClientOptions, type RelayClient } from './client.ts';
export { RelayApiError, type RelayApiErrorCode } from './errors.ts';
export {
  type ClientTool,
  type JsonSchema,
  type JsonSchemaToolOptions,
  type StandardSchema,
  tool,
  type ToolContext,
  type ToolOptions,
} from './tool.ts';
export { type RunHandle, type RunResult, type RunStreamEvent } from './run-handle.ts';
export type {
  CreateRunOptions,
  EventsPage,
  EventsQuery,
  NewRun,
  RunEvents,
  StreamRunOptions,
} from './runs.ts';
export type { Chat, ChatEvent } from './chat.ts';
export type { FeedOptions, Hint } from './feed.ts';
export type { Disconnect } from './frames.ts';
export type { CallOptions, Fetch } from './http.ts';
export type { ForkOptions } from './lineage.ts';
export type { Listing, Page } from './listing.ts';
export type { NewPolicy } from './policy.ts';
export type { OnApproval } from './approval-watcher.ts';
export type {
  ApiKey,
  ApiKeyBody,
  Approval,
  ApprovalsQuery,
  AuditEntry,
  AuditHead,
  AuditQuery,
  AuditVerdict,
  CancelRunsBody,
  ChatBody,
  Credential,
  CredentialBody,
  DecisionBody,
  ErrorCode,
  ExplainBody,
  Explanation,
  FieldIssue,
  ForkBody,
  Grant,
  GrantBody,
  GrantPreview,
  GrantPreviewBody,
  GrantScope,
  GrantsQuery,
  Health,
  MemoriesQuery,
  Memory,
  MemoryBody,
  Message,
  ModelList,
  ToolList,
  PermissionResponse,
  Permissions,
  Policy,
  PolicyBody,
  PolicyPreview,
  PolicyPreviewBody,
  PolicyQuery,
  PolicyVersionsQuery,
  RelayResponse,
  Run,
  RunTool,
  RunsQuery,
  StoredEvent,
  Tenant,
  TenantBody,
  ToolPermission,
  Utterance,
  Webhook,
  WebhookBody,
  WebhookDelivery,
  WebhooksQuery,
  WireUsage,
  Workflow,
  WorkflowQuery,
} from '@relay/protocol/wire';
