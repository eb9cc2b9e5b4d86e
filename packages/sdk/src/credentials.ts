import type { Credential, CredentialBody } from '@relay/protocol/wire';
import { at, type CallOptions, type Http } from './http.ts';
import { type Listing, listOf } from './listing.ts';

/** `/v1/credentials`: the keys of model providers, which nobody gets back. */
export class Credentials {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  list(options: CallOptions = {}): Listing<Credential> {
    return listOf(this.#http, '/v1/credentials', { name: 'credentials', ...options });
  }

  /** Uploads a key, or replaces the one that is there. */
  put(provider: string, body: CredentialBody, options: CallOptions = {}): Promise<Credential> {
    return this.#http.json('PUT', at`/v1/credentials/${provider}`, { body, ...options });
  }

  async delete(provider: string, options: CallOptions = {}): Promise<void> {
    await this.#http.json('DELETE', at`/v1/credentials/${provider}`, options);
  }
}
