/**
 * Sessions with their journals, messages and their deliveries, channels, and actions.
 *
 * Everything that changes a session is one `SessionWrite`: it is stored as a whole or not at all, on its
 * own (`SessionStore.change`) or with a step of a run (`Append.session`, `RunCreation.session`).
 */
import type {
  ActionSelector,
  AgentSessionCapabilities,
  AgentStatus,
  Decider,
  DeliveryMode,
  DeliveryStatus,
  IdentityKind,
  InvocationStatus,
  Sender,
  SessionAttachment,
  SessionCommand,
  SessionEvent,
  StoredSessionEvent,
} from '@relay/protocol';
import type { SessionState } from '../sessions/state.ts';
import type { ApprovalClosure, NewApproval, RequestDecision } from './approvals.ts';
import type { QueuedRunCommand } from './commands.ts';
import type { NewAuditEntry, Notice } from './governance.ts';
import type { EventRange, IdempotencyKey, Listed, Page, PageRange } from './runs.ts';

export interface SessionRef {
  readonly tenantId: string;
  readonly sessionId: string;
}

/** Who a session is and what it may do. Its row is authenticated. */
export interface SessionDefinition {
  readonly handle: string;
  readonly name: string;
  readonly kind: IdentityKind;
  readonly harness: string;
  readonly capabilities: AgentSessionCapabilities;
  readonly conversationId: string;
  readonly agent: string | null;
  readonly model: string | null;
  readonly labels: Readonly<Record<string, string>>;
  /** A folder inside the tenant's workspace. */
  readonly workspace: string | null;
  /** Any JSON. */
  readonly permissions: unknown;
  readonly parentSessionId: string | null;
  readonly owner: string;
  /** The API key that created or attached it. */
  readonly keyId: string | null;
}

/** The parts of a definition that a new attach or a request may change. */
export type SessionRedefinition = Partial<
  Pick<
    SessionDefinition,
    'name' | 'kind' | 'capabilities' | 'model' | 'labels' | 'permissions' | 'owner' | 'keyId'
  >
> & {
  /**
   * Of the session's only token; the one before it no longer works, and the stream that was opened with it
   * counts no longer, unless the change requires it (`ifStream`). The session is seen now.
   */
  readonly tokenHash?: string | null;
};

/** The fields that change with the journal, in the commit of the events that change them. */
export interface SessionProgress {
  readonly status: AgentStatus;
  readonly state: SessionState;
  /** The run that is the session's turn. */
  readonly activeRunId: string | null;
  /** Once it is set, the handle is free and the token, memberships and actions are gone. */
  readonly releasedAt: number | null;
  /** When the session needs attention without a request: `SessionDirectory.due`. */
  readonly dueAt: number | null;
}

export interface SessionQueue {
  /** Deliveries that are accepted or deferred. The limit of an inbox also counts those that are delivered. */
  readonly length: number;
  readonly bytes: number;
  readonly oldestAt: number | null;
  /** The same without those of mode `manual` that wait for a flush. */
  readonly oldestUnheldAt: number | null;
}

export interface SessionRecord extends SessionDefinition, SessionProgress {
  readonly id: string;
  readonly tenantId: string;
  readonly createdAt: number;
  readonly lastActiveAt: number;
  readonly lastSeq: number;
  /** Counts its changes, also those without events. */
  readonly version: number;
  /** Its events up to this one were deleted. Of terminal output only the last MB is kept, too. */
  readonly prunedSeq: number;
  /** When its program last attached, reported an event or closed its stream. */
  readonly seenAt: number;
  /** The stream that its program has open. */
  readonly stream: SessionStream | null;
  readonly queue: SessionQueue;
}

export interface SessionStream {
  readonly id: string;
  /** The node that serves it. */
  readonly node: string;
}

export interface NewSession {
  readonly id: string;
  readonly createdAt: number;
  readonly definition: SessionDefinition;
  readonly tokenHash?: string;
  readonly progress: SessionProgress;
  /** The first events of its journal. */
  readonly events: readonly SessionEvent[];
}

/** All given conditions must hold. */
export interface SessionFilter {
  /** One, or any of several. */
  readonly status?: AgentStatus | readonly AgentStatus[];
  readonly harness?: string;
  readonly label?: { readonly name: string; readonly value: string };
}

/** Events of a session, and what they change. */
export interface SessionChange {
  readonly sessionId: string;
  readonly at: number;
  /**
   * Conditional: the version that the session must have, for what was computed from its state. Without it
   * the change is relative: its events get the next numbers, unless the session is released. A conditional
   * change of a released session has no events.
   */
  readonly ifVersion?: number;
  /** The stream that the session must have open: another one has not replaced it. */
  readonly ifStream?: string;
  /** The status that the session must have, for what depends on nothing else of its state. */
  readonly ifStatus?: AgentStatus;
  readonly events: readonly SessionEvent[];
  /** Only in a conditional change. */
  readonly progress?: Partial<SessionProgress>;
  /** Only in a conditional change, and not with a step of a run. */
  readonly redefine?: SessionRedefinition;
  /** Its program made the change: it is seen now. Default: if the token is replaced. */
  readonly isSeen?: boolean;
  /** In a relative change: attention is needed at this time, unless it is needed earlier anyway. */
  readonly dueBy?: number;
  readonly newDeliveries?: readonly NewDelivery[];
  readonly deliveries?: readonly DeliveryChange[];
}

export interface SessionWrite {
  /** Of any number of sessions. Several of one session are applied in this order. */
  readonly changes: readonly SessionChange[];
  readonly messages?: readonly NewMessage[];
  /** Held by the first of the messages, or else of the invocations, or else by the first session. */
  readonly idempotency?: MessageKey;
  /** Default: `defaultInboxLimit`. */
  readonly inboxLimit?: InboxLimit;
  /** For runs that are turns of these sessions. */
  readonly runCommands?: readonly { readonly runId: string; readonly queued: QueuedRunCommand }[];
  /** Commands that these runs no longer get, unless they have taken them. */
  readonly withdrawnCommands?: readonly { readonly runId: string; readonly id: string }[];
  readonly commands?: readonly NewSessionCommand[];
  readonly answers?: readonly CommandAnswer[];
  readonly invocations?: readonly NewInvocation[];
  readonly invocationChanges?: readonly InvocationChange[];
  readonly snapshots?: readonly SessionSnapshot[];
  /** Without a run. */
  readonly approvals?: readonly NewApproval[];
  readonly decision?: RequestDecision;
  /** Of approvals without a run. One that was decided does not expire; one that is closed stays decided. */
  readonly closures?: readonly ApprovalClosure[];
  /** Counted grants, once for each use. */
  readonly useGrants?: readonly string[];
  /** What the program of a session has used, by its own account. */
  readonly usage?: ReportedUsage;
  readonly audit?: readonly NewAuditEntry[];
  readonly notices?: readonly Notice[];
}

/** Counts for the day of `at`, as what the runs of this key have used. */
export interface ReportedUsage {
  readonly keyId: string | null;
  readonly at: number;
  /** Since its last report. */
  readonly tokens: number;
  readonly costUsd: number;
}

/** Why nothing was stored. */
export type SessionRefusal =
  /**
   * The session has changed since, a delivery, command, invocation or approval has another status, a grant
   * is used up, or a message does not exist: to be read and decided again.
   */
  | { readonly kind: 'conflict'; readonly sessionId?: string }
  /** It does not exist or is released, which only a relative change finds out. */
  | { readonly kind: 'gone'; readonly sessionId: string }
  | { readonly kind: 'inbox-full'; readonly sessionId: string }
  /** The run that a command is for has ended. */
  | { readonly kind: 'run-ended'; readonly runId: string }
  /** An earlier message or invocation of this sender has the key. */
  | { readonly kind: 'exists'; readonly holderId: string; readonly fingerprint: string };

export type SessionOutcome =
  /** `lastSeqs`: the `seq` of the last event of each change, in their order. */
  { readonly kind: 'committed'; readonly lastSeqs: readonly number[] } | SessionRefusal;

export type SessionCreationOutcome =
  | { readonly kind: 'created' }
  /** A session that is not released has the handle. */
  | { readonly kind: 'handle-taken' }
  /** Of what is stored with it. */
  | SessionRefusal;

export interface SessionPage {
  readonly events: StoredSessionEvent[];
  /** The journal ended with this page when it was read. */
  readonly isLast: boolean;
}

export interface SessionSnapshot {
  readonly id: string;
  readonly sessionId: string;
  /** The event of the session's journal after which it was taken. */
  readonly seq: number;
  readonly at: number;
  /** What a new session continues with, as any JSON. */
  readonly content: unknown;
}

/** A command that the session's program carries out and answers. */
export interface NewSessionCommand {
  readonly id: string;
  readonly sessionId: string;
  /** `input` is for a session of another node: its text is deleted with the answer. */
  readonly command: SessionCommand | 'input';
  /** Any JSON. */
  readonly args: unknown;
  readonly at: number;
  /** Unanswered at this time, it fails. */
  readonly answerBy: number;
  /** The session that is stored with the answer. */
  readonly fork?: RequestedFork;
}

/** What else a fork is, its parent says. */
export interface RequestedFork {
  readonly sessionId: string;
  readonly handle: string;
  readonly by: Decider;
}

export interface SessionCommandRecord extends NewSessionCommand {
  readonly answer: Omit<CommandAnswer, 'id' | 'sessionId'> | null;
}

/** Compare-and-set: the command is not answered yet. */
export interface CommandAnswer {
  readonly id: string;
  readonly sessionId: string;
  readonly at: number;
  readonly ok: boolean;
  /** Any JSON. */
  readonly result?: unknown;
  readonly error?: string;
}

export interface SessionStore {
  /** With what else changes, such as the session that it was forked from. */
  create(session: NewSession, also?: Partial<SessionWrite>): Promise<SessionCreationOutcome>;
  /** Throws `journal_corrupt` if the row is not as it was written. */
  read(sessionId: string): Promise<SessionRecord | undefined>;
  /** The session with this handle that is not released. */
  readByHandle(handle: string): Promise<SessionRecord | undefined>;
  /** Of the sessions with this handle that are released, the last one. */
  readReleased(handle: string): Promise<SessionRecord | undefined>;
  /** The session whose turn this run is. */
  readByRun(runId: string): Promise<SessionRecord | undefined>;
  /** By `createdAt`. */
  list(filter: SessionFilter, page: Page): Promise<Listed<SessionRecord>>;
  change(write: SessionWrite): Promise<SessionOutcome>;
  /**
   * At most `limit` events after `after`, oldest first, without terminal output that is no longer kept.
   * Throws on other gaps and on damage, and `journal_pruned` if `after` is before `prunedSeq`.
   */
  readEvents(sessionId: string, range: EventRange): Promise<StoredSessionEvent[]>;
  /** The same, bounded by size. Holds at least one event. */
  readPage(sessionId: string, range: PageRange): Promise<SessionPage>;
  /** The session's program has opened a stream; it replaces one before it. */
  openStream(sessionId: string, stream: SessionStream & { readonly at: number }): Promise<boolean>;
  /** The same for a session that lives in the process of a node. False if another one has it. */
  claimStream(sessionId: string, stream: SessionStream & { readonly at: number }): Promise<boolean>;
  /** Nothing changes if another stream has replaced it. Attention is needed by `dueBy`. */
  closeStream(
    sessionId: string,
    closed: { readonly id: string; readonly at: number; readonly dueBy: number },
  ): Promise<boolean>;
  /** Commands without an answer, in order. */
  openCommands(sessionId: string, limit: number): Promise<SessionCommandRecord[]>;
  readCommand(sessionId: string, commandId: string): Promise<SessionCommandRecord | undefined>;
  readSnapshot(snapshotId: string): Promise<SessionSnapshot | undefined>;
  /**
   * Deletes the session with its journal, snapshots, commands, actions and memberships. Messages that it sent
   * or received stay, and the deliveries that have not ended have failed. True if it existed.
   */
  remove(
    sessionId: string,
    removal: { readonly at: number; readonly audit?: readonly NewAuditEntry[] },
  ): Promise<boolean>;
}

export interface MessageRecord {
  readonly id: string;
  readonly from: Sender;
  /** As it was addressed, such as `#channel` and `@handle`. */
  readonly to: readonly string[];
  readonly text: string;
  readonly attachments: readonly SessionAttachment[];
  readonly mode: DeliveryMode | null;
  readonly replyTo: string | null;
  /** The message that the thread began with; its own id if it began one. */
  readonly threadId: string;
  /** How many messages of agents led to it, each caused by the one before. */
  readonly hops: number;
  readonly at: number;
  readonly editedAt: number | null;
  readonly withdrawnAt: number | null;
}

export interface NewMessage extends Omit<MessageRecord, 'editedAt' | 'withdrawnAt'> {
  /** The channels that it is shown in. */
  readonly channels: readonly string[];
  /** The sessions that it was sent to by their handles, or mentions. A key, if it replies to one. */
  readonly direct: readonly string[];
}

/** Of all messages, or invocations, of a sender with one key, one is stored, until the key expires. */
export interface MessageKey extends IdempotencyKey {
  /** The sender: the same key of another sender is another key. */
  readonly sender: string;
}

/** Of all deliveries of a session that have not ended: what a program has and never consumes counts, too. */
export interface InboxLimit {
  readonly messages: number;
  readonly bytes: number;
}

export const defaultInboxLimit: InboxLimit = { messages: 1_000, bytes: 10 * 1024 * 1024 };

/** A message for one session. Its place in the inbox is that of its event in the session's journal. */
export interface NewDelivery {
  readonly id: string;
  /** Stored before, or with the same write. */
  readonly messageId: string;
  readonly mode: DeliveryMode;
  /** Default: `accepted`. */
  readonly status?: DeliveryStatus;
  readonly reason?: string;
  /** Any JSON. */
  readonly error?: unknown;
  readonly availableAt?: number;
  readonly retryable?: boolean;
}

/**
 * Compare-and-set: the delivery belongs to the session and has one of the statuses `from`. Its reason, error
 * and the like are replaced, also by nothing.
 */
export interface DeliveryChange {
  readonly id: string;
  readonly from: readonly DeliveryStatus[];
  readonly to: DeliveryStatus;
  /** It gets a new place at the end of the inbox. */
  readonly isRequeued?: boolean;
  readonly reason?: string;
  /** Any JSON. */
  readonly error?: unknown;
  readonly availableAt?: number;
  readonly retryable?: boolean;
  readonly inferred?: boolean;
  /** It is handed over once more. */
  readonly isAttempt?: boolean;
  /** It was handed over this many times when it was read. Default: any number of times. */
  readonly ifAttempts?: number;
  /** The stream that it is sent on; `null` if it is to be sent again on the same one. Default: unchanged. */
  readonly streamId?: string | null;
  /** Nothing follows. Default: for `consumed` and `failed`. */
  readonly isFinal?: boolean;
  /** Its message was not edited since this revision was read. Default: any. */
  readonly revision?: number;
}

export interface MessageDelivery {
  readonly id: string;
  readonly messageId: string;
  readonly sessionId: string;
  readonly handle: string;
  readonly position: number;
  readonly mode: DeliveryMode;
  readonly status: DeliveryStatus;
  readonly reason: string | null;
  readonly error: unknown;
  readonly retryable: boolean;
  /** The harness concluded the status, because the session does not report it. */
  readonly inferred: boolean;
  /** How often it was handed over. */
  readonly attempts: number;
  /** The stream that it was sent on last, unless it was deferred since. */
  readonly streamId: string | null;
  /** How often its message was edited. */
  readonly revision: number;
  readonly at: number;
  readonly availableAt: number | null;
  readonly deliveredAt: number | null;
  readonly consumedAt: number | null;
  /** When it ended, if nothing follows. */
  readonly finalAt: number | null;
}

/** A delivery with its message. */
export interface InboxEntry extends MessageDelivery {
  /** The size of the message. */
  readonly bytes: number;
  readonly message: MessageRecord;
}

/** All given conditions must hold. */
export interface MessageFilter {
  readonly channel?: string;
  /** A session that sent it or that it was sent to by its handle. */
  readonly with?: string;
  readonly thread?: string;
  /** Has all of these words. */
  readonly query?: string;
  readonly since?: number;
  /** Only what this session may read. */
  readonly visibleTo?: MessageReader;
}

/** A session, which reads what it sent or received and what its channels show. */
export interface MessageReader {
  readonly sessionId: string;
  /** Those that it is a member of. */
  readonly channels: readonly string[];
}

export type MessageEnvelope = Pick<
  MessageRecord,
  'id' | 'to' | 'threadId' | 'hops' | 'at' | 'from'
>;

export interface MessageEdit {
  readonly messageId: string;
  readonly at: number;
  readonly text?: string;
  readonly attachments?: readonly SessionAttachment[];
  readonly mode?: DeliveryMode;
  /** Replace those of the message as it was; one for a run that has ended is left out. */
  readonly runCommands?: readonly { readonly runId: string; readonly queued: QueuedRunCommand }[];
  /** Recipients that need attention because of the new mode. */
  readonly due?: readonly { readonly sessionId: string; readonly dueBy: number }[];
  /** The versions that these recipients must still have: what the edit means for them depends on it. */
  readonly ifVersions?: ReadonlyMap<string, number>;
  readonly audit?: readonly NewAuditEntry[];
}

/**
 * `delivered`: handed over to at least one of its recipients. `missing`: or withdrawn. `conflict`: one of the
 * recipients has another version.
 */
export type EditOutcome = 'edited' | 'delivered' | 'missing' | 'inbox-full' | 'conflict';

/** Not sent on this stream since it was opened, or deferred since. */
export interface SendableQuery {
  readonly streamId: string;
  /**
   * Those that the session can be given in its state. One that `startsTurn` is not sent while the session has
   * not ended with what it is sent again: it is handling that.
   */
  readonly kinds: readonly (Pick<MessageDelivery, 'mode' | 'status'> & {
    readonly startsTurn?: boolean;
  })[];
  readonly now: number;
  readonly limit: number;
  /** Of all their messages; one more than that is read only if it is the first. */
  readonly maxBytes: number;
}

/** All given conditions must hold. */
export interface DeliveryFilter {
  readonly sessionId?: string;
  readonly status?: DeliveryStatus;
}

export interface MessageStore {
  /** Undefined also if it is not visible to the reader. */
  read(messageId: string, visibleTo?: MessageReader): Promise<MessageRecord | undefined>;
  /** The channels that show it, by name. */
  channelsOf(messageId: string): Promise<string[]>;
  /** What the session was given, the last one first, without the contents. */
  received(sessionId: string, limit: number): Promise<MessageEnvelope[]>;
  /** By `at`. */
  list(filter: MessageFilter, page: Page): Promise<Listed<MessageRecord>>;
  /** Sessions and keys that have sent a message of the thread, or that one was sent to by its handle. */
  participants(threadId: string): Promise<string[]>;
  /** The message or invocation that holds this key, unless the key has expired at `now`. */
  findKey(
    key: Pick<MessageKey, 'sender' | 'key'>,
    now: number,
  ): Promise<{ holderId: string; fingerprint: string } | undefined>;
  /** Also changes its deliveries. Nothing is stored if one of them was handed over. */
  edit(edit: MessageEdit, limit?: InboxLimit): Promise<EditOutcome>;
  /**
   * Marks it as withdrawn, with the write that fails its deliveries. `conflict` also if it was withdrawn
   * before, or one of its deliveries would not have failed.
   */
  withdraw(messageId: string, at: number, write: SessionWrite): Promise<SessionOutcome>;

  readDelivery(deliveryId: string): Promise<MessageDelivery | undefined>;
  /** In the order of their ids. */
  deliveriesOf(messageId: string): Promise<MessageDelivery[]>;
  /** By `at`. */
  listDeliveries(filter: DeliveryFilter, page: Page): Promise<Listed<MessageDelivery>>;
  /** Accepted or deferred, in the order of the inbox, after a position. */
  inbox(sessionId: string, range: EventRange): Promise<InboxEntry[]>;
  /** Delivered and not consumed, where consumption can be observed; in order, after a position. */
  unconsumed(sessionId: string, range: EventRange): Promise<InboxEntry[]>;
  /** What can be sent on a stream now, in the order of the inbox. */
  sendable(sessionId: string, query: SendableQuery): Promise<InboxEntry[]>;
  /** When the next of those becomes available that are deferred until a time after `now`. */
  nextAvailable(sessionId: string, now: number): Promise<number | undefined>;
}

export interface ChannelRecord {
  readonly name: string;
  readonly topic: string | null;
  readonly createdAt: number;
  readonly createdBy: Decider;
}

/** Lets a session read the channel's messages and receive new ones. Its row is authenticated. */
export interface ChannelMember {
  readonly channel: string;
  readonly sessionId: string;
  readonly addedAt: number;
}

export interface ListedMember extends ChannelMember {
  /** Of the session. */
  readonly handle: string;
}

export interface ChannelStore {
  /** Creates the channel, or changes its topic if one is given. */
  put(
    channel: Omit<ChannelRecord, 'topic'> & { readonly topic?: string | null },
    audit?: readonly NewAuditEntry[],
  ): Promise<ChannelRecord>;
  read(name: string): Promise<ChannelRecord | undefined>;
  /** By name, after a name. */
  list(page: { readonly after?: string; readonly limit: number }): Promise<ChannelRecord[]>;
  /** In the order of their ids. */
  members(name: string): Promise<ListedMember[]>;
  /** By name. */
  channelsOf(sessionId: string): Promise<string[]>;
  /** False if the channel does not exist, or the session does not exist or is released. */
  addMember(member: ChannelMember, audit?: readonly NewAuditEntry[]): Promise<boolean>;
  /** True if it was a member. */
  removeMember(
    member: Pick<ChannelMember, 'channel' | 'sessionId'>,
    audit?: readonly NewAuditEntry[],
  ): Promise<boolean>;
}

/** Its row is authenticated. */
export interface ActionRecord {
  readonly name: string;
  readonly description: string;
  /** A JSON schema. */
  readonly inputSchema: unknown;
  readonly outputSchema: unknown;
  /** The session that carries it out; the action ends with it. */
  readonly sessionId: string | null;
  readonly url: string | null;
  /** `null`: everyone in the tenant. */
  readonly availableTo: readonly ActionSelector[] | null;
  readonly timeoutMs: number | null;
  readonly idempotent: boolean;
  readonly createdAt: number;
  readonly createdBy: Decider;
}

export interface NewInvocation {
  readonly id: string;
  readonly action: string;
  readonly by: Sender;
  /** Any JSON. */
  readonly input: unknown;
  readonly status: InvocationStatus;
  /** The session that carries it out. */
  readonly sessionId: string | null;
  readonly at: number;
  /** Its handler may be started again after a crash. */
  readonly idempotent: boolean;
  /** How long the handler may take. */
  readonly timeoutMs: number;
  /** When its handler was started; a session's, when its program was sent the invocation. */
  readonly startedAt: number | null;
  /**
   * When it needs attention: it has timed out, or the node that carries it out is gone. Not after its end.
   */
  readonly dueAt: number | null;
  /** Of one that is stored as denied. */
  readonly error?: InvocationError;
  /** That it waits for. */
  readonly approvalId?: string;
}

export interface InvocationError {
  readonly code: string;
  readonly message: string;
  readonly retryable?: boolean;
}

export interface InvocationRecord extends Omit<NewInvocation, 'error' | 'approvalId'> {
  /** Any JSON. */
  readonly output: unknown;
  readonly error: InvocationError | null;
  /** As an approver has changed it, any JSON; `null` if none has. */
  readonly editedInput: unknown;
  /** The approval that it waited for. */
  readonly approvalId: string | null;
  readonly endedAt: number | null;
}

/** Compare-and-set: the invocation has one of the statuses `from`. */
export interface InvocationChange {
  readonly id: string;
  readonly from: readonly InvocationStatus[];
  readonly to: InvocationStatus;
  readonly at: number;
  /** It must still be due at this time, so that of several nodes one takes it. Default: any. */
  readonly ifDueAt?: number | null;
  /** It must have been started at this time. Default: any. */
  readonly ifStartedAt?: number | null;
  readonly startedAt?: number;
  readonly dueAt?: number | null;
  /** Any JSON. */
  readonly editedInput?: unknown;
  /** Any JSON. */
  readonly output?: unknown;
  readonly error?: InvocationError;
}

export interface ActionStore {
  /** False if the name is taken, or the session does not exist or is released. */
  add(action: ActionRecord, audit?: readonly NewAuditEntry[]): Promise<boolean>;
  /** Undefined if the row is not as it was written. */
  read(name: string): Promise<ActionRecord | undefined>;
  /** By name, after a name. */
  list(page: { readonly after?: string; readonly limit: number }): Promise<ActionRecord[]>;
  /** True if it existed. */
  remove(name: string, audit?: readonly NewAuditEntry[]): Promise<boolean>;
  /** Throws `journal_corrupt` if the input is damaged. */
  readInvocation(invocationId: string): Promise<InvocationRecord | undefined>;
  /** Those that run and that the program of this session was not sent yet, oldest first. */
  unsentInvocations(sessionId: string, limit: number): Promise<InvocationRecord[]>;
  /** Those that run and that it was sent, in the order of their ids. */
  sentInvocations(
    sessionId: string,
    page: { readonly after?: string; readonly limit: number },
  ): Promise<InvocationRecord[]>;
}

/** The session that a token opens, as long as the key that attached it is in force. */
export type TokenSession = SessionRef & Pick<SessionDefinition, 'handle' | 'keyId'>;

/** Of sessions that are not released. */
export interface SessionCounts {
  readonly byStatus: Readonly<Partial<Record<AgentStatus, number>>>;
  /** Deliveries that are accepted or deferred. */
  readonly queued: number;
  readonly stuck: number;
}

export interface InvocationRef {
  readonly tenantId: string;
  readonly invocationId: string;
}

/** The sessions of all tenants. */
export interface SessionDirectory {
  /** Of all tenants, or of one. The cost does not grow with what has ended. */
  counts(now: number, tenantId?: string): Promise<SessionCounts>;
  /** The session that a token opens, unless it is released or its row is not as it was written. */
  findToken(hash: string): Promise<TokenSession | undefined>;
  /**
   * Sessions whose `dueAt` has come. Tenants take turns; paused ones are skipped. Nothing is claimed: of
   * two nodes that change the same session, one gets a conflict.
   */
  due(now: number, limit: number): Promise<SessionRef[]>;
  /** Invocations of functions and URLs that were not started, or whose node is gone. Tenants take turns. */
  dueHandlers(now: number, limit: number): Promise<InvocationRef[]>;
  /** All others that are due. Tenants take turns. */
  dueInvocations(now: number, limit: number): Promise<InvocationRef[]>;
  /** Sessions whose stream is served by another node that is not alive, after an id. */
  orphans(
    node: string,
    now: number,
    page: { readonly after?: string; readonly limit: number },
  ): Promise<(SessionRef & { readonly stream: SessionStream })[]>;
  /** Sessions of a harness that are not released, after an id. */
  ofHarness(
    harness: string,
    page: { readonly after?: string; readonly limit: number },
  ): Promise<SessionRef[]>;
  /** The `seq` of the last event of each of these sessions. */
  lastSeqs(sessionIds: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /** The version of each of these sessions, which counts whatever their programs have to know. */
  versions(sessionIds: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /**
   * Deletes sessions that were released before, older events of those that were not, and messages sent before
   * whose deliveries have all ended.
   * Handles at most `limit` rows of each table per call; 0 means that nothing is left.
   */
  prune(before: number, limit: number): Promise<number>;
}
