/**
 * Every change of a session that depends on its state: read, decide, store with compare-and-set, and decide
 * again if the session has changed meanwhile. What a new status means for its deliveries and commands is
 * stored in the same commit (consequences.ts).
 */
import { type Decider, defined, isEnded, RelayError, type SessionEvent } from '@relay/protocol';
import type { Engine } from '../../engine.ts';
import type {
  ApprovalClosure,
  CommandAnswer,
  DeliveryChange,
  InboxEntry,
  SessionRecord,
  SessionRedefinition,
  SessionRef,
  SessionWrite,
  TenantStore,
} from '../../ports/index.ts';
import {
  consequencesOf,
  openDeliveries,
  stepsOf,
  unconsumedOf,
} from '../../sessions/consequences.ts';
import { wakeDue } from '../../sessions/due.ts';
import { timesOut } from '../../sessions/modes.ts';
import { nativeHarness } from '../../sessions/native.ts';
import { endOfRequests } from '../../sessions/open-requests.ts';
import {
  decideSessionAll,
  type ReportedEvent,
  type SessionInput,
} from '../../sessions/session-machine.ts';
import {
  type OpenRequests,
  progressOf,
  type SessionHost,
  type SessionState,
  statusOf,
} from '../../sessions/state.ts';

/** A program without a stream for this long is offline, and its handle is no longer in use. */
export const offlineAfterMs = 30_000;
/** A command that the program has not answered by then has failed. */
export const commandTimeoutMs = 30_000;

/** A session as it was read, with the time of the decision. */
export interface SessionView {
  readonly store: TenantStore;
  readonly session: SessionRecord;
  readonly state: SessionState;
  readonly now: number;
}

/** What a request changes. */
export interface SessionStep {
  readonly inputs?: readonly (Omit<SessionInput, 'sessionId'> | ReportedEvent)[];
  /** After those of the inputs, unless the session ends with them. */
  readonly events?: readonly SessionEvent[];
  readonly deliveries?: readonly DeliveryChange[];
  readonly redefine?: SessionRedefinition;
  /** The stream that the session must have open: `decide` has seen it. It stays open. */
  readonly ifStream?: string;
  readonly usage?: SessionState['usage'];
  readonly attachedAt?: number;
  /** The run that was its turn is over. */
  readonly activeRunId?: null;
  /** Default: see `dueAtOf`. */
  readonly dueAt?: number | null;
  readonly host?: SessionHost;
  /** Those that its program waits for now; null: none. */
  readonly requests?: OpenRequests | null;
  /** Its program makes the change, and so can be reached. */
  readonly isSeen?: boolean;
  readonly write?: Omit<SessionWrite, 'changes' | 'messages' | 'inboxLimit'>;
}

type SessionEngine = Pick<Engine, 'store' | 'clock' | 'settings' | 'sessionDue' | 'onApproval'>;

/** Nothing continues it. */
export function sessionReleased({ handle }: Pick<SessionRecord, 'handle'>): RelayError {
  return new RelayError(
    'session_conflict',
    `The session @${handle} is released: start or attach one under its handle again`,
  );
}

/** Those who ask for a handle learn what to ask for. */
export function noSuchSession(): RelayError {
  return new RelayError(
    'not_found',
    'No such session: it is named by its id, not by its handle (GET /v1/sessions lists both)',
  );
}

/** Throws `not_found`, and what `decide` throws. Undefined: nothing is to be changed. */
export async function changeSession(
  engine: SessionEngine,
  { tenantId, sessionId }: SessionRef,
  decide: (view: SessionView) => Promise<SessionStep | undefined> | SessionStep | undefined,
): Promise<SessionRecord> {
  const store = engine.store.tenant(tenantId);
  for (;;) {
    const session = await store.sessions.read(sessionId);
    if (session === undefined) throw noSuchSession();
    const view = { store, session, state: session.state, now: engine.clock.now() };
    const step = await decide(view);
    const write = step === undefined ? undefined : await writeOf(engine, view, step);
    if (write === undefined) return session;
    const outcome = await store.sessions.change(write);
    switch (outcome.kind) {
      case 'committed':
        wakeDue(engine, tenantId, write.changes);
        for (const { approvalId: id } of write.closures ?? []) {
          engine.onApproval?.(tenantId, { id, isNew: false });
        }
        return (await store.sessions.read(sessionId)) ?? session;
      case 'conflict':
      // Another request with the same key came first.
      case 'exists':
        break;
      case 'run-ended':
        await endLostTurn(engine, { tenantId, sessionId });
        break;
      default:
        throw new RelayError('storage_failed', `The session was not changed: ${outcome.kind}`);
    }
  }
}

/**
 * Ends a turn whose run has ended without it, because the run's journal is damaged, or whose run was deleted.
 * Any other turn goes on.
 */
export function endLostTurn(engine: SessionEngine, ref: SessionRef): Promise<SessionRecord> {
  return changeSession(engine, ref, async ({ store, session, state }) => {
    if (session.activeRunId === null) return undefined;
    const run = await store.readRunHead(session.activeRunId);
    if (run !== undefined && !isEnded(run.status)) return undefined;
    const error = { error: 'The run of the turn was lost', code: 'internal', retryable: false };
    const isReleased = state.lifecycle === 'releasing';
    const handed = isReleased ? [] : await unconsumedOf(store.messages, session.id);
    return {
      inputs: [{ type: 'settle', error }, ...(isReleased ? [{ type: 'finish' } as const] : [])],
      ...stepsOf(handed, { type: 'fail', reason: 'turn failed', retryable: true }),
      activeRunId: null,
    };
  });
}

async function writeOf(
  engine: SessionEngine,
  view: SessionView,
  step: SessionStep,
): Promise<SessionWrite | undefined> {
  const { store, session, state, now } = view;
  const sessionId = session.id;
  const inputs = (step.inputs ?? []).map((input) =>
    input.type === 'report' ? input : { ...input, sessionId },
  );
  const decision = decideSessionAll(state, inputs);
  if (decision.kind === 'refused') throw new RelayError('session_conflict', decision.reason);
  const decided = decision.kind === 'accepted' ? decision : { events: [], state };
  const { requests = decided.state.requests } = step;
  const { state: next, closures } = withOpenRequests(
    {
      ...decided.state,
      ...defined({ usage: step.usage, attachedAt: step.attachedAt, host: step.host }),
    },
    requests ?? undefined,
    now,
  );
  const status = { before: statusOf(state), after: statusOf(next), now };
  const isDone = new Set((step.deliveries ?? []).map(({ id }) => id));
  const followed = await consequencesOf(store.messages, sessionId, status, isDone);
  const deliveries = [...(step.deliveries ?? []), ...followed.deliveries];
  const answers = [...(step.write?.answers ?? []), ...(await abandonedCommands(view, step, next))];
  const isReleased = next.lifecycle === 'released';
  // Nothing follows `session.released` in a journal.
  const events = isReleased
    ? [...(step.events ?? []), ...followed.events, ...decided.events]
    : [...decided.events, ...(step.events ?? []), ...followed.events];
  // Its journal has ended.
  if (state.lifecycle === 'released' && events.length > 0) {
    throw sessionReleased(session);
  }
  const dueAt = isReleased ? null : await dueAtOf(engine, view, next, { step, answers });
  const isUnchanged =
    decision.kind === 'same' &&
    events.length === 0 &&
    deliveries.length === 0 &&
    answers.length === 0 &&
    dueAt === session.dueAt &&
    step.redefine === undefined &&
    step.write === undefined &&
    step.host === undefined &&
    step.requests === undefined &&
    closures.length === 0 &&
    step.isSeen !== true &&
    step.attachedAt === undefined &&
    step.activeRunId === undefined;
  if (isUnchanged) return undefined;
  const progress = {
    ...progressOf(state, next, now),
    dueAt,
    ...defined({ activeRunId: step.activeRunId }),
    ...(isReleased ? { releasedAt: now, activeRunId: null } : {}),
  };
  const { redefine, ifStream, isSeen } = step;
  return {
    ...step.write,
    answers,
    closures: [...(step.write?.closures ?? []), ...closures],
    changes: [
      {
        sessionId,
        at: now,
        ifVersion: session.version,
        events,
        progress,
        deliveries,
        ...defined({ redefine, ifStream, isSeen }),
      },
    ],
  };
}

/** Those that the new state ends are closed, and none of them is open any more. */
function withOpenRequests(
  decided: SessionState,
  requests: OpenRequests | undefined,
  at: number,
): { readonly state: SessionState; readonly closures: readonly ApprovalClosure[] } {
  const { requests: _, ...state } = decided;
  if (requests === undefined) return { state, closures: [] };
  const reason = endOfRequests(state);
  if (reason === undefined) return { state: { ...state, requests }, closures: [] };
  const closures = requests.ids.map((id) => closureOf(id, at, reason));
  // An offline session hides its turn, which has ended.
  return { state: { ...state, turn: 'none' }, closures };
}

const relay: Decider = { type: 'system', id: 'relay', name: 'relay' };

export function closureOf(approvalId: string, at: number, reason: string): ApprovalClosure {
  return { approvalId, status: 'closed', at, by: relay, reason };
}

/** Commands that no program will answer any more. */
async function abandonedCommands(
  { store, session, state, now }: SessionView,
  { write }: SessionStep,
  next: SessionState,
): Promise<CommandAnswer[]> {
  const status = statusOf(next);
  const isOver = status === 'released' || status === 'failed';
  if (!isOver || statusOf(state) === status) return [];
  const error = `The session is ${status}`;
  const isAnswered = new Set((write?.answers ?? []).map(({ id }) => id));
  const open = await store.sessions.openCommands(session.id, maxCommands);
  return open
    .filter(({ id }) => !isAnswered.has(id))
    .map(({ id, sessionId }) => ({ id, sessionId, at: now, ok: false, error }));
}

/** Open at the same time: see `lifecycle.ts`. */
export const maxCommands = 100;

/** When the session needs attention without a request: see `attend.ts`. */
async function dueAtOf(
  engine: SessionEngine,
  view: SessionView,
  next: SessionState,
  { step, answers }: { step: SessionStep; answers: readonly CommandAnswer[] },
): Promise<number | null> {
  const { store, session, now } = view;
  if (step.dueAt !== undefined) return step.dueAt;
  if (!hasProgram(session)) return isReady(session, next, step) ? now : session.dueAt;
  const isAnswered = new Set(answers.map(({ id }) => id));
  const stored = await store.sessions.openCommands(session.id, maxCommands);
  const commands = [...stored, ...(step.write?.commands ?? [])].filter(
    ({ id }) => !isAnswered.has(id),
  );
  const times = commands.map(({ answerBy }) => answerBy);
  const isAttached = step.redefine?.tokenHash !== undefined && step.ifStream === undefined;
  const seenAt = step.isSeen === true ? now : session.seenAt;
  const lostAt = lostAtOf({ ...session, seenAt }, next, isAttached ? now : undefined);
  if (lostAt !== undefined) times.push(lostAt);
  if (timesOut(next)) {
    const ended = (step.deliveries ?? []).filter(({ to }) => to === 'consumed' || to === 'failed');
    const isOver = new Set(ended.map(({ id }) => id));
    const waiting = await expiringDeliveries(view, engine.settings.deliveryTtlMs);
    const left = waiting.filter(({ entry }) => !isOver.has(entry.id));
    times.push(...left.map(({ expiresAt }) => expiresAt));
  }
  return times.length === 0 ? null : Math.min(...times);
}

/** A session without a program that can have a next turn: `NativeTurns` looks whether there is one. */
function isReady(
  { activeRunId, queue }: SessionRecord,
  { lifecycle }: SessionState,
  { activeRunId: ended, deliveries = [] }: SessionStep,
): boolean {
  const isFree = activeRunId === null || ended === null;
  return isFree && lifecycle === 'open' && (queue.oldestUnheldAt !== null || deliveries.length > 0);
}

/** Its program, the person, or the harness in a node's process takes the deliveries from a stream. */
export function hasProgram({ harness }: Pick<SessionRecord, 'harness'>): boolean {
  return harness !== nativeHarness;
}

/** When the session is offline unless a stream is opened; undefined if it never is. */
export function lostAtOf(
  { harness, stream, seenAt }: Pick<SessionRecord, 'harness' | 'stream' | 'seenAt'>,
  { lifecycle, connection }: SessionState,
  attachedAt?: number,
): number | undefined {
  const isOver = lifecycle === 'released' || lifecycle === 'failed';
  const isAlwaysThere = harness === 'human' || harness === nativeHarness;
  if (isAlwaysThere || isOver || connection === 'unreachable') return undefined;
  if (stream !== null && attachedAt === undefined) return undefined;
  return (attachedAt ?? seenAt) + offlineAfterMs;
}

/** Deliveries of a session that is offline, with the time at which each fails. */
export async function expiringDeliveries(
  view: SessionView,
  ttlMs: number,
): Promise<{ entry: InboxEntry; expiresAt: number }[]> {
  const { seenAt, id } = view.session;
  const open = await openDeliveries(view.store.messages, id);
  return open.map((entry) => ({ entry, expiresAt: Math.max(entry.at, seenAt) + ttlMs }));
}
