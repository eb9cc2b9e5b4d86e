/**
 * The one table of routes. Validation, authentication, documentation and tests read it, so that a
 * route cannot exist in one of them alone.
 */
import { approvalRoutes } from './routes/approvals.ts';
import { auditRoutes } from './routes/audit.ts';
import { chatRoutes } from './routes/chat.ts';
import { credentialRoutes } from './routes/credentials.ts';
import { grantRoutes } from './routes/grants.ts';
import { keyRoutes } from './routes/keys.ts';
import { memoryRoutes } from './routes/memories.ts';
import { policyRoutes } from './routes/policy.ts';
import type { Route } from './routes/route.ts';
import { runBranchRoutes } from './routes/run-branches.ts';
import { runRoutes } from './routes/runs.ts';
import { runtimeRoutes } from './routes/runtime.ts';
import { systemRoutes } from './routes/system.ts';
import { tenantRoutes } from './routes/tenant.ts';
import { toolResultRoutes } from './routes/tool-results.ts';
import { webhookRoutes } from './routes/webhooks.ts';

export * from './routes/approvals.ts';
export * from './routes/audit.ts';
export * from './routes/chat.ts';
export * from './routes/credentials.ts';
export * from './routes/grants.ts';
export * from './routes/keys.ts';
export * from './routes/memories.ts';
export * from './routes/policy.ts';
export type { Route, RouteAuth, Scope } from './routes/route.ts';
export { scopes } from './routes/route.ts';
export * from './routes/run-branches.ts';
export * from './routes/runs.ts';
export * from './routes/runtime.ts';
export * from './routes/tenant.ts';
export * from './routes/tool-results.ts';
export * from './routes/webhooks.ts';

export const routes = {
  ...systemRoutes,
  ...chatRoutes,
  ...runtimeRoutes,
  ...runRoutes,
  ...runBranchRoutes,
  ...toolResultRoutes,
  ...approvalRoutes,
  ...grantRoutes,
  ...keyRoutes,
  ...credentialRoutes,
  ...memoryRoutes,
  ...tenantRoutes,
  ...auditRoutes,
  ...policyRoutes,
  ...webhookRoutes,
} as const satisfies Record<string, Route>;

export type RouteName = keyof typeof routes;
