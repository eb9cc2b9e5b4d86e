/**
 * When a delivery is handed over: at once, at which boundary, or deferred for which reason.
 *
 *   immediate       interrupts the running model call, never a tool: while one runs or an approval is
 *                   open, it is deferred until the results are there
 *   next-message    before the next model call
 *   next-tool-call  right after the results of tool calls; at idle if the turn ends without one
 *   on-idle         in a safe state of the harness
 *   manual          after a flush, as on-idle
 *
 * In a safe state every mode but `manual` starts a turn at once. What waits for the same boundary enters
 * together, in the order of the inbox.
 */
import type {
  AgentSessionCapabilities,
  AgentStatus,
  DeliveryMode,
  DeliveryStatus,
} from '@relay/protocol';
import { type SessionParts, type SessionState, statusOf } from './state.ts';

export const deferralReasons = [
  'tool running',
  'approval open',
  'blocked',
  'paused',
  'offline',
] as const;
export type DeferralReason = (typeof deferralReasons)[number];

/** `model-call`: before one that follows no tool results. */
export const boundaries = ['model-call', 'tool-results', 'idle', 'flush'] as const;
export type Boundary = (typeof boundaries)[number];

export type Placement =
  | { readonly kind: 'now' }
  | { readonly kind: 'at'; readonly boundary: Boundary }
  | { readonly kind: 'deferred'; readonly reason: DeferralReason }
  /** The session has ended. */
  | { readonly kind: 'never' };

/** The statuses in which a harness can be given a new turn. */
export const safeStates = [
  'active',
  'idle',
  'waiting',
  'blocked',
] as const satisfies readonly AgentStatus[];
export type SafeState = (typeof safeStates)[number];
export const defaultSafeStates: readonly SafeState[] = ['idle'];

export function safeStatesOf({ host }: Pick<SessionState, 'host'>): readonly SafeState[] {
  return host?.safeStates ?? defaultSafeStates;
}

export interface Situation {
  readonly parts: SessionParts;
  readonly safeStates: readonly SafeState[];
  readonly isToolRunning: boolean;
  readonly isApprovalOpen: boolean;
}

export interface PendingDelivery {
  readonly id: string;
  readonly mode: DeliveryMode;
  readonly status: DeliveryStatus;
  /** Its place in the inbox of its session. */
  readonly position: number;
  /** The session deferred it until then. */
  readonly availableAt?: number | null;
}

export function defaultMode({ delivery: { modes } }: AgentSessionCapabilities): DeliveryMode {
  return modes.includes('on-idle') ? 'on-idle' : (modes[0] ?? 'immediate');
}

export function isSafe({ parts, safeStates }: Pick<Situation, 'parts' | 'safeStates'>): boolean {
  const status: string = statusOf(parts);
  return parts.lifecycle === 'open' && safeStates.some((safe) => safe === status);
}

/** A flush marks deliveries of the mode `manual` by deferring them; those that are accepted wait for one. */
export function isHeld({ mode, status }: Pick<PendingDelivery, 'mode' | 'status'>): boolean {
  return mode === 'manual' && status === 'accepted';
}

export function placementOf(
  delivery: Pick<PendingDelivery, 'mode' | 'status'>,
  situation: Situation,
): Placement {
  const { lifecycle, connection, turn } = situation.parts;
  if (lifecycle === 'releasing' || lifecycle === 'released' || lifecycle === 'failed') {
    return { kind: 'never' };
  }
  if (isHeld(delivery)) return { kind: 'at', boundary: 'flush' };
  if (connection === 'unreachable') return { kind: 'deferred', reason: 'offline' };
  if (lifecycle === 'pausing' || lifecycle === 'paused') {
    return { kind: 'deferred', reason: 'paused' };
  }
  if (isSafe(situation)) return { kind: 'now' };
  if (lifecycle === 'starting' || turn === 'none') return { kind: 'at', boundary: 'idle' };
  switch (delivery.mode) {
    case 'immediate':
      return interruption(situation);
    case 'next-message':
      return { kind: 'at', boundary: 'model-call' };
    case 'next-tool-call':
      return { kind: 'at', boundary: 'tool-results' };
    case 'on-idle':
    case 'manual':
      return { kind: 'at', boundary: 'idle' };
  }
}

/** Only a model call is interrupted. A message neither stops a tool nor answers an approval. */
function interruption({ parts, isToolRunning, isApprovalOpen }: Situation): Placement {
  if (isToolRunning) return { kind: 'deferred', reason: 'tool running' };
  if (isApprovalOpen || parts.turn === 'waiting') {
    return { kind: 'deferred', reason: 'approval open' };
  }
  return parts.turn === 'blocked' ? { kind: 'deferred', reason: 'blocked' } : { kind: 'now' };
}

const modesAt: Readonly<Record<Boundary, readonly DeliveryMode[]>> = {
  'model-call': ['immediate', 'next-message'],
  'tool-results': ['immediate', 'next-message', 'next-tool-call'],
  idle: ['immediate', 'next-message', 'next-tool-call', 'on-idle', 'manual'],
  flush: ['manual'],
};

export function entersAt(mode: DeliveryMode, boundary: Boundary): boolean {
  return modesAt[boundary].includes(mode);
}

/** The deliveries that enter at a boundary, in order; at `idle` they are the next turn. */
export function entering<Delivery extends PendingDelivery>(
  pending: readonly Delivery[],
  boundary: Boundary,
  now: number,
): Delivery[] {
  return pending
    .filter(({ status }) => status === 'accepted' || status === 'deferred')
    .filter((delivery) => isHeld(delivery) === (boundary === 'flush'))
    .filter(({ mode }) => entersAt(mode, boundary))
    .filter(({ availableAt }) => (availableAt ?? 0) <= now)
    .toSorted((one, other) => one.position - other.position);
}

/** Whether deliveries to the session fail after a time: it is offline, and not because of a pause. */
export function timesOut({ lifecycle, connection }: SessionParts): boolean {
  return connection === 'unreachable' && lifecycle !== 'paused' && lifecycle !== 'pausing';
}

export const stuckAfterMs = 60_000;

/** `oldestAt`: of the deliveries that wait for no flush. `since`: when the session came to its status. */
export function isStuck(
  situation: Pick<Situation, 'parts' | 'safeStates'>,
  { oldestAt, since, now }: { oldestAt: number | null; since: number; now: number },
): boolean {
  if (oldestAt === null || !isSafe(situation)) return false;
  return now - Math.max(oldestAt, since) > stuckAfterMs;
}
