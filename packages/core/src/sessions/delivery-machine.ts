/**
 * The state machine of a delivery: one message for one session.
 *
 *   accepted ──deliver──▶ delivered ──consume──▶ consumed (final)
 *      ▲ └──defer──▶ deferred ──┘ └──defer──▶ deferred
 *      └──redeliver── failed ◀── fail, expire, withdraw, release
 *
 * - `send` writes it to the stream of a program: only the program's receipt says that it has arrived. One
 *   that is `delivered` is sent again when its program attaches again.
 * - `deliver` is final where consumption cannot be observed: the delivery is then `unobserved`, which the
 *   wire shows as `delivered`.
 * - A repeat is `same`; anything else after a final phase is refused (E9). The table is total.
 */
import { defined, type DeliveryStatus, type SessionEvent } from '@relay/protocol';

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

export interface DeliveryState {
  readonly id: string;
  readonly messageId: string;
  readonly status: DeliveryStatus;
  /** Whether the harness of the session can observe what was consumed. */
  readonly isObservable: boolean;
  /** Of the last deferral or failure. */
  readonly reason?: string;
  readonly availableAt?: string;
  /** How often it was sent. */
  readonly attempts: number;
}

export type DeliveryInput =
  | { readonly type: 'send' | 'redeliver' }
  | { readonly type: 'deliver' | 'consume'; readonly fidelity?: 'inferred' }
  /** Without `availableAt` until the next boundary of its mode; `now` is then its time. */
  | {
      readonly type: 'defer';
      readonly now: string;
      readonly availableAt?: string;
      readonly reason?: string;
    }
  | { readonly type: 'fail'; readonly reason: string; readonly retryable?: boolean }
  | { readonly type: 'expire' | 'withdraw' }
  /** The session was released or has failed. */
  | { readonly type: 'release'; readonly reason: 'released' | 'session_failed' };

export type DeliveryDecision =
  | {
      readonly kind: 'accepted';
      readonly events: readonly SessionEvent[];
      readonly state: DeliveryState;
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

type DeliveryRef = Pick<DeliveryState, 'id' | 'messageId'>;

/** The first event of a delivery that is stored for its session. */
export function deliveryAccepted({ id, messageId }: DeliveryRef): SessionEvent {
  return { type: 'delivery.accepted', deliveryId: id, messageId };
}

/** The only event of a delivery that its session cannot take: it is stored as `failed`. */
export function deliveryRefused({ id, messageId }: DeliveryRef, reason: string): SessionEvent {
  return { type: 'delivery.failed', deliveryId: id, messageId, reason };
}

export function decideDelivery(delivery: DeliveryState, input: DeliveryInput): DeliveryDecision {
  const phase = phaseOf(delivery);
  const next = deliveryTable[phase][input.type];
  if (next === 'same') return { kind: 'same' };
  if (next === 'refused') {
    return {
      kind: 'refused',
      reason: `A delivery that is ${delivery.status} cannot ${input.type}`,
    };
  }
  if (input.type === 'defer' && isSameDeferral(delivery, input)) return { kind: 'same' };
  return { kind: 'accepted', ...after(delivery, input) };
}

function after(
  delivery: DeliveryState,
  input: DeliveryInput,
): { events: readonly SessionEvent[]; state: DeliveryState } {
  const { id: deliveryId, messageId } = delivery;
  const of = { deliveryId, messageId };
  const { reason: _, availableAt: __, ...kept } = delivery;
  switch (input.type) {
    case 'send':
      return { events: [], state: { ...delivery, attempts: delivery.attempts + 1 } };
    case 'redeliver':
      return {
        events: [deliveryAccepted(delivery)],
        state: { ...kept, status: 'accepted' },
      };
    case 'deliver': {
      const marks = defined({ fidelity: input.fidelity });
      return {
        events: [{ type: 'delivery.delivered', ...of, ...marks }],
        state: { ...kept, status: 'delivered' },
      };
    }
    case 'consume': {
      const marks = defined({ fidelity: input.fidelity });
      const delivered: SessionEvent[] =
        delivery.status === 'delivered' ? [] : [{ type: 'delivery.delivered', ...of, ...marks }];
      return {
        events: [...delivered, { type: 'message.received', messageId, deliveryId, ...marks }],
        state: { ...kept, status: 'consumed' },
      };
    }
    case 'defer': {
      const { availableAt = input.now, reason } = input;
      const deferral = { availableAt, ...defined({ reason }) };
      return {
        events: [{ type: 'delivery.deferred', ...of, ...deferral }],
        state: { ...kept, status: 'deferred', ...deferral },
      };
    }
    case 'fail':
      return failed(delivery, { reason: input.reason, ...defined({ retryable: input.retryable }) });
    case 'expire':
      return failed(delivery, { reason: 'expired', retryable: true });
    case 'withdraw':
      return failed(delivery, { reason: 'withdrawn' });
    case 'release':
      return failed(delivery, { reason: input.reason });
  }
}

function failed(
  delivery: DeliveryState,
  failure: { readonly reason: string; readonly retryable?: boolean },
): { events: readonly SessionEvent[]; state: DeliveryState } {
  const { availableAt: _, ...kept } = delivery;
  const { id: deliveryId, messageId } = delivery;
  return {
    events: [{ type: 'delivery.failed', deliveryId, messageId, ...failure }],
    state: { ...kept, status: 'failed', reason: failure.reason },
  };
}

/** For the same reason and, if a time is given, until the same time. */
function isSameDeferral(
  delivery: DeliveryState,
  { reason, availableAt = delivery.availableAt }: { reason?: string; availableAt?: string },
): boolean {
  return (
    delivery.status === 'deferred' &&
    delivery.reason === reason &&
    delivery.availableAt === availableAt
  );
}
