/**
 * The handlers by route: a handler is exported under the name of its route, and a route without a
 * handler does not compile.
 */
import * as actions from './sessions/actions.ts';
import * as approvals from './governance/approvals.ts';
import * as audit from './governance/audit.ts';
import * as channels from './sessions/channels.ts';
import * as chat from './runs/chat.ts';
import * as consoleSignIns from './governance/console.ts';
import * as conversations from './runs/conversations.ts';
import * as credentials from './governance/credentials.ts';
import * as decisionLink from './governance/decision-link.ts';
import * as grants from './governance/grants.ts';
import type {
  CallerRoute,
  Handler,
  LinkHandler,
  LinkRoute,
  PublicHandler,
  PublicRoute,
  SignInHandler,
  SignInRoute,
} from './handler.ts';
import * as ids from './ids.ts';
import * as keys from './governance/keys.ts';
import * as mcp from './mcp.ts';
import * as memories from './memories.ts';
import * as messages from './sessions/messages.ts';
import * as policy from './governance/policy.ts';
import * as resumeFork from './runs/resume-fork.ts';
import * as runs from './runs/runs.ts';
import * as runtime from './runs/runtime.ts';
import * as sessions from './sessions/sessions.ts';
import * as stats from './stats.ts';
import * as system from './system.ts';
import * as tenant from './governance/tenant.ts';
import * as toolResults from './runs/tool-results.ts';
import * as webhooks from './governance/webhooks.ts';
import * as workflows from './runs/workflows.ts';

export const publicHandlers: { readonly [Name in PublicRoute]: PublicHandler<Name> } = system;

export const linkHandlers: { readonly [Name in LinkRoute]: LinkHandler<Name> } = decisionLink;

export const signInHandlers: { readonly [Name in SignInRoute]: SignInHandler<Name> } =
  consoleSignIns;

export const handlers: { readonly [Name in CallerRoute]: Handler<Name> } = {
  ...actions,
  ...approvals,
  ...audit,
  ...channels,
  ...chat,
  ...consoleSignIns,
  ...conversations,
  ...credentials,
  ...grants,
  ...ids,
  ...keys,
  ...mcp,
  ...memories,
  ...messages,
  ...policy,
  ...resumeFork,
  ...runs,
  ...runtime,
  ...sessions,
  ...stats,
  ...system,
  ...tenant,
  ...toolResults,
  ...webhooks,
  ...workflows,
};
