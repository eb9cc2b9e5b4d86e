/** Changes of a message that no recipient has yet, and new attempts to deliver one. */
import {
  type Decider,
  defined,
  type DeliveryMode,
  RelayError,
  type Sender,
  type SessionAttachment,
} from '@relay/protocol';
import { auditRecordsOf } from '../../governance/audit.ts';
import type {
  AuditEntry,
  MessageDelivery,
  MessageRecord,
  SessionChange,
  SessionRecord,
  SessionWrite,
  TenantStore,
} from '../../ports/index.ts';
import {
  acceptanceOf,
  acceptedAs,
  dueAfter,
  inboxError,
  refusalOf,
} from '../../sessions/acceptance.ts';
import {
  decideDelivery,
  type DeliveryState,
  wasHandedOver,
} from '../../sessions/delivery-machine.ts';
import { maxAttempts, notifyOfMessage, tooManyChanges } from './send-message.ts';
import type { RunControl } from '../start-run.ts';

export interface MessageChanger {
  readonly tenantId: string;
  readonly from: Sender;
  /** The actor of the audit entry. */
  readonly by: Decider;
  /** May withdraw messages of others, and deliver them again. */
  readonly isAdmin: boolean;
}

export interface MessageChanges {
  readonly text?: string | undefined;
  readonly mode?: DeliveryMode | undefined;
  readonly attachments?: readonly SessionAttachment[] | undefined;
}

/** Throws `not_sender`, `message_delivered`, or `capability_missing` for a recipient that lacks one. */
export async function editMessage(
  control: RunControl,
  changer: MessageChanger,
  messageId: string,
  changes: MessageChanges,
): Promise<void> {
  const { engine } = control;
  const { tenantId } = changer;
  const store = engine.store.tenant(tenantId);
  for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
    // The sender is shown with the text, so an administrator may not change it either.
    const message = await ownMessage(store, { ...changer, isAdmin: false }, messageId);
    const now = engine.clock.now();
    const { text, mode, attachments } = changes;
    const fields = defined({ text, mode, attachments });
    const edited = { ...message, ...fields };
    const meaning = meaningOf(control, await waitingFor(store, messageId), { edited, mode, now });
    const audit = auditOf(control, changer, now, 'message.edited', { messageId });
    const edit = { messageId, at: now, ...fields, ...meaning, audit };
    const outcome = await store.messages.edit(edit, engine.settings.inboxLimit);
    switch (outcome) {
      case 'edited': {
        const { due, runCommands } = meaning;
        const write = {
          changes: due.map((each) => ({ ...each, at: now, events: [] })),
          runCommands,
        };
        const notice = { messageId, isSent: false, deliveries: [] };
        notifyOfMessage(control, tenantId, write, notice);
        return;
      }
      case 'delivered':
        throw deliveredError();
      case 'missing':
        throw withdrawnError();
      case 'inbox-full': {
        const { inboxLimit } = engine.settings;
        const { code, message: tooLarge } = inboxError({ handle: '' }, edited, inboxLimit);
        const full =
          'The inbox of a recipient has no space for the new text; edit it when the session has consumed some';
        throw new RelayError(code, code === 'inbox_full' ? full : tooLarge);
      }
      case 'conflict':
        break;
    }
  }
  throw tooManyChanges();
}

/** What an edit means for the recipients. Throws `capability_missing`. */
function meaningOf(
  { engine }: RunControl,
  waiting: readonly Waiting[],
  { edited, mode, now }: { edited: MessageRecord; mode: DeliveryMode | undefined; now: number },
) {
  const runCommands: NonNullable<SessionWrite['runCommands']>[number][] = [];
  const due: { sessionId: string; dueBy: number }[] = [];
  const ifVersions = new Map<string, number>();
  for (const { session, delivery } of waiting) {
    const newMode = mode ?? delivery.mode;
    const refusal = refusalOf(session, edited, newMode);
    if (refusal !== undefined) {
      const capability = { ...refusal.missing, messageId: edited.id };
      throw new RelayError('capability_missing', refusal.message, { capability });
    }
    const { deliveryTtlMs: ttlMs } = engine.settings;
    const options = { deliveryId: delivery.id, now, ttlMs, mode: newMode };
    const { command, dueBy, isConditional } = acceptanceOf(session, edited, options);
    if (command !== undefined) runCommands.push(command);
    // Another turn that starts meanwhile has to get the command.
    if (isConditional || command !== undefined) ifVersions.set(session.id, session.version);
    // One that waited for a flush may start a turn now.
    if (dueBy !== undefined) due.push({ sessionId: session.id, dueBy });
  }
  return { runCommands, due, ifVersions };
}

/** Its deliveries fail. Throws `not_sender` or `message_delivered`. A repeat changes nothing. */
export async function withdrawMessage(
  control: RunControl,
  changer: MessageChanger,
  messageId: string,
): Promise<void> {
  const { engine } = control;
  const { tenantId } = changer;
  const store = engine.store.tenant(tenantId);
  for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
    const message = await ownMessage(store, changer, messageId);
    if (message.withdrawnAt !== null) return;
    const now = engine.clock.now();
    const waiting = await waitingFor(store, messageId);
    const changes = waiting.map(({ delivery }) => changeOf(delivery, { type: 'withdraw' }, now));
    const write: SessionWrite = {
      changes,
      withdrawnCommands: waiting.flatMap(({ session, delivery }) =>
        session.activeRunId === null ? [] : [{ runId: session.activeRunId, id: delivery.id }],
      ),
      audit: auditOf(control, changer, now, 'message.withdrawn', { messageId }),
    };
    const outcome = await store.messages.withdraw(messageId, now, write);
    if (outcome.kind !== 'committed') continue;
    const deliveries = waiting.map(({ delivery: { id } }) => ({ id, status: 'failed' }) as const);
    notifyOfMessage(control, tenantId, write, { messageId, isSent: false, deliveries });
    return;
  }
  throw tooManyChanges();
}

/**
 * Puts a failed delivery at the end of the inbox again. Throws `receipt_conflict` if it has arrived or its
 * message was withdrawn, `capability_missing` if the session cannot take it, and `inbox_full` or `payload_too_large`.
 */
export async function redeliver(
  control: RunControl,
  changer: MessageChanger,
  deliveryId: string,
): Promise<void> {
  const { engine } = control;
  const { tenantId } = changer;
  const store = engine.store.tenant(tenantId);
  for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
    const delivery = await store.messages.readDelivery(deliveryId);
    if (delivery === undefined) throw new RelayError('not_found', 'No such delivery');
    const message = await ownMessage(store, changer, delivery.messageId);
    if (message.withdrawnAt !== null) throw withdrawnError();
    const decision = decideDelivery(stateOf(delivery), { type: 'redeliver' });
    if (decision.kind === 'same') return;
    if (decision.kind === 'refused') throw new RelayError('receipt_conflict', decision.reason);
    const session = await store.sessions.read(delivery.sessionId);
    if (session === undefined) throw new RelayError('not_found', 'The session was deleted');
    const refusal = refusalOf(session, message, delivery.mode);
    if (refusal !== undefined) {
      const capability = { ...refusal.missing, messageId: message.id };
      throw new RelayError('capability_missing', refusal.message, { capability });
    }
    const now = engine.clock.now();
    const { deliveryTtlMs: ttlMs, inboxLimit } = engine.settings;
    const acceptance = acceptanceOf(session, message, {
      deliveryId,
      now,
      ttlMs,
      mode: delivery.mode,
    });
    const { events, status, ...why } = acceptedAs(delivery, acceptance, now);
    const change = { ...decision.change, to: status, ...why };
    const write: SessionWrite = {
      changes: [
        {
          sessionId: session.id,
          at: now,
          events,
          deliveries: [change],
          ...dueAfter(session, acceptance),
        },
      ],
      runCommands: acceptance.command === undefined ? [] : [acceptance.command],
      inboxLimit,
      audit: auditOf(control, changer, now, 'delivery.redelivered', {
        deliveryId,
        messageId: message.id,
      }),
    };
    const outcome = await store.sessions.change(write);
    if (outcome.kind === 'inbox-full') {
      const { code, message: text } = inboxError(session, message, inboxLimit);
      throw new RelayError(code, text);
    }
    if (outcome.kind !== 'committed') continue;
    const deliveries = [{ id: deliveryId, status }];
    notifyOfMessage(control, tenantId, write, { messageId: message.id, isSent: false, deliveries });
    return;
  }
  throw tooManyChanges();
}

/** A message that the caller may change. */
async function ownMessage(
  store: TenantStore,
  { from, isAdmin }: MessageChanger,
  messageId: string,
): Promise<MessageRecord> {
  const message = await store.messages.read(messageId);
  if (message === undefined) throw new RelayError('not_found', 'No such message');
  if (message.from.id === from.id || isAdmin) return message;
  throw new RelayError('not_sender', 'Only the sender of the message may do this');
}

interface Waiting {
  readonly session: SessionRecord;
  readonly delivery: MessageDelivery;
}

/** The deliveries that wait, with their sessions. Throws `message_delivered` if one was handed over. */
async function waitingFor(store: TenantStore, messageId: string): Promise<Waiting[]> {
  const all = await store.messages.deliveriesOf(messageId);
  if (all.some(wasHandedOver)) throw deliveredError();
  const waiting: Waiting[] = [];
  for (const delivery of all) {
    if (delivery.status === 'failed') continue;
    const session = await store.sessions.read(delivery.sessionId);
    if (session !== undefined) waiting.push({ session, delivery });
  }
  return waiting;
}

function changeOf(
  delivery: MessageDelivery,
  input: { readonly type: 'withdraw' },
  at: number,
): SessionChange {
  const decision = decideDelivery(stateOf(delivery), input);
  if (decision.kind !== 'accepted') throw new TypeError('A delivery that waits can be withdrawn');
  const { events, change } = decision;
  return { sessionId: delivery.sessionId, at, events, deliveries: [change] };
}

/** One that has ended as `delivered` could not be observed any further. */
function stateOf(delivery: MessageDelivery): DeliveryState {
  const isUnobserved = delivery.status === 'delivered' && delivery.finalAt !== null;
  return { ...delivery, isObservable: !isUnobserved };
}

function deliveredError(): RelayError {
  return new RelayError(
    'message_delivered',
    'The message was handed over to a recipient; send another one',
  );
}

function withdrawnError(): RelayError {
  return new RelayError('receipt_conflict', 'The message was withdrawn; send another one');
}

function auditOf(
  { engine }: RunControl,
  { tenantId, by }: MessageChanger,
  at: number,
  action: AuditEntry['action'],
  what: AuditEntry['what'],
) {
  return auditRecordsOf(engine, tenantId, [{ at, who: by, action, what, why: null }]);
}
