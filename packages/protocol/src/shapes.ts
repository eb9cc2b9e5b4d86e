/**
 * What travels in the bodies of requests and answers, as types alone. They are read off the schemas
 * of the route table, so that they cannot differ from it, and nothing of zod is left at run time.
 */
import type { z } from 'zod';
import type {
  approvalBodySchema,
  approvalSchema,
  approvalsQuerySchema,
} from './routes/approvals.ts';
import type { chatBodySchema } from './routes/chat.ts';
import type { credentialBodySchema, credentialSchema } from './routes/credentials.ts';
import type { keyBodySchema, keySchema } from './routes/keys.ts';
import type { runBodySchema, runSchema, runsQuerySchema } from './routes/runs.ts';
import type { systemRoutes } from './routes/system.ts';
import type { cancelRunsBodySchema, tenantBodySchema, tenantSchema } from './routes/tenant.ts';
import type { toolResultBodySchema, toolResultRoutes } from './routes/tool-results.ts';

/** Whatever has a default may be left out; a query's numbers are numbers here. */
type Query<Schema extends z.ZodType> = Partial<z.output<Schema>>;

export type RunBody = z.input<typeof runBodySchema>;
export type RunTool = NonNullable<RunBody['tools']>[number];
export type Run = z.output<typeof runSchema>;
export type RunsQuery = Query<typeof runsQuerySchema>;

export type Approval = z.output<typeof approvalSchema>;
export type ApprovalsQuery = Query<typeof approvalsQuerySchema>;
export type DecisionBody = z.input<typeof approvalBodySchema>;

export type ChatBody = z.input<typeof chatBodySchema>;

export type Credential = z.output<typeof credentialSchema>;
export type CredentialBody = z.input<typeof credentialBodySchema>;

export type ApiKey = z.output<typeof keySchema>;
export type ApiKeyBody = z.input<typeof keyBodySchema>;

export type Tenant = z.output<typeof tenantSchema>;
export type TenantBody = z.input<typeof tenantBodySchema>;
export type CancelRunsBody = z.input<typeof cancelRunsBodySchema>;

export type ToolResultBody = z.input<typeof toolResultBodySchema>;
export type ToolClaim = z.output<(typeof toolResultRoutes)['claimToolCall']['output']>;

export type Health = z.output<(typeof systemRoutes)['health']['output']>;
export type ModelList = z.output<(typeof systemRoutes)['listModels']['output']>;
