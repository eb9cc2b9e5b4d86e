/**
 * The handlers by route: a handler is exported under the name of its route, and a route without a
 * handler does not compile.
 */
import * as actions from './actions.ts';
import * as approvals from './approvals.ts';
import * as audit from './audit.ts';
import * as channels from './channels.ts';
import * as chat from './chat.ts';
import * as credentials from './credentials.ts';
import * as decisionLink from './decision-link.ts';
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
import * as mcp from './mcp.ts';
import * as memories from './memories.ts';
import * as messages from './messages.ts';
import * as policy from './policy.ts';
import * as resumeFork from './resume-fork.ts';
import * as runs from './runs.ts';
import * as runtime from './runtime.ts';
import * as sessions from './sessions.ts';
import * as system from './system.ts';
import * as tenant from './tenant.ts';
import * as toolResults from './tool-results.ts';
import * as webhooks from './webhooks.ts';
import * as workflows from './workflows.ts';

export const publicHandlers: { readonly [Name in PublicRoute]: PublicHandler<Name> } = system;

export const linkHandlers: { readonly [Name in LinkRoute]: LinkHandler<Name> } = decisionLink;

export const handlers: { readonly [Name in CallerRoute]: Handler<Name> } = {
  ...actions,
  ...approvals,
  ...audit,
  ...channels,
  ...chat,
  ...credentials,
  ...grants,
  ...keys,
  ...mcp,
  ...memories,
  ...messages,
  ...policy,
  ...resumeFork,
  ...runs,
  ...runtime,
  ...sessions,
  ...system,
  ...tenant,
  ...toolResults,
  ...webhooks,
  ...workflows,
};
