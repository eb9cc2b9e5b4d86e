/**
 * The store. `TenantStore` is bound to a tenant and sees content; `SystemStore` sees keys, leases and
 * due work of all tenants, and never content.
 *
 * Both behave the same on every database (one contract suite checks it). Times are milliseconds since
 * the epoch. A write has committed when its promise resolves. Expected outcomes are values; a failing
 * store throws a `RelayError` with `storage_full`, `storage_failed` or `journal_corrupt`.
 */
import type { IdKind, RunEvent, StoredEvent } from '@relay/protocol';
import type { Grant } from '../permission/decide.ts';
import type {
  CredentialRecord,
  CredentialReseal,
  DamagedRow,
  KeyRecord,
  KeyRotation,
  KeyUse,
  LinkRedemption,
  SealedCredential,
  StoreStats,
  TenantChange,
  TenantRecord,
  Workspace,
} from './accounts.ts';
import type {
  ApprovalClosure,
  ApprovalDecision,
  ApprovalFilter,
  ApprovalRecord,
  GrantFilter,
  GrantRecord,
  NewApproval,
  NewGrant,
  VoteChange,
} from './approvals.ts';
import type { QueuedRunCommand } from './commands.ts';
import type {
  AuditTrail,
  DeliveryQueue,
  NewAuditEntry,
  Notice,
  PolicyStore,
  WebhookStore,
} from './governance.ts';
import type {
  FoundMemory,
  MemoryFilter,
  MemoryRecord,
  MemorySearch,
  VectorStore,
} from './memories.ts';
import type {
  CallClaim,
  CheckpointChange,
  ConversationFilter,
  ConversationRecord,
  ClientCallRecord,
  CreationOutcome,
  DueRun,
  ClaimedRun,
  EndedRun,
  EventRange,
  JournalPage,
  NewClientCall,
  OpenRuns,
  OverBudget,
  Listed,
  Page,
  PageRange,
  PostedResult,
  Reserved,
  RunBudget,
  GrantedTo,
  RunCreation,
  RunFilter,
  RunHead,
  RunListing,
  RunProgress,
  RunRecord,
  RunRef,
  RunReservation,
  UsageScope,
  StatsRange,
  TenantStats,
  UsageTotal,
  WorkflowTotal,
} from './runs.ts';
import type {
  ActionStore,
  ChannelStore,
  MessageStore,
  SessionDirectory,
  SessionStore,
  SessionRefusal,
  SessionWrite,
} from './sessions.ts';

/**
 * The cause of a `storage_failed` that repetition cannot cure: the database refuses the values of a
 * statement, whenever it is sent.
 */
export class StatementRefused extends Error {
  override readonly name = 'StatementRefused';
}

/** One atomic step of a run: events, the state they imply and the lease check (E1, E3, E7). */
export interface Append {
  readonly runId: string;
  readonly epoch: number;
  /** The `seq` at which the journal must end. */
  readonly afterSeq: number;
  readonly at: number;
  readonly events: readonly RunEvent[];
  /**
   * The journal that appends, one append after the other and as the only one. The store keeps what it
   * needs to add text to the row of the append before, as long as this object exists.
   */
  readonly writer?: object;
  readonly progress?: Partial<RunProgress>;
  readonly approvals?: readonly NewApproval[];
  readonly closeApprovals?: readonly ApprovalClosure[];
  /** Calls whose results clients post. */
  readonly clientCalls?: readonly NewClientCall[];
  /** Client calls that end without a result. One whose result was posted fences the append. */
  readonly abandonedCalls?: readonly string[];
  /**
   * Counted grants that these events use, one use for each mention. If one is exhausted, expired or
   * revoked, the whole append is `refused` (E7).
   */
  readonly useGrants?: readonly string[];
  /** Ids of queued commands that these events answer: they are removed in the same commit. */
  readonly consumeCommands?: readonly string[];
  /**
   * Claims the run in the same commit, with `epoch` as the one after the stored epoch. Fenced, unless the
   * run has no holder, no crash counts and its inbox is empty.
   */
  readonly claim?: Claim;
  /** The decision that these events apply, by compare-and-set. Its command is not queued. */
  readonly decision?: ApprovalDecision;
  /** Releases the lease in the same commit. */
  readonly release?: boolean;
  /** The run has come further: its crashes so far no longer count, as when its lease is released. */
  readonly madeProgress?: boolean;
  /** Memories that the run stores. */
  readonly memories?: readonly MemoryRecord[];
  /** What these events change in the session whose turn the run is, and in others. */
  readonly session?: SessionWrite;
  readonly audit?: readonly NewAuditEntry[];
  readonly notices?: readonly Notice[];
}

export type AppendOutcome = 'committed' | 'fenced' | 'refused' | SessionRefusal;

export interface TenantStore {
  readonly tenantId: string;
  /** Methods with an `audit` parameter store those entries in the same commit. */
  readonly audit: AuditTrail;
  readonly policies: PolicyStore;
  readonly webhooks: WebhookStore;
  readonly vectors: VectorStore;
  readonly sessions: SessionStore;
  readonly messages: MessageStore;
  readonly channels: ChannelStore;
  readonly actions: ActionStore;

  /** The run, its idempotency key and its first events are stored together or not at all. */
  createRun(creation: RunCreation): Promise<CreationOutcome>;
  /** The run that holds this key, unless the key has expired at `now`. */
  findIdempotencyKey(
    key: string,
    now: number,
  ): Promise<{ runId: string; fingerprint: string } | undefined>;
  /** Throws `journal_corrupt` if the checkpoint or the snapshot is damaged. */
  readRun(runId: string): Promise<RunRecord | undefined>;
  /** Compare-and-set: false if another checkpoint was stored in the meantime. */
  replaceCheckpoint(runId: string, change: CheckpointChange): Promise<boolean>;
  /** Readable even if the checkpoint or the snapshot is damaged. */
  readRunHead(runId: string): Promise<RunHead | undefined>;
  /** By `createdAt`. */
  listRuns(filter: RunFilter, page: Page): Promise<Listed<RunListing>>;
  /**
   * `fenced`: another node holds the run or has appended to it. `refused`: a grant is used up. A
   * `SessionRefusal`: the part of `session` must be made again from the sessions as they are now. Nothing
   * is stored in these cases, and only `fenced` means that the lease is lost. An append that ends its run
   * counts its usage in the same commit.
   */
  append(append: Append): Promise<AppendOutcome>;
  /**
   * At most `limit` events after `after`, oldest first, however large they are. Throws on gaps, on
   * damage, and if the journal was deleted (`journal_pruned`).
   */
  readEvents(runId: string, range: EventRange): Promise<StoredEvent[]>;
  /** The same, bounded by size: for whatever reads a journal of any length. Holds at least one event. */
  readPage(runId: string, range: PageRange): Promise<JournalPage>;

  /** `undefined` if the workflow has no runs. */
  readWorkflow(workflowId: string): Promise<WorkflowTotal | undefined>;
  /** The usage of runs that ended on the UTC day of `since` or later. */
  readUsage(scope: UsageScope & { readonly since: number }): Promise<UsageTotal>;
  countOpenRuns(scope: UsageScope): Promise<OpenRuns>;
  /** Its cost grows with the runs and approvals of the range; it delays no other work. */
  readStats(range: StatsRange): Promise<TenantStats>;
  /** The last decisions by people on permission requests in the range, newest first. */
  listDecisions(
    status: 'approved' | 'denied',
    range: Pick<StatsRange, 'since' | 'until'>,
    limit: number,
  ): Promise<ApprovalRecord[]>;
  /** What runs other than this one have used in the period of a budget, or have reserved. */
  readBudgetUse(budget: RunBudget, exceptRunId: string): Promise<Reserved>;
  /** `fenced`: another node holds the run. */
  reserve(reservation: RunReservation): Promise<'reserved' | 'fenced' | OverBudget>;

  readApproval(approvalId: string): Promise<ApprovalRecord | undefined>;
  /** By `requestedAt`. */
  listApprovals(filter: ApprovalFilter, page: Page): Promise<Listed<ApprovalRecord>>;
  /** Compare-and-set: true if this decision was accepted; its command is stored with it. */
  decideApproval(decision: ApprovalDecision): Promise<boolean>;
  /** Compare-and-set: false if the approval is no longer pending, or its votes have changed. */
  changeVotes(change: VoteChange): Promise<boolean>;
  /**
   * The grants that are active at `now` for this run, its conversation or the tenant. Those of a
   * conversation hold for runs of its owner only.
   */
  readGrants(scope: GrantedTo & { readonly now: number }): Promise<Grant[]>;
  addGrant(grant: NewGrant, audit?: readonly NewAuditEntry[]): Promise<void>;
  readGrant(grantId: string): Promise<GrantRecord | undefined>;
  /** By `createdAt`. */
  listGrants(filter: GrantFilter, page: Page): Promise<GrantRecord[]>;
  /** True if it existed and was not revoked before. */
  revokeGrant(grantId: string, at: number, audit?: readonly NewAuditEntry[]): Promise<boolean>;

  /** Throws `journal_corrupt` if the result is damaged. */
  readClientCall(runId: string, toolCallId: string): Promise<ClientCallRecord | undefined>;
  /** Compare-and-set: true if this result was accepted; its command is stored with it. */
  postResult(result: PostedResult): Promise<boolean>;
  /** True if no other client holds the call at `now`. */
  claimCall(claim: CallClaim): Promise<boolean>;

  /** False if the run has ended or does not exist. */
  postRunCommand(
    runId: string,
    queued: QueuedRunCommand,
    audit?: readonly NewAuditEntry[],
  ): Promise<boolean>;
  /** In the order in which they were posted. Of an ended run: the messages that it did not take. */
  readInbox(runId: string): Promise<QueuedRunCommand[]>;

  readConversation(conversationId: string): Promise<ConversationRecord | undefined>;
  /** By `updatedAt`. */
  listConversations(filter: ConversationFilter, page: Page): Promise<Listed<ConversationRecord>>;
  /** How many runs of the conversation have ended. */
  countEndedRuns(conversationId: string): Promise<number>;
  /** The runs that ended at the positions (`after`, `upTo`] of the conversation, in order. */
  endedRuns(
    conversationId: string,
    positions: { after: number; upTo: number },
  ): Promise<EndedRun[]>;

  /**
   * Ids that begin or end with `match`, newest first. With at least 8 characters any id that begins with it
   * is found, otherwise one of the newest ten thousand.
   */
  findIds(kind: IdKind, match: string, limit: number): Promise<string[]>;

  /** The run of an open chat connection. */
  findConnection(connectionId: string): Promise<{ runId: string } | undefined>;
  closeConnection(connectionId: string): Promise<void>;

  /** Throws if the tenant does not exist. */
  readTenant(): Promise<TenantRecord>;
  /** False, and nothing stored, if the settings differ from `expectedSettings`. */
  updateTenant(change: TenantChange, audit?: readonly NewAuditEntry[]): Promise<boolean>;

  /** By `createdAt`, including revoked keys. */
  listKeys(page: Page): Promise<KeyRecord[]>;
  readKey(keyId: string): Promise<KeyRecord | undefined>;
  /** True if it existed and was not revoked before. */
  revokeKey(keyId: string, at: number, audit?: readonly NewAuditEntry[]): Promise<boolean>;

  /** Replaces the tenant's credential for this provider, including its id. */
  putCredential(record: CredentialRecord, audit?: readonly NewAuditEntry[]): Promise<void>;
  readCredential(provider: string): Promise<CredentialRecord | undefined>;
  /** By `createdAt`, newest first. */
  listCredentials(): Promise<CredentialRecord[]>;
  /** True if it existed. */
  deleteCredential(provider: string, audit?: readonly NewAuditEntry[]): Promise<boolean>;

  /** Of all memories with the same `idempotencyKey` only the first is stored. Returns the stored one. */
  addMemory(record: MemoryRecord, idempotencyKey?: string): Promise<MemoryRecord>;
  /** By `createdAt`. */
  listMemories(filter: MemoryFilter, page: Page): Promise<MemoryRecord[]>;
  /** Memories that share words with the query, best first. */
  searchMemories(search: MemorySearch): Promise<FoundMemory[]>;
  /** True if it existed, and in this namespace if one is given. */
  deleteMemory(memoryId: string, within?: { readonly namespace: string }): Promise<boolean>;
  /** Deletes at most `limit` memories and returns their number; fewer means that none is left. */
  clearMemories(namespace: string, limit: number): Promise<number>;
}

export interface SystemStore {
  tenant(tenantId: string): TenantStore;
  readonly deliveries: DeliveryQueue;
  readonly sessions: SessionDirectory;

  /** Creates the tenant if it does not exist. */
  ensureTenant(tenant: { id: string; name: string; at: number }): Promise<{ id: string }>;
  tenantOfRun(runId: string): Promise<string | undefined>;
  /** The `seq` of the last event of each of these runs, of all tenants. */
  lastSeqs(runIds: readonly string[]): Promise<ReadonlyMap<string, number>>;
  findTenant(name: string): Promise<{ id: string; name: string } | undefined>;
  /** The workspaces in the settings of all tenants. */
  workspaces(): Promise<Workspace[]>;
  /** Counts over all tenants, or of one. */
  stats(tenantId?: string): Promise<StoreStats>;
  tenantIds(): Promise<string[]>;
  pausedTenants(): Promise<string[]>;
  addKey(key: KeyRecord, hash: string, audit?: readonly NewAuditEntry[]): Promise<void>;
  /** The same, unless the store has ever had a first key; then false. */
  addFirstKey(key: KeyRecord, hash: string, audit?: readonly NewAuditEntry[]): Promise<boolean>;
  /** Undefined for a row that is not as it was written; `onDamage` receives which one it is. */
  findKey(hash: string, onDamage?: (row: DamagedRow) => void): Promise<KeyRecord | undefined>;
  /** False, and nothing is stored, if the old key does not exist, is revoked or was replaced. */
  rotateKey(rotation: KeyRotation, audit?: readonly NewAuditEntry[]): Promise<boolean>;
  /**
   * Turns a login link into a sign-in with a secret of its own. Of several at once, one succeeds; false, and
   * nothing is stored, if there is no such link, or it was opened or revoked before.
   */
  redeemLink(redemption: LinkRedemption, audit?: readonly NewAuditEntry[]): Promise<boolean>;
  /** Deletes at most `limit` sign-ins and login links that expired before, and returns their number. */
  deleteSignIns(expiredBefore: number, limit: number): Promise<number>;
  /** An earlier use does not replace a later one. */
  recordKeyUses(uses: readonly KeyUse[]): Promise<void>;

  /** Credentials of all tenants, ordered by id, after the id `after`. They are not verified. */
  sealedCredentials(page: { after?: string; limit: number }): Promise<SealedCredential[]>;
  /** False if it was replaced, resealed or deleted in the meantime, or is damaged. */
  resealCredential(row: CredentialReseal): Promise<boolean>;
  /**
   * Calls back for each row that decides who may do what and is not as it was written, whenever one is
   * read. Returns a function that unsubscribes.
   */
  onDamagedRow(listener: (row: DamagedRow) => void): () => void;
  /** Verifies all such rows of all tenants. */
  damagedRows(): Promise<DamagedRow[]>;
  /** After a change of the key: signs them with the current one. */
  resignRows(): Promise<void>;
  /** Tenants with unsealed audit entries, ordered by id, after the id `after`. */
  tenantsToSeal(page: { after?: string; limit: number }): Promise<string[]>;
  /** A value that belongs to the store itself and to no tenant. */
  readMetadata(name: string): Promise<string | undefined>;
  /** True if it was written; with `ifAbsent`, an earlier value stays. */
  writeMetadata(name: string, value: string, options?: { ifAbsent?: boolean }): Promise<boolean>;

  /**
   * Takes the lease if it is free or has expired at `now`. Every claim increments the epoch. The owner
   * of an expired lease is counted as crashed, until it sends a heartbeat. A suspect, whose processes
   * crashed `suspectAfterCrashes` times in a row, is claimed only on request.
   */
  claimRun(
    runId: string,
    claim: Claim,
    options?: { suspect?: boolean },
  ): Promise<ClaimedRun | undefined>;
  /** Suspects without a lease, those with the fewest crashes first. None is in `dueRuns`. */
  suspectRuns(now: number, limit: number): Promise<RunRef[]>;
  /** Renews the leases that this owner still holds, and returns their run ids. */
  renewLeases(
    owner: string,
    renewal: { runIds: readonly string[]; now: number; until: number },
  ): Promise<string[]>;
  /** Those of these runs that have commands. */
  runsWithCommands(runIds: readonly string[]): Promise<string[]>;
  releaseRun(runId: string, epoch: number): Promise<void>;
  /**
   * Runs without a lease that have work: queued or abandoned, due to wake, or with a command. At most
   * `limit` for each of these reasons, oldest first. Tenants take turns, so that the backlog of one does
   * not delay the others. Of a paused tenant only canceled runs are due.
   */
  dueRuns(now: number, limit: number): Promise<DueRun[]>;
  /** For a store with a single server: leases that its earlier process holds are those of a crash. */
  releaseAllLeases(): Promise<void>;
  /** Deletes at most `limit` expired memories of all tenants, and returns their number. */
  deleteExpiredMemories(now: number, limit: number): Promise<number>;
  /**
   * Deletes journals, outputs and approvals of conversations without activity since `before`; the runs
   * and their usage are kept. Handles at most `limit` runs and `limit` journal rows per call; 0 means
   * that nothing is left. Skips conversations with an open run and those that another conversation was
   * forked from.
   */
  pruneRuns(before: number, limit: number): Promise<number>;
  /**
   * Marks a node as alive until `until`. If other nodes took over its expired leases, these no longer
   * count as crashes.
   */
  heartbeatNode(by: Claim): Promise<void>;
  /** For a node that stops gracefully. */
  removeNode(node: string): Promise<void>;
  /**
   * Chat connections of other nodes that are not alive, ordered by id, after the id `after`. A few
   * hundred at once.
   */
  orphanedConnections(
    node: string,
    now: number,
    after?: string,
  ): Promise<{ tenantId: string; id: string; runId: string }[]>;

  /**
   * Receives hints from other nodes, and those about sessions also from this one. The listener may not throw.
   * Returns a function that unsubscribes.
   */
  listen(listener: (hint: Hint) => void): () => void;

  /** Resolves if the store is writable. */
  ping(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Holds for `until - now`. Where nodes share a database, the database's clock counts, not the caller's
 * `now`.
 */
export interface Claim {
  readonly owner: string;
  readonly now: number;
  readonly until: number;
}

/** What another node has stored, without its content. A lost hint only delays: nodes also poll. */
export type Hint =
  /** The journal has new events. */
  | { readonly kind: 'journal'; readonly runId: string }
  /** The journal has new events that change the run's status. */
  | { readonly kind: 'run'; readonly tenantId: string; readonly runId: string }
  | { readonly kind: 'approval'; readonly tenantId: string; readonly approvalId: string }
  /** The run has a new command that only the node which drives it needs to know. */
  | { readonly kind: 'inbox'; readonly tenantId: string; readonly runId: string }
  /** The run has a new command, or no node holds it any more. */
  | { readonly kind: 'wake'; readonly tenantId: string; readonly runId: string }
  /** The session has new events, deliveries or commands, or its stream was opened or closed. */
  | {
      readonly kind: 'session';
      readonly tenantId: string;
      readonly sessionId: string;
      /** The token that it had no longer opens it. */
      readonly isTokenEnded?: boolean;
    }
  /** A message was sent, edited or withdrawn. */
  | {
      readonly kind: 'message';
      readonly tenantId: string;
      readonly messageId: string;
      /** Of a new one. */
      readonly channels?: readonly string[];
    }
  /** A delivery is new or has changed; without an id, several of the session. */
  | {
      readonly kind: 'delivery';
      readonly tenantId: string;
      readonly sessionId: string;
      readonly deliveryId?: string;
    }
  /** The tenant's settings, keys or credentials have changed. */
  | { readonly kind: 'tenant'; readonly tenantId: string }
  /** Hints may have been lost. */
  | { readonly kind: 'all' };
