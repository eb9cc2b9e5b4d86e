/** Creates sessions: one for all harnesses, and native ones, which are this server's agents. */
import {
  type Decider,
  defined,
  type Permissions,
  personOf,
  RelayError,
  type SessionEvent,
} from '@relay/protocol';
import type { Engine } from '../../engine.ts';
import { auditRecordsOf } from '../../governance/audit.ts';
import { keyIdOf } from '../../permission/approvers.ts';
import type { CommandAnswer, SessionDefinition, SessionRecord } from '../../ports/index.ts';
import { nativeCapabilities, nativeHarness } from '../../sessions/native.ts';
import { decideSession, sessionCreated } from '../../sessions/session-machine.ts';
import {
  type ForkSource,
  newSession,
  progressOf,
  type SessionState,
} from '../../sessions/state.ts';

export interface NativeSessionRequest {
  readonly tenantId: string;
  readonly by: Decider;
  readonly handle: string;
  /** Default: `assistant`. */
  readonly agent?: string | undefined;
  /** Default: the agent's. */
  readonly model?: string | undefined;
  readonly permissions?: Permissions | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** The session that it was forked from, or that a snapshot is of. */
  readonly from?: {
    readonly parentSessionId: string;
    /** Its journal says so, too. It must not be released. */
    readonly isForked: boolean;
    readonly source: ForkSource | undefined;
  };
}

/** Throws `handle_taken`. */
export async function createNativeSession(
  engine: CreatingEngine,
  request: NativeSessionRequest,
): Promise<SessionRecord> {
  const { tenantId, by, handle, agent = null, model = null, permissions, labels, from } = request;
  return createSession(engine, {
    tenantId,
    by,
    sessionId: engine.ids.next(),
    action: 'session.created',
    definition: {
      handle,
      name: agent ?? handle,
      kind: 'agent',
      harness: nativeHarness,
      capabilities: nativeCapabilities,
      agent,
      model,
      ...defined({ labels, permissions, parentSessionId: from?.parentSessionId }),
    },
    begin: 'start',
    state: defined({ forkedFrom: from?.source }),
    dueAt: null,
    isForked: from?.isForked === true,
  });
}

type CreatingEngine = Pick<Engine, 'store' | 'clock' | 'ids' | 'audit'>;

type Given = 'handle' | 'name' | 'kind' | 'harness' | 'capabilities';

/** A session of any harness. What its definition leaves out is empty, or the creator's. */
export interface SessionCreation {
  readonly tenantId: string;
  readonly by: Decider;
  readonly sessionId: string;
  readonly action: 'session.created' | 'session.attached';
  readonly definition: Pick<SessionDefinition, Given> & Partial<SessionDefinition>;
  readonly tokenHash?: string | undefined;
  /** Null: it is `starting` until its program attaches. */
  readonly begin: 'start' | 'attach' | null;
  /** What else its first state contains. */
  readonly state?: Partial<SessionState>;
  readonly dueAt: number | null;
  /** The journal of its parent says so, too. The parent must not be released. */
  readonly isForked?: boolean;
  /** To the command that asked for it. */
  readonly answer?: CommandAnswer;
}

/** Throws `handle_taken`, and as below. */
export async function createSession(
  engine: CreatingEngine,
  creation: SessionCreation,
): Promise<SessionRecord> {
  const session = await createUnlessTaken(engine, creation);
  if (session === undefined) throw handleTaken(creation.definition.handle);
  return session;
}

export function handleTaken(handle: string): RelayError {
  return new RelayError('handle_taken', `Another session has the handle ${handle}`);
}

/**
 * Undefined if another session has the handle, or the command was answered before. Throws `session_conflict` if the session that it is forked
 * from is released.
 */
export async function createUnlessTaken(
  engine: CreatingEngine,
  creation: SessionCreation,
): Promise<SessionRecord | undefined> {
  const { tenantId, by, sessionId, action, definition, tokenHash, dueAt } = creation;
  const { handle, harness, parentSessionId = null } = definition;
  const { sessions } = engine.store.tenant(tenantId);
  const at = engine.clock.now();
  const { state, events } = firstStep(sessionId, creation.begin);
  const parent = defined({ parentSessionId: parentSessionId ?? undefined });
  const what = { sessionId, handle, harness, ...parent };
  const outcome = await sessions.create(
    {
      id: sessionId,
      createdAt: at,
      definition: {
        conversationId: engine.ids.next(),
        agent: null,
        model: null,
        labels: {},
        workspace: null,
        permissions: null,
        owner: personOf(by),
        keyId: keyIdOf(by),
        ...definition,
        parentSessionId,
      },
      ...defined({ tokenHash }),
      progress: {
        ...progressOf(undefined, { ...state, ...creation.state }, at),
        activeRunId: null,
        releasedAt: null,
        dueAt,
      },
      events: [...sessionCreated(sessionId, parent.parentSessionId), ...events],
    },
    {
      changes:
        creation.isForked === true && parentSessionId !== null
          ? [
              {
                sessionId: parentSessionId,
                at,
                events: [{ type: 'session.forked', sessionId, parentSessionId }],
              },
            ]
          : [],
      ...defined({ answers: creation.answer && [creation.answer] }),
      audit: auditRecordsOf(engine, tenantId, [{ at, who: by, action, what, why: null }]),
    },
  );
  if (outcome.kind === 'handle-taken') return undefined;
  if (outcome.kind === 'conflict' && creation.answer !== undefined) return undefined;
  if (outcome.kind === 'gone') throw new RelayError('session_conflict', 'The session is released');
  const session = await sessions.read(sessionId);
  if (outcome.kind !== 'created' || session === undefined) {
    throw new RelayError('storage_failed', `The session was not stored: ${outcome.kind}`);
  }
  return session;
}

function firstStep(
  sessionId: string,
  type: SessionCreation['begin'],
): { readonly state: SessionState; readonly events: readonly SessionEvent[] } {
  if (type === null) return { state: newSession, events: [] };
  const decision = decideSession(newSession, { type, sessionId });
  if (decision.kind === 'accepted') return decision;
  throw new RelayError('internal', `A new session cannot ${type}`);
}
