/** Approvals and grants. */
import type {
  ApprovalKind,
  ApprovalStatus,
  Decider,
  EarlierDenial,
  GrantScope,
  Preview,
  RuleRef,
} from '@relay/protocol';
import type { Grant } from '../permission/decide.ts';
import type { DecisionCommand, QueuedRunCommand } from './commands.ts';
import type { NewAuditEntry, Notice } from './governance.ts';
import type { Question } from './tool.ts';

export interface ApprovalRecord {
  readonly id: string;
  /** The run, its agent and its call that it was requested for. */
  readonly runId?: string;
  readonly agentId?: string;
  readonly toolCallId?: string;
  /** The session whose call it is. */
  readonly sessionId?: string;
  readonly conversationId?: string;
  readonly invocationId?: string;
  /** Without a run: the key that the call is made with. */
  readonly keyId?: string;
  readonly kind: ApprovalKind;
  readonly agentPath: readonly string[];
  readonly tool: string;
  readonly params: unknown;
  /** Where path parameters led when the approval was requested. */
  readonly resolvedPaths?: Readonly<Record<string, string>>;
  readonly preview?: Preview;
  readonly digest: string;
  /** Of the tool, when the approval was requested. */
  readonly definitionDigest?: string;
  /** A person has denied the same call before in this run. */
  readonly earlierDenial?: EarlierDenial;
  /** What demands a person for each such call. */
  readonly rule?: RuleRef;
  /** For approvals of kind `question`. */
  readonly question?: Question;
  /** What a session's program says about its call. It is shown, and is not part of what is approved. */
  readonly shown?: Readonly<Record<string, unknown>>;
  /** False: what the call would do is not known. */
  readonly isConcrete?: boolean;
  /** False: the arguments cannot be changed. */
  readonly isEditable?: boolean;
  readonly requestedAt: number;
  readonly expiresAt: number;
  readonly status: ApprovalStatus;
  readonly decidedAt: number | null;
  readonly decidedBy: Decider | null;
  readonly reason: string | null;
  /** The arguments as the approver edited them, which run instead of `params`. */
  readonly edited: EditedCall | null;
  /** The exact answer, which distinguishes a repeated decision from a contradicting one. */
  readonly answer: string | null;
  /** How often the votes have changed. */
  readonly ballot: number;
  /** `null` before the first vote, and if the policy names no approvers for the call. */
  readonly votes: ApprovalVotes | null;
}

/** One person's approval, where several persons must agree. */
export interface Vote {
  readonly by: Decider;
  /** All keys of one owner are the same person. */
  readonly person: string;
  readonly at: number;
  /** What was approved, without changed arguments: votes with the same text agree. */
  readonly answer: string;
}

export interface ApprovalVotes {
  /** At the last vote. */
  readonly quorum: number;
  /** One per person, oldest first. */
  readonly votes: readonly Vote[];
  /** The call as a voter edited it, which all votes are for. */
  readonly edited?: EditedCall;
  /** The arguments as the voter sent them. */
  readonly input?: unknown;
}

export interface EditedCall {
  readonly params: Readonly<Record<string, unknown>>;
  readonly resolvedPaths?: Readonly<Record<string, string>>;
  readonly preview?: Preview;
  readonly digest: string;
}

/** All given conditions must hold. */
export interface ApprovalFilter {
  /** One, or any of several. */
  readonly status?: ApprovalStatus | readonly ApprovalStatus[];
  readonly runId?: string;
  readonly sessionId?: string;
  readonly conversationId?: string;
  readonly invocationId?: string;
  readonly tool?: string;
  readonly kind?: ApprovalKind;
}

export type NewApproval = Omit<
  ApprovalRecord,
  'status' | 'decidedAt' | 'decidedBy' | 'reason' | 'edited' | 'answer' | 'ballot' | 'votes'
>;

/** Ends an approval without a decision. */
export interface ApprovalClosure {
  readonly approvalId: string;
  readonly status: 'expired' | 'closed';
  readonly at: number;
  readonly by: Decider;
  readonly reason: string;
}

export interface NewGrant extends Omit<Grant, 'usesLeft'> {
  readonly scope: GrantScope;
  /** The id of the run, the conversation, the session or the tenant. */
  readonly scopeId: string;
  readonly createdAt: number;
  readonly createdBy: Decider;
  /** Default: never. */
  readonly expiresAt?: number;
  /** How many calls it allows. Default: unlimited. */
  readonly uses?: number;
}

export interface GrantRecord extends NewGrant {
  /** Only for grants with `uses`. */
  readonly usesLeft?: number;
  readonly revokedAt?: number;
}

/** All given conditions must hold. */
export interface GrantFilter {
  readonly scope?: GrantScope;
  readonly scopeId?: string;
  readonly tool?: string;
  /** Only grants that are not revoked, expired or used up at this time. */
  readonly activeAt?: number;
}

/** Of an approval without a run. */
export interface RequestDecision {
  readonly approvalId: string;
  readonly status: 'approved' | 'denied';
  readonly at: number;
  readonly by: Decider;
  readonly reason: string | null;
  readonly edited?: EditedCall;
  readonly answer: string;
  /** The votes that it counted may not have changed since. Default: they do not matter. */
  readonly ballot?: number;
  /** Those that decided. Default: as they are. */
  readonly votes?: ApprovalVotes;
  readonly grant?: NewGrant;
}

export interface ApprovalDecision extends RequestDecision {
  readonly runId: string;
  readonly queued: QueuedRunCommand<DecisionCommand>;
  readonly audit?: readonly NewAuditEntry[];
  readonly notices?: readonly Notice[];
}

/** Replaces the votes of a pending approval. */
export interface VoteChange {
  readonly approvalId: string;
  readonly at: number;
  /** Compare-and-set: the ballot that it replaces. */
  readonly ballot: number;
  readonly votes: ApprovalVotes;
  readonly audit?: readonly NewAuditEntry[];
  readonly notices?: readonly Notice[];
}
