/**
 * The final answer of a turn is the reply to the messages that the turn has read and that addressed the
 * agent: by its handle, or by a mention in a channel. Other messages of its channels get none.
 *
 * - A direct message is answered to its sender, whichever session has the sender's handle by now. A sender
 *   that is a key reads the reply in the thread.
 * - A message that a channel shows is answered into its thread, for all members of the channel.
 * - There is one reply per thread and sender, or per thread in a channel, to the last of its messages. So a
 *   message has its answer in its own thread, however many messages became one turn.
 * - A recipient that cannot take its reply has a failed delivery. The turn ends all the same.
 *
 * Turns that fail, are canceled or answer nothing send no reply: an agent that has nothing to add ends an
 * exchange with an empty answer.
 */
import { defined } from '@relay/protocol';
import {
  type Addressed,
  inChannels,
  maxAttempts,
  membersOf,
  type MessageAuthor,
  type MessagePlan,
  messageSent,
  notifyOfMessage,
  planMessage,
  sentNotice,
  tooManyChanges,
} from '../commands/sessions/send-message.ts';
import type { Engine } from '../engine.ts';
import type {
  MessageRecord,
  SessionChange,
  SessionRecord,
  SessionRef,
  SessionWrite,
  TenantStore,
} from '../ports/index.ts';
import { channelFor } from './acceptance.ts';
import { hopsOfReply } from './hops.ts';
import { isMentioned } from './mentions.ts';
import type { TurnAnswer } from './turn.ts';

/** The replies to store with the end of the turn. `full`: sessions without space for one. */
export async function repliesOf(
  engine: Engine,
  session: SessionRecord,
  answer: TurnAnswer,
  full: ReadonlySet<string>,
): Promise<MessagePlan[]> {
  const store = engine.store.tenant(session.tenantId);
  const read = await readMessages(store, answer.messageIds);
  const addressed = read.filter((message) => isAddressed(message, session));
  const shown = await Promise.all(
    addressed.map(async (message) => ({
      message,
      channels: await store.messages.channelsOf(message.id),
    })),
  );
  const groups = Map.groupBy(shown, ({ message: { threadId, from }, channels }) =>
    channels.length > 0 ? threadId : `${threadId} ${from.id}`,
  );
  const plans: MessagePlan[] = [];
  for (const group of groups.values()) {
    const last = group.at(-1);
    if (last === undefined) continue;
    const reply = {
      text: answer.text,
      parent: last.message,
      addressed: await addresseesOf(store, session, { ...last, text: answer.text }),
      hops: hopsOfReply(group.map(({ message }) => message)),
    };
    plans.push(planMessage(engine, authorOf(session), reply, full));
  }
  return plans;
}

/**
 * Sends the answer of a turn that is no run: that of a harness. An agent's answer to what the session itself
 * has asked is not answered by itself: a coding agent never has an empty answer, and two of them would thank
 * each other until the loop cap. To go on, they send messages.
 */
export async function sendReplies(
  engine: Engine,
  { tenantId, sessionId }: SessionRef,
  answer: TurnAnswer,
): Promise<void> {
  const store = engine.store.tenant(tenantId);
  const full = new Set<string>();
  const messageIds = await answerable(store, sessionId, answer.messageIds);
  if (answer.text.trim() === '' || messageIds.length === 0) return;
  for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
    const session = await store.sessions.read(sessionId);
    if (session === undefined || session.releasedAt !== null) return;
    const plans = await repliesOf(engine, session, { ...answer, messageIds }, full);
    if (plans.length === 0) return;
    const replies = writeOfReplies(plans);
    const events = plans.map(({ message }) => messageSent(message));
    const sent = { sessionId, at: engine.clock.now(), events };
    const outcome = await store.sessions.change({
      ...replies,
      changes: [...replies.changes, sent],
    });
    if (outcome.kind === 'committed') {
      for (const plan of plans) notifyOfMessage({ engine }, tenantId, plan.write, sentNotice(plan));
      return;
    }
    if (outcome.kind === 'inbox-full') full.add(outcome.sessionId);
  }
  throw tooManyChanges();
}

async function answerable(
  store: TenantStore,
  sessionId: string,
  ids: readonly string[],
): Promise<string[]> {
  const read = await readMessages(store, ids);
  const kept = await Promise.all(
    read.map(async ({ id, hops, replyTo }) => {
      if (hops === 0 || replyTo === null) return [id];
      const asked = await store.messages.read(replyTo);
      return asked?.from.id === sessionId ? [] : [id];
    }),
  );
  return kept.flat();
}

/** A session as the author of its messages. */
export function authorOf({
  id,
  tenantId,
  handle: name,
}: Pick<SessionRecord, 'id' | 'tenantId' | 'handle'>): MessageAuthor {
  const session = { type: 'session', id, name } as const;
  return { tenantId, from: session, by: session };
}

/** Those that were deleted since are left out. */
export async function readMessages(
  store: TenantStore,
  ids: readonly string[],
): Promise<MessageRecord[]> {
  const read = await Promise.all(ids.map((id) => store.messages.read(id)));
  return read.filter((message) => message !== undefined);
}

function isAddressed(
  message: MessageRecord,
  { id, handle }: Pick<SessionRecord, 'id' | 'handle'>,
): boolean {
  if (message.from.id === id) return false;
  return channelFor(message, handle) === undefined || isMentioned(message.text, handle);
}

interface Answered {
  readonly message: MessageRecord;
  readonly channels: readonly string[];
  readonly text: string;
}

async function addresseesOf(
  store: TenantStore,
  session: SessionRecord,
  { message: { from }, channels, text }: Answered,
): Promise<Addressed> {
  const [sender, members] = await Promise.all([
    from.type === 'session' ? store.sessions.read(from.id) : undefined,
    membersOf(store, channels, session.id),
  ]);
  const isMember = members.some(({ id }) => id === sender?.id);
  const direct = sender === undefined || isMember ? [] : [sender];
  const to = [...channels.map((name) => `#${name}`), ...direct.map(({ handle }) => `@${handle}`)];
  const addressed = inChannels(direct, { to, channels, members, text });
  if (channels.length > 0 || sender !== undefined) return addressed;
  // The conversation with a key has its replies, too.
  return { ...addressed, direct: [from.id] };
}

/**
 * The writes of replies as one. A session is changed once if its change depends on its version: of several
 * changes, the first would refuse the others.
 */
export function writeOfReplies(plans: readonly MessagePlan[]): SessionWrite {
  const writes = plans.map(({ write }) => write);
  const bySession = Map.groupBy(
    writes.flatMap(({ changes }) => changes),
    ({ sessionId }) => sessionId,
  );
  const [first] = writes;
  return {
    changes: [...bySession.values()].flatMap(mergedChanges),
    messages: writes.flatMap(({ messages = [] }) => messages),
    runCommands: writes.flatMap(({ runCommands = [] }) => runCommands),
    audit: writes.flatMap(({ audit = [] }) => audit),
    notices: writes.flatMap(({ notices = [] }) => notices),
    ...defined({ inboxLimit: first?.inboxLimit }),
  };
}

function mergedChanges(changes: readonly SessionChange[]): readonly SessionChange[] {
  if (changes.every(({ ifVersion }) => ifVersion === undefined)) return changes;
  const one = changes.reduce((before, change) => ({
    ...before,
    ...change,
    events: [...before.events, ...change.events],
    newDeliveries: [...(before.newDeliveries ?? []), ...(change.newDeliveries ?? [])],
  }));
  return [one];
}
