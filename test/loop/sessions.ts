/** Native sessions for the loop tests, and messages to them. */
import { createNativeSession, type NativeSessionRequest, type SessionRecord } from '@relay/core';
import type { DeliveryMode, SessionEvent, StoredSessionEvent } from '@relay/protocol';
import { type Kernel, person, until } from '../support/kernel.ts';

export function openSession(
  kernel: Kernel,
  request: Partial<NativeSessionRequest> = {},
): Promise<SessionRecord> {
  const { tenantId, control } = kernel;
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

/** Stores a message from a person to the session, as its sender does, and wakes the session. */
export async function deliver(
  kernel: Kernel,
  sessionId: string,
  { text, mode = 'on-idle', wake = true }: { text: string; mode?: DeliveryMode; wake?: boolean },
): Promise<string> {
  const { engine, supervisor } = kernel.control;
  const { tenantId } = kernel;
  const at = engine.clock.now();
  const from = { type: 'key', id: person.id, name: person.name } as const;
  for (;;) {
    const { activeRunId, handle, version } = await readSession(kernel, sessionId);
    const messageId = engine.ids.next();
    const id = engine.ids.next();
    const to = [`@${handle}`];
    const entersTurn = mode !== 'on-idle' && mode !== 'manual';
    const received = { messageId, deliveryId: id, from, content: text };
    const outcome = await storeOf(kernel).sessions.change({
      changes: [
        {
          sessionId,
          at,
          events: [{ type: 'delivery.accepted', deliveryId: id, messageId }],
          newDeliveries: [{ id, messageId, mode }],
          ...(activeRunId === null
            ? { ifVersion: version, progress: { dueAt: at } }
            : { dueBy: at }),
        },
      ],
      messages: [
        {
          id: messageId,
          from,
          to,
          text,
          attachments: [],
          mode,
          replyTo: null,
          threadId: messageId,
          hops: 0,
          at,
          channels: [],
          direct: [sessionId],
        },
      ],
      runCommands:
        activeRunId === null || !entersTurn
          ? []
          : [
              {
                runId: activeRunId,
                queued: { id, command: { kind: 'message', mode, ...received } },
              },
            ],
    });
    if (outcome.kind === 'conflict' || outcome.kind === 'run-ended') continue;
    if (outcome.kind !== 'committed') throw new Error(`Not stored: ${outcome.kind}`);
    if (activeRunId !== null) supervisor.notify({ tenantId, runId: activeRunId });
    if (wake) engine.sessionDue?.({ tenantId, sessionId });
    return id;
  }
}

export async function deliveryStatus(kernel: Kernel, deliveryId: string) {
  return (await storeOf(kernel).messages.readDelivery(deliveryId))?.status;
}
