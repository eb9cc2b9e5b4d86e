import type { ApiKey, ApiKeyBody } from '@relay/protocol/wire';
import { at, type CallOptions, type Http } from './http.ts';
import { type Listing, listOf } from './listing.ts';

/** `/v1/keys`: who may call, and what for. */
export class Keys {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  list(options: CallOptions = {}): Listing<ApiKey> {
    return listOf(this.#http, '/v1/keys', { name: 'keys', ...options });
  }

  /** The `apiKey` is shown only here. Never repeated by itself: that might make a second one. */
  create(body: ApiKeyBody, options: CallOptions = {}): Promise<ApiKey & { apiKey: string }> {
    return this.#http.json('POST', '/v1/keys', { body, ...options });
  }

  async revoke(id: string, options: CallOptions = {}): Promise<void> {
    await this.#http.json('DELETE', at`/v1/keys/${id}`, options);
  }
}
