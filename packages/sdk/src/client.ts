import type {
  ChatBody,
  ExplainBody,
  Health,
  ModelList,
  ToolList,
  WorkflowQuery,
} from '@relay/protocol/wire';
import { Approvals } from './approvals.ts';
import { Audit } from './audit.ts';
import { Chat } from './chat.ts';
import { Credentials } from './credentials.ts';
import { feed, type FeedOptions } from './feed.ts';
import { Grants } from './grants.ts';
import { type CallOptions, Http, type HttpOptions } from './http.ts';
import { Keys } from './keys.ts';
import { getWorkflow } from './lineage.ts';
import { Memories } from './memories.ts';
import { explain } from './permissions.ts';
import { Policies } from './policy.ts';
import { Runs } from './runs.ts';
import { TenantSettings } from './tenant.ts';
import { Webhooks } from './webhooks.ts';

export type ClientOptions = HttpOptions;
export type RelayClient = ReturnType<typeof createClient>;

/** A Relay server, as a program or a page sees it. Nothing is sent before something is asked. */
export function createClient(options: ClientOptions) {
  const http = new Http(options);
  return {
    runs: new Runs(http),
    approvals: new Approvals(http),
    grants: new Grants(http),
    policy: new Policies(http),
    audit: new Audit(http),
    credentials: new Credentials(http),
    memories: new Memories(http),
    keys: new Keys(http),
    webhooks: new Webhooks(http),
    tenant: new TenantSettings(http),
    permissions: {
      explain: (body: ExplainBody, options: CallOptions = {}) => explain(http, body, options),
    },
    workflows: {
      get: (id: string, query: WorkflowQuery = {}, options: CallOptions = {}) =>
        getWorkflow(http, id, { query: { ...query }, ...options }),
    },
    /** A run that lives with its connection. */
    chat: (body: ChatBody, options: CallOptions = {}) => Chat.open(http, body, options),
    /** Hints about what has changed, so that nobody need poll. */
    feed: (options: FeedOptions = {}) => feed(http, options),
    models: (options: CallOptions = {}) => http.json<ModelList>('GET', '/models', options),
    /** What requests may name in `tools` as `builtin`. */
    tools: (options: CallOptions = {}) => http.json<ToolList>('GET', '/v1/tools', options),
    health: (options: CallOptions = {}) => http.json<Health>('GET', '/health', options),
  };
}
