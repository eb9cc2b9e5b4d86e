import type { MemoriesQuery, Memory, MemoryBody } from '@relay/protocol/wire';
import { at, type CallOptions, type Http } from './http.ts';
import { type Listing, listOf } from './listing.ts';

/** `/v1/memories`. */
export class Memories {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  list(query: MemoriesQuery = {}, options: CallOptions = {}): Listing<Memory> {
    return listOf(this.#http, '/v1/memories', { name: 'memories', query, ...options });
  }

  /** Never repeated by itself: that might leave it twice. */
  add(body: MemoryBody, options: CallOptions = {}): Promise<Memory> {
    return this.#http.json('POST', '/v1/memories', { body, ...options });
  }

  async delete(id: string, options: CallOptions = {}): Promise<void> {
    await this.#http.json('DELETE', at`/v1/memories/${id}`, options);
  }

  /** Deletes all memories of a namespace. */
  async clear(namespace: string, options: CallOptions = {}): Promise<void> {
    await this.#http.json('DELETE', '/v1/memories', { query: { namespace }, ...options });
  }
}
