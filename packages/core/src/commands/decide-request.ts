/**
 * The decision about a call that no run makes. What it means for the invocation is stored in its commit (E7):
 * an approved one runs, with the arguments as they were approved; a denied one is denied.
 */
import { defined, RelayError, type SessionEvent } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import type {
  ApprovalRecord,
  InvocationRecord,
  NewAuditEntry,
  Notice,
  RequestDecision,
  SessionWrite,
  TenantStore,
} from '../ports/index.ts';
import { actionOf, digestOfAction } from '../sessions/actions.ts';
import { withoutRequests } from '../sessions/open-requests.ts';
import { changeSession } from './sessions/change-session.ts';
import { isOfProgram } from './sessions/judge-call.ts';

export interface StoredWith {
  readonly decided: RequestDecision;
  readonly notices: readonly Notice[];
  readonly audit: readonly NewAuditEntry[];
}

/** False if the approval was decided or closed before, or has other votes. */
export async function decideRequest(
  engine: Engine,
  store: TenantStore,
  approval: ApprovalRecord,
  { decided, notices, audit }: StoredWith,
): Promise<boolean> {
  if (isOfProgram(approval))
    return decideOfProgram(engine, store, approval, { decided, notices, audit });
  const { invocationId, id } = approval;
  const invocation =
    invocationId === undefined ? undefined : await store.actions.readInvocation(invocationId);
  if (invocationId !== undefined && invocation?.status !== 'waiting') return false;
  const isApproved = decided.status === 'approved';
  if (invocation !== undefined && isApproved) {
    await requireSameAction(engine, store, approval, invocation);
  }
  /** Sessions that have ended: their journals take no more events. */
  const gone = new Set<string>();
  for (;;) {
    const write = invocation === undefined ? { changes: [] } : meaning(invocation, decided);
    const changes = write.changes.filter(({ sessionId }) => !gone.has(sessionId));
    const outcome = await store.sessions.change({
      ...write,
      changes,
      decision: decided,
      notices,
      audit,
    });
    if (outcome.kind === 'gone') gone.add(outcome.sessionId);
    else if (outcome.kind !== 'committed') return false;
    else break;
  }
  engine.onApproval?.(store.tenantId, { id, isNew: false });
  if (invocation === undefined) return true;
  const { id: decidedId } = invocation;
  if (!isApproved) engine.onInvocation?.(store.tenantId, { id: decidedId, status: 'denied' });
  engine.invocations?.changed(decidedId);
  if (isApproved) engine.invocations?.due(store.tenantId, decidedId);
  return true;
}

/** The session goes on, in the same commit. */
async function decideOfProgram(
  engine: Engine,
  { tenantId }: TenantStore,
  { id, sessionId = '' }: ApprovalRecord,
  { decided, notices, audit }: StoredWith,
): Promise<boolean> {
  const { ballot, at } = decided;
  let isStored = false;
  try {
    await changeSession(engine, { tenantId, sessionId }, async ({ store, state }) => {
      const now = await store.readApproval(id);
      const isOther = ballot !== undefined && now?.ballot !== ballot;
      isStored = now?.status === 'pending' && now.expiresAt > at && !isOther;
      if (!isStored) return undefined;
      return { ...withoutRequests(state, [id]), write: { decision: decided, notices, audit } };
    });
  } catch (error) {
    // Its approvals were closed before it was deleted.
    if (error instanceof RelayError && error.code === 'not_found') return false;
    throw error;
  }
  if (isStored) engine.onApproval?.(tenantId, { id, isNew: false });
  return isStored;
}

/** An approval is bound to what was shown: another action of this name was not approved. */
async function requireSameAction(
  engine: Engine,
  store: TenantStore,
  { tool, definitionDigest }: ApprovalRecord,
  invocation: InvocationRecord,
): Promise<void> {
  const action = await actionOf(engine.invocations?.own, store, invocation);
  if (action !== undefined && digestOfAction(engine, action) === definitionDigest) return;
  throw new RelayError(
    'tool_unavailable',
    `${tool} was removed or changed since the approval was requested; deny it`,
  );
}

function meaning(
  { id, action, by, sessionId, timeoutMs }: InvocationRecord,
  { status, at, edited, reason }: RequestDecision,
): SessionWrite {
  const change = { id, from: ['waiting'] as const, at };
  if (status === 'denied') {
    const message = reason ?? 'An approver has denied it';
    const event: SessionEvent = {
      type: 'action.denied',
      action,
      invocationId: id,
      reason: message,
    };
    const error = { code: 'action_denied', message };
    return {
      changes: by.type === 'session' ? [{ sessionId: by.id, at, events: [event] }] : [],
      invocationChanges: [{ ...change, to: 'denied', error }],
    };
  }
  // A node starts a function or a URL that is due; the program of a session is sent it.
  const dueAt = sessionId === null ? at : at + timeoutMs;
  const event: SessionEvent = { type: 'action.invoked', action, invocationId: id };
  const isOther = sessionId !== null && sessionId !== by.id;
  return {
    changes: sessionId === null ? [] : [{ sessionId, at, events: isOther ? [event] : [] }],
    invocationChanges: [
      { ...change, to: 'running', dueAt, ...defined({ editedInput: edited?.params }) },
    ],
  };
}
