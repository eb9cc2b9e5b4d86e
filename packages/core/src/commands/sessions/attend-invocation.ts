/** Invocations that wait for their approval, when they are due. */
import type { ErrorCode, SessionEvent } from '@relay/protocol';
import { auditOfExpiry, auditRecordsOf } from '../../governance/audit.ts';
import { noticeOfExpiry } from '../../governance/notifications.ts';
import type { InvocationRecord, SessionWrite } from '../../ports/index.ts';
import { expiryReason } from '../../run/state/call.ts';
import { closureOf } from './change-session.ts';
import { eventFor, type InvocationEngine, readInvocation } from './end-invocation.ts';

/**
 * It is due: to warn of the expiry, because the approval has expired,
 * or because a session has ended.
 */
export async function attendWaiting(
  engine: InvocationEngine,
  tenantId: string,
  invocation: InvocationRecord,
): Promise<void> {
  const store = engine.store.tenant(tenantId);
  const { id, approvalId, sessionId, dueAt, by, action } = invocation;
  const approval = approvalId === null ? undefined : await store.readApproval(approvalId);
  const at = engine.clock.now();
  const change = { id, from: ['waiting'], at, ifDueAt: dueAt } as const;
  const failed = async (code: ErrorCode, message: string) => {
    const event = { type: 'action.failed', action, invocationId: id, error: message } as const;
    await end(event, {
      invocationChanges: [{ ...change, to: 'failed', error: { code, message } }],
      closures: approvalId === null ? [] : [closureOf(approvalId, at, message)],
    });
  };
  const end = async (event: SessionEvent, write: Omit<SessionWrite, 'changes'>) => {
    const ids = by.type === 'session' ? [by.id] : [];
    const { kind } = await store.sessions.change({ ...write, changes: eventFor(ids, at, event) });
    // The caller has ended: there is no journal to tell.
    const outcome =
      kind === 'gone' ? await store.sessions.change({ ...write, changes: [] }) : { kind };
    if (outcome.kind !== 'committed') return;
    const ended = await readInvocation(store, id);
    engine.onInvocation?.(tenantId, ended);
    if (approvalId !== null) engine.onApproval?.(tenantId, { id: approvalId, isNew: false });
    engine.invocations?.changed(id);
  };
  const exposing = sessionId === null ? undefined : await store.sessions.read(sessionId);
  if (sessionId !== null && (exposing === undefined || exposing.releasedAt !== null)) {
    return failed('action_gone', 'The session of the action has ended');
  }
  if (approval?.status !== 'pending') {
    return failed('session_conflict', 'The session that invoked it has ended');
  }
  const expiresAt = approval.expiresAt + engine.settings.lateAnswerMs;
  if (at < expiresAt) {
    // Announced once: afterwards it is due when the approval expires.
    await store.sessions.change({
      changes: [],
      invocationChanges: [{ ...change, to: 'waiting', dueAt: expiresAt }],
      notices: [noticeOfExpiry('approval.expiring', approval, at)],
    });
    engine.onApproval?.(tenantId, { id: approval.id, isNew: false });
    return;
  }
  const error = { code: 'action_denied', message: expiryReason };
  await end(
    { type: 'action.denied', action, invocationId: id, reason: expiryReason },
    {
      invocationChanges: [{ ...change, to: 'denied', error }],
      closures: [
        {
          approvalId: approval.id,
          status: 'expired',
          at,
          by: { type: 'timeout', id: 'expiry', name: 'expiry' },
          reason: expiryReason,
        },
      ],
      notices: [noticeOfExpiry('approval.expired', approval, at)],
      audit: auditRecordsOf(engine, tenantId, [auditOfExpiry(approval, at)]),
    },
  );
}
