/** Creates a native session: one of this server's agents, under a handle. */
import { type Decider, defined, type Permissions, personOf, RelayError } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import { auditRecordsOf } from '../governance/audit.ts';
import type { NewSession, SessionChange, SessionRecord } from '../ports/index.ts';
import { nativeCapabilities, nativeHarness } from '../sessions/native.ts';
import { decideSession, sessionCreated } from '../sessions/session-machine.ts';
import { type ForkSource, newSession, progressOf } from '../sessions/state.ts';

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
  engine: Pick<Engine, 'store' | 'clock' | 'ids' | 'audit'>,
  request: NativeSessionRequest,
): Promise<SessionRecord> {
  const { store, clock, ids } = engine;
  const { tenantId, by, handle, agent = null, model = null, from } = request;
  const { sessions } = store.tenant(tenantId);
  const sessionId = ids.next();
  const createdAt = clock.now();
  const start = decideSession(newSession, { type: 'start', sessionId });
  if (start.kind !== 'accepted') throw new TypeError('A new session can start');
  const parentSessionId = from?.parentSessionId;
  const what = { sessionId, handle, harness: nativeHarness, ...defined({ parentSessionId }) };
  const state = { ...start.state, ...defined({ forkedFrom: from?.source }) };
  const entry = { at: createdAt, who: by, action: 'session.created', what, why: null } as const;
  const audit = auditRecordsOf(engine, tenantId, [entry]);
  const session: NewSession = {
    id: sessionId,
    createdAt,
    definition: {
      handle,
      name: agent ?? handle,
      kind: 'agent',
      harness: nativeHarness,
      capabilities: nativeCapabilities,
      conversationId: ids.next(),
      agent,
      model,
      labels: request.labels ?? {},
      workspace: null,
      permissions: request.permissions ?? null,
      parentSessionId: parentSessionId ?? null,
      owner: personOf(by),
      keyId: by.type === 'key' ? by.id : null,
    },
    progress: {
      ...progressOf(undefined, state, createdAt),
      activeRunId: null,
      releasedAt: null,
      dueAt: null,
    },
    events: [...sessionCreated(sessionId, parentSessionId), ...start.events],
  };
  const changes =
    from?.isForked === true ? [forkedChange(sessionId, from.parentSessionId, createdAt)] : [];
  const outcome = await sessions.create(session, { changes, audit });
  if (outcome.kind === 'handle-taken') {
    throw new RelayError('handle_taken', `A session that is not released has the handle ${handle}`);
  }
  if (outcome.kind === 'gone') {
    throw new RelayError('session_conflict', 'The session is released');
  }
  const stored = await sessions.read(sessionId);
  if (outcome.kind !== 'created' || stored === undefined) {
    throw new RelayError('storage_failed', `The session was not stored: ${outcome.kind}`);
  }
  return stored;
}

/** Of the session that was forked. */
export function forkedChange(
  sessionId: string,
  parentSessionId: string,
  at: number,
): SessionChange {
  const event = { type: 'session.forked', sessionId, parentSessionId } as const;
  return { sessionId: parentSessionId, at, events: [event] };
}
