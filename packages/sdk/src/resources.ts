/** The resources of a client, one factory each. A POST that creates something is never retried. */
import type * as wire from '@relay/protocol/wire';
import { type CallOptions, type Http, pathOf } from './http.ts';
import { listOf } from './listing.ts';

/** `/v1/agents`: the agents that a run, a chat or a session can name. */
export function agents(http: Http) {
  return {
    /** The default agent first. */
    list: (options: CallOptions = {}) =>
      listOf<wire.Agent>(http, '/v1/agents', { name: 'agents', ...options }),
  };
}

/**
 * `/v1/approvals`: the first decision counts, repeating it has no effect, a different one is a 409. Where
 * several approvers must agree, the approval is still pending after a vote that is not the last.
 */
export function approvals(http: Http) {
  const decide = (
    id: string,
    body: wire.DecisionBody,
    options: CallOptions = {},
  ): Promise<wire.Approval> =>
    http.json('POST', pathOf`/v1/approvals/${id}`, { body, repeatable: true, ...options });
  return {
    list: (query: wire.ApprovalsQuery = {}, options: CallOptions = {}) =>
      listOf<wire.Approval>(http, '/v1/approvals', { name: 'approvals', query, ...options }),
    get: (id: string, options: CallOptions = {}): Promise<wire.Approval> =>
      http.json('GET', pathOf`/v1/approvals/${id}`, options),
    /** Approves a call. An approval of kind `outcome` is answered with `decide(id, { outcome })`. */
    approve: (
      id: string,
      decision: Omit<wire.DecisionBody, 'approved' | 'outcome' | 'output'> = {},
    ) => decide(id, { ...decision, approved: true }),
    deny: (id: string, reason?: string) => decide(id, { approved: false, reason }),
    decide,
  };
}

/** `/v1/conversations`: runs that continue each other, of all owners. */
export function conversations(http: Http) {
  return {
    /** The one with the latest run first. `q`: those whose title contains it. */
    list: (query: wire.ConversationsQuery = {}, options: CallOptions = {}) =>
      listOf<wire.Conversation>(http, '/v1/conversations', {
        name: 'conversations',
        query,
        ...options,
      }),
    /** Its runs are `runs.list({ conversationId })`. */
    get: (id: string, options: CallOptions = {}): Promise<wire.Conversation> =>
      http.json('GET', pathOf`/v1/conversations/${id}`, options),
  };
}

/** `/v1/grants`: calls that need no approval. */
export function grants(http: Http) {
  return {
    list: (query: wire.GrantsQuery = {}, options: CallOptions = {}) =>
      listOf<wire.Grant>(http, '/v1/grants', { name: 'grants', query, ...options }),
    create: (body: wire.GrantBody, options: CallOptions = {}): Promise<wire.Grant> =>
      http.json('POST', '/v1/grants', { body, ...options }),
    /** The latest approvals that the grant would have made unnecessary. */
    preview: (body: wire.GrantPreviewBody, options: CallOptions = {}): Promise<wire.GrantPreview> =>
      http.json('POST', '/v1/grants/preview', { body, repeatable: true, ...options }),
    revoke: async (id: string, options: CallOptions = {}): Promise<void> =>
      http.json('DELETE', pathOf`/v1/grants/${id}`, options),
  };
}

export function permissions(http: Http) {
  return {
    /** How the rules decide a call, and why. */
    explain: (body: wire.ExplainBody, options: CallOptions = {}): Promise<wire.Explanation> =>
      http.json('POST', '/v1/permissions/explain', { body, repeatable: true, ...options }),
  };
}

/** `version` is the version to replace; 0 if there is none yet. */
export type NewPolicy = wire.PolicyBody & { readonly version: number };

/** `/v1/policy`: the rules of the tenant, for all agents or for one. */
export function policy(http: Http) {
  return {
    get: (query: wire.PolicyQuery = {}, options: CallOptions = {}): Promise<wire.Policy> =>
      http.json('GET', '/v1/policy', { query, ...options }),
    /** Never retried: a second attempt would conflict with the first. */
    put: (body: NewPolicy, options: CallOptions = {}): Promise<wire.Policy> =>
      http.json('PUT', '/v1/policy', { body, repeatable: false, ...options }),
    /** Newest first. */
    versions: (query: wire.PolicyVersionsQuery = {}, options: CallOptions = {}) =>
      listOf<wire.Policy>(http, '/v1/policy/versions', { name: 'versions', query, ...options }),
    /** The recent calls that these rules would decide differently. */
    preview: (
      body: wire.PolicyPreviewBody,
      options: CallOptions = {},
    ): Promise<wire.PolicyPreview> =>
      http.json('POST', '/v1/policy/preview', { body, repeatable: true, ...options }),
  };
}

/** `/v1/audit`: who did what, when and why. */
export function audit(http: Http) {
  return {
    /** Newest first. */
    list: (query: wire.AuditQuery = {}, options: CallOptions = {}) =>
      listOf<wire.AuditEntry>(http, '/v1/audit', { name: 'entries', query, ...options }),
    /** The current end of the trail. Save it, and pass it to `verify` later. */
    head: (options: CallOptions = {}): Promise<wire.AuditHead> =>
      http.json('GET', '/v1/audit/head', options),
    /**
     * The trail, oldest first. The last line is a signed head: save its `cursor`, and pass it as
     * `after` to continue. Without a head the export was cut off.
     */
    async *export(
      query: wire.AuditExportQuery = {},
      options: CallOptions = {},
    ): AsyncGenerator<wire.AuditLine, void> {
      for await (const line of http.lines('/v1/audit/export', { query, ...options })) {
        yield JSON.parse(line) as wire.AuditLine;
      }
    },
    /** Verifies the trail, and that it still contains a head saved earlier. */
    verify(
      head?: Pick<wire.AuditHead, 'seq' | 'hash'>,
      options: CallOptions = {},
    ): Promise<wire.AuditVerdict> {
      // The head of an empty trail has no entry to verify.
      const query = head === undefined || head.seq === 0 ? {} : { seq: head.seq, hash: head.hash };
      return http.json('GET', '/v1/audit/verify', { query, ...options });
    },
  };
}

/** `/v1/credentials`: API keys of model providers. They are write-only. */
export function credentials(http: Http) {
  return {
    list: (options: CallOptions = {}) =>
      listOf<wire.Credential>(http, '/v1/credentials', { name: 'credentials', ...options }),
    /** Sets or replaces a key. */
    put: (
      provider: string,
      body: wire.CredentialBody,
      options: CallOptions = {},
    ): Promise<wire.Credential> =>
      http.json('PUT', pathOf`/v1/credentials/${provider}`, { body, ...options }),
    delete: async (provider: string, options: CallOptions = {}): Promise<void> =>
      http.json('DELETE', pathOf`/v1/credentials/${provider}`, options),
  };
}

export function memories(http: Http) {
  return {
    list: (query: wire.MemoriesQuery = {}, options: CallOptions = {}) =>
      listOf<wire.Memory>(http, '/v1/memories', { name: 'memories', query, ...options }),
    add: (body: wire.MemoryBody, options: CallOptions = {}): Promise<wire.Memory> =>
      http.json('POST', '/v1/memories', { body, ...options }),
    delete: async (id: string, options: CallOptions = {}): Promise<void> =>
      http.json('DELETE', pathOf`/v1/memories/${id}`, options),
    /** Deletes all memories of a namespace. */
    clear: (namespace: string, options: CallOptions = {}): Promise<void> =>
      http.json('DELETE', '/v1/memories', { query: { namespace }, ...options }),
  };
}

export function keys(http: Http) {
  return {
    list: (options: CallOptions = {}) =>
      listOf<wire.ApiKey>(http, '/v1/keys', { name: 'keys', ...options }),
    /** The `apiKey` is returned only here. */
    create: (
      body: wire.ApiKeyBody,
      options: CallOptions = {},
    ): Promise<wire.ApiKey & { apiKey: string }> =>
      http.json('POST', '/v1/keys', { body, ...options }),
    /** A new key with the same rights; the old one stays valid for the overlap, by default a day. */
    rotate: (
      id: string,
      body: { readonly overlapSeconds?: number } = {},
      options: CallOptions = {},
    ): Promise<wire.ApiKey & { apiKey: string }> =>
      http.json('POST', pathOf`/v1/keys/${id}/rotate`, { body, ...options }),
    /** The key of this client, or its sign-in to the console. */
    current: (options: CallOptions = {}): Promise<wire.CurrentKey> =>
      http.json('GET', '/v1/keys/current', options),
    revoke: async (id: string, options: CallOptions = {}): Promise<void> =>
      http.json('DELETE', pathOf`/v1/keys/${id}`, options),
  };
}

export function webhooks(http: Http) {
  return {
    list: (query: wire.WebhooksQuery = {}, options: CallOptions = {}) =>
      listOf<wire.Webhook>(http, '/v1/webhooks', { name: 'webhooks', query, ...options }),
    /** The signing `secret` is returned only here. */
    create: (
      body: wire.WebhookBody,
      options: CallOptions = {},
    ): Promise<wire.Webhook & { secret: string }> =>
      http.json('POST', '/v1/webhooks', { body, ...options }),
    delete: async (id: string, options: CallOptions = {}): Promise<void> =>
      http.json('DELETE', pathOf`/v1/webhooks/${id}`, options),
    /** Newest first. */
    deliveries: (id: string, query: wire.WebhooksQuery = {}, options: CallOptions = {}) =>
      listOf<wire.WebhookDelivery>(http, pathOf`/v1/webhooks/${id}/deliveries`, {
        name: 'deliveries',
        query,
        ...options,
      }),
    /** Sends a delivery again, with the same id; its attempts start again. */
    redeliver: (
      id: string,
      deliveryId: string,
      options: CallOptions = {},
    ): Promise<wire.WebhookDelivery> =>
      http.json('POST', pathOf`/v1/webhooks/${id}/deliveries/${deliveryId}/redeliver`, options),
  };
}

/** `/v1/tenant`: budgets, usage and the pause switch. */
export function tenant(http: Http) {
  return {
    get: (options: CallOptions = {}): Promise<wire.Tenant> =>
      http.json('GET', '/v1/tenant', options),
    update: (body: wire.TenantBody, options: CallOptions = {}): Promise<wire.Tenant> =>
      http.json('PUT', '/v1/tenant', { body, ...options }),
  };
}

/** `/v1/stats`: runs, tokens, cost and decisions over a time. */
export function stats(http: Http) {
  return {
    get: (query: wire.StatsQuery = {}, options: CallOptions = {}): Promise<wire.Stats> =>
      http.json('GET', '/v1/stats', { query, ...options }),
  };
}

export function workflows(http: Http) {
  return {
    get: (
      id: string,
      query: wire.WorkflowQuery = {},
      options: CallOptions = {},
    ): Promise<wire.Workflow> =>
      http.json('GET', pathOf`/v1/workflows/${id}`, { query, ...options }),
  };
}

/**
 * `/console`: the sign-in of a person in a browser, which keeps the cookie and sends it with every request of a
 * client without an API key, if `baseUrl` is the origin of the page.
 */
export function signIn(http: Http) {
  return {
    /** Sets the cookie of the console. `link` is the part of a login link after `#`. */
    login: (
      body: { readonly apiKey: string } | { readonly link: string },
      options: CallOptions = {},
    ): Promise<wire.CurrentKey> => http.json('POST', '/console/login', { body, ...options }),
    /** Succeeds also if the sign-in has ended. */
    logout: (options: CallOptions = {}): Promise<void> =>
      http.json('POST', '/console/logout', { repeatable: true, ...options }),
    /** A URL that signs in once, within 15 minutes. It requires an API key. */
    link: (options: CallOptions = {}): Promise<wire.ConsoleLink> =>
      http.json('POST', '/console/links', options),
  };
}
