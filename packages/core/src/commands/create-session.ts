/** Creates a native session: one of this server's agents, under a handle. */
import { type Decider, type Permissions, personOf, RelayError } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import { auditRecordsOf } from '../governance/audit.ts';
import type { NewSession, SessionRecord } from '../ports/index.ts';
import { nativeCapabilities, nativeHarness } from '../sessions/native.ts';
import { decideSession, sessionCreated } from '../sessions/session-machine.ts';
import { newSession, progressOf } from '../sessions/state.ts';

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
}

/** Throws `handle_taken`. */
export async function createNativeSession(
  engine: Pick<Engine, 'store' | 'clock' | 'ids' | 'audit'>,
  request: NativeSessionRequest,
): Promise<SessionRecord> {
  const { store, clock, ids } = engine;
  const { tenantId, by, handle, agent = null, model = null } = request;
  const { sessions } = store.tenant(tenantId);
  const sessionId = ids.next();
  const createdAt = clock.now();
  const start = decideSession(newSession, { type: 'start', sessionId });
  if (start.kind !== 'accepted') throw new TypeError('A new session can start');
  const what = { sessionId, handle, harness: nativeHarness };
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
      parentSessionId: null,
      owner: personOf(by),
      keyId: by.type === 'key' ? by.id : null,
    },
    progress: {
      ...progressOf(undefined, start.state, createdAt),
      activeRunId: null,
      releasedAt: null,
      dueAt: null,
    },
    events: [...sessionCreated(sessionId), ...start.events],
  };
  const outcome = await sessions.create(session, { audit });
  if (outcome.kind === 'handle-taken') {
    throw new RelayError('handle_taken', `A session that is not released has the handle ${handle}`);
  }
  const stored = await sessions.read(sessionId);
  if (outcome.kind !== 'created' || stored === undefined) {
    throw new RelayError('storage_failed', `The session was not stored: ${outcome.kind}`);
  }
  return stored;
}
