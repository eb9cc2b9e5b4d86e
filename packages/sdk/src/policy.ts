import type {
  Policy,
  PolicyBody,
  PolicyPreview,
  PolicyPreviewBody,
  PolicyQuery,
  PolicyVersionsQuery,
} from '@relay/protocol/wire';
import type { CallOptions, Http } from './http.ts';
import { type Listing, listOf } from './listing.ts';

/** Which version it takes the place of has to be said: 0 for the first. */
export type NewPolicy = PolicyBody & { readonly version: number };

/** `/v1/policy`: the standing rules of the tenant, for all agents or for one. */
export class Policies {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  get(query: PolicyQuery = {}, options: CallOptions = {}): Promise<Policy> {
    return this.#http.json('GET', '/v1/policy', { query, ...options });
  }

  /** Never repeated by itself: a second time it would contradict the first. */
  put(body: NewPolicy, options: CallOptions = {}): Promise<Policy> {
    return this.#http.json('PUT', '/v1/policy', { body, repeatable: false, ...options });
  }

  /** Newest first. */
  versions(query: PolicyVersionsQuery = {}, options: CallOptions = {}): Listing<Policy> {
    return listOf(this.#http, '/v1/policy/versions', { name: 'versions', query, ...options });
  }

  /** Which of the recent calls these rules would have decided otherwise. */
  preview(body: PolicyPreviewBody, options: CallOptions = {}): Promise<PolicyPreview> {
    return this.#http.json('POST', '/v1/policy/preview', { body, repeatable: true, ...options });
  }
}
