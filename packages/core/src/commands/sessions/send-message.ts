/**
 * Messages to sessions. A message, its deliveries, their events, the commands for turns and the audit
 * entry are one commit. If a recipient has changed since it was read, all is decided again.
 */
import {
  agentStatuses,
  canonicalJson,
  type Decider,
  defined,
  type DeliveryMode,
  RelayError,
  type Sender,
  type SessionAttachment,
} from '@relay/protocol';
import type { Engine, MessageNotice } from '../../engine.ts';
import { auditRecordsOf } from '../../governance/audit.ts';
import {
  idempotencyMs,
  type AuditEntry,
  type InboxLimit,
  type MessageDelivery,
  type MessageReader,
  type MessageRecord,
  type NewMessage,
  type SessionChange,
  type SessionRecord,
  type SessionWrite,
  type TenantStore,
} from '../../ports/index.ts';
import {
  acceptanceOf,
  acceptedChange,
  type DeliveryError,
  deliveryErrorOf,
  inboxError,
  modeFor,
  refusedChange,
} from '../../sessions/acceptance.ts';
import { nearestTo } from '@relay/protocol/display';
import { requireCapability } from '../../sessions/capabilities.ts';
import { wakeDue } from '../../sessions/due.ts';
import { hopsOfProgram } from '../../sessions/hops.ts';
import { isMentioned } from '../../sessions/mentions.ts';
import type { RunControl } from '../start-run.ts';

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
  /** How many messages of agents led to this one. Default: by what the sender has received. */
  readonly hops?: number;
}

type MessageControl = Pick<RunControl, 'engine'>;

export interface SentMessage {
  readonly message: MessageRecord;
  readonly deliveries: readonly MessageDelivery[];
  /** An earlier request with the same idempotency key has sent it. */
  readonly replayed: boolean;
}

/**
 * Stores a message for its recipients and wakes them. Throws `not_found` for an unknown recipient, and
 * `inbox_full` or `payload_too_large` if no recipient has space; nothing is stored then. If none of them can take the message, it
 * is stored with its failed deliveries, and the reason is thrown.
 */
export async function sendMessage(
  control: MessageControl,
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
        notifyOfMessage(control, author.tenantId, plan.write, sentNotice(plan));
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

export interface MessagePlan {
  readonly message: NewMessage;
  /** Its deliveries. The sender's journal is not part of it. */
  readonly write: SessionWrite;
}

async function planOf(
  { engine }: MessageControl,
  author: MessageAuthor,
  draft: MessageDraft,
  full: ReadonlySet<string>,
): Promise<MessagePlan> {
  const { tenantId, from } = author;
  const store = engine.store.tenant(tenantId);
  const sender = from.type === 'session' ? await senderOf(store, from.id) : undefined;
  const parent = await parentOf(store, draft.replyTo, sender);
  const addressed = await addressesOf(store, { draft, parent, sender });
  refuseIfFull(addressed.recipients, full, draft, engine.settings.inboxLimit);
  const hops = author.hops ?? (await hopsOf(store, { sender, parent, addressed }));
  const plan = planMessage(engine, author, { ...draft, parent, addressed, hops }, full);
  if (sender === undefined) return plan;
  const { message, write } = plan;
  const sent = { sessionId: sender.id, at: message.at, events: [messageSent(message)] };
  return { message, write: { ...write, changes: [...write.changes, sent] } };
}

export function messageSent({ id: messageId }: Pick<NewMessage, 'id'>) {
  return { type: 'message.sent', messageId } as const;
}

export interface AddressedMessage extends Pick<MessageDraft, 'text' | 'mode' | 'attachments'> {
  readonly parent: MessageRecord | undefined;
  readonly addressed: Addressed;
  readonly hops: number;
}

/** Who of the recipients takes the message. `full`: those without space for it. */
export function planMessage(
  engine: Engine,
  { tenantId, from, by }: MessageAuthor,
  { text, mode, attachments, parent, addressed, hops }: AddressedMessage,
  full: ReadonlySet<string>,
): MessagePlan {
  const { clock, ids, settings } = engine;
  const now = clock.now();
  const { recipients, ...places } = addressed;
  const id = ids.next();
  const message: NewMessage = {
    id,
    from,
    text,
    attachments: attachments ?? [],
    mode: mode ?? null,
    replyTo: parent?.id ?? null,
    threadId: parent?.threadId ?? id,
    hops,
    at: now,
    ...places,
  };
  const changes: SessionChange[] = [];
  const runCommands = [];
  for (const session of recipients) {
    const delivery = { id: ids.next(), messageId: id };
    const isFull = full.has(session.id);
    const error =
      deliveryErrorOf(session, message) ??
      (isFull ? inboxError(session, message, settings.inboxLimit) : undefined);
    if (error !== undefined) {
      const refused = { ...delivery, mode: modeFor(session, message) };
      changes.push(refusedChange(session, refused, error, now));
      continue;
    }
    const options = { deliveryId: delivery.id, now, ttlMs: settings.deliveryTtlMs };
    const acceptance = acceptanceOf(session, message, options);
    if (acceptance.command !== undefined) runCommands.push(acceptance.command);
    changes.push(acceptedChange(session, delivery, acceptance, now));
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
    throw new RelayError(
      'session_conflict',
      `The session @${session?.handle ?? sessionId} is released and sends no messages: start or attach one under its handle again`,
    );
  }
  requireCapability(session, { type: 'send-message' });
  return session;
}

async function parentOf(
  store: TenantStore,
  replyTo: string | undefined,
  sender: SessionRecord | undefined,
): Promise<MessageRecord | undefined> {
  if (replyTo === undefined) return undefined;
  const visibleTo = sender === undefined ? undefined : await readerOf(store, sender.id);
  const parent = await store.messages.read(replyTo, visibleTo);
  if (parent === undefined) throw new RelayError('not_found', 'No such message: replyTo');
  return parent;
}

/** The one rule of what a session reads: by id, in lists, and as the message that it replies to. */
export async function readerOf(store: TenantStore, sessionId: string): Promise<MessageReader> {
  return { sessionId, channels: await store.channels.channelsOf(sessionId) };
}

function channelNames(to: readonly string[]): string[] {
  const names = to.filter((address) => address.startsWith('#')).map((address) => address.slice(1));
  return [...new Set(names)];
}

export interface Addressed extends Pick<NewMessage, 'to' | 'channels' | 'direct'> {
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
  const { to, text } = draft;
  if (to === undefined) {
    if (parent === undefined) throw new TypeError('A message has recipients or replies to one');
    return inThread(store, parent, { text, sender });
  }
  const handles = to.filter((address) => address.startsWith('@')).map((each) => each.slice(1));
  const channels = channelNames(to);
  const [addressed, members] = await Promise.all([
    Promise.all([...new Set(handles)].map((handle) => byHandle(store, handle))),
    membersOf(store, channels, sender?.id),
  ]);
  return inChannels(addressed, { to: [...new Set(to)], channels, members, text });
}

/** To the participants of a thread, and to the members of its channels that the text mentions. */
async function inThread(
  store: TenantStore,
  parent: MessageRecord,
  { text, sender }: { readonly text: string; readonly sender: SessionRecord | undefined },
): Promise<Addressed> {
  const [ids, channels] = await Promise.all([
    store.messages.participants(parent.threadId),
    store.messages.channelsOf(parent.id),
  ]);
  const [others, members] = await Promise.all([
    readSessions(store, ids),
    membersOf(store, channels, sender?.id),
  ]);
  const found = [...others, ...members.filter(({ handle }) => isMentioned(text, handle))];
  const recipients = unique(found).filter(
    ({ id, releasedAt }) => id !== sender?.id && releasedAt === null,
  );
  // The conversation with a key has its replies, too, although no session receives them.
  const keys =
    channels.length > 0 ? [] : ids.filter((id) => !others.some((each) => each.id === id));
  return {
    to: recipients.map(({ handle }) => `@${handle}`),
    channels,
    direct: [...recipients.map(({ id }) => id), ...keys],
    recipients,
  };
}

/** To sessions by their handles, and to channels: their members that the text mentions are addressed, too. */
export function inChannels(
  addressed: readonly SessionRecord[],
  {
    to,
    channels,
    members,
    text,
  }: Pick<NewMessage, 'to' | 'channels' | 'text'> & { readonly members: readonly SessionRecord[] },
): Addressed {
  const mentioned = members.filter(({ handle }) => isMentioned(text, handle));
  return {
    to,
    channels,
    direct: unique([...addressed, ...mentioned]).map(({ id }) => id),
    recipients: unique([...addressed, ...members]),
  };
}

function unique(sessions: readonly SessionRecord[]): SessionRecord[] {
  return [...new Map(sessions.map((session) => [session.id, session])).values()];
}

/** One that is released is known, but takes nothing. */
export async function byHandle(store: TenantStore, handle: string): Promise<SessionRecord> {
  const { sessions } = store;
  const session = (await sessions.readByHandle(handle)) ?? (await sessions.readReleased(handle));
  if (session === undefined) throw await unknownHandle(store, handle);
  return session;
}

const comparedHandles = 200;
const openStatuses = agentStatuses.filter((status) => status !== 'released');

/** With the handle that was meant, among those of the newest sessions of the tenant. */
async function unknownHandle({ sessions }: TenantStore, handle: string): Promise<RelayError> {
  const { items } = await sessions.list({ status: openStatuses }, { limit: comparedHandles });
  const meant = nearestTo(
    handle,
    items.map((each) => each.handle),
    2,
  );
  const hint = meant === undefined ? '' : `; did you mean @${meant}?`;
  return new RelayError('not_found', `No such session: @${handle}${hint}`);
}

/** The members of channels, without the sender. One that is released meanwhile is one no longer. */
export async function membersOf(
  store: TenantStore,
  channels: readonly string[],
  senderId: string | undefined,
): Promise<SessionRecord[]> {
  const lists = await Promise.all(
    channels.map(async (name) => {
      const [channel, members] = await Promise.all([
        store.channels.read(name),
        store.channels.members(name),
      ]);
      if (channel === undefined) throw new RelayError('not_found', `No such channel: #${name}`);
      return members.map(({ sessionId }) => sessionId);
    }),
  );
  const ids = new Set(lists.flat().filter((id) => id !== senderId));
  const members = await readSessions(store, [...ids]);
  return members.filter(({ releasedAt }) => releasedAt === null);
}

/** Participants that are keys, and sessions that were deleted, are not found. */
async function readSessions(store: TenantStore, ids: readonly string[]): Promise<SessionRecord[]> {
  const found = await Promise.all(ids.map((id) => store.sessions.read(id)));
  return found.filter((session) => session !== undefined);
}

/** How much of what a program has received may be the cause of what it sends. */
const maxCauses = 100;

/** Only agents and programs answer each other without end. Those of a turn are known to its run. */
async function hopsOf(
  store: TenantStore,
  {
    sender,
    parent,
    addressed: { recipients, channels },
  }: {
    readonly sender: SessionRecord | undefined;
    readonly parent: MessageRecord | undefined;
    readonly addressed: Addressed;
  },
): Promise<number> {
  if (sender === undefined || sender.kind === 'human') return 0;
  const ids = new Set(recipients.map(({ id }) => id));
  const received = await store.messages.received(sender.id, maxCauses);
  // It may have read what it replies to without a delivery.
  const isKnown = parent === undefined || received.some(({ id }) => id === parent.id);
  const causes = isKnown ? received : [...received, parent].toSorted((a, b) => b.at - a.at);
  return hopsOfProgram(
    causes,
    ({ from, to, threadId }) =>
      ids.has(from.id) ||
      threadId === parent?.threadId ||
      channels.some((name) => to.includes(`#${name}`)),
  );
}

/** One member with a full inbox does not silence its channel; a message that nobody has space for does fail. */
function refuseIfFull(
  recipients: readonly SessionRecord[],
  full: ReadonlySet<string>,
  { text, attachments = [] }: MessageDraft,
  limit: InboxLimit,
): void {
  const [first] = recipients;
  if (first === undefined || !recipients.every(({ id }) => full.has(id))) return;
  const { code, message } = inboxError(first, { text, attachments }, limit);
  throw new RelayError(code, message);
}

function keyOf({ engine }: MessageControl, { from }: MessageAuthor, draft: MessageDraft) {
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

/** After the commit: the runs and sessions that it concerns on this node, and who watches. */
export function notifyOfMessage(
  { engine }: MessageControl,
  tenantId: string,
  write: Pick<SessionWrite, 'changes' | 'runCommands'>,
  notice: MessageNotice,
): void {
  for (const { runId } of write.runCommands ?? []) engine.notifyRun?.({ tenantId, runId });
  wakeDue(engine, tenantId, write.changes);
  engine.onMessage?.(tenantId, notice);
}

export function sentNotice({ message, write }: MessagePlan): MessageNotice {
  const deliveries = write.changes.flatMap(({ newDeliveries = [] }) => newDeliveries);
  return { messageId: message.id, isSent: true, deliveries };
}
