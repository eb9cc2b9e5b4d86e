/**
 * The stream of a session: through it a program, a person or the harness in a node's process takes what is
 * sent to the session. For every reader, deliveries and invocations are handed over by these rules.
 */
import { deliveryModes, type RelayError } from '@relay/protocol';
import type { Engine } from '../../engine.ts';
import type {
  InboxEntry,
  InvocationRecord,
  SendableQuery,
  SessionRecord,
  SessionRef,
} from '../../ports/index.ts';
import { stepsOf } from '../../sessions/consequences.ts';
import { placementOf, safeStatesOf } from '../../sessions/modes.ts';
import type { SessionState } from '../../sessions/state.ts';
import { changeSession, offlineAfterMs } from './change-session.ts';
import { endInvocation, type InvocationEngine } from './end-invocation.ts';

type StreamEngine = Pick<Engine, 'store' | 'clock'>;

/** The program has opened a stream: it can be reached again. */
export function reachSession(
  engine: StreamEngine & Pick<Engine, 'settings'>,
  ref: SessionRef,
): Promise<SessionRecord> {
  return changeSession(engine, ref, ({ session, state }) =>
    session.releasedAt !== null || state.connection === 'reachable'
      ? undefined
      : { inputs: [{ type: 'reach' }] },
  );
}

const seenAgainAfterMs = 10_000;

/** A program without a stream that makes a request is there, and not offline. */
export async function noteSeen(
  engine: StreamEngine & Pick<Engine, 'settings'>,
  ref: SessionRef,
): Promise<void> {
  await changeSession(engine, ref, ({ session, state, now }) => {
    const isKnown = session.stream !== null || now - session.seenAt < seenAgainAfterMs;
    if (session.releasedAt !== null || isKnown) return undefined;
    return { inputs: state.connection === 'reachable' ? [] : [{ type: 'reach' }], isSeen: true };
  });
}

/** Also that of a node that died: as if it were closed now. */
export async function closeStream(
  { store, clock }: StreamEngine,
  { tenantId, sessionId }: SessionRef,
  streamId: string,
): Promise<void> {
  const at = clock.now();
  const closed = { id: streamId, at, dueBy: at + offlineAfterMs };
  await store.tenant(tenantId).sessions.closeStream(sessionId, closed);
}

/**
 * Before they are sent. False if the stream was replaced, the session has another status than that in which
 * they can be sent, or one of them has changed since it was read.
 */
export async function recordAttempts(
  { store, clock }: StreamEngine,
  { tenantId, id: sessionId, status: ifStatus }: SessionRecord,
  streamId: string,
  entries: readonly InboxEntry[],
): Promise<boolean> {
  const { deliveries } = stepsOf(entries, { type: 'send', streamId });
  if (deliveries.length < entries.length) return false;
  const at = clock.now();
  const change = { sessionId, at, ifStatus, ifStream: streamId, events: [], deliveries };
  const { kind } = await store.tenant(tenantId).sessions.change({ changes: [change] });
  return kind === 'committed';
}

/** Instead of sending them, until there is no such error any more. The journal names it once for each message. */
export async function recordDeferral(
  { store, clock }: StreamEngine,
  { tenantId, id: sessionId, status: ifStatus }: SessionRecord,
  streamId: string,
  entries: readonly InboxEntry[],
  { code, message: error }: RelayError,
): Promise<void> {
  const at = clock.now();
  const deferred = stepsOf(entries, { type: 'defer', now: at, reason: code });
  if (deferred.deliveries.length === 0) return;
  const { deliveries } = deferred;
  const events = [...deferred.events, { type: 'error', error, code } as const];
  const change = { sessionId, at, ifStatus, ifStream: streamId, events, deliveries };
  // If anything has changed meanwhile, they are read again.
  await store.tenant(tenantId).sessions.change({ changes: [change] });
}

/** Whether the program may have had it before. */
export function isRedelivered({ attempts, status }: InboxEntry): boolean {
  return attempts > 0 || status === 'delivered';
}

const openStatuses = ['accepted', 'deferred', 'delivered'] as const;

/** Which deliveries a program can be given in this state, and which of them only between two turns. */
export function sendableKinds(state: SessionState): SendableQuery['kinds'] {
  return deliveryModes
    .flatMap((mode) => openStatuses.map((status) => ({ mode, status })))
    .filter((kind) => canBeSent(kind, state))
    .map((kind) => ({ ...kind, startsTurn: !canBeSent(kind, { ...state, turn: 'active' }) }));
}

type Kind = Pick<SendableQuery['kinds'][number], 'mode' | 'status'>;

function canBeSent(kind: Kind, state: SessionState): boolean {
  const placement = placementOf(kind, {
    parts: state,
    safeStates: safeStatesOf(state),
    isToolRunning: false,
    isApprovalOpen: false,
  });
  switch (placement.kind) {
    case 'now':
      return true;
    case 'at':
      // Not before a person has answered.
      if (state.requests !== undefined) return false;
      // Only the program knows when these boundaries come. What it had before waits for none.
      return (
        kind.status === 'delivered' ||
        placement.boundary === 'model-call' ||
        placement.boundary === 'tool-results'
      );
    case 'deferred':
    case 'never':
      return false;
  }
}

/** Records that its program is sent these on this stream. Those that it may be sent: none, if another replaced it. */
export async function startInvocations(
  engine: StreamEngine,
  { tenantId, id: sessionId }: SessionRecord,
  { unsent, streamId }: { readonly unsent: readonly InvocationRecord[]; readonly streamId: string },
): Promise<InvocationRecord[]> {
  const { sessions } = engine.store.tenant(tenantId);
  const started: InvocationRecord[] = [];
  for (const invocation of unsent) {
    const { id } = invocation;
    const at = engine.clock.now();
    const change = { id, from: ['running'], to: 'running', at, startedAt: at } as const;
    const { kind } = await sessions.change({
      changes: [{ sessionId, at, ifStream: streamId, events: [] }],
      invocationChanges: [{ ...change, ifStartedAt: null }],
    });
    if (kind === 'committed') started.push(invocation);
  }
  return started;
}

/**
 * Which of the invocations that another stream has sent are sent again. One that is not idempotent is sent
 * once: if the program has attached again since, its outcome is unknown.
 */
export async function resendInvocations(
  engine: InvocationEngine,
  { tenantId, id: sessionId, state }: SessionRecord,
  sent: readonly InvocationRecord[],
): Promise<InvocationRecord[]> {
  const again = sent.filter(({ idempotent }) => idempotent);
  for (const { id, idempotent, startedAt } of sent) {
    if (idempotent || (startedAt ?? 0) >= (state.attachedAt ?? 0)) continue;
    await endInvocation(engine, tenantId, id, {
      code: 'outcome_unknown',
      error: `The program of the session ${sessionId} was restarted; it may have taken effect`,
    });
  }
  return again;
}
