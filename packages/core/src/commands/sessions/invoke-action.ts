/**
 * Requests to invoke an action, for all surfaces: who has the action, whether the input fits, what the rules
 * say. The states of an invocation: `end-invocation.ts`.
 */
import {
  canonicalJson,
  type Decider,
  defined,
  personOf,
  RelayError,
  type Sender,
} from '@relay/protocol';
import { auditRecordsOf } from '../../governance/audit.ts';
import { keyIdOf } from '../../permission/approvers.ts';
import type { Verdict } from '../../permission/decide.ts';
import { actionPrefix } from '../../permission/tool-name.ts';
import {
  idempotencyMs,
  type AuditEntry,
  type InvocationRecord,
  type NewApproval,
  type NewInvocation,
  type SessionRecord,
  type TenantStore,
} from '../../ports/index.ts';
import {
  type Action,
  checkInput,
  defaultActionTimeoutMs,
  findAction,
  isAvailableTo,
  toolOfAction,
} from '../../sessions/actions.ts';
import { requireCapability } from '../../sessions/capabilities.ts';
import {
  approvalFor,
  decidePermission,
  reasonOf,
  type RequestedCall,
  warningOf,
} from '../request-permission.ts';
import { eventFor, type InvocationEngine, readInvocation } from './end-invocation.ts';

export interface ActionCaller {
  readonly tenantId: string;
  readonly from: Sender;
  /** The actor of the audit entry. */
  readonly by: Decider;
}

export interface ActionRequest {
  readonly action: string;
  /** Any JSON. */
  readonly input: unknown;
  readonly idempotencyKey?: string | undefined;
}

export interface Invoked {
  readonly invocation: InvocationRecord;
  /** An earlier request with the same idempotency key has made it. */
  readonly replayed: boolean;
}

const maxAttempts = 100;

/**
 * Starts an invocation. Throws `tenant_paused`, `not_found`, `capability_missing` for a session that may not
 * invoke, and `invalid_request` for an input that does not match the schema: nothing is stored then. Throws
 * `action_denied` after a denial is stored.
 */
export async function invokeAction(
  engine: InvocationEngine,
  caller: ActionCaller,
  request: ActionRequest,
): Promise<Invoked> {
  const store = engine.store.tenant(caller.tenantId);
  const idempotency = keyOf(engine, caller, request);
  if (idempotency !== undefined) {
    const holder = await store.messages.findKey(idempotency, engine.clock.now());
    if (holder !== undefined) return replayed(store, holder, idempotency.fingerprint);
  }
  if (engine.invocations?.isPaused(caller.tenantId) === true) {
    throw new RelayError('tenant_paused', 'The tenant is paused: no action can be invoked');
  }
  for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
    const { action, session, verdict, call } = await permitted(engine, store, caller, request);
    const made = newInvocation(engine, action, { caller, input: request.input });
    const asked =
      verdict.decision === 'ask'
        ? approvalFor(engine, { ...call, invocationId: made.id }, defined({ rule: verdict.rule }))
        : undefined;
    const invocation =
      asked === undefined
        ? startingNow(engine, caller.tenantId, made)
        : waitingFor(asked.approval, made);
    const event = {
      type: 'action.invoked',
      action: action.name,
      invocationId: invocation.id,
    } as const;
    const { id, at } = invocation;
    try {
      const outcome = await store.sessions.change({
        // The session that carries it out learns of it when it is approved.
        changes: eventFor([session?.id, asked === undefined ? action.sessionId : null], at, event),
        invocations: [invocation],
        ...(asked === undefined ? {} : { approvals: [asked.approval], notices: [asked.notice] }),
        useGrants: usedGrants(verdict),
        audit: auditRecordsOf(engine, caller.tenantId, [entryOf(invocation, caller.by, 'invoked')]),
        ...defined({ idempotency }),
      });
      if (outcome.kind === 'exists') return replayed(store, outcome, idempotency?.fingerprint);
      if (outcome.kind === 'committed') {
        const stored = await readInvocation(store, id);
        engine.onInvocation?.(caller.tenantId, stored);
        if (asked !== undefined) {
          engine.onApproval?.(caller.tenantId, { id: asked.approval.id, isNew: true });
        }
        engine.invocations?.start(caller.tenantId, stored, action);
        return { invocation: stored, replayed: false };
      }
    } finally {
      engine.invocations?.release(caller.tenantId, id);
    }
    // A session has ended meanwhile, and the action with it, or a grant is used up.
  }
  throw new RelayError('storage_failed', 'The sessions change too often; try again');
}

interface Permitted {
  readonly action: Action;
  /** That of the caller. */
  readonly session: SessionRecord | undefined;
  readonly call: RequestedCall;
  readonly verdict: Exclude<Verdict, { decision: 'deny' }>;
}

/** The handler starts as soon as the invocation is stored, if this node has a place for it; else in its turn. */
function startingNow(
  { settings, invocations }: InvocationEngine,
  tenantId: string,
  invocation: NewInvocation,
): NewInvocation {
  const { id, sessionId, at } = invocation;
  if (sessionId !== null || invocations?.reserve(tenantId, id) !== true) return invocation;
  return { ...invocation, startedAt: at, dueAt: at + settings.leaseTtlMs };
}

/** It may be decided, or expire; nothing has started. */
function waitingFor(approval: NewApproval, invocation: NewInvocation): NewInvocation {
  return {
    ...invocation,
    status: 'waiting',
    approvalId: approval.id,
    dueAt: warningOf(approval),
  };
}

/** A counted grant is used in the commit of the intent that it allows (E7). */
function usedGrants({ rule }: Verdict): string[] {
  return rule?.counted === true && rule.id !== undefined ? [rule.id] : [];
}

async function permitted(
  engine: InvocationEngine,
  store: TenantStore,
  caller: ActionCaller,
  { action: name, input }: ActionRequest,
): Promise<Permitted> {
  const action = await findAction(engine.invocations?.own, store, name);
  if (action === undefined) throw new RelayError('not_found', 'No such action');
  const { from } = caller;
  const session = from.type === 'session' ? await callingSession(store, from.id) : undefined;
  if (!isAvailableTo(action, session)) {
    const reason = `The action ${name} is not available to ${describe(session)}`;
    throw await denied(engine, store, { caller, action, input, session, reason });
  }
  if (action.sessionId !== null) await requireReachable(store, action.sessionId, name);
  checkInput(action, input);
  const call = {
    tool: `${actionPrefix}${name}`,
    input,
    session,
    keyId: session === undefined ? keyIdOf(caller.by) : session.keyId,
    owner: session?.owner ?? personOf(caller.by),
    declared: toolOfAction(engine, action),
  };
  const verdict = await decidePermission(engine, store, call);
  if (verdict.decision === 'deny') {
    const reason = reasonOf(verdict);
    throw await denied(engine, store, { caller, action, input, session, reason });
  }
  return { action, session, call, verdict };
}

function describe(session: SessionRecord | undefined): string {
  return session === undefined ? 'API keys' : `@${session.handle}`;
}

/** Throws if the session may not invoke actions. */
async function callingSession(store: TenantStore, sessionId: string): Promise<SessionRecord> {
  const session = await store.sessions.read(sessionId);
  if (session === undefined || session.releasedAt !== null) {
    throw new RelayError('session_conflict', 'The session has ended and invokes no actions');
  }
  requireCapability(session, { type: 'invoke-action' });
  return session;
}

async function requireReachable(store: TenantStore, sessionId: string, name: string) {
  const session = await store.sessions.read(sessionId);
  const { lifecycle } = session?.state ?? {};
  if (lifecycle === undefined || lifecycle === 'released') {
    throw new RelayError('not_found', 'No such action');
  }
  if (lifecycle === 'releasing' || lifecycle === 'failed') {
    throw new RelayError('session_conflict', `The session of the action ${name} is ${lifecycle}`);
  }
}

/** Stores the denial, and returns the error that reports it. */
async function denied(
  engine: InvocationEngine,
  store: TenantStore,
  {
    caller,
    action,
    input,
    session,
    reason,
  }: {
    readonly caller: ActionCaller;
    readonly action: Action;
    readonly input: unknown;
    readonly session: SessionRecord | undefined;
    readonly reason: string;
  },
): Promise<RelayError> {
  const invocation: NewInvocation = {
    ...newInvocation(engine, action, { caller, input }),
    status: 'denied',
    error: { code: 'action_denied', message: reason },
  };
  const { id: invocationId, at } = invocation;
  const event = { type: 'action.denied', action: action.name, invocationId, reason } as const;
  await store.sessions.change({
    changes: eventFor([session?.id], at, event),
    invocations: [invocation],
    audit: auditRecordsOf(engine, caller.tenantId, [
      entryOf(invocation, caller.by, 'denied', reason),
    ]),
  });
  engine.onInvocation?.(caller.tenantId, invocation);
  return new RelayError('action_denied', reason);
}

function newInvocation(
  { ids, clock }: InvocationEngine,
  action: Action,
  { caller, input }: { readonly caller: ActionCaller; readonly input: unknown },
): NewInvocation {
  const at = clock.now();
  const timeoutMs = action.timeoutMs ?? defaultActionTimeoutMs;
  const { sessionId } = action;
  return {
    id: ids.next(),
    action: action.name,
    by: caller.from,
    input,
    status: 'running',
    sessionId,
    at,
    idempotent: action.idempotent,
    timeoutMs,
    startedAt: null,
    dueAt: sessionId === null ? at : at + timeoutMs,
  };
}

function entryOf(
  { id, action, sessionId, at }: Pick<NewInvocation, 'id' | 'action' | 'sessionId' | 'at'>,
  who: Decider,
  what: 'invoked' | 'denied',
  why: string | null = null,
): AuditEntry {
  const facts = { invocationId: id, action, ...defined({ sessionId: sessionId ?? undefined }) };
  return { at, who, action: `action.${what}`, what: facts, why };
}

function keyOf(
  { digest, clock }: InvocationEngine,
  { from }: ActionCaller,
  { idempotencyKey: key, action, input }: ActionRequest,
) {
  if (key === undefined) return undefined;
  const fingerprint = digest(canonicalJson({ action, input }));
  // The keys of messages are others.
  const sender = `${from.id} invokes`;
  return { sender, key, fingerprint, expiresAt: clock.now() + idempotencyMs };
}

async function replayed(
  store: TenantStore,
  holder: { readonly holderId: string; readonly fingerprint: string },
  fingerprint: string | undefined,
): Promise<Invoked> {
  if (holder.fingerprint !== fingerprint) {
    throw new RelayError(
      'idempotency_mismatch',
      'This idempotency key was used for another invocation; use a new key',
    );
  }
  return { invocation: await readInvocation(store, holder.holderId), replayed: true };
}
