import type {
  ChatBody,
  FoundIds,
  Health,
  IdsQuery,
  ModelList,
  ToolList,
} from '@relay/protocol/wire';
import { type CallOptions, Http, type HttpOptions } from './http.ts';
import {
  agents,
  approvals,
  audit,
  conversations,
  credentials,
  grants,
  keys,
  memories,
  permissions,
  policy,
  signIn,
  stats,
  tenant,
  webhooks,
  workflows,
} from './resources.ts';
import { Runs } from './runs.ts';
import { actions, invocations } from './sessions/actions.ts';
import { channels, deliveries, messages } from './sessions/messages.ts';
import { Sessions } from './sessions/sessions.ts';
import { Chat } from './streaming/chat.ts';
import { feed, type FeedOptions } from './streaming/frames.ts';

export type ClientOptions = HttpOptions;
export type RelayClient = ReturnType<typeof createClient>;

/** A client of a Relay server. It sends nothing until a method is called. */
export function createClient(options: ClientOptions) {
  const http = new Http(options);
  return {
    agents: agents(http),
    runs: new Runs(http),
    conversations: conversations(http),
    sessions: new Sessions(http),
    messages: messages(http),
    deliveries: deliveries(http),
    channels: channels(http),
    actions: actions(http),
    invocations: invocations(http),
    approvals: approvals(http),
    grants: grants(http),
    policy: policy(http),
    audit: audit(http),
    credentials: credentials(http),
    memories: memories(http),
    keys: keys(http),
    webhooks: webhooks(http),
    tenant: tenant(http),
    stats: stats(http),
    permissions: permissions(http),
    workflows: workflows(http),
    console: signIn(http),
    /** A run that is canceled when its connection closes. */
    chat: (body: ChatBody, options: CallOptions = {}) => Chat.open(http, body, options),
    /** Notifications about changed runs, approvals, sessions, messages and deliveries, instead of polling. */
    feed: (options: FeedOptions = {}) => feed(http, options),
    /** The ids that begin or end with `match`, newest first. */
    findIds: (query: IdsQuery, options: CallOptions = {}) =>
      http.json<FoundIds>('GET', '/v1/ids', { query, ...options }),
    models: (options: CallOptions = {}) => http.json<ModelList>('GET', '/models', options),
    /** The tools that a run can name as `builtin`. */
    tools: (options: CallOptions = {}) => http.json<ToolList>('GET', '/v1/tools', options),
    health: (options: CallOptions = {}) => http.json<Health>('GET', '/health', options),
    /** Fails with `shutting_down` while the server stops. */
    ready: (options: CallOptions = {}) =>
      http.json<{ status: 'ready' }>('GET', '/ready', { maxRetries: 0, ...options }),
  };
}
