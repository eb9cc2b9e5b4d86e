/** What the program of a session reports: receipts of its deliveries, and events. */
import {
  canonicalJson,
  defined,
  type DeliveryStatus,
  RelayError,
  type SessionEvent,
} from '@relay/protocol';
import type { Engine } from '../../engine.ts';
import {
  idempotencyMs,
  type MessageDelivery,
  type MessageKey,
  type SessionRecord,
  type SessionRef,
  type TenantStore,
} from '../../ports/index.ts';
import { requireCapability } from '../../sessions/capabilities.ts';
import { inboxOf, stepsOf } from '../../sessions/consequences.ts';
import { decideDelivery, type DeliveryInput } from '../../sessions/delivery-machine.ts';
import { reportedBeside } from '../../sessions/open-requests.ts';
import { isHeld } from '../../sessions/modes.ts';
import { decideSessionAll, inputsOfStatus } from '../../sessions/session-machine.ts';
import { addedUsage, updatedUsage } from '../../sessions/state.ts';
import { changeSession, hasProgram, type SessionStep } from './change-session.ts';

export interface DeliveryReceipt {
  readonly status: Exclude<DeliveryStatus, 'accepted'>;
  readonly availableAt?: number;
  readonly reason?: string;
  readonly retryable?: boolean;
  /** Of one that is delivered or consumed: concluded by Relay or a harness, not reported by the program. */
  readonly fidelity?: 'inferred';
  /** Whether its consumption can be observed; if not, `delivered` is the end. Default: true. */
  readonly isObservable?: boolean;
}

type ReportEngine = Pick<Engine, 'store' | 'clock' | 'settings' | 'redact' | 'digest'>;

/** A program that defers a message without a time is sent it again after this long. */
const retryAfterMs = 5_000;

/**
 * The delivery after a receipt of the session’s program. Throws `receipt_conflict` after a final receipt that
 * was another one.
 *
 * It depends only on the delivery, so that other changes of the session, however many, cannot delay it.
 */
export async function recordReceipt(
  engine: ReportEngine,
  { tenantId, sessionId }: SessionRef,
  deliveryId: string,
  receipt: DeliveryReceipt,
): Promise<MessageDelivery> {
  const { messages, sessions } = engine.store.tenant(tenantId);
  for (;;) {
    const delivery = await messages.readDelivery(deliveryId);
    if (delivery?.sessionId !== sessionId) throw new RelayError('not_found', 'No such delivery');
    const at = engine.clock.now();
    const input = inputOfReceipt(engine, receipt, at);
    const { isObservable = true } = receipt;
    const decision = decideDelivery({ ...delivery, isObservable }, input);
    if (decision.kind === 'refused') throw new RelayError('receipt_conflict', decision.reason);
    if (decision.kind === 'same') return delivery;
    const { events, change } = decision;
    const changes = [{ sessionId, at, events, deliveries: [change] }];
    const { kind } = await sessions.change({ changes });
    if (kind === 'committed') return (await messages.readDelivery(deliveryId)) ?? delivery;
    if (kind === 'gone') throw new RelayError('session_conflict', 'The session is released');
    // Another change of the same delivery came first.
  }
}

function inputOfReceipt(
  engine: ReportEngine,
  receipt: DeliveryReceipt,
  now: number,
): DeliveryInput {
  const { status, retryable, availableAt, fidelity } = receipt;
  const reason = withoutSecrets(engine, receipt.reason);
  switch (status) {
    case 'delivered':
      return { type: 'deliver', ...defined({ fidelity }) };
    case 'consumed':
      return { type: 'consume', ...defined({ fidelity }) };
    case 'deferred':
      return { type: 'defer', now, retryAfterMs, ...defined({ availableAt, reason }) };
    case 'failed':
      return { type: 'fail', reason: reason ?? 'failed', ...defined({ retryable }) };
  }
}

function requireProgram(session: SessionRecord): void {
  if (hasProgram(session)) return;
  throw new RelayError(
    'session_conflict',
    `Relay itself reports what a session of the harness ${session.harness} does`,
  );
}

/**
 * Stores them together, in their order; once, if they are reported again with the same idempotency key. What
 * they say was used since the last report counts in the budgets, in the same commit.
 * Throws `event_undeclared`, and `session_conflict` for an impossible status.
 */
export function reportEvents(
  engine: ReportEngine,
  ref: SessionRef,
  reported: readonly SessionEvent[],
  idempotencyKey?: string,
): Promise<SessionRecord> {
  const events = reported.map((event) => withoutSecrets(engine, event));
  const key = idempotencyKey === undefined ? undefined : keyOf(engine, ref, idempotencyKey, events);
  return changeSession(engine, ref, async ({ store, session, state, now }) => {
    if (key !== undefined && (await isHeldKey(store, key, now))) return undefined;
    requireProgram(session);
    const inputs: SessionStep['inputs'][] = [];
    let { usage, requests } = state;
    let added = { tokens: 0, costUsd: 0 };
    let next = state;
    for (const event of events) {
      requireCapability(session, { type: 'report-event', event });
      if (event.type !== 'status.changed') {
        if (event.type === 'usage.updated') {
          const before = usage;
          usage = updatedUsage(before, event);
          const { tokens, costUsd } = addedUsage(before, usage);
          added = { tokens: added.tokens + tokens, costUsd: added.costUsd + costUsd };
        }
        inputs.push([{ type: 'report', event }]);
        continue;
      }
      const { status, reason, fidelity } = event;
      if (status === 'offline' && session.harness === 'human') {
        throw new RelayError('session_conflict', 'A person’s session is never offline');
      }
      const beside =
        requests !== undefined && next.turn === 'waiting'
          ? reportedBeside(requests, status)
          : undefined;
      if (beside !== undefined) {
        requests = beside;
        continue;
      }
      const meant = inputsOfStatus(next, status).map((type) => ({
        type,
        ...defined({ reason, fidelity }),
      }));
      const sessionId = session.id;
      const decision = decideSessionAll(
        next,
        meant.map((input) => ({ ...input, sessionId })),
      );
      if (decision.kind === 'accepted') next = decision.state;
      inputs.push(meant);
    }
    const known = { usage, isSeen: true, ...defined({ requests }) };
    const step = { inputs: inputs.flatMap((each = []) => each), ...known };
    const hasUsed = added.tokens > 0 || added.costUsd > 0;
    const counted = hasUsed ? { keyId: session.keyId, at: now, ...added } : undefined;
    if (key === undefined && counted === undefined) return step;
    return { ...step, write: defined({ idempotency: key, usage: counted }) };
  });
}

function keyOf(
  { digest, clock }: ReportEngine,
  { sessionId }: SessionRef,
  key: string,
  events: readonly SessionEvent[],
): MessageKey {
  const fingerprint = digest(canonicalJson(events));
  // The keys of its messages and invocations are others.
  const sender = `${sessionId} reports`;
  return { sender, key, fingerprint, expiresAt: clock.now() + idempotencyMs };
}

/** Whether these events were stored with this key before. Throws `idempotency_mismatch` if others were. */
async function isHeldKey(store: TenantStore, key: MessageKey, now: number): Promise<boolean> {
  const holder = await store.messages.findKey(key, now);
  if (holder === undefined) return false;
  if (holder.fingerprint === key.fingerprint) return true;
  throw new RelayError(
    'idempotency_mismatch',
    'This idempotency key was used for other events; use a new key',
  );
}

/** What a program reports may contain a key (E8). */
export function withoutSecrets<Value>({ redact }: Pick<Engine, 'redact'>, value: Value): Value {
  if (redact === undefined || value === undefined) return value;
  return JSON.parse(redact(JSON.stringify(value))) as Value;
}

/** Marks the messages of the mode manual that wait for it. Throws `capability_missing`. */
export function flushSession(
  engine: Pick<Engine, 'store' | 'clock' | 'settings'>,
  ref: SessionRef,
): Promise<SessionRecord> {
  return changeSession(engine, ref, async (view) => {
    const { session, now } = view;
    requireCapability(session, { type: 'flush' });
    const held = (await inboxOf(view.store.messages, session.id)).filter(isHeld);
    return stepsOf(held, { type: 'defer', now, reason: 'flushed', isFlush: true });
  });
}
