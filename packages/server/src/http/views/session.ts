import { isStuck, safeStatesOf, type SessionRecord } from '@relay/core';
import { iso, isoOrUndefined } from './pagination.ts';

export function presentSession(session: SessionRecord, now: number) {
  const { id, harness, status, capabilities, conversationId, labels, owner, lastSeq } = session;
  const { handle, name, kind, queue } = session;
  const { state } = session;
  const situation = { parts: state, safeStates: safeStatesOf(state) };
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
export function presentSummary({ id, handle, name, kind, status }: SessionRecord) {
  return { id, identity: { handle, name, kind }, status };
}
