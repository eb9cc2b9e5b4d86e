/**
 * Snapshots and forks of sessions. They begin between two turns; without a `seq`, at the last such position.
 *
 * - Of a native session, both refer to a position in the journal of a run, as forks of runs do, and copy
 *   nothing: the first turn of the new session continues from there, in a conversation of its own. A session
 *   that is working is forked as it was before its turn.
 * - A program carries them out: what it answers is the snapshot, and a fork is `starting` until a program
 *   attaches under its handle, with the key of the parent or of the fork.
 * - A fork belongs to who forks, like any other session that they start: its rules are chosen with their scopes,
 *   and who may not approve their own requests cannot do so through a fork of another person's session.
 * - The fork of a program is stored with its answer: if the server stops before that, the program has not been
 *   acknowledged, and answers again. The fork of a session in a node's process is stored after the answer, when
 *   its harness has made it: if the server stops in between, the request fails and there is no fork.
 */
import {
  type Decider,
  defined,
  type Permissions,
  RelayError,
  type StoredSessionEvent,
} from '@relay/protocol';
import type { Engine } from '../../engine.ts';
import type {
  RequestedFork,
  SessionRecord,
  SessionSnapshot,
  TenantStore,
} from '../../ports/index.ts';
import { requireCapability } from '../../sessions/capabilities.ts';
import { nativeHarness } from '../../sessions/native.ts';
import { decideSession } from '../../sessions/session-machine.ts';
import type { ForkSource } from '../../sessions/state.ts';
import { askProgram } from './ask-program.ts';
import { createNativeSession, handleTaken } from './create.ts';
import { forkPoint } from '../fork.ts';

/** What the snapshot of a native session contains. */
interface NativeSnapshot {
  readonly harness: typeof nativeHarness;
  readonly agent: string | null;
  readonly model: string | null;
  /** Null: no turn had ended. */
  readonly source: ForkSource | null;
}

export interface ForkRequest {
  readonly by: Decider;
  readonly handle: string;
  /** Of the session's journal. */
  readonly seq?: number | undefined;
  readonly permissions?: Permissions | undefined;
}

/** Throws `capability_missing`, `session_conflict`, `not_a_boundary`, `journal_pruned` and `handle_taken`. */
export async function forkNative(
  engine: Engine,
  parent: SessionRecord,
  { by, handle, seq, permissions }: ForkRequest,
): Promise<SessionRecord> {
  const { tenantId, id: parentSessionId, labels } = parent;
  const { source } = await positionIn(engine, parent, 'fork', seq);
  const agent = parent.agent ?? undefined;
  const model = parent.model ?? undefined;
  const from = { parentSessionId, isForked: true, source };
  const request = { tenantId, by, handle, agent, model, permissions, labels, from };
  return createNativeSession(engine, request);
}

/** Throws as above. */
export async function snapshotNative(
  engine: Engine,
  session: SessionRecord,
): Promise<SessionSnapshot> {
  const { agent, model } = session;
  const { seq, source } = await positionIn(engine, session, 'snapshot');
  const harness = nativeHarness;
  const content: NativeSnapshot = { harness, agent, model, source: source ?? null };
  return storeSnapshot(engine, session, { seq, content });
}

async function storeSnapshot(
  engine: Engine,
  { id: sessionId, tenantId }: SessionRecord,
  { seq, content }: Pick<SessionSnapshot, 'seq' | 'content'>,
): Promise<SessionSnapshot> {
  const at = engine.clock.now();
  const snapshot = { id: engine.ids.next(), sessionId, seq, at, content };
  // The journal before the position never changes: only the end of the session matters.
  const change = { sessionId, at, events: [] };
  const { sessions } = engine.store.tenant(tenantId);
  const { kind } = await sessions.change({ changes: [change], snapshots: [snapshot] });
  if (kind === 'gone') throw new RelayError('session_conflict', 'The session is released');
  if (kind !== 'committed') {
    throw new RelayError('storage_failed', `The snapshot was not stored: ${kind}`);
  }
  return snapshot;
}

function isNative(content: { harness: string } | undefined): content is NativeSnapshot {
  return content?.harness === nativeHarness;
}

/** Undefined if there is no such snapshot of a native session. Throws `journal_pruned` if it is too old. */
export async function readNativeSnapshot(
  store: TenantStore,
  snapshotId: string,
): Promise<(NativeSnapshot & { readonly sessionId: string }) | undefined> {
  const snapshot = await store.sessions.readSnapshot(snapshotId);
  // The row is checked: a program cannot choose the harness.
  const content = snapshot?.content as { harness: string } | undefined;
  if (snapshot === undefined || !isNative(content)) return undefined;
  if (content.source !== null) await requireJournal(store, content.source.runId);
  return { ...content, sessionId: snapshot.sessionId };
}

interface SessionPosition {
  readonly seq: number;
  readonly source?: ForkSource;
}

async function positionIn(
  engine: Engine,
  session: SessionRecord,
  type: 'fork' | 'snapshot',
  seq?: number,
): Promise<SessionPosition> {
  requirePossible(session, type);
  const store = engine.store.tenant(session.tenantId);
  const boundary = await boundaryAt(store, session, seq);
  const last = boundary.isLast ? await lastEndedRun(store, session) : undefined;
  const runId = last ?? boundary.turn?.runId;
  if (runId === undefined) {
    // Its messages would be missing.
    if (boundary.turn !== undefined) {
      throw noBoundary(
        `The turn before seq ${boundary.seq} has neither called a tool nor answered: choose another position`,
      );
    }
    // No turn of its own had ended: it may be a fork itself.
    const { forkedFrom } = session.state;
    if (forkedFrom === undefined) return { seq: boundary.seq };
    const { isUsed: _, ...source } = forkedFrom;
    await requireJournal(store, source.runId);
    return { seq: boundary.seq, source };
  }
  await requireJournal(store, runId);
  const run = await store.readRunHead(runId);
  if (run === undefined) throw new RelayError('journal_corrupt', `There is no run ${runId}`);
  const { seq: end } = await forkPoint(engine, store, { source: run });
  return { seq: boundary.seq, source: { runId, seq: end } };
}

function requirePossible(session: SessionRecord, type: 'fork' | 'snapshot'): void {
  requireCapability(session, { type });
  const decision = decideSession(session.state, { type, sessionId: session.id });
  if (decision.kind === 'refused') throw new RelayError('session_conflict', decision.reason);
}

/** Throws `not_a_boundary` if `seq` is none. */
async function boundaryAt(
  store: TenantStore,
  session: SessionRecord,
  seq: number | undefined,
): Promise<Boundary> {
  const { lastSeq } = session;
  if (seq !== undefined && seq > lastSeq) {
    throw noBoundary(`seq ${seq} does not exist: the journal ends at ${lastSeq}`);
  }
  const boundary = await findBoundary(store, session, seq ?? lastSeq);
  if (seq === undefined || boundary.seq === seq) return boundary;
  throw noBoundary(`seq ${seq} is inside a turn; the last boundary before it is ${boundary.seq}`);
}

function noBoundary(message: string): RelayError {
  return new RelayError('not_a_boundary', message);
}

/** Throws `journal_pruned`. */
async function requireJournal(store: TenantStore, runId: string): Promise<void> {
  await store.readEvents(runId, { after: 0, limit: 1 });
}

/** Also of a turn that failed without output. Undefined if the session has gone on meanwhile. */
async function lastEndedRun(
  store: TenantStore,
  { id, conversationId, lastSeq }: SessionRecord,
): Promise<string | undefined> {
  const upTo = await store.countEndedRuns(conversationId);
  const [last] = await store.endedRuns(conversationId, { after: upTo - 1, upTo });
  const session = await store.sessions.read(id);
  return session?.lastSeq === lastSeq ? last?.runId : undefined;
}

interface Boundary {
  readonly seq: number;
  /** The last one before it. A journal names its run only if that has called a tool or given an answer. */
  readonly turn: { readonly runId: string | undefined } | undefined;
  /** No turn has ended since. */
  readonly isLast: boolean;
}

const eventsPerRead = 1_000;

/** The last position up to `to` at which no turn is under way. */
async function findBoundary(
  store: TenantStore,
  { id, lastSeq }: SessionRecord,
  to: number,
): Promise<Boundary> {
  let boundary: Boundary = { seq: 0, turn: undefined, isLast: true };
  let turn: Boundary['turn'];
  let isWorking = false;
  for (let after = 0; after < lastSeq;) {
    const limit = Math.min(eventsPerRead, lastSeq - after);
    const events = await store.sessions.readEvents(id, { after, limit });
    const last = events.at(-1);
    if (last === undefined) break;
    after = last.seq;
    for (const event of events) {
      const wasWorking = isWorking;
      isWorking = worksAfter(event, wasWorking);
      if (isWorking) turn = { runId: runOf(event) ?? (wasWorking ? turn?.runId : undefined) };
      else if (event.seq <= to) boundary = { seq: event.seq, turn, isLast: true };
      else if (wasWorking) boundary = { ...boundary, isLast: false };
    }
  }
  return boundary;
}

/** A turn begins active and ends idle. A session that is paused, or blocked, stays as it was. */
function worksAfter(event: StoredSessionEvent, isWorking: boolean): boolean {
  if (event.type !== 'status.changed') return isWorking;
  if (event.status === 'active') return true;
  return event.status === 'idle' ? false : isWorking;
}

function runOf(event: StoredSessionEvent): string | undefined {
  switch (event.type) {
    case 'tool.called':
    case 'tool.completed':
    case 'tool.failed':
      return event.run;
    case 'transcript.chunk': {
      const run = event.chunk.metadata?.['run'];
      return typeof run === 'string' ? run : undefined;
    }
    default:
      return undefined;
  }
}

/** Throws as above, `command_failed` and `command_timed_out`. */
export async function snapshotProgram(
  engine: Engine,
  session: SessionRecord,
): Promise<SessionSnapshot> {
  const result =
    (await askProgram(engine, session, {
      command: 'snapshot',
      args: {},
      check: (current) => requirePossible(current, 'snapshot'),
    })) ?? null;
  const store = engine.store.tenant(session.tenantId);
  const { lastSeq: seq } = (await store.sessions.read(session.id)) ?? session;
  return storeSnapshot(engine, session, { seq, content: { harness: session.harness, result } });
}

/** What the program of the parent answers to a fork, which is stored with the answer if it is given. Throws as above. */
export async function askFork(
  engine: Engine,
  parent: SessionRecord,
  { handle, seq }: Pick<ForkRequest, 'handle' | 'seq'>,
  fork?: RequestedFork,
): Promise<unknown> {
  const store = engine.store.tenant(parent.tenantId);
  requirePossible(parent, 'fork');
  if (seq !== undefined) await boundaryAt(store, parent, seq);
  if ((await store.sessions.readByHandle(handle)) !== undefined) throw handleTaken(handle);
  return askProgram(engine, parent, {
    command: 'fork',
    args: { handle, ...defined({ seq }) },
    check: (current) => requirePossible(current, 'fork'),
    ...defined({ fork }),
  });
}

/** What a program's snapshot holds, if it is one of this harness. */
export async function readProgramSnapshot(
  store: TenantStore,
  harness: string,
  snapshotId: string,
): Promise<{ readonly sessionId: string; readonly result: unknown } | undefined> {
  const snapshot = await store.sessions.readSnapshot(snapshotId);
  const content = snapshot?.content as { harness: string; result: unknown } | undefined;
  if (snapshot === undefined || content?.harness !== harness) return undefined;
  return { sessionId: snapshot.sessionId, result: content.result };
}

/** Throws as above. */
export async function forkProgram(
  engine: Engine,
  parent: SessionRecord,
  request: ForkRequest,
): Promise<SessionRecord> {
  const { by, handle } = request;
  const fork = { sessionId: engine.ids.next(), handle, by };
  await askFork(engine, parent, request, fork);
  const session = await engine.store.tenant(parent.tenantId).sessions.read(fork.sessionId);
  if (session === undefined) throw handleTaken(handle);
  return session;
}
