/**
 * Invocations of actions, for all surfaces.
 *
 *   (waiting) ──▶ running ──▶ completed | failed
 *       └─────────────────────▶ denied
 *
 * - The intent is stored before the handler starts (E2), with the events of the caller's and the exposing
 *   session, and ends once, by compare-and-set.
 * - A handler that is not idempotent is started once. If a crash hides what it did, the invocation is
 *   `failed`, code `outcome_unknown`; an idempotent one is started again, with the same key.
 */
import {
  canonicalJson,
  type Decider,
  defined,
  type ErrorCode,
  personOf,
  RelayError,
  type Sender,
  type SessionEvent,
} from '@relay/protocol';
import type { Engine } from '../../engine.ts';
import { auditOfExpiry, auditRecordsOf } from '../../governance/audit.ts';
import { noticeOfExpiry } from '../../governance/notifications.ts';
import { keyIdOf } from '../../permission/approvers.ts';
import type { Verdict } from '../../permission/decide.ts';
import { actionPrefix } from '../../permission/tool-name.ts';
import type {
  AuditEntry,
  InvocationError,
  InvocationRecord,
  NewApproval,
  NewInvocation,
  SessionChange,
  SessionRecord,
  SessionWrite,
  TenantStore,
} from '../../ports/index.ts';
import { expiryReason } from '../../run/state/call.ts';
import {
  type Action,
  actionOf,
  checkInput,
  defaultActionTimeoutMs,
  findAction,
  isAvailableTo,
  problemWithOutput,
  toolOfAction,
} from '../../sessions/actions.ts';
import { requireCapability } from '../../sessions/capabilities.ts';
import {
  approvalFor,
  closureOf,
  decidePermission,
  reasonOf,
  type RequestedCall,
  warningOf,
} from '../request-permission.ts';

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

export type InvocationEngine = Pick<
  Engine,
  | 'store'
  | 'clock'
  | 'ids'
  | 'digest'
  | 'settings'
  | 'audit'
  | 'redact'
  | 'invocations'
  | 'onInvocation'
  | 'onApproval'
>;

const idempotencyMs = 24 * 60 * 60 * 1000;
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
        ? approvalFor(engine, { ...call, invocationId: made.id }, verdict.rule)
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
        changes: changesOf([session?.id, asked === undefined ? action.sessionId : null], at, event),
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
    changes: changesOf([session?.id], at, event),
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

/** One event for each of these sessions. */
function changesOf(
  sessionIds: readonly (string | null | undefined)[],
  at: number,
  event: SessionEvent,
): SessionChange[] {
  const ids = new Set(sessionIds.filter((id) => id !== null && id !== undefined));
  return Array.from(ids, (sessionId) => ({ sessionId, at, events: [event] }));
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

/** Throws `not_found`. */
export async function readInvocation(store: TenantStore, id: string): Promise<InvocationRecord> {
  const invocation = await store.actions.readInvocation(id);
  if (invocation === undefined) throw new RelayError('not_found', 'No such invocation');
  return invocation;
}

/** What a handler has returned, or why there is nothing. */
export type InvocationResult =
  | { readonly output: unknown }
  | { readonly error: string; readonly code?: ErrorCode; readonly retryable?: boolean | undefined };

/** Of an output in characters, as of a request. */
const maxOutputChars = 1024 * 1024;

/** Ends an invocation that runs, unless it has ended. The invocation after it. */
export async function endInvocation(
  engine: InvocationEngine,
  tenantId: string,
  invocationId: string,
  result: InvocationResult,
): Promise<InvocationRecord> {
  const store = engine.store.tenant(tenantId);
  /** Sessions that have ended: their journals take no more events. */
  const gone = new Set<string>();
  for (;;) {
    const invocation = await readInvocation(store, invocationId);
    if (invocation.status !== 'running') return invocation;
    const action = await actionOf(engine.invocations?.own, store, invocation);
    const ending = endingOf(engine, action, result);
    const { id, action: name, by, sessionId } = invocation;
    const at = engine.clock.now();
    const error = 'error' in ending ? ending.error : undefined;
    const named = { action: name, invocationId: id };
    const event: SessionEvent =
      error === undefined
        ? { type: 'action.completed', ...named, durationMs: at - invocation.at }
        : {
            type: 'action.failed',
            ...named,
            error: error.message,
            ...defined({ retryable: error.retryable }),
          };
    const to = error === undefined ? 'completed' : 'failed';
    const ids = [by.type === 'session' ? by.id : null, sessionId];
    const outcome = await store.sessions.change({
      changes: changesOf(ids, at, event).filter((change) => !gone.has(change.sessionId)),
      invocationChanges: [{ id, from: ['running'], to, at, ...ending }],
    });
    if (outcome.kind === 'gone') gone.add(outcome.sessionId);
    if (outcome.kind !== 'committed') continue;
    const ended = await readInvocation(store, invocationId);
    engine.onInvocation?.(tenantId, ended);
    engine.invocations?.changed(invocationId);
    return ended;
  }
}

type Ending = { readonly output: unknown } | { readonly error: InvocationError };

/** An output that does not match its schema is an error. Nothing that is stored contains a key (E8). */
function endingOf(
  { redact = (text) => text }: InvocationEngine,
  action: Action | undefined,
  result: InvocationResult,
): Ending {
  if ('error' in result) {
    const { error, code = 'action_failed', retryable } = result;
    return { error: { code, message: redact(error), ...defined({ retryable }) } };
  }
  const invalid = (message: string): Ending => ({ error: { code: 'output_invalid', message } });
  const text = JSON.stringify(result.output ?? null);
  if (text.length > maxOutputChars) return invalid(`The output is larger than ${maxOutputChars}`);
  const output = JSON.parse(redact(text)) as unknown;
  const problem = problemWithOutput(action, output);
  return problem === undefined ? { output } : invalid(problem);
}

/**
 * The result that the program of the exposing session reports. The same result again changes nothing.
 * Throws `receipt_conflict` if the invocation has ended otherwise, and `not_found` if it is another's.
 */
export async function recordResult(
  engine: InvocationEngine,
  { tenantId, sessionId }: { readonly tenantId: string; readonly sessionId: string },
  invocationId: string,
  result: InvocationResult,
): Promise<InvocationRecord> {
  const store = engine.store.tenant(tenantId);
  const before = await readInvocation(store, invocationId);
  if (before.sessionId !== sessionId) throw new RelayError('not_found', 'No such invocation');
  if (before.status === 'waiting') {
    throw new RelayError('receipt_conflict', 'The invocation is not running');
  }
  const after = await endInvocation(engine, tenantId, invocationId, result);
  const action = await actionOf(engine.invocations?.own, store, after);
  const ending = endingOf(engine, action, result);
  const stored = after.error === null ? { output: after.output } : { error: after.error };
  if (canonicalJson(stored) === canonicalJson(ending)) return after;
  throw new RelayError(
    'receipt_conflict',
    `The invocation has ended before, as ${after.status}${after.error === null ? '' : `: ${after.error.code}`}`,
  );
}

/** Records that its program is sent these on this stream. Those that it may be sent: none, if another replaced it. */
export async function startInvocations(
  engine: InvocationEngine,
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

/**
 * An invocation that waits for its approval is due: to warn of the expiry, because the approval has expired,
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
    const { kind } = await store.sessions.change({ ...write, changes: changesOf(ids, at, event) });
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
