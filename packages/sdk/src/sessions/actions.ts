/** `/v1/actions` and `/v1/invocations`: functions of sessions and services that participants invoke. */
import type * as wire from '@relay/protocol/wire';
import { type CallOptions, type Http, pathOf, uuid } from '../http.ts';
import { listOf } from '../listing.ts';

/** The response may take as long as it waits. */
const waitMarginMs = 15_000;

export interface InvokeOptions extends CallOptions {
  /** How long the response waits for the result: 30 seconds by default, at most 60. */
  readonly waitMs?: number;
  /** Default: random, so that a retry does not invoke the action a second time. */
  readonly idempotencyKey?: string | undefined;
}

export function actions(http: Http) {
  return {
    /** The signing `secret` of an action with a URL is returned only here. */
    register: (body: wire.ActionBody, options: CallOptions = {}): Promise<wire.RegisteredAction> =>
      http.json('POST', '/v1/actions', { body, ...options }),
    /** By name. With a session token, those that it may invoke. */
    list: (query: { readonly limit?: number } = {}, options: CallOptions = {}) =>
      listOf<wire.Action>(http, '/v1/actions', { name: 'actions', query, ...options }),
    /**
     * The invocation, whose `status` says whether it has ended yet. Throws `action_denied` if the caller
     * may not invoke it.
     */
    invoke: (name: string, input: ActionInput = {}, options: InvokeOptions = {}) =>
      invokeAction(http, name, input, options),
    /** Its running invocations continue. */
    remove: async (name: string, options: CallOptions = {}): Promise<void> =>
      http.json('DELETE', pathOf`/v1/actions/${name}`, options),
  };
}

export type ActionInput = NonNullable<wire.RequestBodyOf<'invokeAction'>['input']>;

export function invokeAction(
  http: Http,
  name: string,
  input: ActionInput,
  options: InvokeOptions = {},
): Promise<wire.Invocation> {
  const { waitMs, idempotencyKey = uuid(), signal } = options;
  return http.json('POST', pathOf`/v1/actions/${name}/invoke`, {
    body: { input },
    query: { waitMs },
    headers: { 'idempotency-key': idempotencyKey },
    timeoutMs: waitMs === undefined ? undefined : waitMs + waitMarginMs,
    repeatable: true,
    signal,
  });
}

export function invocations(http: Http) {
  return {
    get: (id: string, options: CallOptions = {}): Promise<wire.Invocation> =>
      http.json('GET', pathOf`/v1/invocations/${id}`, options),
  };
}
