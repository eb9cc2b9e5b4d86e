/**
 * Messages to sessions. A message, its deliveries, their events, the commands for turns and the audit
 * entry are one commit. If a recipient has changed since it was read, all is decided again.
 */
import {
  canonicalJson,
  type Decider,
  defined,
  type DeliveryMode,
  RelayError,
  type Sender,
  type SessionAttachment,
} from '@relay/protocol';
import type { MessageNotice } from '../engine.ts';
import { auditRecordsOf } from '../governance/audit.ts';
import type {
  AuditEntry,
  InboxLimit,
  MessageDelivery,
  MessageRecord,
  NewMessage,
  SessionChange,
  SessionRecord,
  SessionWrite,
  TenantStore,
} from '../ports/index.ts';
import {
  acceptanceOf,
  acceptedChange,
  type DeliveryError,
  deliveryErrorOf,
  inboxFullText,
  modeFor,
  refusedChange,
} from '../sessions/acceptance.ts';
import { capabilityError, missingCapability } from '../sessions/capabilities.ts';
import { wakeDue } from '../sessions/due.ts';
import type { RunControl } from './start-run.ts';

export interface MessageDraft {
  /** `@handle` and `#channel`. Default with `replyTo`: the participants of the thread. */
  readonly to?: readonly string[] | undefined;
  readonly text: string;
  /** Default: that of each recipient. */
  readonly mode?: DeliveryMode | undefined;
  readonly attachments?: readonly SessionAttachment[] | undefined;
  readonly replyTo?: string | undefined;
  readonly idempotencyKey?: string | undefined;
}

export interface MessageAuthor {
  readonly tenantId: string;
  readonly from: Sender;
  /** The actor of the audit entry. */
  readonly by: Decider;
  /** How many replies of agents led to the message. Default: one more than to the one it replies to. */
  readonly hops?: number;
}

export interface SentMessage {
  readonly message: MessageRecord;
  readonly deliveries: readonly MessageDelivery[];
  /** An earlier request with the same idempotency key has sent it. */
  readonly replayed: boolean;
}

const idempotencyMs = 24 * 60 * 60 * 1000;

/**
 * Stores a message for its recipients and wakes them. Throws `not_found` for an unknown recipient, and
 * `inbox_full` if no recipient has space; nothing is stored then. If none of them can take the message, it
 * is stored with its failed deliveries, and the reason is thrown.
 */
export async function sendMessage(
  control: RunControl,
  author: MessageAuthor,
  draft: MessageDraft,
): Promise<SentMessage> {
  const store = control.engine.store.tenant(author.tenantId);
  const key = keyOf(control, author, draft);
  if (key !== undefined) {
    const holder = await store.messages.findKey(key, control.engine.clock.now());
    if (holder !== undefined) return replayed(store, holder, key.fingerprint);
  }
  /** Recipients without space for the message. */
  const full = new Set<string>();
  for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
    const plan = await planOf(control, author, draft, full);
    const write = { ...plan.write, ...defined({ idempotency: key }) };
    const outcome = await store.sessions.change(write);
    switch (outcome.kind) {
      case 'committed':
        notify(control, author.tenantId, plan);
        return sent(store, plan.message.id, false);
      case 'exists':
        return replayed(store, outcome, key?.fingerprint);
      case 'inbox-full':
        full.add(outcome.sessionId);
        break;
      case 'conflict':
      case 'gone':
      case 'run-ended':
        break;
    }
  }
  throw tooManyChanges();
}

/** Each is decided anew because another request has changed a recipient. */
export const maxAttempts = 1_000;

export function tooManyChanges(): RelayError {
  return new RelayError('storage_failed', 'The recipients change too often; try again');
}

interface Plan {
  readonly message: NewMessage;
  readonly write: SessionWrite;
}

async function planOf(
  { engine }: RunControl,
  author: MessageAuthor,
  draft: MessageDraft,
  full: ReadonlySet<string>,
): Promise<Plan> {
  const { clock, ids, settings } = engine;
  const { tenantId, from, by } = author;
  const store = engine.store.tenant(tenantId);
  const now = clock.now();
  const sender = from.type === 'session' ? await senderOf(store, from.id) : undefined;
  const parent = await parentOf(store, draft.replyTo, sender);
  const addressed = await addressesOf(store, { draft, parent, sender });
  const { recipients, ...places } = addressed;
  const id = ids.next();
  const message: NewMessage = {
    id,
    from,
    text: draft.text,
    attachments: draft.attachments ?? [],
    mode: draft.mode ?? null,
    replyTo: parent?.id ?? null,
    threadId: parent?.threadId ?? id,
    hops: author.hops ?? hopsOf(parent, sender),
    at: now,
    ...places,
  };
  const changes: SessionChange[] = [];
  const runCommands = [];
  for (const session of recipients) {
    const delivery = { id: ids.next(), messageId: id };
    const error =
      deliveryErrorOf(session, message) ?? errorOfFull(session, full, settings.inboxLimit);
    if (error !== undefined) {
      const mode = modeFor(session, message);
      changes.push(refusedChange(session, { ...delivery, mode }, error, now));
      continue;
    }
    const options = { deliveryId: delivery.id, now, ttlMs: settings.deliveryTtlMs };
    const acceptance = acceptanceOf(session, message, options);
    if (acceptance.command !== undefined) runCommands.push(acceptance.command);
    changes.push(acceptedChange(session, delivery, acceptance, now));
  }
  refuseIfFull(recipients, full, settings.inboxLimit);
  if (sender !== undefined) {
    const event = { type: 'message.sent', messageId: id } as const;
    changes.push({ sessionId: sender.id, at: now, events: [event] });
  }
  const entry: AuditEntry = {
    at: now,
    who: by,
    action: 'message.sent',
    what: { messageId: id, to: message.to, ...defined({ replyTo: parent?.id }) },
    why: null,
  };
  const audit = auditRecordsOf(engine, tenantId, [entry]);
  const { inboxLimit } = settings;
  return { message, write: { changes, messages: [message], runCommands, inboxLimit, audit } };
}

/** The session that sends. Throws if it may not. */
async function senderOf(store: TenantStore, sessionId: string): Promise<SessionRecord> {
  const session = await store.sessions.read(sessionId);
  if (session === undefined || session.releasedAt !== null) {
    throw new RelayError('session_conflict', 'The session has ended and sends no messages');
  }
  const operation = { type: 'send-message' } as const;
  const missing = missingCapability(session.capabilities, operation);
  if (missing !== undefined) throw capabilityError(session.handle, operation, missing);
  return session;
}

async function parentOf(
  store: TenantStore,
  replyTo: string | undefined,
  sender: SessionRecord | undefined,
): Promise<MessageRecord | undefined> {
  if (replyTo === undefined) return undefined;
  const parent = await store.messages.read(replyTo);
  const isVisible =
    parent !== undefined && (sender === undefined || (await canRead(store, sender.id, parent)));
  if (!isVisible) throw new RelayError('not_found', 'No such message: replyTo');
  return parent;
}

/** Whether a session sent or received a message, or is a member of a channel that shows it. */
export async function canRead(
  store: TenantStore,
  sessionId: string,
  message: MessageRecord,
): Promise<boolean> {
  if (message.from.id === sessionId) return true;
  const deliveries = await store.messages.deliveriesOf(message.id);
  if (deliveries.some((delivery) => delivery.sessionId === sessionId)) return true;
  const shownIn = await channelsOf(store, message);
  if (shownIn.length === 0) return false;
  const joined = await store.channels.channelsOf(sessionId);
  return joined.some((name) => shownIn.includes(name));
}

/** A reply to the participants of a thread is shown in the channels where the thread began. */
async function channelsOf(store: TenantStore, message: MessageRecord): Promise<string[]> {
  const { id, threadId } = message;
  const root = threadId === id ? undefined : await store.messages.read(threadId);
  return channelNames([...message.to, ...(root?.to ?? [])]);
}

function channelNames(to: readonly string[]): string[] {
  const names = to.filter((address) => address.startsWith('#')).map((address) => address.slice(1));
  return [...new Set(names)];
}

interface Addressed extends Pick<NewMessage, 'to' | 'channels' | 'direct'> {
  /** Each session once, whatever addresses it has. */
  readonly recipients: readonly SessionRecord[];
}

async function addressesOf(
  store: TenantStore,
  {
    draft,
    parent,
    sender,
  }: {
    readonly draft: MessageDraft;
    readonly parent: MessageRecord | undefined;
    readonly sender: SessionRecord | undefined;
  },
): Promise<Addressed> {
  const { to } = draft;
  if (to === undefined) {
    if (parent === undefined) throw new TypeError('A message has recipients or replies to one');
    const ids = await store.messages.participants(parent.threadId);
    const others = ids.filter((id) => id !== sender?.id);
    const found = (await readSessions(store, others)).filter(
      ({ releasedAt }) => releasedAt === null,
    );
    return {
      to: found.map(({ handle }) => `@${handle}`),
      channels: await channelsOf(store, parent),
      direct: found.map(({ id }) => id),
      recipients: found,
    };
  }
  const handles = to.filter((address) => address.startsWith('@')).map((each) => each.slice(1));
  const channels = channelNames(to);
  const [addressed, members] = await Promise.all([
    Promise.all([...new Set(handles)].map((handle) => byHandle(store, handle))),
    Promise.all(channels.map((name) => membersOf(store, name))),
  ]);
  const inChannels = members.flat().filter((id) => id !== sender?.id);
  const direct = new Map(addressed.map((session) => [session.id, session]));
  const indirect = new Set(inChannels.filter((id) => !direct.has(id)));
  const others = await readSessions(store, [...indirect]);
  return {
    to: [...new Set(to)],
    channels,
    direct: [...direct.keys()],
    // A member that is released meanwhile is one no longer.
    recipients: [...direct.values(), ...others.filter(({ releasedAt }) => releasedAt === null)],
  };
}

/** One that is released is known, but takes nothing. */
export async function byHandle(store: TenantStore, handle: string): Promise<SessionRecord> {
  const { sessions } = store;
  const session = (await sessions.readByHandle(handle)) ?? (await sessions.readReleased(handle));
  if (session === undefined) throw new RelayError('not_found', `No such session: @${handle}`);
  return session;
}

async function membersOf(store: TenantStore, name: string): Promise<string[]> {
  const [channel, members] = await Promise.all([
    store.channels.read(name),
    store.channels.members(name),
  ]);
  if (channel === undefined) throw new RelayError('not_found', `No such channel: #${name}`);
  return members.map(({ sessionId }) => sessionId);
}

/** Participants that are keys, and sessions that were deleted, are not found. */
async function readSessions(store: TenantStore, ids: readonly string[]): Promise<SessionRecord[]> {
  const found = await Promise.all(ids.map((id) => store.sessions.read(id)));
  return found.filter((session) => session !== undefined);
}

/** Only agents and programs answer each other without end. */
function hopsOf(parent: MessageRecord | undefined, sender: SessionRecord | undefined): number {
  if (parent === undefined || sender === undefined || sender.kind === 'human') return 0;
  return parent.hops + 1;
}

function errorOfFull(session: SessionRecord, full: ReadonlySet<string>, limit: InboxLimit) {
  if (!full.has(session.id)) return undefined;
  const message = inboxFullText(session, limit);
  return { code: 'inbox_full', message, retryable: true } as const satisfies DeliveryError;
}

/** One member with a full inbox does not silence its channel; a message that nobody has space for does fail. */
function refuseIfFull(
  recipients: readonly SessionRecord[],
  full: ReadonlySet<string>,
  limit: InboxLimit,
): void {
  const [first] = recipients;
  if (first === undefined || !recipients.every(({ id }) => full.has(id))) return;
  throw new RelayError('inbox_full', inboxFullText(first, limit));
}

function keyOf({ engine }: RunControl, { from }: MessageAuthor, draft: MessageDraft) {
  const { idempotencyKey: key, ...content } = draft;
  if (key === undefined) return undefined;
  const fingerprint = engine.digest(canonicalJson(content));
  return { sender: from.id, key, fingerprint, expiresAt: engine.clock.now() + idempotencyMs };
}

async function replayed(
  store: TenantStore,
  holder: { readonly holderId: string; readonly fingerprint: string },
  fingerprint: string | undefined,
): Promise<SentMessage> {
  if (holder.fingerprint !== fingerprint) {
    throw new RelayError(
      'idempotency_mismatch',
      'This idempotency key was used for another message; use a new key',
    );
  }
  return sent(store, holder.holderId, true);
}

/** Throws why no recipient has taken the message, if none has. */
async function sent(
  store: TenantStore,
  messageId: string,
  isReplayed: boolean,
): Promise<SentMessage> {
  const [message, deliveries] = await Promise.all([
    store.messages.read(messageId),
    store.messages.deliveriesOf(messageId),
  ]);
  if (message === undefined) throw new RelayError('not_found', 'The message was deleted');
  const errors = deliveries.map(({ error }) => error as DeliveryError | null);
  const [first] = errors;
  if (first !== undefined && first !== null && errors.every((error) => error !== null)) {
    throw refusal(first, messageId);
  }
  return { message, deliveries, replayed: isReplayed };
}

function refusal({ code, message, details }: DeliveryError, messageId: string): RelayError {
  const capability = details === undefined ? undefined : { ...details, messageId };
  return new RelayError(code, message, defined({ capability }));
}

function notify(control: RunControl, tenantId: string, { message, write }: Plan): void {
  const deliveries = write.changes.flatMap(({ newDeliveries = [] }) => newDeliveries);
  notifyOfMessage(control, tenantId, write, { messageId: message.id, isSent: true, deliveries });
}

/** After the commit: the runs and sessions that it concerns on this node, and who watches. */
export function notifyOfMessage(
  { engine, supervisor }: RunControl,
  tenantId: string,
  { changes, runCommands = [] }: Pick<SessionWrite, 'changes' | 'runCommands'>,
  notice: MessageNotice,
): void {
  for (const { runId } of runCommands) supervisor.notify({ tenantId, runId });
  wakeDue(engine, tenantId, changes);
  engine.onMessage?.(tenantId, notice);
}
