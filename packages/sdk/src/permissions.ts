import type { ExplainBody, Explanation } from '@relay/protocol/wire';
import type { CallOptions, Http } from './http.ts';

/** `POST /v1/permissions/explain`: what the rules make of a call, and why. */
export function explain(http: Http, body: ExplainBody, options: CallOptions): Promise<Explanation> {
  return http.json('POST', '/v1/permissions/explain', { body, repeatable: true, ...options });
}
