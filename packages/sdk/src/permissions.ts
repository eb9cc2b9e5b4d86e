import type { Permissions } from '@relay/protocol/wire';
import type { CallOptions, Http } from './http.ts';

export interface ExplainBody {
  readonly tool: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly permissions?: Permissions;
  /** Whose grants count besides the tenant's. */
  readonly runId?: string;
  readonly conversationId?: string;
}

export interface Explanation {
  readonly decision: 'allow' | 'deny' | 'ask';
  /** The rule that decided. */
  readonly rule?: {
    readonly list: string;
    readonly index: number;
    readonly source: string;
    readonly id?: string;
    readonly tool: string;
    readonly params?: Readonly<Record<string, string>>;
    readonly exact?: Readonly<Record<string, unknown>>;
  };
  readonly reason: string;
}

/** `POST /v1/permissions/explain`: what the rules make of a call, and why. */
export function explain(http: Http, body: ExplainBody, options: CallOptions): Promise<Explanation> {
  return http.json('POST', '/v1/permissions/explain', { body, repeatable: true, ...options });
}
