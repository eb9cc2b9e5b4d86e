/** Approvals, the inbox that answers them, and the grants that come of it, as a store keeps them. */
import type { Decider, GrantScope, ApprovalKind, ApprovalStatus } from '@relay/protocol';
import type { Grant } from '../permission/decide.ts';
import type { NewAudit } from './stored-audit.ts';
import type { Notice } from './stored-webhooks.ts';
import type { Question } from './tool.ts';

export interface ApprovalRecord {
  readonly id: string;
  readonly runId: string;
  readonly kind: ApprovalKind;
  readonly agentId: string;
  readonly agentPath: readonly string[];
  readonly toolCallId: string;
  readonly tool: string;
  readonly params: unknown;
  /** Where path parameters led when it was raised. */
  readonly resolvedPaths?: Readonly<Record<string, string>>;
  readonly digest: string;
  /** Of kind `question`: what is asked. */
  readonly question?: Question;
  readonly requestedAt: number;
  readonly expiresAt: number;
  readonly status: ApprovalStatus;
  readonly decidedAt: number | null;
  readonly decidedBy: Decider | null;
  readonly reason: string | null;
  /** The arguments as whoever approved has changed them: these run, and not `params`. */
  readonly edited: EditedCall | null;
  /** What exactly was answered, so that a repetition can be told from a contradiction. */
  readonly answer: string | null;
}

export interface EditedCall {
  readonly params: Readonly<Record<string, unknown>>;
  readonly resolvedPaths?: Readonly<Record<string, string>>;
  readonly digest: string;
}

/** All that is named must hold. */
export interface ApprovalFilter {
  readonly status?: ApprovalStatus;
  readonly runId?: string;
  readonly kind?: ApprovalKind;
}

export type NewApproval = Omit<
  ApprovalRecord,
  'status' | 'decidedAt' | 'decidedBy' | 'reason' | 'edited' | 'answer'
>;

/** An approval that ends without anyone's answer. */
export interface ApprovalClosure {
  readonly approvalId: string;
  readonly status: 'expired' | 'closed';
  readonly at: number;
  readonly by: Decider;
  readonly reason: string;
}

/** Something told to a run from outside; its lease holder takes it into the journal. */
export type RunCommand =
  | {
      readonly kind: 'decision';
      readonly approvalId: string;
      readonly approved: boolean;
      readonly always: boolean;
      readonly reason: string | null;
      /** For an approval of kind `outcome`: it happened, and this is its result. */
      readonly output?: unknown;
      readonly edited?: EditedCall;
      /** For an approval of kind `question`. */
      readonly answer?: unknown;
      readonly by: Decider;
    }
  /** A client brought the result of a call; it lies with the call. */
  | { readonly kind: 'result'; readonly toolCallId: string }
  | { readonly kind: 'cancel'; readonly reason: string; readonly by: Decider };

export interface QueuedRunCommand {
  readonly id: string;
  readonly command: RunCommand;
}

export interface NewGrant extends Omit<Grant, 'usesLeft'> {
  readonly scope: GrantScope;
  /** The run, the conversation or the tenant that it holds in. */
  readonly scopeId: string;
  readonly createdAt: number;
  readonly createdBy: Decider;
  /** Left out: it does not end by itself. */
  readonly expiresAt?: number;
  /** How many calls it allows; left out: as many as come. */
  readonly uses?: number;
}

export interface GrantRecord extends NewGrant {
  /** Of a counted one. */
  readonly usesLeft?: number;
  readonly revokedAt?: number;
}

/** All that is named must hold. */
export interface GrantFilter {
  readonly scope?: GrantScope;
  readonly scopeId?: string;
  readonly tool?: string;
  /** Those that allow something at this time: neither revoked, nor expired, nor used up. */
  readonly activeAt?: number;
}

export interface ApprovalDecision {
  readonly approvalId: string;
  readonly runId: string;
  readonly status: 'approved' | 'denied';
  readonly at: number;
  readonly by: Decider;
  readonly reason: string | null;
  readonly edited?: EditedCall;
  readonly answer: string;
  readonly queued: QueuedRunCommand;
  readonly grant?: NewGrant;
  readonly audit?: readonly NewAudit[];
  readonly notices?: readonly Notice[];
}
