/**
 * What the program of a session asks for: permission for a call, or an answer to a question.
 *
 *  - Rules answer first. Commands, files and URLs are judged like those of the workspace tools
 *    (agent-tools.ts).
 *  - Otherwise a person is asked. The session is `waiting` from the commit of the approval to that of its
 *    decision (open-requests.ts).
 *  - An approval is for what was shown. If its paths lead elsewhere when it is approved, it is asked for again.
 *  - It never outlives what waits for it. It is closed, and never denied, when the request is aborted, the turn
 *    ends, the session is lost or released, or its node starts again.
 */
import { defined, RelayError } from '@relay/protocol';
import type { Engine } from '../../engine.ts';
import { auditOfExpiry, auditOfSessionCall, auditRecordsOf } from '../../governance/audit.ts';
import { noticeOfExpiry } from '../../governance/notifications.ts';
import { noApprover } from '../../permission/decide.ts';
import type {
  ApprovalClosure,
  ApprovalRecord,
  EditedCall,
  HarnessQuestion,
  PermissionAnswer,
  PermissionRequest,
  QuestionAnswer,
  SessionRecord,
  SessionRef,
} from '../../ports/index.ts';
import { expiryReason } from '../../run/state/call.ts';
import { checkQuestion } from '../../run/waiting/questions.ts';
import { withAbsolutePaths } from '../../sessions/agent-tools.ts';
import { withoutRequests, withRequest } from '../../sessions/open-requests.ts';
import {
  approvalFor,
  decidePermission,
  permissionsOf,
  reasonOf,
  type RequestedCall,
  type ShownCall,
  warningOf,
} from '../request-permission.ts';
import { waitUntil } from '../wait-until.ts';
import { changeSession, closureOf, noSuchSession, sessionReleased } from './change-session.ts';
import { judgeCall, shownOf } from './judge-call.ts';
import { withoutSecrets } from './record-receipt.ts';

type RequestEngine = Pick<
  Engine,
  | 'store'
  | 'clock'
  | 'ids'
  | 'digest'
  | 'settings'
  | 'tools'
  | 'workspace'
  | 'redact'
  | 'audit'
  | 'onApproval'
>;

export type PermissionOutcome =
  | { readonly kind: 'allowed' }
  | { readonly kind: 'denied'; readonly reason: string }
  /** A person decides; see `store.readApproval`. */
  | { readonly kind: 'asked'; readonly approval: ApprovalRecord };

const maxAttempts = 100;

/** Throws `not_found` and `session_conflict`. */
export async function requestPermission(
  engine: RequestEngine,
  ref: SessionRef,
  request: Omit<PermissionRequest, 'signal'>,
): Promise<PermissionOutcome> {
  const { sessionId } = ref;
  const store = engine.store.tenant(ref.tenantId);
  for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
    const session = await readOpen(engine, ref);
    const judged = await judgeCall(engine, session, request);
    const { name: tool, input, resolution } = judged;
    const isConcrete = judged.isConcrete && request.isConcrete !== false;
    const declared = isConcrete ? judged.tool : { ...judged.tool, needsApproval: true };
    const call = { ...callOf(session), tool, input, declared, resolution };
    const verdict = await decidePermission(engine, store, call);
    if (verdict.decision !== 'deny' && !resolution.ok) {
      return { kind: 'denied', reason: resolution.problem };
    }
    if (verdict.decision === 'ask') {
      const params = withoutSecrets(engine, input);
      const { preview } = await shownOf(engine, judged, params);
      const more = defined({
        preview,
        rule: verdict.rule,
        shown: withoutSecrets(engine, request.shown),
        isConcrete: isConcrete ? undefined : false,
        isEditable: request.isEditable === false ? false : undefined,
      });
      const approval = await ask(engine, ref, { ...call, input: params }, more);
      return { kind: 'asked', approval };
    }
    const { counted, id } = verdict.rule;
    const denial = verdict.decision === 'deny' ? reasonOf(verdict) : undefined;
    const at = engine.clock.now();
    const answered = { at, rule: verdict.rule, ...defined({ denial }) };
    const entries = auditOfSessionCall(engine, { sessionId, tool, input }, answered);
    const audit = auditRecordsOf(engine, ref.tenantId, entries);
    // Used up before the call starts, like that of a run (E7).
    const useGrants = denial === undefined && counted === true && id !== undefined ? [id] : [];
    if (audit.length > 0 || useGrants.length > 0) {
      const changes = [{ sessionId, at, events: [] }];
      const { kind } = await store.sessions.change({ changes, audit, useGrants });
      if (kind !== 'committed') continue;
    }
    return denial === undefined ? { kind: 'allowed' } : { kind: 'denied', reason: denial };
  }
  throw new RelayError('storage_failed', 'The session changes too often; try again');
}

async function readOpen(engine: RequestEngine, ref: SessionRef): Promise<SessionRecord> {
  const session = await engine.store.tenant(ref.tenantId).sessions.read(ref.sessionId);
  if (session === undefined) throw noSuchSession();
  if (session.releasedAt !== null) throw sessionReleased(session);
  return session;
}

function callOf(session: SessionRecord): Pick<RequestedCall, 'session' | 'keyId' | 'owner'> {
  const { keyId, owner } = session;
  return { session, keyId, owner };
}

/** Stores the approval, and that the session waits for it. */
async function ask(
  engine: RequestEngine,
  ref: SessionRef,
  call: RequestedCall,
  shown: ShownCall,
): Promise<ApprovalRecord> {
  const { approval, notice } = approvalFor(engine, call, shown);
  const { id } = approval;
  await changeSession(engine, ref, ({ session, state }) => {
    if (session.releasedAt !== null) throw sessionReleased(session);
    return { ...withRequest(state, id), write: { approvals: [approval], notices: [notice] } };
  });
  engine.onApproval?.(ref.tenantId, { id, isNew: true });
  const stored = await engine.store.tenant(ref.tenantId).readApproval(id);
  if (stored !== undefined) return stored;
  throw new RelayError('storage_failed', 'The approval was not stored');
}

/** The same, with the answer of a person. */
export async function askPermission(
  engine: RequestEngine,
  ref: SessionRef,
  request: PermissionRequest,
  signal: AbortSignal,
): Promise<PermissionAnswer> {
  let { input } = request;
  for (;;) {
    const outcome = await requestPermission(engine, ref, { ...request, input });
    if (outcome.kind === 'allowed') return { allowed: true, input };
    if (outcome.kind === 'denied') return { allowed: false, reason: outcome.reason, by: 'rule' };
    const decided = await decisionOn(engine, ref, outcome.approval, signal);
    if (decided.status !== 'approved') return refusalOf(decided);
    if (decided.edited !== null) input = changedInput(engine, ref, decided.edited, request);
    if (await isAsShown(engine, ref, decided, input)) return { allowed: true, input };
  }
}

function changedInput(
  engine: RequestEngine,
  { tenantId }: SessionRef,
  { params }: EditedCall,
  { tool }: PermissionRequest,
): unknown {
  return withAbsolutePaths(tool, { ...params }, engine.workspace?.(tenantId));
}

/** Whether it would still do what was approved. */
async function isAsShown(
  engine: RequestEngine,
  ref: SessionRef,
  { tool, edited, digest }: ApprovalRecord,
  input: unknown,
): Promise<boolean> {
  const judged = await judgeCall(engine, await readOpen(engine, ref), { tool, input });
  const shown = await shownOf(engine, judged, withoutSecrets(engine, judged.input));
  return judged.resolution.ok && shown.digest === (edited?.digest ?? digest);
}

const refusedBy = { denied: 'person', expired: 'expired' } as const;

function refusalOf({
  status,
  reason,
}: Pick<ApprovalRecord, 'status' | 'reason'>): PermissionAnswer & { readonly allowed: false } {
  const by = status === 'denied' || status === 'expired' ? refusedBy[status] : 'closed';
  return { allowed: false, reason: reason ?? `The request is ${status}`, by };
}

const anyText = { type: 'string' };

/** Throws `invalid_request`, `not_found` and `session_conflict`. */
export async function askQuestion(
  engine: RequestEngine,
  ref: SessionRef,
  { message, schema = anyText }: HarnessQuestion,
  signal: AbortSignal,
): Promise<QuestionAnswer> {
  const question = checkQuestion({ prompt: withoutSecrets(engine, message), schema });
  const session = await readOpen(engine, ref);
  if (permissionsOf(session).headless === true) return { action: 'decline', reason: noApprover };
  const call = { ...callOf(session), tool: 'question', input: {} };
  const approval = await ask(engine, ref, call, { question });
  const decided = await decisionOn(engine, ref, approval, signal);
  if (decided.status === 'approved') {
    const { input } = JSON.parse(decided.answer ?? '{}') as { readonly input?: unknown };
    return { action: 'accept', content: input };
  }
  const { reason, by } = refusalOf(decided);
  return { action: by === 'person' ? 'decline' : 'cancel', reason };
}

/** The approval when it is decided or closed. */
async function decisionOn(
  engine: RequestEngine,
  ref: SessionRef,
  approval: ApprovalRecord,
  signal: AbortSignal,
): Promise<ApprovalRecord> {
  const { id } = approval;
  const { clock, settings } = engine;
  const store = engine.store.tenant(ref.tenantId);
  const deleted = { ...approval, status: 'closed', reason: 'The request was deleted' } as const;
  const read = async () => {
    const now = (await store.readApproval(id)) ?? deleted;
    return now.status === 'pending' ? undefined : now;
  };
  const decided = (until: number) =>
    waitUntil(engine, {
      // A decision on this node changes the session; other nodes send a hint about the approval.
      concerns: (hint) =>
        (hint.kind === 'approval' && hint.approvalId === id) ||
        (hint.kind === 'session' && hint.sessionId === ref.sessionId),
      read,
      signal,
      until,
    });
  const early = await decided(warningOf(approval));
  if (early !== undefined) return early;
  if (!signal.aborted) {
    const notices = [noticeOfExpiry('approval.expiring', approval, clock.now())];
    await store.sessions.change({ changes: [], notices });
  }
  // An answer in time may still be on its way into the store.
  const late = await decided(approval.expiresAt + settings.lateAnswerMs);
  if (late !== undefined) return late;
  const at = clock.now();
  await (signal.aborted
    ? close(engine, ref, { closure: closureOf(id, at, 'The request was aborted') })
    : close(engine, ref, {
        closure: { ...closureOf(id, at, expiryReason), status: 'expired', by: expiry },
        expired: approval,
      }));
  return (await read()) ?? deleted;
}

const expiry = { type: 'timeout', id: 'expiry', name: 'expiry' } as const;

/** Unless it was decided or closed meanwhile. */
async function close(
  engine: RequestEngine,
  ref: SessionRef,
  {
    closure,
    expired,
  }: { readonly closure: ApprovalClosure; readonly expired?: ApprovalRecord | undefined },
): Promise<void> {
  const { approvalId, at } = closure;
  try {
    await changeSession(engine, ref, async ({ store, state }) => {
      if ((await store.readApproval(approvalId))?.status !== 'pending') return undefined;
      const told =
        expired === undefined
          ? {}
          : {
              notices: [noticeOfExpiry('approval.expired', expired, at)],
              audit: auditRecordsOf(engine, ref.tenantId, [auditOfExpiry(expired, at)]),
            };
      return { ...withoutRequests(state, [approvalId]), write: { closures: [closure], ...told } };
    });
  } catch (error) {
    // The session was dropped, and its approvals were closed with it.
    if (!(error instanceof RelayError) || error.code !== 'not_found') throw error;
  }
}

/** Nothing waits for its answers any more. */
export async function closeRequests(
  engine: Pick<RequestEngine, 'store' | 'clock' | 'settings' | 'onApproval'>,
  ref: SessionRef,
  reason = 'The turn has ended',
): Promise<void> {
  await changeSession(engine, ref, ({ state, now }) => {
    const { requests } = state;
    if (requests === undefined) return undefined;
    const closures = requests.ids.map((id) => closureOf(id, now, reason));
    return { ...withoutRequests(state, requests.ids), write: { closures } };
  });
}
