import type {
  Grant,
  GrantBody,
  GrantPreview,
  GrantPreviewBody,
  GrantsQuery,
} from '@relay/protocol/wire';
import { at, type CallOptions, type Http } from './http.ts';
import { type Listing, listOf } from './listing.ts';

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
  preview(body: GrantPreviewBody, options: CallOptions = {}): Promise<GrantPreview> {
    return this.#http.json('POST', '/v1/grants/preview', { body, repeatable: true, ...options });
  }

  async revoke(id: string, options: CallOptions = {}): Promise<void> {
    await this.#http.json('DELETE', at`/v1/grants/${id}`, options);
  }
}
