import type { Webhook, WebhookBody, WebhookDelivery, WebhooksQuery } from '@relay/protocol/wire';
import { at, type CallOptions, type Http } from './http.ts';
import { type Listing, listOf } from './listing.ts';

/** `/v1/webhooks`: who is told when people are asked, and when runs end. */
export class Webhooks {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  list(query: WebhooksQuery = {}, options: CallOptions = {}): Listing<Webhook> {
    return listOf(this.#http, '/v1/webhooks', { name: 'webhooks', query, ...options });
  }

  /** The `secret` is shown only here. Never repeated by itself: that might make a second one. */
  create(body: WebhookBody, options: CallOptions = {}): Promise<Webhook & { secret: string }> {
    return this.#http.json('POST', '/v1/webhooks', { body, ...options });
  }

  async delete(id: string, options: CallOptions = {}): Promise<void> {
    await this.#http.json('DELETE', at`/v1/webhooks/${id}`, options);
  }

  /** What it was told, or could not be told, newest first. */
  deliveries(
    id: string,
    query: WebhooksQuery = {},
    options: CallOptions = {},
  ): Listing<WebhookDelivery> {
    const path = at`/v1/webhooks/${id}/deliveries`;
    return listOf(this.#http, path, { name: 'deliveries', query, ...options });
  }
}
