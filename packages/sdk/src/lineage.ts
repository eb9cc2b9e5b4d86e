/** Runs that come from others: taken up again, forked, or steps of one workflow. */
import type { Limits, Message, Permissions, Run, RunStatus, WireUsage } from '@relay/protocol/wire';
import { at, type CallOptions, type Http, type Query } from './http.ts';
import { uuid } from './uuid.ts';

/** What is left out is as it was in the run that is forked. */
export interface ForkBody {
  /** A place between two turns; left out: the last one where the run can be taken up. */
  readonly seq?: number;
  readonly input?: string | readonly Message[];
  readonly model?: string;
  readonly permissions?: Permissions;
  readonly workflowId?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly maxIterations?: number;
  readonly limits?: Limits;
}

/** The runs of a workflow, newest first, and what they have come to together. */
export interface Workflow {
  readonly id: string;
  readonly status: RunStatus;
  readonly counts: Readonly<Partial<Record<RunStatus, number>>>;
  readonly runs: readonly Run[];
  readonly usage: WireUsage;
  readonly costUsd?: number;
  readonly nextCursor: string | null;
}

export interface WorkflowQuery {
  readonly limit?: number;
  /** The `nextCursor` of the page before. */
  readonly cursor?: string;
}

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
