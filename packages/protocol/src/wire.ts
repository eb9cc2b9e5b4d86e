/**
 * What a browser needs: the SSE parser, and types without any zod code at run time. The types of
 * request and response bodies are derived from the route table, so they cannot differ from it.
 */
import type { z } from 'zod';
import type { auditLineSchema, feedFrameSchema, RouteName, routes } from './routes/index.ts';

export * from './defined.ts';
export { canObserve } from './events/observation.ts';
export { childPath, isObject, type JsonSchema, resolveRef } from './json-schema/schema.ts';
export * from './json-schema/tool-schema.ts';
export { issuesOfValue } from './json-schema/validate.ts';
export { canonicalJson } from './schemas/canonical.ts';
export * from './sse/sse.ts';
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
export type {
  AgentSessionEvent,
  SessionEvent,
  SessionEventOf,
  StoredSessionEvent,
  TranscriptChunk,
} from './events/session-events.ts';
export type { ChatFrame, ChatToolOutput } from './dialects/chat.ts';
export type { DoneFrame, RunsFrame } from './dialects/runs.ts';
export type {
  ContentPart,
  Message,
  MessageContent,
  MessageToolCall,
  ProviderData,
  Sender,
} from './schemas/messages.ts';
export type {
  ApprovalKind,
  CommandEffect,
  CommandRole,
  CommandSegment,
  Decider,
  ExplainedParameter,
  OutcomeAnswer,
  PermissionResponse,
  Permissions,
  RelayResponse,
  ToolPermission,
} from './schemas/permissions.ts';
export * from './schemas/names.ts';
export { type Role, roleNames, type Scope, scopes, scopesOfRole } from './schemas/roles.ts';
export type {
  CheckpointEnvelope,
  EndedStatus,
  FinishReason,
  LimitName,
  Limits,
  RunError,
  RunStatus,
  Usage,
  WireUsage,
} from './schemas/runs.ts';
export type {
  AgentSessionCapabilities,
  AgentSessionEventType,
  AttachmentType,
  CapabilityDetails,
  CapabilityPath,
  DeliveryStatus,
  IdentityKind,
  InvocationStatus,
  SessionCommand,
  SessionIdentity,
} from './schemas/sessions.ts';
export type { DeliveryFrame } from './routes/sessions.ts';
export type { SessionAttachment } from './routes/messages.ts';
export type { ActionSelector } from './routes/actions.ts';

type Declared<Name extends RouteName, Part extends string> = (typeof routes)[Name] extends {
  readonly [P in Part]: infer Schema extends z.ZodType;
}
  ? Schema
  : z.ZodUndefined;

/** The input of a route's handler, validated and with defaults filled in. */
export type ParamsOf<Name extends RouteName> = z.output<Declared<Name, 'params'>>;
export type QueryOf<Name extends RouteName> = z.output<Declared<Name, 'query'>>;
export type BodyOf<Name extends RouteName> = z.output<Declared<Name, 'body'>>;
/** The JSON response of a route. */
export type ResponseOf<Name extends RouteName> = z.output<Declared<Name, 'output'>>;

/** The body that a client sends: properties with a default are optional. */
export type RequestBodyOf<Name extends RouteName> = z.input<Declared<Name, 'body'>>;
/** The query that a client sends, with numbers as numbers. */
export type RequestQueryOf<Name extends RouteName> = Partial<QueryOf<Name>>;

export type RunBody = RequestBodyOf<'startRun'>;
export type RunTool = NonNullable<RunBody['tools']>[number];
export type Run = ResponseOf<'getRun'>;
export type RunsQuery = RequestQueryOf<'listRuns'>;
export type ForkBody = NonNullable<RequestBodyOf<'forkRun'>>;
export type Workflow = ResponseOf<'getWorkflow'>;
export type WorkflowQuery = RequestQueryOf<'getWorkflow'>;
export type ChatMessageBody = RequestBodyOf<'startApiChat'>;
export type ChatBody = RequestBodyOf<'startChat'>;

export type Approval = ResponseOf<'getApproval'>;
export type ApprovalsQuery = RequestQueryOf<'listApprovals'>;
export type DecisionBody = RequestBodyOf<'decideApproval'>;

export type Grant = ResponseOf<'createGrant'>;
export type GrantScope = Grant['scope'];
export type GrantBody = RequestBodyOf<'createGrant'>;
export type GrantsQuery = RequestQueryOf<'listGrants'>;
export type GrantPreviewBody = RequestBodyOf<'previewGrant'>;
export type GrantPreview = ResponseOf<'previewGrant'>;
export type ExplainBody = RequestBodyOf<'explainPermission'>;
export type Explanation = ResponseOf<'explainPermission'>;

export type Policy = ResponseOf<'getPolicy'>;
export type PolicyBody = RequestBodyOf<'putPolicy'>;
export type PolicyQuery = RequestQueryOf<'getPolicy'>;
export type PolicyVersionsQuery = RequestQueryOf<'listPolicyVersions'>;
export type PolicyPreviewBody = RequestBodyOf<'previewPolicy'>;
export type PolicyPreview = ResponseOf<'previewPolicy'>;

export type AuditEntry = ResponseOf<'listAudit'>['entries'][number];
export type AuditQuery = RequestQueryOf<'listAudit'>;
export type AuditHead = ResponseOf<'auditHead'>;
export type AuditLine = z.output<typeof auditLineSchema>;
export type AuditExportQuery = RequestQueryOf<'exportAudit'>;
export type AuditVerdict = ResponseOf<'verifyAudit'>;

export type Webhook = ResponseOf<'listWebhooks'>['webhooks'][number];
export type WebhookBody = RequestBodyOf<'createWebhook'>;
export type WebhooksQuery = RequestQueryOf<'listWebhooks'>;
export type WebhookDelivery = ResponseOf<'listWebhookDeliveries'>['deliveries'][number];

export type Credential = ResponseOf<'putCredential'>;
export type CredentialBody = RequestBodyOf<'putCredential'>;

export type ApiKey = ResponseOf<'listKeys'>['keys'][number];
/** The key or sign-in that a client uses. */
export type CurrentKey = ResponseOf<'getCurrentKey'>;
export type ConsoleLink = ResponseOf<'createConsoleLink'>;
export type ApiKeyBody = RequestBodyOf<'createKey'>;

export type Memory = ResponseOf<'addMemory'>;
export type MemoryBody = RequestBodyOf<'addMemory'>;
export type MemoriesQuery = RequestQueryOf<'listMemories'>;

export type Tenant = ResponseOf<'getTenant'>;
export type TenantBody = RequestBodyOf<'updateTenant'>;
export type Stats = ResponseOf<'getStats'>;
export type StatsQuery = RequestQueryOf<'getStats'>;
export type RunMessageBody = RequestBodyOf<'messageRun'>;
export type RunMessage = ResponseOf<'messageRun'>;
export type CancelRunsBody = RequestBodyOf<'cancelRuns'>;

export type Session = ResponseOf<'createSession'>;
/** What the token of another session shows of it. */
export type SessionSummary = Exclude<ResponseOf<'getSession'>, Session>;
export type SessionBody = RequestBodyOf<'createSession'>;
export type SessionsQuery = RequestQueryOf<'listSessions'>;
export type SessionChanges = RequestBodyOf<'updateSession'>;
export type ForkSession = RequestBodyOf<'forkSession'>;
export type TerminalInput = RequestBodyOf<'inputSession'>;
export type SessionSnapshot = ResponseOf<'snapshotSession'>;
export type AttachBody = RequestBodyOf<'attachSession'>;
export type AttachedSession = ResponseOf<'attachSession'>;
export type ReceiptBody = RequestBodyOf<'postReceipt'>;
export type CommandAnswerBody = RequestBodyOf<'answerCommand'>;

export type SessionMessage = ResponseOf<'sendMessage'>;
export type MessageBody = RequestBodyOf<'sendMessage'>;
export type MessageChanges = RequestBodyOf<'editMessage'>;
export type MessagesQuery = RequestQueryOf<'listMessages'>;
export type Delivery = ResponseOf<'redeliver'>;
export type DeliveriesQuery = RequestQueryOf<'listDeliveries'>;
export type DeliveryWaitQuery = RequestQueryOf<'listMessageDeliveries'>;
export type Channel = ResponseOf<'getChannel'>;
export type ChannelBody = NonNullable<RequestBodyOf<'putChannel'>>;

export type Action = ResponseOf<'listActions'>['actions'][number];
export type ActionBody = RequestBodyOf<'registerAction'>;
export type RegisteredAction = ResponseOf<'registerAction'>;
export type Invocation = ResponseOf<'getInvocation'>;
export type InvocationResultBody = RequestBodyOf<'postInvocationResult'>;

export type ToolResultBody = RequestBodyOf<'postToolResult'>;
export type ToolClaim = ResponseOf<'claimToolCall'>;

export type Health = ResponseOf<'health'>;
/** A notification of `GET /v1/feed`. */
export type FeedFrame = z.output<typeof feedFrameSchema>;
export type Agent = ResponseOf<'listAgents'>['agents'][number];
export type Conversation = ResponseOf<'getConversation'>;
export type ConversationsQuery = RequestQueryOf<'listConversations'>;
export type IdsQuery = QueryOf<'findIds'>;
export type FoundIds = ResponseOf<'findIds'>;
export type ModelList = ResponseOf<'listModels'>;
export type ToolList = ResponseOf<'listTools'>;
