/** Calls of function tools as a store keeps them: who works on one, and the one result it gets. */
import type { QueuedRunCommand } from './stored-approvals.ts';

export interface NewClientCall {
  readonly toolCallId: string;
  /** From this time on no result is taken. */
  readonly resultBy: number;
}

export interface ClientCallRecord extends NewClientCall {
  readonly runId: string;
  /** `closed`: nobody brought a result before the call or its run ended. */
  readonly status: 'pending' | 'answered' | 'closed';
  readonly result: ClientResult | null;
}

/** What a client brought. */
export interface ClientResult {
  /** Of the output, so that a repetition can be told from a contradiction. */
  readonly digest: string;
  /** The function failed, and the output says how. */
  readonly failed: boolean;
  /** Left out once the run is over: from then on the journal alone has it. */
  readonly output?: unknown;
}

export interface PostedResult {
  readonly runId: string;
  readonly toolCallId: string;
  readonly at: number;
  readonly result: Required<ClientResult>;
  readonly queued: QueuedRunCommand;
}

/** One client's word that it works on a call. */
export interface CallClaim {
  readonly runId: string;
  readonly toolCallId: string;
  readonly claimId: string;
  readonly now: number;
  readonly until: number;
}
