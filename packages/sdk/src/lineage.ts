/** Runs that come from others: taken up again, forked, or steps of one workflow. */
import type { ForkBody, Run, Workflow } from '@relay/protocol/wire';
import { at, type CallOptions, type Http, type Query } from './http.ts';
import { uuid } from './uuid.ts';

export interface ForkOptions extends CallOptions {
  /** Left out: a random one, so that a repeated request forks no second time. */
  readonly idempotencyKey?: string | undefined;
}

export function resumeRun(http: Http, id: string, options: CallOptions): Promise<Run> {
  return http.json('POST', at`/v1/runs/${id}/resume`, { repeatable: true, ...options });
}

export function forkRun(
  http: Http,
  id: string,
  { idempotencyKey = uuid(), ...wish }: ForkOptions & { readonly body: ForkBody },
): Promise<Run> {
  const headers = { 'idempotency-key': idempotencyKey };
  return http.json('POST', at`/v1/runs/${id}/fork`, { ...wish, headers, repeatable: true });
}

export function getWorkflow(
  http: Http,
  id: string,
  wish: CallOptions & { readonly query: Query },
): Promise<Workflow> {
  return http.json('GET', at`/v1/workflows/${id}`, wish);
}
