/** Which handler serves which route: one Fastify plugin a surface, all from the one table. */
import { openApiDocument, type RouteName } from '@relay/protocol';
import { docsPage } from './views/docs-page.ts';
import { decideApproval, getApproval, listApprovals } from './handlers/approvals.ts';
import { auditHead, listAudit, verifyAudit } from './handlers/audit.ts';
import { answerChatRelay, startChat } from './handlers/chat.ts';
import { deleteCredential, listCredentials, putCredential } from './handlers/credentials.ts';
import { decideByLink, type LinkHandler, showDecisionLink } from './handlers/decision-link.ts';
import { followFeed } from './handlers/feed.ts';
import {
  createGrant,
  explainPermission,
  listGrants,
  previewGrant,
  revokeGrant,
} from './handlers/grants.ts';
import type { Handler, PublicHandler } from './handlers/handler.ts';
import { health, ready, welcome } from './handlers/health.ts';
import { createKey, listKeys, revokeKey } from './handlers/keys.ts';
import { addMemory, clearMemories, deleteMemory, listMemories } from './handlers/memories.ts';
import { metrics } from './handlers/metrics.ts';
import { listModels } from './handlers/models.ts';
import { getPolicy, listPolicyVersions, previewPolicy, putPolicy } from './handlers/policy.ts';
import { forkRun, getWorkflow, resumeRun } from './handlers/run-branches.ts';
import {
  cancelRun,
  followStream,
  getRun,
  listRunEvents,
  listRuns,
  startRun,
} from './handlers/runs.ts';
import { cancelRuns, getTenant, updateTenant } from './handlers/tenant.ts';
import { listTools } from './handlers/tools.ts';
import { awaitToolResult, claimToolCall, postToolResult } from './handlers/tool-results.ts';
import { approveTool, resumeChat, startApiChat } from './handlers/runtime.ts';
import {
  createWebhook,
  deleteWebhook,
  listWebhookDeliveries,
  listWebhooks,
} from './handlers/webhooks.ts';

const openApi: PublicHandler = async ({ version }) => openApiDocument(version);
const docs: PublicHandler = async ({ version }) => docsPage(openApiDocument(version));

/** Without a caller. */
export const publicSurface = { welcome, health, ready, openApi, docs } satisfies Partial<
  Record<RouteName, PublicHandler>
>;

/** By a link that is its own right. */
export const linkSurface = { showDecisionLink, decideByLink } satisfies Partial<
  Record<RouteName, LinkHandler>
>;

type Keyed = Exclude<RouteName, keyof typeof publicSurface | keyof typeof linkSurface>;

const chat = { startChat, answerChatRelay, listModels };
const runtime = { startApiChat, approveTool, resumeChat };
const controlPlane = {
  listTools,
  startRun,
  listRuns,
  getRun,
  listRunEvents,
  followRun: followStream,
  followFeed,
  cancelRun,
  postToolResult,
  claimToolCall,
  resumeRun,
  forkRun,
  getWorkflow,
  listApprovals,
  getApproval,
  decideApproval,
  listGrants,
  createGrant,
  revokeGrant,
  previewGrant,
  explainPermission,
  createKey,
  listKeys,
  revokeKey,
  putCredential,
  listCredentials,
  deleteCredential,
  listMemories,
  addMemory,
  deleteMemory,
  clearMemories,
  getTenant,
  updateTenant,
  cancelRuns,
  listAudit,
  auditHead,
  verifyAudit,
  getPolicy,
  putPolicy,
  listPolicyVersions,
  previewPolicy,
  createWebhook,
  listWebhooks,
  deleteWebhook,
  listWebhookDeliveries,
  metrics,
};

/** For the operator's own programs. */
const internal = { awaitToolResult };

/** A route of the table that no surface serves does not compile. */
type Complete<Served extends Record<Keyed, Handler>> = Served;
type AllServed = Complete<typeof chat & typeof runtime & typeof controlPlane & typeof internal>;

/** Every route that needs a caller, in the surface that it belongs to. */
export const surfaces: readonly Partial<AllServed>[] = [chat, runtime, controlPlane, internal];
