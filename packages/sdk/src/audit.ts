import type { AuditEntry, AuditHead, AuditQuery, AuditVerdict } from '@relay/protocol/wire';
import type { CallOptions, Http } from './http.ts';
import { type Listing, listOf } from './listing.ts';

/** `/v1/audit`: who did what, when and why, and whether that is still all of it. */
export class Audit {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  /** Newest first. */
  list(query: AuditQuery = {}, options: CallOptions = {}): Listing<AuditEntry> {
    return listOf(this.#http, '/v1/audit', { name: 'entries', query, ...options });
  }

  /** Where the trail ends now. Put it aside, and have it verified later. */
  head(options: CallOptions = {}): Promise<AuditHead> {
    return this.#http.json('GET', '/v1/audit/head', options);
  }

  /** Whether it is whole, and still holds the head that was put aside. */
  verify(known?: Pick<AuditHead, 'seq' | 'hash'>, options: CallOptions = {}) {
    // Before the first entry there is nothing that could be missing.
    const query =
      known === undefined || known.seq === 0 ? {} : { seq: known.seq, hash: known.hash };
    return this.#http.json<AuditVerdict>('GET', '/v1/audit/verify', { query, ...options });
  }
}
