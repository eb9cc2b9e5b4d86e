/**
 * Permission for calls that no run makes: invocations of actions, and calls of the programs of sessions.
 *
 * Rules answer first: those of the session, the tenant's policies, and grants. Only what they leave open is
 * an approval, which is decided like that of a run (`record-decision.ts`) and closes with what it is for.
 */
import { type Decider, defined, displayOf, type Permissions, RelayError } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import { noticeOfRequest } from '../governance/notifications.ts';
import { findApprover } from '../permission/approvers.ts';
import { decideInTurn, declaredBy, type Verdict } from '../permission/decide.ts';
import { policiesOf } from '../permission/policy.ts';
import type {
  ApprovalClosure,
  ApprovalRecord,
  NewApproval,
  Notice,
  PermissionAnswer,
  SessionRecord,
  SessionRef,
  TenantStore,
  Tool,
} from '../ports/index.ts';
import { digestOfCall, isObject } from '../run/arguments.ts';
import { warningTime } from '../run/waiting/approvals.ts';
import { Signal } from '../runtime/signal.ts';
import { noSuchSession, sessionReleased } from './sessions/change-session.ts';

/** A call that needs permission, and whose it is. */
export interface RequestedCall {
  /** As rules name it. */
  readonly tool: string;
  readonly input: unknown;
  readonly session?: SessionRecord | undefined;
  readonly invocationId?: string;
  /** The key that it is made with; a session's calls are made with its key. */
  readonly keyId: string | null;
  readonly owner: string;
  /** What is known of the tool. */
  readonly declared?:
    | Pick<Tool, 'needsApproval' | 'kinds' | 'sensitive' | 'definitionDigest' | 'allowedByDefault'>
    | undefined;
}

type PermissionEngine = Pick<
  Engine,
  'store' | 'clock' | 'ids' | 'digest' | 'settings' | 'onApproval'
>;

/** The rules of a session count as if its owner had started a run with them. */
export function permissionsOf(session: SessionRecord | undefined): Permissions {
  return session?.permissions ?? {};
}

function pathOf(session: SessionRecord | undefined): string[] {
  return session?.agent === undefined || session.agent === null ? [] : [session.agent];
}

/** How the rules decide a call. What may be used once is for runs, which know what they have used. */
export async function decidePermission(
  engine: PermissionEngine,
  store: TenantStore,
  { tool: name, input, session, keyId, owner, declared }: RequestedCall,
): Promise<Verdict> {
  const now = engine.clock.now();
  const path = pathOf(session);
  const [grants, records] = await Promise.all([
    store.readGrants({
      sessionId: session?.id,
      conversationId: session?.conversationId,
      owner,
      now,
    }),
    store.policies.inForce(...path),
  ]);
  const policies = policiesOf(records, ...path);
  const requester = policies.some(({ approvers }) => approvers.length > 0)
    ? await findApprover(store, keyId, now)
    : undefined;
  const { allowOnce: _, ...permissions } = permissionsOf(session);
  return decideInTurn(
    { toolCallId: '', name, arguments: isObject(input) ? input : {} },
    {
      permissions,
      usedOnce: [],
      grants,
      policies,
      requester,
      builtinAllow: declared?.allowedByDefault ?? false,
      ...declaredBy(declared),
    },
  );
}

export function reasonOf({ rule, reason }: Extract<Verdict, { decision: 'deny' }>): string {
  const owner = rule.source === 'policy' ? 'policy' : 'session';
  return reason ?? `Rule ${rule.list}[${rule.index}] of the ${owner} denies it`;
}

/** A new approval of a call, and the notice of webhooks. */
export function approvalFor(
  engine: PermissionEngine,
  call: RequestedCall,
  rule?: NewApproval['rule'],
): { readonly approval: NewApproval; readonly notice: Notice } {
  const { tool, input, session, invocationId, keyId, declared } = call;
  const requestedAt = engine.clock.now();
  const approval: NewApproval = {
    id: engine.ids.next(),
    kind: 'permission',
    agentPath: pathOf(session),
    tool,
    params: input,
    digest: digestOfCall(engine, { name: tool, input }),
    requestedAt,
    expiresAt: requestedAt + engine.settings.approvalTtlMs,
    ...defined({
      sessionId: session?.id,
      conversationId: session?.conversationId,
      invocationId,
      keyId: keyId ?? undefined,
      definitionDigest: declared?.definitionDigest,
      rule,
    }),
  };
  const { flags } = displayOf(approval);
  return { approval, notice: noticeOfRequest(approval, flags) };
}

/** When its owner must look at an approval without an answer: first for the warning, then for the expiry. */
export function warningOf({ requestedAt, expiresAt }: NewApproval): number {
  return warningTime(requestedAt, expiresAt - requestedAt);
}

export type PermissionOutcome =
  | { readonly kind: 'allowed' }
  | { readonly kind: 'denied'; readonly reason: string }
  /** A person decides; see `store.readApproval`. */
  | { readonly kind: 'asked'; readonly approval: ApprovalRecord };

const maxAttempts = 100;

/**
 * Permission for a call of a session's program. Throws `not_found` and `session_conflict`. An approval that
 * is not decided when the turn ends is closed by `closeRequests`; those of a released session are closed.
 */
export async function requestPermission(
  engine: PermissionEngine,
  { tenantId, sessionId }: SessionRef,
  call: Pick<RequestedCall, 'tool' | 'input' | 'declared'>,
): Promise<PermissionOutcome> {
  const store = engine.store.tenant(tenantId);
  for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
    const session = await store.sessions.read(sessionId);
    if (session === undefined) throw noSuchSession();
    if (session.releasedAt !== null) {
      throw sessionReleased(session);
    }
    const { keyId, owner } = session;
    const requested = { ...call, session, keyId, owner };
    const verdict = await decidePermission(engine, store, requested);
    const at = engine.clock.now();
    if (verdict.decision === 'deny') return { kind: 'denied', reason: reasonOf(verdict) };
    if (verdict.decision === 'allow') {
      const { counted, id } = verdict.rule;
      if (counted !== true || id === undefined) return { kind: 'allowed' };
      // Used up before the call starts, like that of a run (E7).
      const used = { changes: [{ sessionId, at, events: [] }], useGrants: [id] };
      const { kind } = await store.sessions.change(used);
      if (kind === 'committed') return { kind: 'allowed' };
      continue;
    }
    const { approval, notice } = approvalFor(engine, requested, verdict.rule);
    const { kind } = await store.sessions.change({
      changes: [{ sessionId, at, events: [] }],
      approvals: [approval],
      notices: [notice],
    });
    if (kind !== 'committed') continue;
    engine.onApproval?.(tenantId, { id: approval.id, isNew: true });
    const stored = await store.readApproval(approval.id);
    if (stored !== undefined) return { kind: 'asked', approval: stored };
  }
  throw new RelayError('storage_failed', 'The session changes too often; try again');
}

const pollMs = 1_000;

/**
 * The same, with the answer of a person. An approval that has expired, or whose signal is aborted, is closed
 * and denied. It never outlives the process that waits: what is left open is closed by `closeRequests`.
 */
export async function askPermission(
  engine: PermissionEngine,
  ref: SessionRef,
  call: Pick<RequestedCall, 'tool' | 'input'>,
  signal: AbortSignal,
): Promise<PermissionAnswer> {
  const outcome = await requestPermission(engine, ref, call);
  if (outcome.kind === 'allowed') return { allowed: true, input: call.input };
  if (outcome.kind === 'denied') return { allowed: false, reason: outcome.reason };
  const { tenantId, sessionId } = ref;
  const { id, expiresAt } = outcome.approval;
  const { clock } = engine;
  const store = engine.store.tenant(tenantId);
  const changed = new Signal();
  const stop = engine.store.listen((hint) => {
    if (hint.kind === 'all' || (hint.kind === 'approval' && hint.approvalId === id)) {
      changed.notify();
    }
  });
  try {
    for (;;) {
      const approval = await store.readApproval(id);
      if (approval === undefined) return { allowed: false, reason: 'The request was deleted' };
      if (approval.status !== 'pending') return answerOf(approval);
      const at = clock.now();
      if (!signal.aborted && at < expiresAt) {
        await changed.waitFor({ clock, ms: Math.min(pollMs, expiresAt - at), signal });
        continue;
      }
      const closure: ApprovalClosure = signal.aborted
        ? closureOf(id, at, 'The request was aborted')
        : { ...closureOf(id, at, 'No approver decided in time'), status: 'expired' };
      const changes = [{ sessionId, at, events: [] }];
      const { kind } = await store.sessions.change({ changes, closures: [closure] });
      if (kind === 'committed') engine.onApproval?.(tenantId, { id, isNew: false });
      if (kind === 'gone') return { allowed: false, reason: 'The session has ended' };
    }
  } finally {
    stop();
  }
}

function answerOf({ status, params, edited, reason }: ApprovalRecord): PermissionAnswer {
  if (status === 'approved') return { allowed: true, input: edited?.params ?? params };
  return { allowed: false, reason: reason ?? `The request is ${status}` };
}

const relay: Decider = { type: 'system', id: 'relay', name: 'relay' };

export function closureOf(approvalId: string, at: number, reason: string): ApprovalClosure {
  return { approvalId, status: 'closed', at, by: relay, reason };
}

/** The turn of a session's program has ended: what it asked for is no longer open. */
export async function closeRequests(
  engine: PermissionEngine,
  { tenantId, sessionId }: SessionRef,
  reason = 'The turn has ended',
): Promise<void> {
  const store = engine.store.tenant(tenantId);
  const filter = { sessionId, status: 'pending' } as const;
  const open = (await store.listApprovals(filter, { limit: 1_000 })).filter(
    ({ runId, invocationId }) => runId === undefined && invocationId === undefined,
  );
  if (open.length === 0) return;
  const at = engine.clock.now();
  await store.sessions.change({
    changes: [{ sessionId, at, events: [] }],
    closures: open.map(({ id }) => closureOf(id, at, reason)),
  });
  for (const { id } of open) engine.onApproval?.(tenantId, { id, isNew: false });
}
