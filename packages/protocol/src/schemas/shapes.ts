/**
 * What travels in the bodies of requests and answers, as types alone. They are read off the schemas
 * of the route table, so that they cannot differ from it, and nothing of zod is left at run time.
 */
import type { z } from 'zod';
import type {
  approvalBodySchema,
  approvalSchema,
  approvalsQuerySchema,
} from '../routes/approvals.ts';
import type { auditEntrySchema, auditQuerySchema, auditRoutes } from '../routes/audit.ts';
import type { chatBodySchema } from '../routes/chat.ts';
import type { credentialBodySchema, credentialSchema } from '../routes/credentials.ts';
import type {
  explainBodySchema,
  grantBodySchema,
  grantPreviewBodySchema,
  grantRoutes,
  grantSchema,
  grantsQuerySchema,
} from '../routes/grants.ts';
import type { keyBodySchema, keySchema } from '../routes/keys.ts';
import type { memoriesQuerySchema, memoryBodySchema, memorySchema } from '../routes/memories.ts';
import type {
  policyBodySchema,
  policyPreviewBodySchema,
  policyQuerySchema,
  policyRoutes,
  policySchema,
  policyVersionsQuerySchema,
} from '../routes/policy.ts';
import type {
  forkBodySchema,
  runBranchRoutes,
  workflowQuerySchema,
} from '../routes/run-branches.ts';
import type { runBodySchema, runSchema, runsQuerySchema } from '../routes/runs.ts';
import type { apiChatBodySchema } from '../routes/runtime.ts';
import type { systemRoutes } from '../routes/system.ts';
import type { cancelRunsBodySchema, tenantBodySchema, tenantSchema } from '../routes/tenant.ts';
import type { toolResultBodySchema, toolResultRoutes } from '../routes/tool-results.ts';
import type {
  webhookBodySchema,
  webhookRoutes,
  webhookSchema,
  webhooksQuerySchema,
} from '../routes/webhooks.ts';

/** Whatever has a default may be left out; a query's numbers are numbers here. */
type Query<Schema extends z.ZodType> = Partial<z.output<Schema>>;

export type RunBody = z.input<typeof runBodySchema>;
export type RunTool = NonNullable<RunBody['tools']>[number];
export type Run = z.output<typeof runSchema>;
export type RunsQuery = Query<typeof runsQuerySchema>;
export type ForkBody = z.input<typeof forkBodySchema>;
export type Workflow = z.output<(typeof runBranchRoutes)['getWorkflow']['output']>;
export type WorkflowQuery = Query<typeof workflowQuerySchema>;
export type Utterance = z.input<typeof apiChatBodySchema>;

export type Approval = z.output<typeof approvalSchema>;
export type ApprovalsQuery = Query<typeof approvalsQuerySchema>;
export type DecisionBody = z.input<typeof approvalBodySchema>;

export type Grant = z.output<typeof grantSchema>;
export type GrantScope = Grant['scope'];
export type GrantBody = z.input<typeof grantBodySchema>;
export type GrantsQuery = Query<typeof grantsQuerySchema>;
export type GrantPreviewBody = z.input<typeof grantPreviewBodySchema>;
export type GrantPreview = z.output<(typeof grantRoutes)['previewGrant']['output']>;
export type ExplainBody = z.input<typeof explainBodySchema>;
export type Explanation = z.output<(typeof grantRoutes)['explainPermission']['output']>;

export type Policy = z.output<typeof policySchema>;
export type PolicyBody = z.input<typeof policyBodySchema>;
export type PolicyQuery = Query<typeof policyQuerySchema>;
export type PolicyVersionsQuery = Query<typeof policyVersionsQuerySchema>;
export type PolicyPreviewBody = z.input<typeof policyPreviewBodySchema>;
export type PolicyPreview = z.output<(typeof policyRoutes)['previewPolicy']['output']>;

export type AuditEntry = z.output<typeof auditEntrySchema>;
export type AuditQuery = Query<typeof auditQuerySchema>;
export type AuditHead = z.output<(typeof auditRoutes)['auditHead']['output']>;
export type AuditVerdict = z.output<(typeof auditRoutes)['verifyAudit']['output']>;

export type Webhook = z.output<typeof webhookSchema>;
export type WebhookBody = z.input<typeof webhookBodySchema>;
export type WebhooksQuery = Query<typeof webhooksQuerySchema>;
export type WebhookDelivery = z.output<
  (typeof webhookRoutes)['listWebhookDeliveries']['output']
>['deliveries'][number];

export type ChatBody = z.input<typeof chatBodySchema>;

export type Credential = z.output<typeof credentialSchema>;
export type CredentialBody = z.input<typeof credentialBodySchema>;

export type ApiKey = z.output<typeof keySchema>;
export type ApiKeyBody = z.input<typeof keyBodySchema>;

export type Memory = z.output<typeof memorySchema>;
export type MemoryBody = z.input<typeof memoryBodySchema>;
export type MemoriesQuery = Query<typeof memoriesQuerySchema>;

export type Tenant = z.output<typeof tenantSchema>;
export type TenantBody = z.input<typeof tenantBodySchema>;
export type CancelRunsBody = z.input<typeof cancelRunsBodySchema>;

export type ToolResultBody = z.input<typeof toolResultBodySchema>;
export type ToolClaim = z.output<(typeof toolResultRoutes)['claimToolCall']['output']>;

export type Health = z.output<(typeof systemRoutes)['health']['output']>;
export type ModelList = z.output<(typeof systemRoutes)['listModels']['output']>;
export type ToolList = z.output<(typeof systemRoutes)['listTools']['output']>;
