import { isStuck, defaultSafeStates, type MessageDelivery, type SessionRecord } from '@relay/core';
import { capabilityDetailsSchema, defined } from '@relay/protocol';
import { iso, isoOrUndefined } from './pagination.ts';

export function presentSession(session: SessionRecord, now: number) {
  const { id, harness, status, capabilities, conversationId, labels, owner, lastSeq } = session;
  const { handle, name, kind, queue } = session;
  const { state } = session;
  const situation = { parts: state, safeStates: defaultSafeStates };
  const { usage, since = session.createdAt } = state;
  return {
    id,
    identity: { handle, name, kind },
    harness,
    status,
    capabilities,
    conversationId,
    agent: session.agent ?? undefined,
    model: session.model ?? undefined,
    labels,
    workspace: session.workspace ?? undefined,
    activeRunId: session.activeRunId ?? undefined,
    parentSessionId: session.parentSessionId ?? undefined,
    usage,
    queue: { length: queue.length, oldestAt: isoOrUndefined(queue.oldestAt) },
    stuck: isStuck(situation, { oldestAt: queue.oldestUnheldAt, since, now }),
    lastSeq,
    owner,
    createdAt: iso(session.createdAt),
    lastActiveAt: iso(session.lastActiveAt),
    releasedAt: isoOrUndefined(session.releasedAt),
  };
}

/** What the token of another session shows. */
export function presentSummary({ id, handle, name, kind, harness, status }: SessionRecord) {
  return { id, identity: { handle, name, kind }, harness, status };
}

export function presentDelivery(delivery: MessageDelivery) {
  const { id, sessionId, handle, status, messageId, mode, attempts, reason } = delivery;
  const isFailed = status === 'failed';
  return {
    id,
    sessionId,
    handle,
    status,
    messageId,
    mode,
    attempts,
    error: isFailed ? errorOf(delivery) : undefined,
    reason: status === 'deferred' ? (reason ?? undefined) : undefined,
    availableAt: status === 'deferred' ? isoOrUndefined(delivery.availableAt) : undefined,
    acceptedAt: iso(delivery.at),
    deliveredAt: isoOrUndefined(delivery.deliveredAt),
    consumedAt: isoOrUndefined(delivery.consumedAt),
    failedAt: isFailed ? isoOrUndefined(delivery.finalAt) : undefined,
    fidelity: delivery.inferred ? ('inferred' as const) : undefined,
  };
}

function errorOf({ reason, retryable, error }: MessageDelivery) {
  const code = reason ?? 'failed';
  const { message = code, details } = (error ?? {}) as { message?: string; details?: unknown };
  const capability = capabilityDetailsSchema.safeParse(details);
  return { code, message, retryable, ...defined({ details: capability.data }) };
}
