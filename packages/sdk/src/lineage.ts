/** Runs that come from others: taken up again, forked, or steps of one workflow. */
import type { Run } from '@relay/protocol/wire';
import { at, type CallOptions, type Http } from './http.ts';

export interface ForkBody {
  /** Behind which event of the journal it goes its own way; left out: at its end. */
  readonly seq?: number;
  readonly input?: string;
}

export interface Workflow {
  readonly id: string;
  readonly runs: readonly Run[];
}

export function resumeRun(http: Http, id: string, options: CallOptions): Promise<Run> {
  return http.json('POST', at`/v1/runs/${id}/resume`, { repeatable: true, ...options });
}

/** Never repeated by itself: that might fork twice. */
export function forkRun(
  http: Http,
  id: string,
  wish: CallOptions & { readonly body: ForkBody },
): Promise<Run> {
  return http.json('POST', at`/v1/runs/${id}/fork`, wish);
}

export function getWorkflow(http: Http, id: string, options: CallOptions): Promise<Workflow> {
  return http.json('GET', at`/v1/workflows/${id}`, options);
}
