/** Which handler serves which route: a route without a handler does not compile. */
import * as approvals from './approvals.ts';
import * as audit from './audit.ts';
import * as chat from './chat.ts';
import * as credentials from './credentials.ts';
import * as links from './decision-link.ts';
import * as grants from './grants.ts';
import type {
  CallerRoute,
  Handler,
  LinkHandler,
  LinkRoute,
  PublicHandler,
  PublicRoute,
} from './handler.ts';
import * as keys from './keys.ts';
import * as memories from './memories.ts';
import * as policy from './policy.ts';
import * as branches from './run-branches.ts';
import * as runs from './runs.ts';
import * as runtime from './runtime.ts';
import { followFeed } from '../../streaming/stream-run.ts';
import * as system from './system.ts';
import * as tenant from './tenant.ts';
import * as results from './tool-results.ts';
import * as webhooks from './webhooks.ts';

export const publicHandlers: { readonly [Name in PublicRoute]: PublicHandler<Name> } = {
  welcome: system.welcome,
  health: system.health,
  ready: system.ready,
  openApi: system.openApi,
  docs: system.docs,
};

export const linkHandlers: { readonly [Name in LinkRoute]: LinkHandler<Name> } = {
  showDecisionLink: links.showDecisionLink,
  decideByLink: links.decideByLink,
};

export const handlers: { readonly [Name in CallerRoute]: Handler<Name> } = {
  metrics: system.metrics,
  listModels: system.listModels,
  listTools: system.listTools,

  startChat: chat.startChat,
  answerChatRelay: chat.answerChatRelay,

  startApiChat: runtime.startApiChat,
  approveTool: runtime.approveTool,
  resumeChat: runtime.resumeChat,

  startRun: runs.startRun,
  listRuns: runs.listRuns,
  getRun: runs.getRun,
  listRunEvents: runs.listRunEvents,
  followRun: runs.followStream,
  followFeed,
  cancelRun: runs.cancelRun,
  resumeRun: branches.resumeRun,
  forkRun: branches.forkRun,
  getWorkflow: branches.getWorkflow,

  postToolResult: results.postToolResult,
  claimToolCall: results.claimToolCall,
  awaitToolResult: results.awaitToolResult,

  listApprovals: approvals.listApprovals,
  getApproval: approvals.getApproval,
  decideApproval: approvals.decideApproval,

  listGrants: grants.listGrants,
  createGrant: grants.createGrant,
  revokeGrant: grants.revokeGrant,
  previewGrant: grants.previewGrant,
  explainPermission: grants.explainPermission,

  getPolicy: policy.getPolicy,
  putPolicy: policy.putPolicy,
  listPolicyVersions: policy.listPolicyVersions,
  previewPolicy: policy.previewPolicy,

  createKey: keys.createKey,
  listKeys: keys.listKeys,
  revokeKey: keys.revokeKey,

  putCredential: credentials.putCredential,
  listCredentials: credentials.listCredentials,
  deleteCredential: credentials.deleteCredential,

  listMemories: memories.listMemories,
  addMemory: memories.addMemory,
  deleteMemory: memories.deleteMemory,
  clearMemories: memories.clearMemories,

  getTenant: tenant.getTenant,
  updateTenant: tenant.updateTenant,
  cancelRuns: tenant.cancelRuns,

  listAudit: audit.listAudit,
  auditHead: audit.auditHead,
  verifyAudit: audit.verifyAudit,

  createWebhook: webhooks.createWebhook,
  listWebhooks: webhooks.listWebhooks,
  deleteWebhook: webhooks.deleteWebhook,
  listWebhookDeliveries: webhooks.listWebhookDeliveries,
};
