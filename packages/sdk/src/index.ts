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
  Utterance,
} from './runs.ts';
export type { Chat, ChatEvent } from './chat.ts';
export type { FeedOptions, Hint } from './feed.ts';
export type { Disconnect } from './frames.ts';
export type { Grant, GrantBody, GrantPreview, GrantScope, GrantsQuery } from './grants.ts';
export type { CallOptions, Fetch } from './http.ts';
export type { ForkBody, ForkOptions, Workflow, WorkflowQuery } from './lineage.ts';
export type { Listing, Page } from './listing.ts';
export type { MemoriesQuery, Memory, MemoryBody } from './memories.ts';
export type { ExplainBody, Explanation } from './permissions.ts';
export type { OnRelay } from './relay-watcher.ts';
export type {
  ApiKey,
  ApiKeyBody,
  Approval,
  ApprovalsQuery,
  CancelRunsBody,
  ChatBody,
  Credential,
  CredentialBody,
  DecisionBody,
  ErrorCode,
  FieldIssue,
  Health,
  Message,
  ModelList,
  PermissionResponse,
  RelayResponse,
  Permissions,
  Run,
  RunsQuery,
  RunTool,
  StoredEvent,
  Tenant,
  TenantBody,
  ToolPermission,
  WireUsage,
} from '@relay/protocol/wire';
