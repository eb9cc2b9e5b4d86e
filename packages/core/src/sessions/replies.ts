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
  membersOf,
  type MessageAuthor,
  type MessagePlan,
  planMessage,
} from '../commands/sessions/send-message.ts';
import type { Engine } from '../engine.ts';
import type {
  MessageRecord,
  SessionChange,
  SessionRecord,
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
