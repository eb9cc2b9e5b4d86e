import { at, type CallOptions, type Http } from './http.ts';
import { type Listing, listOf } from './listing.ts';

export interface Memory {
  readonly id: string;
  readonly namespace: string;
  readonly text: string;
  readonly source: string;
  /** The run that left it. */
  readonly runId?: string;
  readonly createdAt: string;
  readonly expiresAt?: string;
  /** How much of what was looked for it speaks of, from 0 to 1; there only in a search. */
  readonly score?: number;
  /** How alike its meaning is, where it was found by that. */
  readonly similarity?: number;
  /** There only in a search. */
  readonly foundBy?: 'words' | 'meaning' | 'both';
}

export type MemoriesQuery = {
  readonly namespace?: string;
  /** Words to look for: the best come first. */
  readonly q?: string;
  readonly limit?: number;
};

export interface MemoryBody {
  readonly namespace: string;
  readonly text: string;
  readonly ttlSeconds?: number;
}

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
