/**
 * Which events of a session can be observed, given what it declares. It has no zod code, so that a client
 * can find out before it waits.
 */
import type { AgentSessionCapabilities, AgentSessionEventType } from '../schemas/sessions.ts';

/** Relay writes these itself, for every session: they are observed of all, and reported by none. */
export const ownEvents: ReadonlySet<AgentSessionEventType> = new Set<AgentSessionEventType>([
  'message.received',
  'message.sent',
  'delivery.accepted',
  'delivery.delivered',
  'delivery.deferred',
  'delivery.failed',
  'action.invoked',
  'action.completed',
  'action.failed',
  'action.denied',
  'session.started',
  'session.released',
  'session.resumed',
  'session.forked',
]);

/** Relay finds out by itself that a session is offline, and that a command has failed. */
const foundOut: ReadonlySet<AgentSessionEventType> = new Set<AgentSessionEventType>([
  'status.offline',
  'error',
]);

export function canObserve(
  { events: { emits } }: Pick<AgentSessionCapabilities, 'events'>,
  type: AgentSessionEventType,
): boolean {
  if (ownEvents.has(type) || foundOut.has(type) || emits.includes(type)) return true;
  if (type === 'status.changed') return emits.some((each) => each.startsWith('status.'));
  return type.startsWith('status.') && emits.includes('status.changed');
}
