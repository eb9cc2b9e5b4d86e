import type {
  ActionRecord,
  MessageDelivery,
  NewDelivery,
  NewInvocation,
  NewMessage,
  NewSession,
  SessionChange,
  SessionDefinition,
  SessionProgress,
  SessionState,
  SessionWrite,
  TenantStore,
} from '@relay/core';
import type { AgentSessionCapabilities, SessionEvent } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { noon, person } from '../fixtures.ts';

export const capabilities: AgentSessionCapabilities = {
  messaging: { receive: true, send: true },
  delivery: { modes: ['on-idle', 'immediate', 'manual'], queue: true },
  events: { emits: ['status.changed'] },
  lifecycle: { release: true },
};

/** States that differ in their usage. */
export function stateWith(tokens: number): SessionState {
  return { lifecycle: 'open', turn: 'none', connection: 'reachable', usage: { tokens } };
}

export const idle: SessionProgress = {
  status: 'idle',
  state: stateWith(0),
  activeRunId: null,
  releasedAt: null,
  dueAt: null,
};

export const log = (message: string): SessionEvent => ({ type: 'log', level: 'info', message });

export function newSession(
  over: Partial<Omit<NewSession, 'definition' | 'progress'>> & {
    definition?: Partial<SessionDefinition>;
    progress?: Partial<SessionProgress>;
  } = {},
): NewSession {
  const id = over.id ?? uuidv7();
  return {
    createdAt: noon,
    events: [{ type: 'session.started', sessionId: id }],
    ...over,
    id,
    progress: { ...idle, ...over.progress },
    definition: {
      handle: `h-${id}`,
      name: 'Ada',
      kind: 'program',
      harness: 'remote',
      capabilities,
      conversationId: uuidv7(),
      agent: null,
      model: null,
      labels: {},
      workspace: null,
      permissions: null,
      parentSessionId: null,
      owner: 'ada',
      keyId: 'key-1',
      ...over.definition,
    },
  };
}

/** A stored session with one event. */
export async function addSession(
  tenant: TenantStore,
  over: Parameters<typeof newSession>[0] = {},
): Promise<string> {
  const session = newSession(over);
  const outcome = await tenant.sessions.create(session);
  if (outcome.kind !== 'created') throw new Error(`The session was not created: ${outcome.kind}`);
  return session.id;
}

export function changeOf(sessionId: string, over: Partial<SessionChange> = {}): SessionChange {
  return { sessionId, at: noon, events: [log('a')], ...over };
}

export function newMessage(over: Partial<NewMessage> = {}): NewMessage {
  const id = over.id ?? uuidv7();
  return {
    from: { type: 'key', id: 'key-1', name: 'Ada' },
    to: ['@bob'],
    text: 'hello',
    attachments: [],
    mode: null,
    replyTo: null,
    threadId: id,
    hops: 0,
    at: noon,
    channels: [],
    direct: [],
    ...over,
    id,
  };
}

export function newDelivery(messageId: string, over: Partial<NewDelivery> = {}): NewDelivery {
  return { id: uuidv7(), messageId, mode: 'on-idle', ...over };
}

/** A message that these sessions accept, as relative changes. */
export function sending(
  to: readonly string[],
  over: Partial<NewMessage> = {},
  delivery: Partial<NewDelivery> = {},
): SessionWrite & { readonly messages: readonly [NewMessage] } {
  const message = newMessage({ direct: to, ...over });
  const changes = to.map((sessionId) => {
    const added = newDelivery(message.id, delivery);
    const accepted: SessionEvent = {
      type: 'delivery.accepted',
      deliveryId: added.id,
      messageId: message.id,
    };
    return changeOf(sessionId, { at: message.at, events: [accepted], newDeliveries: [added] });
  });
  return { changes, messages: [message] };
}

/** Sends, and gives the message with its deliveries. */
export async function send(
  tenant: TenantStore,
  to: readonly string[],
  over: Partial<NewMessage> = {},
  delivery: Partial<NewDelivery> = {},
): Promise<{ readonly id: string; readonly deliveries: readonly MessageDelivery[] }> {
  const write = sending(to, over, delivery);
  const outcome = await tenant.sessions.change(write);
  if (outcome.kind !== 'committed') throw new Error(`The message was not sent: ${outcome.kind}`);
  const { id } = write.messages[0];
  return { id, deliveries: await tenant.messages.deliveriesOf(id) };
}

export function newAction(over: Partial<ActionRecord> = {}): ActionRecord {
  return {
    name: 'deploy',
    description: 'Deploys',
    inputSchema: { type: 'object' },
    outputSchema: null,
    sessionId: null,
    url: 'https://actions.example/deploy',
    availableTo: [{ handle: 'bob' }],
    timeoutMs: 1_000,
    idempotent: false,
    createdAt: noon,
    createdBy: person,
    ...over,
  };
}

export function newInvocation(over: Partial<NewInvocation> = {}): NewInvocation {
  return {
    id: uuidv7(),
    action: 'deploy',
    by: { type: 'session', id: 'caller', name: 'Bob' },
    input: { where: 'here' },
    status: 'running',
    sessionId: null,
    at: noon,
    idempotent: false,
    timeoutMs: 1_000,
    startedAt: null,
    dueAt: noon + 1_000,
    ...over,
  };
}

export const whole = { after: 0, limit: 1_000 };

export async function lastSeqOf(tenant: TenantStore, sessionId: string): Promise<number> {
  const session = await tenant.sessions.read(sessionId);
  if (session === undefined) throw new Error('No such session');
  return session.lastSeq;
}
