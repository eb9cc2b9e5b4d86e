import type { Decider, RelayStatus, ToolPermission } from '@relay/protocol/wire';
import { at, type CallOptions, type Http } from './http.ts';
import { type Listing, listOf } from './listing.ts';

export type GrantScope = 'run' | 'conversation' | 'session' | 'tenant';

interface GrantTerms {
  readonly scope: GrantScope;
  /** The run or the conversation in which it holds. */
  readonly scopeId?: string;
  readonly expiresAt?: string;
  /** For how many calls. */
  readonly uses?: number;
}

export interface Grant extends ToolPermission, GrantTerms {
  readonly id: string;
  readonly status: 'active' | 'revoked' | 'expired' | 'used';
  readonly createdAt: string;
  readonly createdBy: Decider;
  readonly usesLeft?: number;
  readonly revokedAt?: string;
}

export type GrantBody = ToolPermission & GrantTerms;

export type GrantsQuery = {
  readonly scope?: GrantScope;
  readonly scopeId?: string;
  readonly tool?: string;
  readonly status?: 'active' | 'all';
  readonly limit?: number;
};

export interface GrantPreview {
  readonly looked: number;
  readonly matched: number;
  readonly calls: readonly {
    readonly approvalId: string;
    readonly runId: string;
    readonly toolCallId: string;
    readonly tool: string;
    readonly params: unknown;
    readonly status: RelayStatus;
    readonly raisedAt: string;
  }[];
}

/** `/v1/grants`: what may run without asking. */
export class Grants {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  list(query: GrantsQuery = {}, options: CallOptions = {}): Listing<Grant> {
    return listOf(this.#http, '/v1/grants', { name: 'grants', query, ...options });
  }

  /** Never repeated by itself: that might make a second one. */
  create(body: GrantBody, options: CallOptions = {}): Promise<Grant> {
    return this.#http.json('POST', '/v1/grants', { body, ...options });
  }

  /** Which of the latest requests it would have answered. */
  preview(
    body: ToolPermission & Partial<GrantTerms>,
    options: CallOptions = {},
  ): Promise<GrantPreview> {
    return this.#http.json('POST', '/v1/grants/preview', { body, repeatable: true, ...options });
  }

  async revoke(id: string, options: CallOptions = {}): Promise<void> {
    await this.#http.json('DELETE', at`/v1/grants/${id}`, options);
  }
}
