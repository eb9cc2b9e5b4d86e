/** Runs, their client calls, conversations, workflows and usage. */
import type {
  Budget,
  EventOf,
  FinishReason,
  RunError,
  RunEvent,
  RunStatus,
  StoredEvent,
  Surface,
  Usage,
} from '@relay/protocol';
import type { QueuedRunCommand } from './commands.ts';
import type { NewAuditEntry } from './governance.ts';
import type { SessionWrite } from './sessions.ts';

export interface RunRef {
  readonly tenantId: string;
  readonly runId: string;
}

/** A run without a lease that has work. */
export interface DueRun extends RunRef {
  /** Of a paused tenant only canceled runs are due. */
  readonly isCanceled: boolean;
}

/** The fields of a run that never change. */
export interface RunIdentity {
  readonly id: string;
  readonly tenantId: string;
  readonly conversationId: string;
  readonly correlationId: string;
  readonly surface: Surface;
  readonly agent: string;
  readonly model: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly parentRunId: string | null;
  readonly workflowId: string | null;
  /** The API key that started it and that its usage is counted for. */
  readonly keyId: string | null;
  /** The person that started it: function calls are answered, and grants hold, for its owner. */
  readonly owner: string;
  readonly createdAt: number;
}

/** The run or the session that grants may hold for. */
export interface GrantedTo extends Pick<RunIdentity, 'owner'> {
  readonly runId?: string | undefined;
  readonly sessionId?: string | undefined;
  readonly conversationId?: string | undefined;
}

/** The fields that change with the journal, in the commit of the events that change them. */
export interface RunProgress {
  readonly status: RunStatus;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  /** From the creation of the run to the first output of a model. The first value that is stored stays. */
  readonly firstTokenMs: number | null;
  readonly usage: Usage;
  readonly error: RunError | null;
  /** How the root agent's last answer ended. */
  readonly finishReason: FinishReason | null;
  /** The checkpoint envelope of `runs.serialized_state`, as JSON. */
  readonly checkpoint: string | null;
  /** `runs.output_json`: the output, unless it is the text of a turn; the approvals; what is pending. */
  readonly outputJson: string | null;
  /** Where the turn started whose text is the output. The journal has this text once. */
  readonly answerSeq: number | null;
  /** The fold of the journal up to `snapshotSeq`, as JSON: recovery reads only what follows. */
  readonly snapshot: string | null;
  readonly snapshotSeq: number;
  /** When a waiting run must be resumed without a command, such as when an approval expires. */
  readonly wakeAt: number | null;
}

/** A checkpoint that no event of the journal has written: a request to resume the run. */
export interface CheckpointChange {
  /** The checkpoint that it replaces. */
  readonly expected: string | null;
  readonly checkpoint: string;
}

export interface RunRecord extends RunIdentity, RunProgress {
  readonly lastSeq: number;
  readonly epoch: number;
  /** Of its stored events, in bytes. */
  readonly journalSize: number;
}

/** The fields that are readable even if checkpoint and snapshot are damaged. */
export type RunHead = RunIdentity &
  Pick<RunRecord, 'status' | 'usage' | 'outputJson' | 'answerSeq' | 'lastSeq'>;

/** A run in a list. */
export interface RunListing
  extends RunHead, Pick<RunRecord, 'startedAt' | 'endedAt' | 'error' | 'finishReason'> {
  /** Its first event; `null` if the first journal row is damaged or larger than 8 KiB. */
  readonly opening: EventOf<'run.created'> | null;
  readonly isOpeningOmitted: boolean;
  /** The text at `answerSeq`; `null` if there is none, or if it is omitted or damaged. */
  readonly answer: string | null;
  /** The output is larger than 8 KiB, or consists of very many deltas: `outputJson` or `answer` is `null`. */
  readonly isOutputOmitted: boolean;
}

/** A run that its processes died of this many times, without progress in between, is tried alone. */
export const suspectAfterCrashes = 3;
/** A run that its processes died of this many times fails. */
export const maxCrashes = 6;

export interface ClaimedRun {
  readonly epoch: number;
  /** How many processes died that held the lease, since the run last made progress. */
  readonly crashes: number;
  /** Of its stored events, in bytes. */
  readonly journalSize: number;
}

export interface Lease {
  readonly owner: string;
  readonly until: number;
}

export interface RunCreation {
  readonly identity: RunIdentity;
  /**
   * A conversation belongs to the owner of its first run. `new`: no other run can know its id. `any`:
   * it may belong to another owner. Default: it must belong to the owner of this run.
   */
  readonly conversation?: 'new' | 'any' | undefined;
  /** `null`: the run stays queued until a node claims it. With a lease, it has epoch 1. */
  readonly lease: Lease | null;
  readonly events: readonly RunEvent[];
  readonly progress?: Partial<RunProgress>;
  /** The open connection of a chat, without which the run is canceled. */
  readonly connection?: { readonly id: string; readonly node: string };
  readonly idempotency?: IdempotencyKey;
  readonly audit?: readonly NewAuditEntry[];
  /** The run is stored only if it fits into these budgets with what it reserves. */
  readonly budgets?: readonly RunBudget[];
  readonly reserved?: Reserved;
  /** What its start changes in the session whose turn it is. */
  readonly session?: SessionWrite;
}

/** A budget that a run counts for: its tenant's, or its key's. */
export interface RunBudget {
  /** The budget of one key. */
  readonly keyId?: string;
  readonly tokens?: number;
  readonly costUsd?: number;
  /** Queued and running runs; waiting runs do not count. */
  readonly concurrentRuns?: number;
  readonly period: Budget['period'];
  /** The start of the period. */
  readonly since: number;
}

/** What a run may use, including what it has used. */
export interface Reserved {
  readonly tokens: number;
  readonly costUsd: number;
}

/** Nothing was stored, because this budget would be exceeded. */
export interface OverBudget {
  readonly kind: 'over-budget';
  readonly budget: RunBudget;
  readonly exceeded: 'concurrentRuns' | 'tokens' | 'costUsd';
}

/** Replaces what a run has reserved. */
export interface RunReservation {
  readonly runId: string;
  readonly epoch: number;
  readonly reserved: Reserved;
  readonly budgets: readonly RunBudget[];
}

/** How long a key stands for what was stored with it. */
export const idempotencyMs = 24 * 60 * 60 * 1000;

/** Of all creations with one key, one makes a run, until the key expires. */
export interface IdempotencyKey {
  readonly key: string;
  /** Of the request, to distinguish a repeated request from a different one. */
  readonly fingerprint: string;
  /** A creation at this time or later makes a new run and takes the key over. */
  readonly expiresAt: number;
}

/**
 * `exists`: another run holds the idempotency key. `not-owner`: the conversation belongs to another
 * person. `conflict`: the session has changed (`SessionRefusal`). Nothing was stored.
 */
export type CreationOutcome =
  | { readonly kind: 'created' }
  | { readonly kind: 'not-owner' }
  | { readonly kind: 'conflict' }
  | { readonly kind: 'exists'; readonly runId: string; readonly fingerprint: string }
  | OverBudget;

/** A list continues with the item after this one. */
export interface Position {
  readonly at: number;
  readonly id: string;
}

/** A page of a list, newest first. */
export interface Page {
  readonly limit: number;
  /** Default: from the newest. */
  readonly before?: Position;
  /** Also counts what matches, up to this number. */
  readonly countUpTo?: number;
}

/**
 * What a page holds, and where the next one begins: `null` after the last. To find what several conditions
 * match together, a store reads a bounded part of a list. So a page can have fewer items than its limit,
 * even none, and be followed by others.
 */
export interface Listed<Item> {
  readonly items: readonly Item[];
  readonly next: Position | null;
  /** Set if it was counted. `isMinimum`: there are more. */
  readonly total?: { readonly count: number; readonly isMinimum: boolean };
}

/** All given conditions must hold. */
export interface RunFilter {
  /** One, or any of several. */
  readonly status?: RunStatus | readonly RunStatus[];
  readonly agent?: string;
  readonly conversationId?: string;
  readonly workflowId?: string;
  readonly parentRunId?: string;
  readonly label?: { readonly name: string; readonly value: string };
  /** Created at this time or later. */
  readonly since?: number;
  /** Created before this time. */
  readonly until?: number;
}

/** A conversation with its last run. */
export interface ConversationRecord {
  readonly id: string;
  /** The first text of a user, shortened. Null if there is none, or it was pruned. */
  readonly title: string | null;
  /** Of the last run. */
  readonly agent: string;
  readonly status: RunStatus;
  readonly lastRunId: string;
  readonly runs: number;
  /** The owner of the first run. */
  readonly owner: string;
  /** The session whose turns are its runs. */
  readonly sessionId: string | null;
  readonly createdAt: number;
  /** When its last run was created. */
  readonly updatedAt: number;
}

export interface ConversationFilter {
  /** Those whose title contains this text, in upper or lower case. */
  readonly query?: string;
}

/** All runs of the tenant, or those that one key started. */
export interface UsageScope {
  readonly keyId?: string;
}

/** The usage of ended runs. */
export interface UsageTotal {
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** The sum over runs whose cost is known. */
  readonly costUsd: number;
  readonly runs: number;
}

export interface WorkflowTotal {
  /** The number of runs per status, without zeros. */
  readonly runs: Readonly<Partial<Record<RunStatus, number>>>;
  /** Has a cost only if that of every run is known. */
  readonly usage: Usage;
}

/** From `since`, before `until`. */
export interface StatsRange {
  readonly since: number;
  readonly until: number;
  readonly bucketMs: number;
}

/** In milliseconds, each a value that was measured. */
export interface Percentiles {
  readonly p50: number;
  readonly p95: number;
}

/** What happened in a time: runs and decisions count when they end or are made. */
export interface ActivityStats {
  readonly runs: Readonly<Record<'started' | 'completed' | 'failed' | 'canceled', number>>;
  /** Of the runs that ended. */
  readonly tokens: { readonly input: number; readonly output: number };
  /** Of the runs that ended and whose cost is known. */
  readonly costUsd: number;
  readonly approvals: Readonly<Record<'requested' | 'approved' | 'denied' | 'expired', number>>;
  /** Of the runs that ended; `null` if none has a first token. */
  readonly firstTokenMs: Percentiles | null;
  /** Of the decisions by people; `null` without any. */
  readonly approvalWaitMs: Percentiles | null;
}

/** Of the runs that ended. */
export interface CostStats {
  /** Of those whose cost is known. */
  readonly costUsd: number;
  /** Those that used tokens of an unknown cost. */
  readonly unpricedRuns: number;
}

export interface TotalStats extends ActivityStats, CostStats {
  readonly decisionsByPeople: number;
  /** Decisions by people within three seconds of the request. */
  readonly decisionsUnder3s: number;
  /** At present. */
  readonly openRuns: number;
  readonly pendingApprovals: number;
}

/** The permission requests for a tool, and the decisions on them. */
export interface ToolStats {
  readonly tool: string;
  readonly asks: number;
  readonly approved: number;
  readonly denied: number;
  /** Of the decisions by people. */
  readonly medianWaitMs: number | null;
}

export interface FailureStats {
  readonly code: string;
  readonly count: number;
  readonly lastRunId: string;
  readonly lastAt: number;
  /** Of the last run. */
  readonly message: string;
}

/** Of the runs that ended. */
export interface UsageStats extends CostStats {
  readonly runs: number;
  readonly tokens: ActivityStats['tokens'];
}

/** The lists contain the twenty most frequent. */
export interface TenantStats {
  /** By the number of the bucket, from 0; those in which nothing happened are left out. */
  readonly buckets: ReadonlyMap<number, ActivityStats>;
  readonly totals: TotalStats;
  readonly tools: readonly ToolStats[];
  readonly failures: readonly FailureStats[];
  readonly agents: readonly (UsageStats & { readonly agent: string })[];
  readonly models: readonly (UsageStats & { readonly model: string })[];
}

export type OpenRuns = Readonly<Record<'queued' | 'running' | 'waiting', number>>;

export interface EventRange {
  readonly after: number;
  readonly limit: number;
}

/** A part of a journal that is bounded by its size too. */
export interface PageRange extends EventRange {
  /** The page ends with the append that reaches this size, as it is stored. */
  readonly maxBytes: number;
}

export interface JournalPage {
  readonly events: StoredEvent[];
  /** The journal ended with this page when it was read. */
  readonly isLast: boolean;
}

export interface EndedRun {
  readonly runId: string;
  readonly position: number;
  /** In bytes. */
  readonly journalSize: number;
}

export interface NewClientCall {
  readonly toolCallId: string;
  /** No result is accepted from this time on. */
  readonly resultBy: number;
}

export interface ClientCallRecord extends NewClientCall {
  readonly runId: string;
  /** `closed`: the call or its run ended without a result from a client. */
  readonly status: 'pending' | 'answered' | 'closed';
  /** The latest claim, also if it has expired. */
  readonly claimId: string | null;
  /** A claim with another id preceded the latest one. */
  readonly claimedBefore: boolean;
  readonly result: ClientResult | null;
}

export interface ClientResult {
  /** Of the output: distinguishes a repeated result from a contradicting one. */
  readonly digest: string;
  /** The function failed; the output is its error. */
  readonly failed: boolean;
  /** Deleted when the run ends; the journal keeps it. */
  readonly output?: unknown;
}

interface ClientCallRef {
  readonly runId: string;
  readonly toolCallId: string;
}

export interface PostedResult extends ClientCallRef {
  readonly at: number;
  readonly result: Required<ClientResult>;
  readonly queued: QueuedRunCommand;
}

/** A client's lease on a call. */
export interface CallClaim extends ClientCallRef {
  readonly claimId: string;
  readonly now: number;
  readonly until: number;
}
