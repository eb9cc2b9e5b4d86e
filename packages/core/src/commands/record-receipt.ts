/** What the program of a session reports: receipts of its deliveries, and events. */
import { defined, RelayError, type DeliveryStatus, type SessionEvent } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import type { MessageDelivery, SessionRecord, SessionRef } from '../ports/index.ts';
import { capabilityError, missingCapability } from '../sessions/capabilities.ts';
import { inboxOf } from '../sessions/consequences.ts';
import type { DeliveryInput } from '../sessions/delivery-machine.ts';
import { decideSession, inputsOfStatus, type SessionInput } from '../sessions/session-machine.ts';
import { updatedUsage } from '../sessions/state.ts';
import { changeSession, deliveryStep, hasProgram } from './change-session.ts';

export interface DeliveryReceipt {
  readonly status: Exclude<DeliveryStatus, 'accepted'>;
  readonly availableAt?: number;
  readonly reason?: string;
  readonly retryable?: boolean;
  /** Of a delivery that is consumed: concluded by Relay, not reported by the program. */
  readonly fidelity?: 'inferred';
}

type ReportEngine = Pick<Engine, 'store' | 'clock' | 'settings' | 'redact'>;

/** The delivery after it. Throws `receipt_conflict` after a final receipt that was another one. */
export async function recordReceipt(
  engine: ReportEngine,
  ref: SessionRef,
  deliveryId: string,
  receipt: DeliveryReceipt,
): Promise<MessageDelivery> {
  const { messages } = engine.store.tenant(ref.tenantId);
  const find = async () => {
    const delivery = await messages.readDelivery(deliveryId);
    if (delivery?.sessionId === ref.sessionId) return delivery;
    throw new RelayError('not_found', 'No such delivery');
  };
  await changeSession(engine, ref, async ({ session, now }) => {
    requireProgram(session);
    return deliveryStep(await find(), inputOfReceipt(receipt, now));
  });
  return find();
}

function inputOfReceipt(receipt: DeliveryReceipt, now: number): DeliveryInput {
  const { status, availableAt, reason, retryable, fidelity } = receipt;
  switch (status) {
    case 'delivered':
      return { type: 'deliver' };
    case 'consumed':
      return { type: 'consume', ...defined({ fidelity }) };
    case 'deferred':
      return {
        type: 'defer',
        now,
        ...(availableAt === undefined ? {} : { availableAt }),
        ...(reason === undefined ? {} : { reason }),
      };
    case 'failed':
      return {
        type: 'fail',
        reason: reason ?? 'failed',
        ...(retryable === undefined ? {} : { retryable }),
      };
  }
}

function requireProgram(session: SessionRecord): void {
  if (hasProgram(session)) return;
  throw new RelayError(
    'session_conflict',
    `Relay itself reports what a session of the harness ${session.harness} does`,
  );
}

/** Stores them together. Throws `event_undeclared`, and `session_conflict` for an impossible status. */
export function reportEvents(
  engine: ReportEngine,
  ref: SessionRef,
  reported: readonly SessionEvent[],
): Promise<SessionRecord> {
  const events = reported.map((event) => withoutSecrets(engine, event));
  return changeSession(engine, ref, ({ session, state }) => {
    requireProgram(session);
    const { capabilities, handle } = session;
    const inputs: Omit<SessionInput, 'sessionId'>[] = [];
    const others: SessionEvent[] = [];
    let { usage } = state;
    let next = state;
    for (const event of events) {
      const operation = { type: 'report-event', event } as const;
      const missing = missingCapability(capabilities, operation);
      if (missing !== undefined) throw capabilityError(handle, operation, missing);
      if (event.type === 'status.changed') {
        const { status, reason, fidelity } = event;
        if (status === 'offline' && session.harness === 'human') {
          throw new RelayError('session_conflict', 'A person’s session is never offline');
        }
        for (const type of inputsOfStatus(next, status)) {
          const input = {
            type,
            ...(reason === undefined ? {} : { reason }),
            ...(fidelity === undefined ? {} : { fidelity }),
          };
          inputs.push(input);
          const decision = decideSession(next, { ...input, sessionId: session.id });
          if (decision.kind === 'accepted') next = decision.state;
        }
      } else {
        if (event.type === 'usage.updated') usage = updatedUsage(usage, event);
        others.push(event);
      }
    }
    return { inputs, events: others, usage, isSeen: true };
  });
}

/** What a program reports may contain a key (E8). */
function withoutSecrets({ redact }: ReportEngine, event: SessionEvent): SessionEvent {
  if (redact === undefined) return event;
  return JSON.parse(redact(JSON.stringify(event))) as SessionEvent;
}

/** Marks the messages of the mode manual that wait for it. Throws `capability_missing`. */
export function flushSession(
  engine: Pick<Engine, 'store' | 'clock' | 'settings'>,
  ref: SessionRef,
): Promise<SessionRecord> {
  return changeSession(engine, ref, async (view) => {
    const { session, now } = view;
    const operation = { type: 'flush' } as const;
    const missing = missingCapability(session.capabilities, operation);
    if (missing !== undefined) throw capabilityError(session.handle, operation, missing);
    const held = (await inboxOf(view.store.messages, session.id)).filter(
      ({ mode, status }) => mode === 'manual' && status === 'accepted',
    );
    const steps = held.map((entry) =>
      deliveryStep(entry, { type: 'defer', now, reason: 'flushed' }),
    );
    return {
      events: steps.flatMap(({ events = [] }) => events),
      deliveries: steps.flatMap(({ deliveries = [] }) => deliveries),
    };
  });
}
