/** `/v1/actions` and `/v1/invocations`: register, list, remove and invoke actions, and report results. */
import * as core from '@relay/core';
import type { Action, ActionRecord, InvocationRecord, SessionRecord } from '@relay/core';
import { personOf, RelayError, toolNameForm } from '@relay/protocol';
import { signedAs } from '../../../outbound/actions.ts';
import { closedSignal } from '../../../streaming/response-writer.ts';
import { invalidField, notFound } from '../../errors.ts';
import { presentAction, presentInvocation } from '../../views/action.ts';
import { checkUrl } from '../governance/credentials.ts';
import { type ApiRequest, auditEntry, type Handler, storeOf } from '../handler.ts';
import { senderOf } from './messages.ts';
import { ownSession } from './sessions.ts';
import { idempotencyKeyOf } from '../runs/start.ts';

function ownActions({ context }: ApiRequest): ReadonlyMap<string, Action> {
  return context.control.engine.invocations?.own ?? new Map();
}

export const registerAction: Handler<'registerAction'> = async (call) => {
  const { context, caller, body } = call;
  const { name, handler, outputSchema = null, availableTo = null, timeoutMs = null } = body;
  const sessionId = 'sessionId' in handler ? handler.sessionId : null;
  const url = 'url' in handler ? handler.url : null;
  if (sessionId !== null) await requireExposing(call, sessionId);
  if (url !== null) requireUrl(call, url);
  const action: ActionRecord = {
    name,
    description: body.description,
    inputSchema: body.inputSchema,
    outputSchema,
    sessionId,
    url,
    availableTo,
    timeoutMs,
    idempotent: body.idempotent ?? false,
    createdAt: context.control.engine.clock.now(),
    createdBy: caller.actor,
  };
  // The path may be a secret: only the origin is audited.
  const what = {
    action: name,
    ...(sessionId === null ? {} : { sessionId }),
    ...(url === null ? {} : { origin: new URL(url).origin }),
  };
  const { actions } = storeOf(call);
  const isAdded =
    !ownActions(call).has(name) &&
    (await actions.add(action, auditEntry(call, 'action.registered', what)));
  if (!isAdded) {
    // Released meanwhile, or taken.
    if (sessionId !== null) await requireExposing(call, sessionId);
    throw new RelayError('action_name_taken', `Another action has the name ${name}`);
  }
  if (url === null) return presentAction(action, true);
  const secret = context.signer.secretOf(signedAs(caller.tenantId, action));
  context.log.addSecret(secret);
  return { ...presentAction(action, true), secret };
};

async function requireExposing(call: ApiRequest, sessionId: string): Promise<void> {
  await ownSession(call, sessionId);
  const session = await storeOf(call).sessions.read(sessionId);
  if (session === undefined || session.releasedAt !== null) {
    throw new RelayError('session_conflict', 'The session is released and exposes no actions');
  }
  core.requireCapability(session, { type: 'expose-action' });
}

function requireUrl(call: ApiRequest, url: string): void {
  if (call.caller.session !== undefined) {
    throw new RelayError(
      'scope_required',
      'A session token registers only actions of its own session; use an API key for a URL',
    );
  }
  checkUrl(call, 'handler.url', url);
}

export const listActions: Handler<'listActions'> = async (call) => {
  const { limit, cursor: after = '' } = call.query;
  if (after !== '' && !toolNameForm.test(after)) throw invalidField('cursor', 'Invalid cursor');
  const session = await callingSession(call);
  const stored = await storeOf(call).actions.list({ after, limit: limit + 1 });
  const own = [...ownActions(call).values()].filter(({ name }) => name > after);
  const taken = new Set(own.map(({ name }) => name));
  const found = [...own, ...stored.filter(({ name }) => !taken.has(name))].toSorted((a, b) =>
    a.name < b.name ? -1 : 1,
  );
  const page = found.slice(0, limit);
  const shown =
    call.caller.session === undefined
      ? page
      : page.filter((action) => core.isAvailableTo(action, session));
  return {
    actions: shown.map((action) => presentAction(action, isOwn(call, action))),
    nextCursor: found.length > limit ? (page.at(-1)?.name ?? null) : null,
  };
};

/** Of who registered it, or an administrator. */
function isOwn({ caller }: ApiRequest, { createdBy }: Pick<ActionRecord, 'createdBy'>): boolean {
  return personOf(createdBy) === personOf(caller.actor) || caller.scopes.has('admin');
}

async function callingSession(call: ApiRequest): Promise<SessionRecord | undefined> {
  const { session } = call.caller;
  return session === undefined ? undefined : storeOf(call).sessions.read(session.id);
}

/** By who registered it, the session that carries it out, its owner, or an administrator. */
export const removeAction: Handler<'removeAction'> = async (call) => {
  const { name } = call.params;
  if (ownActions(call).has(name)) {
    throw new RelayError(
      'session_conflict',
      `The action ${name} belongs to relay.config.ts; remove it there`,
    );
  }
  const { actions } = storeOf(call);
  const action = await actions.read(name);
  if (action === undefined) throw notFound('action');
  const { sessionId } = action;
  if (!isOwn(call, action)) {
    if (sessionId === null) {
      throw new RelayError('scope_required', 'Requires a key of who registered it, or scope admin');
    }
    await ownSession(call, sessionId);
  }
  const audit = auditEntry(call, 'action.removed', { action: name });
  if (!(await actions.remove(name, audit))) throw notFound('action');
};

export const invokeAction: Handler<'invokeAction'> = async (call) => {
  const { body, params, query } = call;
  const request = {
    action: params.name,
    input: body.input,
    idempotencyKey: idempotencyKeyOf(call),
  };
  const ended = await invoke(call, request, query.waitMs);
  if (ended.endedAt === null) call.reply.code(202);
  return presentInvocation(ended);
};

/** The invocation when it has ended, or as it is after `waitMs`. Throws `action_denied`. */
export async function invoke(
  call: ApiRequest,
  request: core.ActionRequest,
  waitMs: number,
): Promise<InvocationRecord> {
  const { caller, context, reply } = call;
  const { tenantId, actor: by } = caller;
  const author = { tenantId, from: senderOf(caller), by };
  const { invocation, replayed } = await core.invokeAction(context.control.engine, author, request);
  if (replayed) reply.header('idempotent-replayed', 'true');
  const ended = await awaitInvocation(call, invocation.id, waitMs);
  if (ended.status !== 'denied') return ended;
  throw new RelayError('action_denied', ended.error?.message ?? 'The action was denied');
}

/** Ends with the invocation, the connection or the server, or after the time. */
async function awaitInvocation(call: ApiRequest, id: string, ms: number) {
  const { context, caller, reply } = call;
  const { invocations } = context.control.engine;
  if (invocations === undefined) return core.readInvocation(storeOf(call), id);
  const closing = new AbortController();
  const remove = context.streams.add(caller, (reason) => closing.abort(reason));
  const signal = AbortSignal.any([closedSignal(reply.raw), closing.signal]);
  try {
    return await invocations.waitFor(caller.tenantId, id, { ms, signal });
  } finally {
    remove();
  }
}

export const getInvocation: Handler<'getInvocation'> = async (call) => {
  const invocation = await core.readInvocation(storeOf(call), call.params.id);
  const { session } = call.caller;
  const isShown =
    session === undefined || invocation.by.id === session.id || invocation.sessionId === session.id;
  if (!isShown) throw notFound('invocation');
  return presentInvocation(invocation);
};

export const postInvocationResult: Handler<'postInvocationResult'> = async (call) => {
  const { params, body, context, caller } = call;
  const { sessionId, by } = await core.readInvocation(storeOf(call), params.id);
  // An invocation of others is answered exactly like one that does not exist.
  const { session } = caller;
  const isHidden = session !== undefined && sessionId !== session.id && by.id !== session.id;
  if (isHidden) throw notFound('invocation');
  if (sessionId === null) {
    throw new RelayError('receipt_conflict', 'Relay itself carries out this invocation');
  }
  const ref = await ownSession(call, sessionId);
  const { engine } = context.control;
  return presentInvocation(await core.recordResult(engine, ref, params.id, body));
};
