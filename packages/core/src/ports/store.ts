/**
 * How core keeps things. Two ports: one that is bound to a tenant and sees content, and one for the
 * system, which sees keys, leases and due work, and never content.
 *
 * Both are asynchronous, and behave the same on every store (one contract suite checks it).
 * Times are milliseconds since the epoch. A promise that resolves means: stored.
 * Expected outcomes are values; a store that cannot do its work throws a `RelayError` with
 * `storage_full`, `storage_failed` or `journal_corrupt`.
 */
import type { RunEvent, StoredEvent } from '@relay/protocol';
import type { Grant } from '../permission/decide.ts';
import type { Hint } from './hints.ts';
import type { AuditTrail, NewAudit } from './stored-audit.ts';
import type {
  StoreStats,
  CredentialRecord,
  KeyRecord,
  Resealing,
  SealedCredential,
  TenantChange,
  TenantRecord,
  Workspace,
} from './stored-accounts.ts';
import type { PolicyStore } from './stored-policies.ts';
import type { FoundMemory, MemoryFilter, MemoryRecord, MemorySearch } from './stored-memories.ts';
import type {
  CallClaim,
  ClientCallRecord,
  NewClientCall,
  PostedResult,
} from './stored-client-calls.ts';
import type {
  GrantFilter,
  GrantRecord,
  QueuedRunCommand,
  NewGrant,
  NewApproval,
  ApprovalClosure,
  ApprovalDecision,
  ApprovalFilter,
  ApprovalRecord,
} from './stored-approvals.ts';
import type { VectorStore } from './stored-vectors.ts';
import type { DeliveryQueue, Notice, WebhookStore } from './stored-webhooks.ts';
import type {
  CreationOutcome,
  EndedRun,
  EventRange,
  OpenRuns,
  Page,
  RunCreation,
  RunFilter,
  RunHead,
  RunListing,
  RunProgress,
  RunRecord,
  RunRef,
  UsageScope,
  UsageTotal,
  WorkflowTotal,
} from './stored-runs.ts';

export type * from './stored-accounts.ts';
export type * from './stored-audit.ts';
export type * from './stored-client-calls.ts';
export type * from './stored-memories.ts';
export type * from './stored-policies.ts';
export type * from './stored-approvals.ts';
export type * from './stored-runs.ts';
export * from './stored-vectors.ts';
export type * from './stored-webhooks.ts';

/** One atomic step of a run: events, the state they imply and the lease check (E1, E3, E7). */
export interface Append {
  readonly runId: string;
  readonly epoch: number;
  /** The `seq` that this append follows: the journal must end exactly there. */
  readonly afterSeq: number;
  readonly at: number;
  readonly events: readonly RunEvent[];
  readonly progress?: Partial<RunProgress>;
  readonly approvals?: readonly NewApproval[];
  readonly closeApprovals?: readonly ApprovalClosure[];
  /** Calls that a client shall bring the result of. */
  readonly clientCalls?: readonly NewClientCall[];
  /** Calls that end without a client's result; one that came meanwhile undoes the step. */
  readonly abandonedCalls?: readonly string[];
  /**
   * Counted grants that these events use up, once for each time they are named. One that has none
   * left, has expired or was revoked undoes the whole step (E7): it is `refused`.
   */
  readonly useGrants?: readonly string[];
  /** QueuedRunCommand that these events answer: it is removed in the same commit. */
  readonly consumeCommands?: readonly string[];
  /** Gives the lease back in the same commit. */
  readonly release?: boolean;
  /** Memories that the run leaves behind. */
  readonly memories?: readonly MemoryRecord[];
  readonly audit?: readonly NewAudit[];
  readonly notices?: readonly Notice[];
}

export type AppendOutcome = 'committed' | 'fenced' | 'refused';

export interface TenantStore {
  readonly tenantId: string;
  /** Where a method takes `audit`, it is stored in the same commit, or not at all. */
  readonly audit: AuditTrail;
  readonly policies: PolicyStore;
  readonly webhooks: WebhookStore;
  readonly vectors: VectorStore;

  /** The run, its idempotency key and its first events are stored together or not at all. */
  createRun(creation: RunCreation): Promise<CreationOutcome>;
  /** The run that holds this key, unless it has expired at `now`. */
  findIdempotencyKey(
    key: string,
    now: number,
  ): Promise<{ runId: string; fingerprint: string } | undefined>;
  /** Throws `journal_corrupt` if the checkpoint or the snapshot is damaged. */
  readRun(runId: string): Promise<RunRecord | undefined>;
  /** For ending a run whose checkpoint or snapshot is damaged. */
  readRunHead(runId: string): Promise<RunHead | undefined>;
  /** By `createdAt`. */
  listRuns(filter: RunFilter, page: Page): Promise<RunListing[]>;
  /**
   * `fenced`: another node holds the run or has written since. `refused`: a grant that it uses is used
   * up. Nothing was stored then. An append that ends its run counts what it used in the same commit.
   */
  append(append: Append): Promise<AppendOutcome>;
  /**
   * What follows `after`, oldest first, at most `limit` events. Gaps and damage throw; so does a run
   * whose journal is no longer kept (`journal_pruned`).
   */
  readEvents(runId: string, range: EventRange): Promise<StoredEvent[]>;

  /** All runs of a workflow together; undefined if there is none. */
  readWorkflow(workflowId: string): Promise<WorkflowTotal | undefined>;
  /** What runs used that ended on the UTC day of `since` or later. */
  readUsage(scope: UsageScope & { readonly since: number }): Promise<UsageTotal>;
  /** How many runs are not over. */
  countOpenRuns(scope: UsageScope): Promise<OpenRuns>;

  readApproval(approvalId: string): Promise<ApprovalRecord | undefined>;
  /** By `requestedAt`. */
  listApprovals(filter: ApprovalFilter, page: Page): Promise<ApprovalRecord[]>;
  /** Compare-and-set: true if this decision is the one that counts. With it, its inbox is stored. */
  decideApproval(decision: ApprovalDecision): Promise<boolean>;
  /** What is granted at `now` to this run, to its conversation or to the whole tenant. */
  readGrants(scope: { runId: string; conversationId: string; now: number }): Promise<Grant[]>;
  addGrant(grant: NewGrant, audit?: readonly NewAudit[]): Promise<void>;
  readGrant(grantId: string): Promise<GrantRecord | undefined>;
  /** By `createdAt`. */
  listGrants(filter: GrantFilter, page: Page): Promise<GrantRecord[]>;
  /** True if it was there and not revoked yet: the first time stays. */
  revokeGrant(grantId: string, at: number, audit?: readonly NewAudit[]): Promise<boolean>;

  /** Throws `journal_corrupt` if the result is damaged. */
  readClientCall(runId: string, toolCallId: string): Promise<ClientCallRecord | undefined>;
  /** Compare-and-set: true if this result is the one that counts. With it, its inbox is stored. */
  postResult(result: PostedResult): Promise<boolean>;
  /** True if nobody else works on the call at `now`. */
  claimCall(claim: CallClaim): Promise<boolean>;

  /** Stores commands for a run that is not over; false if it is (or was never there). */
  postRunCommand(
    runId: string,
    queued: QueuedRunCommand,
    audit?: readonly NewAudit[],
  ): Promise<boolean>;
  readInbox(runId: string): Promise<QueuedRunCommand[]>;

  /** How many runs of the conversation have ended so far; 0 for one that is new. */
  countEndedRuns(conversationId: string): Promise<number>;
  /** The runs that ended in the conversation at positions after..upTo, in that order. */
  endedRuns(
    conversationId: string,
    positions: { after: number; upTo: number },
  ): Promise<EndedRun[]>;

  /** The run behind an open chat connection. */
  findConnection(connectionId: string): Promise<{ runId: string } | undefined>;
  closeConnection(connectionId: string): Promise<void>;

  /** Throws if the tenant was never made (`ensureTenant`). */
  readTenant(): Promise<TenantRecord>;
  /** False, and nothing stored, if the settings are not what the change says that they were. */
  updateTenant(change: TenantChange, audit?: readonly NewAudit[]): Promise<boolean>;

  /** By `createdAt`, the revoked ones among them. */
  listKeys(page: Page): Promise<KeyRecord[]>;
  readKey(keyId: string): Promise<KeyRecord | undefined>;
  /** True if it was there and not revoked yet: the first time stays. */
  revokeKey(keyId: string, at: number, audit?: readonly NewAudit[]): Promise<boolean>;

  /** Takes the place of what the tenant had for this provider, id and all. */
  putCredential(record: CredentialRecord, audit?: readonly NewAudit[]): Promise<void>;
  readCredential(provider: string): Promise<CredentialRecord | undefined>;
  /** All of them, by `createdAt`, newest first. */
  listCredentials(): Promise<CredentialRecord[]>;
  /** True if there was one. */
  deleteCredential(provider: string, audit?: readonly NewAudit[]): Promise<boolean>;

  /** Of all that are added under the same `once`, the first is kept; what is kept is returned. */
  addMemory(record: MemoryRecord, once?: string): Promise<MemoryRecord>;
  /** By `createdAt`. */
  listMemories(filter: MemoryFilter, page: Page): Promise<MemoryRecord[]>;
  /** Those that have words in common with the query, the best first. */
  searchMemories(search: MemorySearch): Promise<FoundMemory[]>;
  /** True if there was one, in this namespace if one is named. */
  deleteMemory(memoryId: string, within?: { readonly namespace: string }): Promise<boolean>;
  /** Deletes at most `limit` of a namespace, and says how many: fewer mean that none is left. */
  clearMemories(namespace: string, limit: number): Promise<number>;
}

export interface SystemStore {
  tenant(tenantId: string): TenantStore;
  readonly deliveries: DeliveryQueue;

  /** Makes the tenant if it is not there yet. */
  ensureTenant(tenant: { id: string; name: string; at: number }): Promise<{ id: string }>;
  /** Whose run it is. */
  tenantOfRun(runId: string): Promise<string | undefined>;
  findTenant(name: string): Promise<{ id: string; name: string } | undefined>;
  /** The folders that operators gave to tenants, as they stand in their settings. */
  workspaces(): Promise<Workspace[]>;
  /** How much is going on, over all tenants. */
  stats(): Promise<StoreStats>;
  /** Ids of the tenants that are paused. */
  pausedTenants(): Promise<string[]>;
  addKey(key: KeyRecord, hash: string, audit?: readonly NewAudit[]): Promise<void>;
  findKey(hash: string): Promise<KeyRecord | undefined>;

  /** Credentials of all tenants by their ids, those after `after`. */
  sealedCredentials(page: { after?: string; limit: number }): Promise<SealedCredential[]>;
  /** False if it was replaced, resealed or deleted in the meantime. */
  resealCredential(row: Resealing): Promise<boolean>;
  /** Tenants whose audit trail has entries without a place. */
  tenantsToSeal(limit: number): Promise<string[]>;
  /** A small fact about the store itself. */
  readMetadata(name: string): Promise<string | undefined>;
  /** True if it was written; with `ifAbsent`, an earlier value stays. */
  writeMetadata(name: string, value: string, options?: { ifAbsent?: boolean }): Promise<boolean>;

  /** Takes the lease if it is free or has run out at `now`; the epoch rises with every claim. */
  claimRun(runId: string, claim: Claim): Promise<{ epoch: number } | undefined>;
  /** Prolongs what this owner still holds, and says what that is. */
  renewLeases(
    owner: string,
    renewal: { runIds: readonly string[]; now: number; until: number },
  ): Promise<string[]>;
  /** Of all runs that this owner holds, those that have commands. */
  leasedRunsWithCommands(owner: string): Promise<string[]>;
  /** Gives back a lease without writing anything else. */
  releaseRun(runId: string, epoch: number): Promise<void>;
  /**
   * Runs that nobody holds and that have something to do: left behind or queued, due, or told; at
   * most `limit` for each of these reasons, the oldest first; of what is left behind or queued
   * tenants take turns, so that a long queue of one does not hide the others. Of a paused tenant only those that
   * were told something, because it may be that they shall stop.
   */
  dueRuns(now: number, limit: number): Promise<RunRef[]>;
  /** For a store that one server owns alone: what earlier processes held is free at once. */
  releaseAllLeases(): Promise<void>;
  /** Deletes at most `limit` memories that have expired, of any tenant, and says how many. */
  deleteExpiredMemories(now: number, limit: number): Promise<number>;
  /**
   * Forgets what was said in conversations in which nothing has happened since `before`: journals,
   * outputs and approvals go, what the runs were and used stays. At most `limit` runs and as many rows
   * of journals at a time; 0 means that nothing is left to forget. A conversation with a run that is
   * not over is left alone, and so is one that another conversation was forked from.
   */
  pruneRuns(before: number, limit: number): Promise<number>;
  /** Says that a node is alive, until it says so again. */
  heartbeatNode(by: Claim): Promise<void>;
  /** It leaves in good order. */
  removeNode(node: string): Promise<void>;
  /**
   * Chat connections of nodes other than `node` that are not alive: their peers are gone. A few
   * hundred at once, the oldest first.
   */
  orphanedConnections(
    node: string,
    now: number,
  ): Promise<{ tenantId: string; id: string; runId: string }[]>;

  /** Hears what other nodes on this store have stored; returns how to stop. */
  listen(heard: (hint: Hint) => void): () => void;

  /** Resolves if the store can be written to. */
  ping(): Promise<void>;
  close(): Promise<void>;
}

/**
 * How long something is held: `until - now`. Where nodes share a database, it is counted by that
 * database's clock, and `now` is what the caller believes.
 */
export interface Claim {
  readonly owner: string;
  readonly now: number;
  readonly until: number;
}
