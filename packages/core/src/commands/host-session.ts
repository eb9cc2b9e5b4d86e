/** Sessions of the harnesses of `relay.config.ts`: they live in the process of the node that created them. */
import {
  type AgentSessionCapabilities,
  type Decider,
  personOf,
  RelayError,
  type SessionEventOf,
  type SessionIdentity,
} from '@relay/protocol';
import type { Engine } from '../engine.ts';
import { auditRecordsOf } from '../governance/audit.ts';
import type { SessionRecord, SessionRef } from '../ports/index.ts';
import { decideSession, sessionCreated } from '../sessions/session-machine.ts';
import { newSession, progressOf, type SessionHost } from '../sessions/state.ts';
import { changeSession } from './change-session.ts';

/** What a harness returned. */
export interface HostedDefinition {
  readonly identity: SessionIdentity;
  readonly capabilities: AgentSessionCapabilities;
  readonly host: SessionHost;
}

export interface HostedSessionRequest extends HostedDefinition {
  readonly tenantId: string;
  readonly by: Decider;
  readonly sessionId: string;
  readonly harness: string;
  readonly agent?: string | undefined;
  readonly model?: string | undefined;
  readonly labels: Readonly<Record<string, string>>;
}

type HostingEngine = Pick<Engine, 'store' | 'clock' | 'ids' | 'settings' | 'audit'>;

/** Throws `handle_taken`. */
export async function createHostedSession(
  engine: HostingEngine,
  request: HostedSessionRequest,
): Promise<SessionRecord> {
  const { tenantId, by, sessionId, harness, identity, capabilities, host, labels } = request;
  const { agent = null, model = null } = request;
  const { handle, name, kind } = identity;
  const { sessions } = engine.store.tenant(tenantId);
  const now = engine.clock.now();
  const start = decideSession(newSession, { type: 'start', sessionId });
  if (start.kind !== 'accepted') throw new TypeError('A new session can start');
  const what = { sessionId, handle, harness };
  const outcome = await sessions.create(
    {
      id: sessionId,
      createdAt: now,
      definition: {
        handle,
        name,
        kind,
        harness,
        capabilities,
        conversationId: engine.ids.next(),
        agent,
        model,
        labels,
        workspace: null,
        permissions: null,
        parentSessionId: null,
        owner: personOf(by),
        keyId: by.type === 'key' ? by.id : null,
      },
      progress: {
        ...progressOf(undefined, { ...start.state, attachedAt: now, host }, now),
        activeRunId: null,
        releasedAt: null,
        dueAt: null,
      },
      events: [...sessionCreated(sessionId), ...start.events],
    },
    {
      audit: auditRecordsOf(engine, tenantId, [
        { at: now, who: by, action: 'session.attached', what, why: null },
      ]),
    },
  );
  if (outcome.kind === 'handle-taken') {
    throw new RelayError('handle_taken', `Another session has the handle ${handle}`);
  }
  const session = await sessions.read(sessionId);
  if (session !== undefined) return session;
  throw new RelayError('storage_failed', `The session was not stored: ${outcome.kind}`);
}

/** The harness has attached to it again. */
export function reattachHostedSession(
  engine: HostingEngine,
  ref: SessionRef,
  { identity: { name, kind }, capabilities, host }: HostedDefinition,
): Promise<SessionRecord> {
  return changeSession(engine, ref, ({ session, now }) => {
    if (session.releasedAt !== null) return undefined;
    return {
      inputs: [{ type: 'attach' }],
      attachedAt: now,
      host,
      redefine: { name, kind, capabilities },
    };
  });
}

/** The harness cannot attach to it. */
export function loseHostedSession(
  engine: HostingEngine,
  ref: SessionRef,
  { reason, error }: { readonly reason: string; readonly error?: HarnessFault },
): Promise<SessionRecord> {
  return changeSession(engine, ref, ({ session, state }) => {
    if (session.releasedAt !== null || state.lifecycle === 'failed') return undefined;
    // Once per loss, not with each attempt.
    if (state.connection === 'unreachable') return undefined;
    const events = error === undefined ? [] : [{ type: 'error', ...error } as const];
    return { inputs: [{ type: 'lose', reason }], events };
  });
}

/** What the harness needs to attach again. */
export function saveHostedState(
  engine: HostingEngine,
  ref: SessionRef,
  saved: unknown,
): Promise<SessionRecord> {
  return changeSession(engine, ref, ({ session, state }) =>
    session.releasedAt !== null || state.host === undefined
      ? undefined
      : { host: { ...state.host, saved } },
  );
}

type HarnessFault = Pick<SessionEventOf<'error'>, 'error' | 'code' | 'retryable'>;

/** What a harness did wrong, in the journal of its session. */
export function recordHarnessFault(
  engine: HostingEngine & Pick<Engine, 'redact'>,
  ref: SessionRef,
  fault: HarnessFault,
): Promise<SessionRecord> {
  const error = engine.redact?.(fault.error) ?? fault.error;
  return changeSession(engine, ref, ({ session }) =>
    session.releasedAt !== null ? undefined : { events: [{ type: 'error', ...fault, error }] },
  );
}
