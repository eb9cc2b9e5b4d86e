/**
 * Every change of a session that depends on its state: read, decide, store with compare-and-set, and decide
 * again if the session has changed meanwhile.
 *
 * A status that ends the session or its connection has consequences for its deliveries and commands, which
 * are stored in the same commit: those of a released or failed session fail, and those that were accepted
 * are deferred while it is paused or offline.
 */
import { defined, RelayError, type SessionEvent } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import type {
  CommandAnswer,
  DeliveryChange,
  InboxEntry,
  MessageDelivery,
  SessionRecord,
  SessionRedefinition,
  SessionRef,
  SessionWrite,
  TenantStore,
} from '../ports/index.ts';
import { decideDelivery, type DeliveryInput } from '../sessions/delivery-machine.ts';
import { timesOut } from '../sessions/modes.ts';
import { nativeHarness } from '../sessions/native.ts';
import {
  decideSessionAll,
  type ReportedEvent,
  type SessionInput,
} from '../sessions/session-machine.ts';
import { progressOf, type SessionHost, type SessionState, statusOf } from '../sessions/state.ts';

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
  readonly usage?: SessionState['usage'];
  readonly attachedAt?: number;
  readonly host?: SessionHost;
  /** Its program makes the change, and so can be reached. */
  readonly isSeen?: boolean;
  readonly write?: Pick<SessionWrite, 'commands' | 'answers' | 'audit'>;
}

type SessionEngine = Pick<Engine, 'store' | 'clock' | 'settings'>;

/** Throws `not_found`, and what `decide` throws. Undefined: nothing is to be changed. */
export async function changeSession(
  engine: SessionEngine,
  { tenantId, sessionId }: SessionRef,
  decide: (view: SessionView) => Promise<SessionStep | undefined> | SessionStep | undefined,
): Promise<SessionRecord> {
  const store = engine.store.tenant(tenantId);
  for (;;) {
    const session = await store.sessions.read(sessionId);
    if (session === undefined) throw new RelayError('not_found', 'No such session');
    const view = { store, session, state: session.state, now: engine.clock.now() };
    const step = await decide(view);
    const write = step === undefined ? undefined : await writeOf(engine, view, step);
    if (write === undefined) return session;
    const outcome = await store.sessions.change(write);
    if (outcome.kind === 'committed') return (await store.sessions.read(sessionId)) ?? session;
    if (outcome.kind !== 'conflict') {
      throw new RelayError('storage_failed', `The session was not changed: ${outcome.kind}`);
    }
  }
}

async function writeOf(
  engine: SessionEngine,
  view: SessionView,
  step: SessionStep,
): Promise<SessionWrite | undefined> {
  const { session, state, now } = view;
  const sessionId = session.id;
  const inputs = (step.inputs ?? []).map((input) =>
    input.type === 'report' ? input : { ...input, sessionId },
  );
  const decision = decideSessionAll(state, inputs);
  if (decision.kind === 'refused') throw new RelayError('session_conflict', decision.reason);
  const decided = decision.kind === 'accepted' ? decision : { events: [], state };
  const next: SessionState = {
    ...decided.state,
    ...defined({ usage: step.usage, attachedAt: step.attachedAt, host: step.host }),
  };
  const followed = await consequencesOf(view, next, step);
  const deliveries = [...(step.deliveries ?? []), ...followed.deliveries];
  const answers = [...(step.write?.answers ?? []), ...followed.answers];
  const isReleased = next.lifecycle === 'released';
  // Nothing follows `session.released` in a journal.
  const events = isReleased
    ? [...(step.events ?? []), ...followed.events, ...decided.events]
    : [...decided.events, ...(step.events ?? []), ...followed.events];
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
    step.attachedAt === undefined;
  if (isUnchanged) return undefined;
  const progress = {
    ...progressOf(state, next, now),
    dueAt,
    ...(isReleased ? { releasedAt: now, activeRunId: null } : {}),
  };
  const { redefine, isSeen } = step;
  return {
    ...step.write,
    answers,
    changes: [
      {
        sessionId,
        at: now,
        ifVersion: session.version,
        events,
        progress,
        deliveries,
        ...defined({ redefine, isSeen }),
      },
    ],
  };
}

interface Consequences {
  readonly events: readonly SessionEvent[];
  readonly deliveries: readonly DeliveryChange[];
  readonly answers: readonly CommandAnswer[];
}

const none: Consequences = { events: [], deliveries: [], answers: [] };

async function consequencesOf(
  view: SessionView,
  next: SessionState,
  step: SessionStep,
): Promise<Consequences> {
  const [before, after] = [statusOf(view.state), statusOf(next)];
  if (before === after) return none;
  const isDone = new Set((step.deliveries ?? []).map(({ id }) => id));
  switch (after) {
    case 'released':
    case 'failed': {
      const reason = after === 'released' ? 'released' : 'session_failed';
      const open = await openDeliveries(view);
      const failed = applied(open, isDone, () => ({ type: 'release', reason }));
      const answers = await abandonedCommands(view, step, `The session is ${after}`);
      return { ...failed, answers };
    }
    case 'paused':
    case 'offline': {
      const waiting = (await inboxOf(view)).filter(
        // One of the mode manual would count as flushed, and one that was sent may be with the program.
        ({ status, mode, attempts }) =>
          status === 'accepted' && mode !== 'manual' && attempts === 0,
      );
      const defer = { type: 'defer', now: view.now, reason: after } as const;
      return { ...applied(waiting, isDone, () => defer), answers: [] };
    }
    default:
      return none;
  }
}

function applied(
  entries: readonly InboxEntry[],
  isDone: ReadonlySet<string>,
  input: (entry: InboxEntry) => DeliveryInput,
): Omit<Consequences, 'answers'> {
  const events: SessionEvent[] = [];
  const deliveries: DeliveryChange[] = [];
  for (const entry of entries) {
    if (isDone.has(entry.id)) continue;
    const decision = decideDelivery({ ...entry, isObservable: true }, input(entry));
    if (decision.kind !== 'accepted') continue;
    events.push(...decision.events);
    deliveries.push(decision.change);
  }
  return { events, deliveries };
}

/** Commands that no program will answer any more. */
async function abandonedCommands(
  { store, session, now }: SessionView,
  { write }: SessionStep,
  error: string,
): Promise<CommandAnswer[]> {
  const isAnswered = new Set((write?.answers ?? []).map(({ id }) => id));
  const open = await store.sessions.openCommands(session.id, maxCommands);
  return open
    .filter(({ id }) => !isAnswered.has(id))
    .map(({ id, sessionId }) => ({ id, sessionId, at: now, ok: false, error }));
}

/** Open at the same time: see `session-lifecycle.ts`. */
export const maxCommands = 100;
const entriesPerRead = 250;

type ReadEntries = TenantStore['messages']['inbox'];

async function allEntries(read: ReadEntries, sessionId: string): Promise<InboxEntry[]> {
  const all: InboxEntry[] = [];
  for (;;) {
    const after = all.at(-1)?.position ?? 0;
    const some = await read(sessionId, { after, limit: entriesPerRead });
    all.push(...some);
    if (some.length < entriesPerRead) return all;
  }
}

export function inboxOf({ store, session }: SessionView): Promise<InboxEntry[]> {
  return allEntries((...range) => store.messages.inbox(...range), session.id);
}

/** All that have not ended. */
async function openDeliveries(view: SessionView): Promise<InboxEntry[]> {
  const { store, session } = view;
  const handed = await allEntries((...range) => store.messages.unconsumed(...range), session.id);
  return [...handed, ...(await inboxOf(view))];
}

/** When the session needs attention without a request: see `attend-session.ts`. */
async function dueAtOf(
  engine: SessionEngine,
  view: SessionView,
  next: SessionState,
  { step, answers }: { step: SessionStep; answers: readonly CommandAnswer[] },
): Promise<number | null> {
  const { store, session, now } = view;
  // Those of other harnesses are due for other reasons.
  if (!hasProgram(session)) return session.dueAt;
  const isAnswered = new Set(answers.map(({ id }) => id));
  const stored = await store.sessions.openCommands(session.id, maxCommands);
  const commands = [...stored, ...(step.write?.commands ?? [])].filter(
    ({ id }) => !isAnswered.has(id),
  );
  const times = commands.map(({ answerBy }) => answerBy);
  const isAttached = step.redefine?.tokenHash !== undefined;
  const seenAt = step.isSeen === true ? now : session.seenAt;
  const lostAt = lostAtOf({ ...session, seenAt }, next, isAttached ? now : undefined);
  if (lostAt !== undefined) times.push(lostAt);
  if (timesOut(next)) {
    const ttlMs = engine.settings.deliveryTtlMs;
    const isDone = new Set((step.deliveries ?? []).map(({ id }) => id));
    const waiting = (await expiringDeliveries(view, ttlMs)).filter(
      ({ entry }) => !isDone.has(entry.id),
    );
    // Also if nothing waits now: what is sent meanwhile expires no earlier.
    times.push(now + ttlMs, ...waiting.map(({ expiresAt }) => expiresAt));
  }
  return times.length === 0 ? null : Math.min(...times);
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
  const { seenAt } = view.session;
  const open = await openDeliveries(view);
  return open.map((entry) => ({ entry, expiresAt: Math.max(entry.at, seenAt) + ttlMs }));
}

/** A delivery of this session after an input. Throws `receipt_conflict` if it comes too late. */
export function deliveryStep(delivery: MessageDelivery, input: DeliveryInput): SessionStep {
  const decision = decideDelivery({ ...delivery, isObservable: true }, input);
  if (decision.kind === 'refused') throw new RelayError('receipt_conflict', decision.reason);
  if (decision.kind === 'same') return {};
  return { events: decision.events, deliveries: [decision.change] };
}
