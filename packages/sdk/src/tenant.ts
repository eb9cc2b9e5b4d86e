import type { Tenant, TenantBody } from '@relay/protocol/wire';
import type { CallOptions, Http } from './http.ts';

/** `/v1/tenant`: budgets, what has been used, and the switch that stops everything. */
export class TenantSettings {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  get(options: CallOptions = {}): Promise<Tenant> {
    return this.#http.json('GET', '/v1/tenant', options);
  }

  update(body: TenantBody, options: CallOptions = {}): Promise<Tenant> {
    return this.#http.json('PUT', '/v1/tenant', { body, ...options });
  }
}
