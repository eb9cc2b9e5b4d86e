/** Sessions of the harnesses of `relay.config.ts`: they live in the process of the node that created them. */
import {
  type AgentSessionCapabilities,
  type Decider,
  defined,
  type Permissions,
  type SessionEventOf,
  type SessionIdentity,
} from '@relay/protocol';
import type { Engine } from '../../engine.ts';
import type { SessionRecord, SessionRef } from '../../ports/index.ts';
import type { SessionHost } from '../../sessions/state.ts';
import { auditRecordsOf } from '../../governance/audit.ts';
import { changeSession } from './change-session.ts';
import { createSession } from './create.ts';
import { withoutSecrets } from './record-receipt.ts';

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
  readonly permissions?: Permissions | undefined;
  /** Relative to the tenant's workspace. */
  readonly workspace?: string | undefined;
  /** Of the token of its agent. */
  readonly tokenHash?: string | undefined;
  /** It is `starting` until the harness reports another status. */
  readonly isStarting?: boolean;
  /** The session that it continues. */
  readonly parentSessionId?: string | undefined;
  /** Its journal says so, too. */
  readonly isForked?: boolean;
}

type HostingEngine = Pick<Engine, 'store' | 'clock' | 'ids' | 'settings' | 'audit'>;

/** Throws `handle_taken`. */
export function createHostedSession(
  engine: HostingEngine,
  request: HostedSessionRequest,
): Promise<SessionRecord> {
  const { tenantId, by, sessionId, harness, identity, capabilities, host, labels } = request;
  const { agent = null, model = null, parentSessionId = null, isForked = false } = request;
  const { permissions = null, workspace = null, tokenHash, isStarting = false } = request;
  const { handle, name, kind } = identity;
  return createSession(engine, {
    tenantId,
    by,
    sessionId,
    action: 'session.attached',
    definition: {
      handle,
      name,
      kind,
      harness,
      capabilities,
      agent,
      model,
      labels,
      permissions,
      workspace,
      parentSessionId,
    },
    isForked,
    tokenHash,
    begin: isStarting ? null : 'start',
    state: { attachedAt: engine.clock.now(), host },
    dueAt: null,
  });
}

export interface HostedAttachment extends HostedDefinition {
  /** Of the new token of its agent; the one before has ended. */
  readonly tokenHash?: string | undefined;
  /** The stream that the node has claimed: unless it has it still, nothing is changed. */
  readonly streamId: string;
}

/** The harness has attached to it again. */
export function reattachHostedSession(
  engine: HostingEngine,
  ref: SessionRef,
  attachment: HostedAttachment,
): Promise<SessionRecord> {
  const { identity, capabilities, host, tokenHash, streamId } = attachment;
  const { name, kind } = identity;
  return changeSession(engine, ref, ({ session, now }) => {
    if (session.releasedAt !== null || session.stream?.id !== streamId) return undefined;
    return {
      inputs: [{ type: 'attach' }],
      attachedAt: now,
      host,
      redefine: { name, kind, capabilities, ...defined({ tokenHash }) },
      ifStream: streamId,
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

/** What a session does that was not approved, in its journal and in the audit trail. */
export async function recordBreach(
  engine: HostingEngine & Pick<Engine, 'redact' | 'audit'>,
  ref: SessionRef,
  breach: { readonly tool: string; readonly error: string },
): Promise<void> {
  const { tool, error } = withoutSecrets(engine, breach);
  await changeSession(engine, ref, ({ session, now: at }) => {
    if (session.releasedAt !== null) return undefined;
    const { id: sessionId, tenantId, handle: name } = session;
    const who = { type: 'session', id: sessionId, name } as const;
    const entry = {
      at,
      who,
      action: 'call.breached',
      what: { sessionId, tool },
      why: null,
    } as const;
    const audit = auditRecordsOf(engine, tenantId, [entry]);
    return { events: [{ type: 'error', error, code: 'call_breached' }], write: { audit } };
  });
}

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
