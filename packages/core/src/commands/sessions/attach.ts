/**
 * A program, or a person, attaches under a handle.
 *
 * A handle that no session has is given to a new one. A session that has it is continued with a new token,
 * and the one before no longer works:
 *
 *   in use                its own token; everyone else gets `handle_taken`
 *   no longer in use      also the key that attached it, or the one that replaces it by rotation; of a fork that
 *                         no program has attached, those of its parent, too; any other key with `takeover` and
 *                         the scope `admin`
 *
 * In use means attached or streaming within the last 30 seconds.
 */
import {
  type AgentSessionCapabilities,
  type AuditAction,
  type Decider,
  defined,
  type IdentityKind,
  personOf,
  RelayError,
} from '@relay/protocol';
import type { Engine } from '../../engine.ts';
import { auditRecordsOf } from '../../governance/audit.ts';
import { keyIdOf } from '../../permission/approvers.ts';
import type { NewAuditEntry, SessionRecord, TenantStore } from '../../ports/index.ts';
import { changeSession, offlineAfterMs } from './change-session.ts';
import { createUnlessTaken } from './create.ts';

export interface NewAttachment {
  readonly tenantId: string;
  readonly by: Decider;
  readonly handle: string;
  readonly name: string;
  readonly kind: IdentityKind;
  readonly capabilities: AgentSessionCapabilities;
  readonly labels?: Readonly<Record<string, string>>;
  /** Of the new token. Undefined: the person uses the key. */
  readonly tokenHash?: string;
}

export interface AttachRequest extends NewAttachment {
  /** The session whose token the caller has. */
  readonly sessionId?: string;
  readonly mayTakeOver: boolean;
  readonly takeover: boolean;
}

type AttachEngine = Pick<Engine, 'store' | 'clock' | 'ids' | 'settings' | 'audit'>;

export async function attachSession(
  engine: AttachEngine,
  request: AttachRequest,
): Promise<SessionRecord> {
  const { sessions } = engine.store.tenant(request.tenantId);
  for (;;) {
    const holder = await sessions.readByHandle(request.handle);
    if (request.sessionId !== undefined && holder?.id !== request.sessionId) {
      throw new RelayError(
        'scope_required',
        `This session token is not that of the handle ${request.handle}: a token attaches only its own session`,
      );
    }
    const attached =
      holder === undefined
        ? await createAttachedSession(engine, request)
        : await attachAgain(engine, request, holder.id);
    if (attached !== undefined) return attached;
  }
}

/** Undefined if another request took the handle first. */
export function createAttachedSession(
  engine: AttachEngine,
  { tenantId, by, handle, name, kind, capabilities, labels, tokenHash }: NewAttachment,
): Promise<SessionRecord | undefined> {
  const now = engine.clock.now();
  const harness = kind === 'human' ? 'human' : 'remote';
  return createUnlessTaken(engine, {
    tenantId,
    by,
    sessionId: engine.ids.next(),
    action: 'session.attached',
    definition: { handle, name, kind, harness, capabilities, ...defined({ labels }) },
    tokenHash,
    begin: 'attach',
    state: { attachedAt: now },
    dueAt: harness === 'human' ? null : now + offlineAfterMs,
  });
}

/** Undefined if the session was released or dropped meanwhile: the handle is free. */
async function attachAgain(
  engine: AttachEngine,
  request: AttachRequest,
  sessionId: string,
): Promise<SessionRecord | undefined> {
  const { tenantId, by, name, kind, capabilities, tokenHash = null } = request;
  const ref = { tenantId, sessionId };
  try {
    return await changeSession(engine, ref, async ({ store, session, now }) => {
      if (session.releasedAt !== null) throw new HandleFree();
      const isOwn = request.sessionId === session.id;
      const isTakenOver = !isOwn && (await rejectUnlessFree(store, request, session, now));
      const isHuman = session.harness === 'human';
      if (isHuman !== (kind === 'human') || (!isHuman && session.harness !== 'remote')) {
        throw new RelayError(
          'handle_taken',
          `The handle ${session.handle} belongs to a session of the harness ${session.harness}`,
        );
      }
      const what = { sessionId, handle: session.handle, harness: session.harness };
      const action = isTakenOver ? 'session.taken-over' : 'session.attached';
      return {
        inputs: [{ type: 'attach' }],
        attachedAt: now,
        redefine: {
          name,
          kind,
          capabilities,
          tokenHash,
          ...(isOwn ? {} : { owner: personOf(by), keyId: keyIdOf(by) }),
        },
        write: { audit: entryOf(engine, request, action, what) },
      };
    });
  } catch (error) {
    const isGone = error instanceof RelayError && error.code === 'not_found';
    if (isGone || error instanceof HandleFree) return undefined;
    throw error;
  }
}

class HandleFree extends Error {}

/** Whether the handle is taken over from another key. Throws `handle_taken` or `scope_required`. */
async function rejectUnlessFree(
  store: TenantStore,
  request: AttachRequest,
  session: SessionRecord,
  now: number,
): Promise<boolean> {
  const { handle } = session;
  if (isInUse(session, now)) {
    throw new RelayError(
      'handle_taken',
      `The handle ${handle} is in use: it is free ${offlineAfterMs / 1000} s after the last contact of its program. Try again then, attach with its session token, or choose another handle`,
    );
  }
  if (await isKeyOf(store, session, request.by)) return false;
  const parent = await parentOfNewFork(store, session);
  if (parent !== undefined && (await isKeyOf(store, parent, request.by))) return false;
  if (!request.takeover) {
    throw new RelayError(
      'handle_taken',
      `Another key attached the handle ${handle}: choose another handle, or set takeover with a key that has the scope admin`,
    );
  }
  if (!request.mayTakeOver) {
    throw new RelayError('scope_required', 'takeover requires a key with the scope admin');
  }
  return true;
}

/** The program of the parent carries out a fork, and attaches it with its own key. */
async function parentOfNewFork(
  store: TenantStore,
  { state, parentSessionId }: SessionRecord,
): Promise<SessionRecord | undefined> {
  if (state.attachedAt !== undefined || parentSessionId === null) return undefined;
  return store.sessions.read(parentSessionId);
}

/** The key that attached the session, or one that replaces it by rotation. */
async function isKeyOf(
  store: TenantStore,
  { keyId }: SessionRecord,
  { type, id }: Decider,
): Promise<boolean> {
  if (keyId === null || type !== 'key') return false;
  return keyId === id || (await store.readKey(id))?.replaces.includes(keyId) === true;
}

/** A fork is not in use before its program has attached. */
export function isInUse(
  {
    releasedAt,
    stream,
    seenAt,
    state,
  }: Pick<SessionRecord, 'releasedAt' | 'stream' | 'seenAt' | 'state'>,
  now: number,
): boolean {
  if (state.attachedAt === undefined) return false;
  return releasedAt === null && (stream !== null || now - seenAt < offlineAfterMs);
}

function entryOf(
  engine: AttachEngine,
  { tenantId, by: who }: AttachRequest,
  action: AuditAction,
  what: Readonly<Record<string, string>>,
): NewAuditEntry[] {
  const at = engine.clock.now();
  return auditRecordsOf(engine, tenantId, [{ at, who, action, what, why: null }]);
}
