/**
 * The route table. Validation, authentication, documentation and tests all read it.
 */
import { actionRoutes } from './actions.ts';
import { approvalRoutes } from './approvals.ts';
import { auditRoutes } from './audit.ts';
import { chatRoutes } from './chat.ts';
import { consoleRoutes } from './console.ts';
import { conversationRoutes } from './conversations.ts';
import { credentialRoutes } from './credentials.ts';
import { grantRoutes } from './grants.ts';
import { idRoutes } from './ids.ts';
import { keyRoutes } from './keys.ts';
import { mcpRoutes } from './mcp.ts';
import { memoryRoutes } from './memories.ts';
import { messageRoutes } from './messages.ts';
import { policyRoutes } from './policy.ts';
import type { Route } from './route.ts';
import { runRoutes } from './runs.ts';
import { runtimeRoutes } from './runtime.ts';
import { sessionRoutes } from './sessions.ts';
import { statsRoutes } from './stats.ts';
import { systemRoutes } from './system.ts';
import { tenantRoutes } from './tenant.ts';
import { toolResultRoutes } from './tool-results.ts';
import { webhookRoutes } from './webhooks.ts';

export * from './actions.ts';
export * from './approvals.ts';
export * from './audit.ts';
export * from './chat.ts';
export * from './console.ts';
export * from './conversations.ts';
export * from './credentials.ts';
export * from './grants.ts';
export * from './ids.ts';
export * from './keys.ts';
export * from './memories.ts';
export * from './messages.ts';
export * from './policy.ts';
export type { Route, RouteAuth } from './route.ts';
export * from './runs.ts';
export * from './runtime.ts';
export * from './sessions.ts';
export * from './stats.ts';
export * from './tenant.ts';
export * from './tool-results.ts';
export * from './webhooks.ts';

export const routes = {
  ...systemRoutes,
  ...chatRoutes,
  ...runtimeRoutes,
  ...runRoutes,
  ...conversationRoutes,
  ...idRoutes,
  ...toolResultRoutes,
  ...actionRoutes,
  ...approvalRoutes,
  ...grantRoutes,
  ...keyRoutes,
  ...credentialRoutes,
  ...consoleRoutes,
  ...memoryRoutes,
  ...messageRoutes,
  ...tenantRoutes,
  ...statsRoutes,
  ...auditRoutes,
  ...policyRoutes,
  ...webhookRoutes,
  ...sessionRoutes,
  ...mcpRoutes,
} as const satisfies Record<string, Route>;

export type RouteName = keyof typeof routes;
