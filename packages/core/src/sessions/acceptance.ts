/** Whether a session takes a message, and what is stored with the delivery if it does. */
import {
  defined,
  type CapabilityDetails,
  type DeliveryMode,
  type MessageContent,
  type MessageMode,
  messageModes,
  type SessionAttachment,
  type SessionEvent,
} from '@relay/protocol';
import type {
  InboxLimit,
  MessageRecord,
  NewDelivery,
  QueuedRunCommand,
  SessionChange,
  SessionRecord,
} from '../ports/index.ts';
import { capabilityError, missingCapability, type SessionOperation } from './capabilities.ts';
import { decideDelivery, deliveryAccepted, deliveryRefused } from './delivery-machine.ts';
import { defaultMode, placementOf, safeStatesOf } from './modes.ts';
import { nativeHarness } from './native.ts';

/** Replies of agents to each other that lead to one more. */
export const maxHops = 16;

/** Why a session did not take a message; stored with its delivery. */
export interface DeliveryError {
  /** The reason of its `delivery.failed`. */
  readonly code: 'capability_missing' | 'loop_limit' | 'inbox_full' | 'payload_too_large';
  readonly message: string;
  readonly retryable?: boolean;
  readonly details?: CapabilityDetails;
}

export type OfferedMessage = Omit<
  MessageRecord,
  'replyTo' | 'threadId' | 'at' | 'editedAt' | 'withdrawnAt'
>;

/** Of a delivery that is stored for the first time, or accepted again. */
export interface Acceptance {
  readonly mode: DeliveryMode;
  /** Why it waits, if it has to; its first event is followed by a deferral. */
  readonly deferred: string | undefined;
  /** The decision holds only for the session as it was read. */
  readonly isConditional: boolean;
  /** When the session needs attention because of it, without a request. */
  readonly dueBy: number | undefined;
  /** For the run that is the session's turn: it takes the message at the boundary of its mode. */
  readonly command: { readonly runId: string; readonly queued: QueuedRunCommand } | undefined;
}

export interface AcceptanceOptions {
  readonly deliveryId: string;
  readonly now: number;
  /** How long deliveries wait for a session that is offline. */
  readonly ttlMs: number;
  /** Default: that of the message, else that of the session. */
  readonly mode?: DeliveryMode;
}

export function modeFor(
  { capabilities }: Pick<SessionRecord, 'capabilities'>,
  { mode }: Pick<MessageRecord, 'mode'>,
): DeliveryMode {
  return mode ?? defaultMode(capabilities);
}

/** The size of a message, as the limit of an inbox counts it. */
export function bytesOf({
  text,
  attachments,
}: Pick<MessageRecord, 'text' | 'attachments'>): number {
  const encoder = new TextEncoder();
  return encoder.encode(text).length + encoder.encode(JSON.stringify(attachments)).length;
}

/**
 * Why an inbox without space does not take a message. What the session has not ended with counts, so it gets
 * space again when its program consumes; a message that is larger than the whole inbox never fits.
 */
export function inboxError(
  { handle }: Pick<SessionRecord, 'handle'>,
  message: Pick<MessageRecord, 'text' | 'attachments'>,
  { messages, bytes: limit }: InboxLimit,
): DeliveryError {
  const bytes = bytesOf(message);
  if (bytes > limit) {
    const text = `The message has ${bytes} bytes, and the inbox of a session takes ${limit} at most; send it in parts, or say where the session can read it`;
    return { code: 'payload_too_large', message: text };
  }
  const space = `RELAY_INBOX_LIMIT: ${messages} messages or ${limit} bytes that are not consumed`;
  const text = `The inbox of @${handle} is full (${space}); send the message when the session has consumed some`;
  return { code: 'inbox_full', message: text, retryable: true };
}

/** Which capability the session lacks for the message, if any. */
export function refusalOf(
  session: SessionRecord,
  message: Pick<MessageRecord, 'attachments'>,
  mode: DeliveryMode,
): { readonly missing: CapabilityDetails; readonly message: string } | undefined {
  const operation: SessionOperation = {
    type: 'receive-message',
    mode,
    attachments: message.attachments.map(({ type }) => type),
    isQueued: placeOf(session, mode).kind !== 'now' || !isListening(session),
    status: session.status,
  };
  const missing = missingCapability(session.capabilities, operation);
  if (missing === undefined) return undefined;
  return { missing, message: capabilityError(session.handle, operation, missing).message };
}

/** Why a session cannot be given this message, whoever sends it. */
export function deliveryErrorOf(
  session: SessionRecord,
  message: OfferedMessage,
): DeliveryError | undefined {
  if (message.hops > maxHops) {
    return {
      code: 'loop_limit',
      message: `More than ${maxHops} replies of agents follow each other; a person has to continue`,
    };
  }
  const refusal = refusalOf(session, message, modeFor(session, message));
  if (refusal === undefined) return undefined;
  return { code: 'capability_missing', message: refusal.message, details: refusal.missing };
}

export function acceptanceOf(
  session: SessionRecord,
  message: OfferedMessage,
  { deliveryId, now, ttlMs, mode = modeFor(session, message) }: AcceptanceOptions,
): Acceptance {
  const { activeRunId, harness, capabilities } = session;
  const place = placeOf(session, mode);
  const entersTurn = isMessageMode(mode);
  const isNative = harness === nativeHarness;
  return {
    mode,
    deferred: place.kind === 'deferred' ? place.reason : undefined,
    // A turn that starts meanwhile has to get the command, too; without a queue the session must be free.
    isConditional:
      capabilities.delivery.queue !== true || (isNative && entersTurn && activeRunId === null),
    dueBy: dueByOf(session, mode, { now, ttlMs }),
    command:
      activeRunId === null || !entersTurn
        ? undefined
        : {
            runId: activeRunId,
            queued: commandFor(session, message, { deliveryId, mode }),
          },
  };
}

/**
 * A native session may have a turn. A program may be offline, or become so before the delivery is stored,
 * which then fails after its time.
 */
function dueByOf(
  { harness }: Pick<SessionRecord, 'harness'>,
  mode: DeliveryMode,
  { now, ttlMs }: Pick<AcceptanceOptions, 'now' | 'ttlMs'>,
): number | undefined {
  switch (harness) {
    case nativeHarness:
      return mode === 'manual' ? undefined : now;
    case 'human':
      return undefined;
    default:
      return now + ttlMs;
  }
}

/** A program is handed a message only while its stream is open. */
function isListening({ harness, stream }: SessionRecord): boolean {
  return stream !== null || (harness !== 'remote' && harness !== 'human');
}

/** Whether a message of this mode enters a turn. */
export function isMessageMode(mode: DeliveryMode): mode is MessageMode {
  return messageModes.some((each) => each === mode);
}

/** Only the run knows whether a tool is running: it then keeps the message until the results are there. */
function placeOf(session: SessionRecord, mode: DeliveryMode) {
  const parts = session.state;
  const situation = { parts, safeStates: safeStatesOf(parts), isToolRunning: false };
  const isApprovalOpen = parts.turn === 'waiting';
  return placementOf({ mode, status: 'accepted' }, { ...situation, isApprovalOpen });
}

/** The command has the id of its delivery: stored again, it replaces itself. */
function commandFor(
  { handle }: Pick<SessionRecord, 'handle'>,
  message: OfferedMessage,
  { deliveryId, mode }: { readonly deliveryId: string; readonly mode: MessageMode },
): QueuedRunCommand {
  const { id: messageId, from } = message;
  const channel = channelFor(message, handle);
  const content = contentOf(message);
  return {
    id: deliveryId,
    command: {
      kind: 'message',
      messageId,
      deliveryId,
      mode,
      from,
      ...defined({ channel }),
      content,
    },
  };
}

/** The channel that a session got a message from; undefined if it was sent to its handle. */
export function channelFor({ to }: Pick<MessageRecord, 'to'>, handle: string): string | undefined {
  if (to.includes(`@${handle}`)) return undefined;
  return to.find((address) => address.startsWith('#'))?.slice(1);
}

/** The message as a model reads it: its text unchanged, then its attachments. */
export function contentOf({
  text,
  attachments,
}: {
  readonly text: string;
  readonly attachments: readonly SessionAttachment[];
}): MessageContent {
  if (attachments.length === 0) return text;
  return text === '' ? [...attachments] : [{ type: 'text', text }, ...attachments];
}

/** A delivery that the session takes: `accepted`, and deferred at once if it has to wait. */
export function acceptedAs(
  { id, messageId }: { readonly id: string; readonly messageId: string },
  { mode, deferred }: Pick<Acceptance, 'mode' | 'deferred'>,
  now: number,
) {
  const accepted = deliveryAccepted({ id, messageId });
  if (deferred === undefined) return { events: [accepted], status: 'accepted' } as const;
  const state = {
    id,
    messageId,
    mode,
    status: 'accepted',
    reason: null,
    availableAt: null,
    attempts: 0,
    streamId: null,
    isObservable: true,
  } as const;
  const decision = decideDelivery(state, { type: 'defer', now, reason: deferred });
  if (decision.kind !== 'accepted') throw new TypeError('A new delivery can be deferred');
  const { to: status, reason, availableAt } = decision.change;
  return {
    events: [accepted, ...decision.events],
    status,
    ...defined({ reason, availableAt }),
  };
}

/** The change that stores a new delivery which the session takes. */
export function acceptedChange(
  session: SessionRecord,
  delivery: { readonly id: string; readonly messageId: string },
  acceptance: Acceptance,
  now: number,
): SessionChange {
  const { events, ...stored } = acceptedAs(delivery, acceptance, now);
  const { mode } = acceptance;
  return changeOf(session, acceptance, events, { ...delivery, mode, ...stored }, now);
}

function changeOf(
  session: SessionRecord,
  acceptance: Acceptance,
  events: readonly SessionEvent[],
  delivery: NewDelivery,
  at: number,
): SessionChange {
  const change = { sessionId: session.id, at, events, newDeliveries: [delivery] };
  return { ...change, ...dueAfter(session, acceptance) };
}

/** The condition of a change, and when the session is due after it. */
export function dueAfter(
  session: Pick<SessionRecord, 'version' | 'dueAt'>,
  { isConditional, dueBy }: Pick<Acceptance, 'isConditional' | 'dueBy'>,
): Pick<SessionChange, 'ifVersion' | 'progress' | 'dueBy'> {
  if (!isConditional) return defined({ dueBy });
  const { version: ifVersion, dueAt } = session;
  if (dueBy === undefined) return { ifVersion };
  return { ifVersion, progress: { dueAt: Math.min(dueBy, dueAt ?? dueBy) } };
}

/** The change that stores a delivery which the session does not take. */
export function refusedChange(
  session: SessionRecord,
  delivery: { readonly id: string; readonly messageId: string; readonly mode: DeliveryMode },
  error: DeliveryError,
  at: number,
): SessionChange {
  const { code: reason, retryable } = error;
  const { id: sessionId, version: ifVersion, releasedAt } = session;
  const failed = {
    ...delivery,
    status: 'failed',
    reason,
    error,
    ...defined({ retryable }),
  } as const;
  // The journal of a released session has ended.
  const ended = releasedAt === null ? {} : { ifVersion };
  const events = releasedAt === null ? [deliveryRefused(delivery, reason, retryable)] : [];
  return { sessionId, at, events, newDeliveries: [failed], ...ended };
}
