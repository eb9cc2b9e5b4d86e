/**
 * What a browser needs: the SSE parser, and types without any zod code at run time. The types of
 * request and response bodies are derived from the route table, so they cannot differ from it.
 */
import type { z } from 'zod';
import type { RouteName, routes } from './routes/index.ts';

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
export type { ChatFrame, ChatToolOutput } from './dialects/chat.ts';
export type {
  AgentSwitchFrame,
  ApprovalExpiringFrame,
  ApprovalFrame,
  ApprovalResolvedFrame,
  DoneFrame,
  ErrorFrame,
  HandoffFrame,
  ResetFrame,
  RunFrame,
  RunsFrame,
  TokenFrame,
  ToolCallFrame,
  ToolResultFrame,
  WireUsage,
} from './dialects/runs.ts';
export type { Scope } from './routes/route.ts';
export type {
  ContentPart,
  Message,
  MessageContent,
  MessageToolCall,
  ProviderData,
} from './schemas/messages.ts';
export type {
  ApprovalKind,
  ApprovalStatus,
  Decider,
  PermissionResponse,
  Permissions,
  RelayResponse,
  ToolPermission,
} from './schemas/permissions.ts';
export type {
  CheckpointEnvelope,
  EndedStatus,
  LimitName,
  Limits,
  RunError,
  RunStatus,
  Usage,
} from './schemas/runs.ts';

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
export type AnswerOf<Name extends RouteName> = z.output<Declared<Name, 'output'>>;

/** The body that a client sends: properties with a default are optional. */
export type RequestBodyOf<Name extends RouteName> = z.input<Declared<Name, 'body'>>;
/** The query that a client sends, with numbers as numbers. */
export type RequestQueryOf<Name extends RouteName> = Partial<QueryOf<Name>>;

export type RunBody = RequestBodyOf<'startRun'>;
export type RunTool = NonNullable<RunBody['tools']>[number];
export type Run = AnswerOf<'getRun'>;
export type RunsQuery = RequestQueryOf<'listRuns'>;
export type ForkBody = NonNullable<RequestBodyOf<'forkRun'>>;
export type Workflow = AnswerOf<'getWorkflow'>;
export type WorkflowQuery = RequestQueryOf<'getWorkflow'>;
export type Utterance = RequestBodyOf<'startApiChat'>;
export type ChatBody = RequestBodyOf<'startChat'>;

export type Approval = AnswerOf<'getApproval'>;
export type ApprovalsQuery = RequestQueryOf<'listApprovals'>;
export type DecisionBody = RequestBodyOf<'decideApproval'>;

export type Grant = AnswerOf<'createGrant'>;
export type GrantScope = Grant['scope'];
export type GrantBody = RequestBodyOf<'createGrant'>;
export type GrantsQuery = RequestQueryOf<'listGrants'>;
export type GrantPreviewBody = RequestBodyOf<'previewGrant'>;
export type GrantPreview = AnswerOf<'previewGrant'>;
export type ExplainBody = RequestBodyOf<'explainPermission'>;
export type Explanation = AnswerOf<'explainPermission'>;

export type Policy = AnswerOf<'getPolicy'>;
export type PolicyBody = RequestBodyOf<'putPolicy'>;
export type PolicyQuery = RequestQueryOf<'getPolicy'>;
export type PolicyVersionsQuery = RequestQueryOf<'listPolicyVersions'>;
export type PolicyPreviewBody = RequestBodyOf<'previewPolicy'>;
export type PolicyPreview = AnswerOf<'previewPolicy'>;

export type AuditEntry = AnswerOf<'listAudit'>['entries'][number];
export type AuditQuery = RequestQueryOf<'listAudit'>;
export type AuditHead = AnswerOf<'auditHead'>;
export type AuditVerdict = AnswerOf<'verifyAudit'>;

export type Webhook = AnswerOf<'listWebhooks'>['webhooks'][number];
export type WebhookBody = RequestBodyOf<'createWebhook'>;
export type WebhooksQuery = RequestQueryOf<'listWebhooks'>;
export type WebhookDelivery = AnswerOf<'listWebhookDeliveries'>['deliveries'][number];

export type Credential = AnswerOf<'putCredential'>;
export type CredentialBody = RequestBodyOf<'putCredential'>;

export type ApiKey = AnswerOf<'listKeys'>['keys'][number];
export type ApiKeyBody = RequestBodyOf<'createKey'>;

export type Memory = AnswerOf<'addMemory'>;
export type MemoryBody = RequestBodyOf<'addMemory'>;
export type MemoriesQuery = RequestQueryOf<'listMemories'>;

export type Tenant = AnswerOf<'getTenant'>;
export type TenantBody = RequestBodyOf<'updateTenant'>;
export type CancelRunsBody = RequestBodyOf<'cancelRuns'>;

export type ToolResultBody = RequestBodyOf<'postToolResult'>;
export type ToolClaim = AnswerOf<'claimToolCall'>;

export type Health = AnswerOf<'health'>;
export type ModelList = AnswerOf<'listModels'>;
export type ToolList = AnswerOf<'listTools'>;
