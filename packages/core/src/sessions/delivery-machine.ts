/**
 * The state machine of a delivery: one message for one session.
 *
 *   accepted ──deliver──▶ delivered ──consume──▶ consumed (final)
 *      ▲ └──defer──▶ deferred ──┘ └──defer──▶ deferred
 *      └──redeliver── failed ◀── fail, expire, withdraw, release
 *
 * - `send` writes it to the stream of a program: only the program's receipt says that it has arrived. It is
 *   sent once on each stream until it ends, and again on the same stream after each deferral.
 * - One that was handed over cannot be withdrawn, whatever its receipts say: its session may have it.
 * - `deliver` is final where consumption cannot be observed: the delivery is then `unobserved`, which the
 *   wire shows as `delivered`.
 * - A repeat is `same`; anything else after a final phase is refused (E9). The table is total.
 */
import { defined, type SessionEvent } from '@relay/protocol';
import type { DeliveryChange, MessageDelivery } from '../ports/index.ts';
import { isHeld } from './modes.ts';

export const deliveryPhases = [
  'accepted',
  'deferred',
  'delivered',
  'unobserved',
  'consumed',
  'failed',
] as const;
export type DeliveryPhase = (typeof deliveryPhases)[number];

export const deliveryInputs = [
  'send',
  'deliver',
  'consume',
  'defer',
  'fail',
  'expire',
  'withdraw',
  'release',
  'redeliver',
] as const;
export type DeliveryInputName = (typeof deliveryInputs)[number];

type Cell = DeliveryPhase | 'same' | 'refused';

const waiting = {
  deliver: 'delivered',
  consume: 'consumed',
  defer: 'deferred',
  fail: 'failed',
  expire: 'failed',
  withdraw: 'failed',
  release: 'failed',
  redeliver: 'same',
} as const;

/** Sweeps find nothing left to do; everything else comes too late. */
const final = {
  send: 'refused',
  deliver: 'refused',
  consume: 'refused',
  defer: 'refused',
  fail: 'refused',
  expire: 'same',
  withdraw: 'refused',
  release: 'same',
  redeliver: 'refused',
} as const;

export const deliveryTable: Readonly<
  Record<DeliveryPhase, Readonly<Record<DeliveryInputName, Cell>>>
> = {
  accepted: { ...waiting, send: 'accepted' },
  deferred: { ...waiting, send: 'deferred' },
  delivered: {
    ...waiting,
    send: 'delivered',
    deliver: 'same',
    withdraw: 'refused',
    redeliver: 'refused',
  },
  unobserved: { ...final, deliver: 'same' },
  consumed: { ...final, consume: 'same' },
  failed: { ...final, fail: 'same', withdraw: 'same', redeliver: 'accepted' },
};

export interface DeliveryState extends Pick<
  MessageDelivery,
  'id' | 'messageId' | 'mode' | 'status' | 'reason' | 'availableAt' | 'attempts' | 'streamId'
> {
  /** Whether the harness of the session can observe what was consumed. */
  readonly isObservable: boolean;
}

export type DeliveryInput =
  | { readonly type: 'send'; readonly streamId: string }
  | { readonly type: 'redeliver' }
  | { readonly type: 'deliver' | 'consume'; readonly fidelity?: 'inferred' }
  /** Without `availableAt` until the next boundary of its mode; it is available `retryAfterMs` after `now`. */
  | {
      readonly type: 'defer';
      readonly now: number;
      readonly availableAt?: number;
      /** Default: 0. */
      readonly retryAfterMs?: number;
      readonly reason?: string;
      /** A flush: one of the mode `manual` waits only for a safe state from now on. */
      readonly isFlush?: true;
    }
  | { readonly type: 'fail'; readonly reason: string; readonly retryable?: boolean }
  | { readonly type: 'expire' | 'withdraw' }
  /** The session was released or has failed. */
  | { readonly type: 'release'; readonly reason: 'released' | 'session_failed' };

export type DeliveryDecision =
  | {
      readonly kind: 'accepted';
      readonly events: readonly SessionEvent[];
      readonly change: DeliveryChange;
    }
  | { readonly kind: 'same' }
  | { readonly kind: 'refused'; readonly reason: string };

export function phaseOf({ status, isObservable }: DeliveryState): DeliveryPhase {
  return status === 'delivered' && !isObservable ? 'unobserved' : status;
}

/** No input leads out of it but the redelivery of one that failed. */
export function isFinalDelivery(delivery: DeliveryState): boolean {
  const phase = phaseOf(delivery);
  return phase === 'consumed' || phase === 'failed' || phase === 'unobserved';
}

/** Its session may have the message: it was sent, or a receipt says so. */
export function wasHandedOver({
  attempts,
  status,
}: Pick<MessageDelivery, 'attempts' | 'status'>): boolean {
  return attempts > 0 || status === 'delivered' || status === 'consumed';
}

type DeliveryRef = Pick<DeliveryState, 'id' | 'messageId'>;

/** The first event of a delivery that is stored for its session. */
export function deliveryAccepted({ id, messageId }: DeliveryRef): SessionEvent {
  return { type: 'delivery.accepted', deliveryId: id, messageId };
}

/** The only event of a delivery that its session cannot take: it is stored as `failed`. */
export function deliveryRefused(
  { id, messageId }: DeliveryRef,
  reason: string,
  retryable?: boolean,
): SessionEvent {
  const why = { reason, ...defined({ retryable }) };
  return { type: 'delivery.failed', deliveryId: id, messageId, ...why };
}

export function decideDelivery(delivery: DeliveryState, input: DeliveryInput): DeliveryDecision {
  const phase = phaseOf(delivery);
  const next = deliveryTable[phase][input.type];
  if (next === 'same') return { kind: 'same' };
  if (next === 'refused') return refused(input, delivery.status);
  if (input.type === 'withdraw' && delivery.attempts > 0) return refused(input, 'handed over');
  if (input.type === 'defer' && !changesWait(delivery, input)) return { kind: 'same' };
  const { id, status } = delivery;
  const { events, ...fields } = effectOf(delivery, input);
  return { kind: 'accepted', events, change: { id, from: [status], ...fields } };
}

function refused({ type }: DeliveryInput, what: string): DeliveryDecision {
  return { kind: 'refused', reason: `A delivery that is ${what} cannot ${type}` };
}

/** A delivery after a change. */
export function changedDelivery(delivery: DeliveryState, change: DeliveryChange): DeliveryState {
  const { to: status, reason = null, availableAt = null, streamId = delivery.streamId } = change;
  const attempts = delivery.attempts + (change.isAttempt === true ? 1 : 0);
  return { ...delivery, status, reason, availableAt, attempts, streamId };
}

interface Effect extends Omit<DeliveryChange, 'id' | 'from'> {
  readonly events: readonly SessionEvent[];
}

function effectOf(delivery: DeliveryState, input: DeliveryInput): Effect {
  const { id: deliveryId, messageId, status, attempts: ifAttempts } = delivery;
  const of = { deliveryId, messageId };
  switch (input.type) {
    case 'send': {
      const { reason, availableAt } = delivery;
      const kept = defined({
        reason: reason ?? undefined,
        availableAt: availableAt ?? undefined,
      });
      const { streamId } = input;
      return { events: [], to: status, ...kept, isAttempt: true, ifAttempts, streamId };
    }
    case 'redeliver': {
      const events = [deliveryAccepted(delivery)];
      return { events, to: 'accepted', isRequeued: true, streamId: null };
    }
    case 'deliver': {
      const marks = defined({ fidelity: input.fidelity });
      const events: SessionEvent[] = [{ type: 'delivery.delivered', ...of, ...marks }];
      return { events, to: 'delivered', isFinal: !delivery.isObservable, ...inferredBy(input) };
    }
    case 'consume': {
      const marks = defined({ fidelity: input.fidelity });
      const delivered: SessionEvent[] =
        status === 'delivered' ? [] : [{ type: 'delivery.delivered', ...of, ...marks }];
      const consumed: SessionEvent = { type: 'message.received', ...of, ...marks };
      return { events: [...delivered, consumed], to: 'consumed', ...inferredBy(input) };
    }
    case 'defer': {
      const { now, retryAfterMs = 0, availableAt = now + retryAfterMs } = input;
      const why = defined({ reason: input.reason });
      const time = new Date(availableAt).toISOString();
      const events: SessionEvent[] = [
        { type: 'delivery.deferred', ...of, availableAt: time, ...why },
      ];
      return { events, to: 'deferred', availableAt, ...why, streamId: null };
    }
    case 'fail':
      return failure(of, { reason: input.reason, ...defined({ retryable: input.retryable }) });
    case 'expire':
      return failure(of, { reason: 'expired', retryable: true });
    case 'withdraw':
      return { ...failure(of, { reason: 'withdrawn' }), ifAttempts };
    case 'release':
      return failure(of, { reason: input.reason });
  }
}

function inferredBy({ fidelity }: { readonly fidelity?: 'inferred' }): { inferred?: true } {
  return fidelity === undefined ? {} : { inferred: true };
}

function failure(
  of: { readonly deliveryId: string; readonly messageId: string },
  why: { readonly reason: string; readonly retryable?: boolean },
): Effect {
  return { events: [{ type: 'delivery.failed', ...of, ...why }], to: 'failed', ...why };
}

/**
 * Not for the same reason and, if a time is given, until the same time, unless it was sent since. What waits
 * for a flush goes on waiting for it, whatever else it is deferred for.
 */
function changesWait(
  delivery: DeliveryState,
  {
    reason = null,
    availableAt = delivery.availableAt,
    isFlush = false,
  }: { reason?: string | null; availableAt?: number | null; isFlush?: boolean },
): boolean {
  if (isHeld(delivery)) return isFlush;
  return (
    delivery.status !== 'deferred' ||
    delivery.streamId !== null ||
    delivery.reason !== reason ||
    delivery.availableAt !== availableAt
  );
}
