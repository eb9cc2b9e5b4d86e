/** Native sessions for the loop tests, and messages to them. */
import {
  createNativeSession,
  type KeyRecord,
  type ModelRequest,
  type NativeSessionRequest,
  sendMessage,
  type SessionRecord,
} from '@relay/core';
import { createRecordingTool, finish, text, toolCall } from '@relay/core/testing';
import {
  type DeliveryMode,
  type SessionEvent,
  type StoredSessionEvent,
  textOf,
} from '@relay/protocol';
import { type Kernel, person, until } from '../support/kernel.ts';
import { aborted, createStreamingModel, openFixture } from './fixture.ts';

/** The key that `person` uses; a native session works only while its key does. */
async function addKeyOfPerson(kernel: Kernel): Promise<void> {
  const { tenantId, store } = kernel;
  if ((await storeOf(kernel).readKey(person.id)) !== undefined) return;
  const key: KeyRecord = {
    id: person.id,
    tenantId,
    name: person.name,
    owner: null,
    role: null,
    scopes: ['runs'],
    groups: [],
    createdAt: 0,
    expiresAt: null,
    revokedAt: null,
    lastUsedAt: null,
    replaces: [],
    replacedBy: null,
    kind: 'api' as const,
    parent: null,
  };
  await store.addKey(key, 'hash');
}

export async function openSession(
  kernel: Kernel,
  request: Partial<NativeSessionRequest> = {},
): Promise<SessionRecord> {
  const { tenantId, control } = kernel;
  await addKeyOfPerson(kernel);
  const given = { tenantId, by: person, handle: 'ada', model: 'scripted', ...request };
  return createNativeSession(control.engine, given);
}

export function storeOf(kernel: Kernel) {
  return kernel.store.tenant(kernel.tenantId);
}

export async function readSession(kernel: Kernel, id: string): Promise<SessionRecord> {
  const session = await storeOf(kernel).sessions.read(id);
  if (session === undefined) throw new Error('There is no such session');
  return session;
}

export function untilSession(
  kernel: Kernel,
  id: string,
  is: (session: SessionRecord) => boolean,
): Promise<SessionRecord> {
  return until(async () => {
    const session = await readSession(kernel, id);
    return is(session) && session;
  }, 'the session');
}

/** Idle, with nothing left to do. */
export function untilIdle(kernel: Kernel, id: string): Promise<SessionRecord> {
  return untilSession(kernel, id, (session) => {
    return session.status === 'idle' && session.queue.length === 0 && session.dueAt === null;
  });
}

export function sessionEvents(kernel: Kernel, id: string): Promise<StoredSessionEvent[]> {
  return storeOf(kernel).sessions.readEvents(id, { after: 0, limit: 10_000 });
}

export function eventsOfType<Type extends SessionEvent['type']>(
  events: readonly StoredSessionEvent[],
  type: Type,
) {
  return events.filter(
    (event): event is Extract<StoredSessionEvent, { type: Type }> => event.type === type,
  );
}

/** A person sends a message to the session. Returns the id of the delivery. */
export async function deliver(
  kernel: Kernel,
  sessionId: string,
  message: { readonly text: string; readonly mode?: DeliveryMode },
): Promise<string> {
  const { handle } = await readSession(kernel, sessionId);
  const from = { type: 'key', id: person.id, name: person.name } as const;
  const author = { tenantId: kernel.tenantId, from, by: person };
  const draft = { to: [`@${handle}`], ...message };
  const { deliveries } = await sendMessage(kernel.control, author, draft);
  const [delivery] = deliveries;
  if (delivery === undefined) throw new Error('The message has no recipient');
  return delivery.id;
}

export async function deliveryStatus(kernel: Kernel, deliveryId: string) {
  return (await storeOf(kernel).messages.readDelivery(deliveryId))?.status;
}

/** An answer that ends a turn. */
export const answer = [text('Done.'), finish()];
export const look = toolCall('call_1', 'look', {});

/** The texts of users in a request. */
export function usersIn({ messages }: ModelRequest): string[] {
  return messages.flatMap(({ role, content }) => (role === 'user' ? textOf(content) : []));
}

export async function* untilAborted(signal: AbortSignal) {
  yield [text('To begin ')];
  await aborted(signal);
}

/** A session whose turn waits in a tool until `held` is resolved. */
export async function sessionInTool() {
  const fixture = await openFixture();
  const held = Promise.withResolvers<void>();
  const tool = createRecordingTool({
    name: 'look',
    allowedByDefault: true,
    execute: () => held.promise.then(() => ({ context: 'seen' })),
  });
  const model = createStreamingModel(
    () => [[look, finish()]],
    () => [answer],
  );
  const kernel = await fixture.boot({ model, tools: [tool], sessions: true });
  const { id } = await openSession(kernel);
  await deliver(kernel, id, { text: 'one' });
  await until(async () => tool.executions.length === 1, 'the tool');
  return { kernel, id, model, tool, held };
}
