/**
 * What a session may be asked for: one answer for every operation and every message, on all surfaces.
 * Every refusal names the capability, what was asked, and what the session offers.
 */
import {
  type AgentSessionCapabilities,
  type AgentSessionEventType,
  type AgentStatus,
  type AttachmentType,
  canObserve,
  type CapabilityDetails,
  type CapabilityPath,
  type DeliveryMode,
  ownEvents,
  RelayError,
  type SessionEvent,
} from '@relay/protocol';

export type SessionOperation =
  | { readonly type: 'release' | 'pause' | 'resume' | 'fork' | 'snapshot' }
  /** Hand over the messages of the mode `manual`. */
  | { readonly type: 'flush' }
  /** What the session itself does. */
  | { readonly type: 'send-message' | 'invoke-action' | 'expose-action' }
  | { readonly type: 'report-event'; readonly event: SessionEvent }
  /** Wait for events of any of these types. */
  | { readonly type: 'observe'; readonly events: readonly AgentSessionEventType[] }
  | {
      readonly type: 'receive-message';
      readonly mode: DeliveryMode;
      readonly attachments: readonly AttachmentType[];
      /** It cannot be handed over at once (modes.ts). */
      readonly isQueued: boolean;
      readonly status: AgentStatus;
    };

const pathOfOperation = {
  release: 'lifecycle.release',
  pause: 'lifecycle.pause',
  resume: 'lifecycle.resume',
  fork: 'lifecycle.fork',
  snapshot: 'lifecycle.snapshot',
  'send-message': 'messaging.send',
  'invoke-action': 'actions.invoke',
  'expose-action': 'actions.expose',
} as const;

/** Which capability the session lacks for an operation, if any. */
export function missingCapability(
  capabilities: AgentSessionCapabilities,
  operation: SessionOperation,
): CapabilityDetails | undefined {
  const { delivery, events } = capabilities;
  switch (operation.type) {
    case 'flush':
      return unlessOffered('delivery.modes', 'manual', delivery.modes);
    case 'report-event': {
      if (canReport(capabilities, operation.event)) return undefined;
      // What it declares of Relay's own events can be observed, but not reported.
      const offered = events.emits.filter((type) => !ownEvents.has(type));
      return { path: 'events.emits', asked: operation.event.type, offered };
    }
    case 'observe': {
      const [first] = operation.events;
      if (first === undefined) return undefined;
      return operation.events.some((type) => canObserve(capabilities, type))
        ? undefined
        : { path: 'events.emits', asked: first, offered: events.emits };
    }
    case 'receive-message':
      return missingForMessage(capabilities, operation);
    default:
      return unlessTrue(capabilities, pathOfOperation[operation.type]);
  }
}

function missingForMessage(
  capabilities: AgentSessionCapabilities,
  message: Extract<SessionOperation, { type: 'receive-message' }>,
): CapabilityDetails | undefined {
  const { messaging, delivery } = capabilities;
  // A session that has ended can do nothing of what it declared.
  if (hasEnded(message.status)) return { path: 'messaging.receive', asked: true, offered: false };
  const types = messaging.attachments ?? [];
  const refused = message.attachments.find((type) => !types.includes(type));
  return (
    unlessOffered('delivery.modes', message.mode, delivery.modes) ??
    (refused === undefined
      ? undefined
      : { path: 'messaging.attachments', asked: refused, offered: types }) ??
    (message.isQueued ? unlessTrue(capabilities, 'delivery.queue') : undefined)
  );
}

function hasEnded(status: AgentStatus): boolean {
  return status === 'releasing' || status === 'released' || status === 'failed';
}

function unlessOffered<Value extends string>(
  path: CapabilityPath,
  asked: Value,
  offered: readonly Value[],
): CapabilityDetails | undefined {
  return offered.includes(asked) ? undefined : { path, asked, offered: [...offered] };
}

function unlessTrue(
  capabilities: AgentSessionCapabilities,
  path: CapabilityPath,
): CapabilityDetails | undefined {
  return holdsCapability(capabilities, path) ? undefined : { path, asked: true, offered: false };
}

/** Whether a session declares a capability: it is true, or a list with something in it. */
export function holdsCapability(
  { messaging, delivery, events, actions, lifecycle }: AgentSessionCapabilities,
  path: CapabilityPath,
): boolean {
  const values = {
    'messaging.receive': messaging.receive,
    'messaging.send': messaging.send,
    'messaging.attachments': messaging.attachments,
    'delivery.modes': delivery.modes,
    'delivery.queue': delivery.queue,
    'events.emits': events.emits,
    'actions.invoke': actions?.invoke,
    'actions.expose': actions?.expose,
    'lifecycle.release': lifecycle.release,
    'lifecycle.pause': lifecycle.pause,
    'lifecycle.resume': lifecycle.resume,
    'lifecycle.fork': lifecycle.fork,
    'lifecycle.snapshot': lifecycle.snapshot,
  } as const satisfies Record<CapabilityPath, unknown>;
  const value = values[path];
  return Array.isArray(value) ? value.length > 0 : value === true;
}

/** A change of status is declared as such, or by the status that it leads to. */
function canReport({ events: { emits } }: AgentSessionCapabilities, event: SessionEvent): boolean {
  if (ownEvents.has(event.type)) return false;
  if (emits.includes(event.type)) return true;
  return event.type === 'status.changed' && isOneOf(emits, `status.${event.status}`);
}

function isOneOf(list: readonly string[], value: string): boolean {
  return list.includes(value);
}

/** Throws what `capabilityError` returns, if the session lacks a capability for the operation. */
export function requireCapability(
  { handle, capabilities }: { handle: string; capabilities: AgentSessionCapabilities },
  operation: SessionOperation,
): void {
  const missing = missingCapability(capabilities, operation);
  if (missing !== undefined) throw capabilityError(handle, operation, missing);
}

/** The error of all surfaces. For an event that is not declared, its code is `event_undeclared`. */
export function capabilityError(
  handle: string,
  operation: SessionOperation,
  missing: CapabilityDetails,
): RelayError {
  const code = operation.type === 'report-event' ? 'event_undeclared' : 'capability_missing';
  return new RelayError(code, textOf(handle, operation, missing), { capability: missing });
}

function textOf(
  handle: string,
  operation: SessionOperation,
  { path, asked, offered }: CapabilityDetails,
): string {
  const session = `The session @${handle}`;
  if (operation.type === 'report-event' && ownEvents.has(operation.event.type)) {
    return `${session} cannot report ${operation.event.type}: Relay records it itself. ${insteadOf(operation.event.type)}`;
  }
  if (path === 'messaging.receive') return `${session} has ended and receives no messages`;
  if (path === 'delivery.queue') {
    return `${session} cannot take the message now and has no queue; send it when the session is idle`;
  }
  if (Array.isArray(offered)) {
    const list = offered.length === 0 ? 'nothing' : offered.join(', ');
    return `${session} does not declare ${String(asked)}; its ${path} has ${list}`;
  }
  return `${session} does not declare ${path}, which ${operation.type} requires`;
}

/** What a program does so that Relay records an event of its own. */
function insteadOf(type: SessionEvent['type']): string {
  switch (type) {
    case 'message.sent':
      return 'Send the message';
    case 'message.received':
    case 'delivery.accepted':
    case 'delivery.delivered':
    case 'delivery.deferred':
    case 'delivery.failed':
      return 'Post a receipt of the delivery';
    case 'action.invoked':
    case 'action.denied':
      return 'Invoke the action';
    case 'action.completed':
    case 'action.failed':
      return 'Post the result of the invocation';
    default:
      return 'Leave it out';
  }
}
