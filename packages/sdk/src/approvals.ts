import type { Approval, ApprovalsQuery, DecisionBody } from '@relay/protocol/wire';
import { at, type CallOptions, type Http } from './http.ts';
import { type Listing, listOf } from './listing.ts';

/** `/v1/approvals`: the first answer counts, repeating it changes nothing, another one is a 409. */
export class Approvals {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  list(query: ApprovalsQuery = {}, options: CallOptions = {}): Listing<Approval> {
    return listOf(this.#http, '/v1/approvals', { name: 'approvals', query, ...options });
  }

  get(id: string, options: CallOptions = {}): Promise<Approval> {
    return this.#http.json('GET', at`/v1/approvals/${id}`, options);
  }

  approve(id: string, decision: Omit<DecisionBody, 'approved'> = {}): Promise<Approval> {
    return this.decide(id, { ...decision, approved: true });
  }

  deny(id: string, reason?: string): Promise<Approval> {
    return this.decide(id, { approved: false, ...(reason === undefined ? {} : { reason }) });
  }

  decide(id: string, body: DecisionBody, options: CallOptions = {}): Promise<Approval> {
    const wish = { body, repeatable: true, ...options };
    return this.#http.json('POST', at`/v1/approvals/${id}`, wish);
  }
}
