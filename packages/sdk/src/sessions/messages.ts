/** `/v1/messages`, `/v1/deliveries` and `/v1/channels`. A delivery is one message for one recipient. */
import type * as wire from '@relay/protocol/wire';
import { type CallOptions, type Http, pathOf, uuid } from '../http.ts';
import { listOf } from '../listing.ts';

/** The response may take as long as it waits. */
const waitMarginMs = 15_000;

export function messages(http: Http) {
  return {
    /** Its idempotency key is random by default, so that a retry does not send a second message. */
    send: (body: wire.MessageBody, options: CallOptions = {}) => sendMessage(http, body, options),
    get: (id: string, options: CallOptions = {}): Promise<wire.SessionMessage> =>
      http.json('GET', pathOf`/v1/messages/${id}`, options),
    /** Newest first. */
    list: (query: wire.MessagesQuery = {}, options: CallOptions = {}) =>
      listOf<wire.SessionMessage>(http, '/v1/messages', { name: 'messages', query, ...options }),
    /** Possible while no recipient has the message. */
    edit: (
      id: string,
      body: wire.MessageChanges,
      options: CallOptions = {},
    ): Promise<wire.SessionMessage> =>
      http.json('PATCH', pathOf`/v1/messages/${id}`, { body, ...options }),
    /** Possible while no recipient has the message; its deliveries fail as `withdrawn`. */
    withdraw: (id: string, options: CallOptions = {}): Promise<void> =>
      http.json('DELETE', pathOf`/v1/messages/${id}`, options),
    /**
     * With `wait`, the response comes when every delivery has that status or a final one, or after
     * `waitMs` (25 s by default, at most 60).
     */
    async deliveries(
      id: string,
      query: wire.DeliveryWaitQuery = {},
      options: CallOptions = {},
    ): Promise<wire.Delivery[]> {
      const { waitMs } = query;
      const timeoutMs = waitMs === undefined ? undefined : waitMs + waitMarginMs;
      const { deliveries } = await http.json<{ deliveries: wire.Delivery[] }>(
        'GET',
        pathOf`/v1/messages/${id}/deliveries`,
        { query, timeoutMs, ...options },
      );
      return deliveries;
    },
  };
}

export function sendMessage(
  http: Http,
  body: wire.MessageBody,
  options: CallOptions = {},
): Promise<wire.SessionMessage> {
  const keyed = { ...body, idempotencyKey: body.idempotencyKey ?? uuid() };
  return http.json('POST', '/v1/messages', { body: keyed, repeatable: true, ...options });
}

export function deliveries(http: Http) {
  return {
    /** Newest first, such as `{ status: 'failed' }`. */
    list: (query: wire.DeliveriesQuery = {}, options: CallOptions = {}) =>
      listOf<wire.Delivery>(http, '/v1/deliveries', { name: 'deliveries', query, ...options }),
    /** Delivers a message again whose delivery failed. */
    redeliver: (id: string, options: CallOptions = {}): Promise<wire.Delivery> =>
      http.json('POST', pathOf`/v1/deliveries/${id}/redeliver`, options),
  };
}

/** Names and handles are given without `#` and `@`. */
export function channels(http: Http) {
  return {
    /** By name. */
    list: (query: { readonly limit?: number } = {}, options: CallOptions = {}) =>
      listOf<wire.Channel>(http, '/v1/channels', { name: 'channels', query, ...options }),
    get: (name: string, options: CallOptions = {}): Promise<wire.Channel> =>
      http.json('GET', pathOf`/v1/channels/${name}`, options),
    /** Creates a channel, or changes its topic. */
    put: (
      name: string,
      body: wire.ChannelBody = {},
      options: CallOptions = {},
    ): Promise<wire.Channel> =>
      http.json('PUT', pathOf`/v1/channels/${name}`, { body, ...options }),
    /** The session receives the messages that follow. */
    addMember: (name: string, handle: string, options: CallOptions = {}): Promise<void> =>
      http.json('PUT', pathOf`/v1/channels/${name}/members/${handle}`, options),
    removeMember: (name: string, handle: string, options: CallOptions = {}): Promise<void> =>
      http.json('DELETE', pathOf`/v1/channels/${name}/members/${handle}`, options),
  };
}
