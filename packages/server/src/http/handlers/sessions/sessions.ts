/** `/v1/sessions`: attach, read, follow, change and end sessions, and what their programs report. */
import * as core from '@relay/core';
import type { LifecycleCommand, SessionFilter, SessionRecord } from '@relay/core';
import {
  defined,
  type Permissions,
  personOf,
  type QueryOf,
  RelayError,
  type StoredSessionEvent,
} from '@relay/protocol';
import { hashApiKey, makeSessionToken } from '../../../secrets/keys.ts';
import { requireModel } from '../../../outbound/providers.ts';
import type { SessionOperations } from '../../../sessions/harnesses.ts';
import { streamDeliveries } from '../../../streaming/deliveries.ts';
import { closedSignal } from '../../../streaming/response-writer.ts';
import { sessionProjection } from '../../../streaming/sse-stream.ts';
import { streamJson } from '../../../streaming/stream-json.ts';
import { streamJournal } from '../../../streaming/stream-run.ts';
import * as subscribe from '../../../streaming/subscribe.ts';
import { notFound } from '../../errors.ts';
import { parseTime, readListed } from '../../views/pagination.ts';
import { presentDelivery } from '../../views/message.ts';
import { presentSession, presentSummary } from '../../views/session.ts';
import { type ApiRequest, auditEntry, type Handler, storeOf } from '../handler.ts';
import { labelOf, lastEventId, rejectPastEnd } from '../runs/runs.ts';
import { choosePermissions, idempotencyKeyOf } from '../runs/start.ts';

export const createSession: Handler<'createSession'> = async (call) => {
  const { context, caller, body } = call;
  await choosePermissions(call, body.permissions);
  const harness = context.harnesses.named(body.harness);
  requireProcessScope(call, harness, body.harness);
  const { tenantId, actor: by } = caller;
  return present(call, await harness.create({ tenantId, by, body }));
};

/** A program with a shell can do what its approvers allow: only an approver starts one. */
function requireProcessScope(
  { caller }: ApiRequest,
  { runsProcesses }: Pick<SessionOperations, 'runsProcesses'>,
  name: string,
): void {
  if (runsProcesses !== true || caller.scopes.has('approve')) return;
  throw new RelayError(
    'scope_required',
    `This key lacks the scope approve: the harness ${name} runs programs`,
  );
}

export const attachSession: Handler<'attachSession'> = async (call) => {
  const { caller, context, body } = call;
  const { handle, identity, capabilities, takeover = false } = body;
  const token = makeSessionToken();
  const session = await core.attachSession(context.control.engine, {
    tenantId: caller.tenantId,
    by: caller.actor,
    mayTakeOver: caller.scopes.has('admin'),
    takeover,
    handle,
    ...identity,
    capabilities,
    tokenHash: hashApiKey(token),
    ...defined({ sessionId: caller.session?.id }),
  });
  return { session: present(call, session), token };
};

export const listSessions: Handler<'listSessions'> = async (call) => {
  const { harness, label } = call.query;
  if (call.caller.session !== undefined && (harness ?? label) !== undefined) {
    throw new RelayError(
      'scope_required',
      'A session token shows no harnesses and labels of sessions: filter by status, or use an API key',
    );
  }
  if (call.query.handle !== undefined) return sessionsWith(call, call.query.handle);
  const list = (page: core.Page) => storeOf(call).sessions.list(filterOf(call.query), page);
  const { items, ...rest } = await readListed(call.query, list);
  return { sessions: items.map((session) => presentShown(call, session)), ...rest };
};

async function sessionsWith(call: ApiRequest, handle: string) {
  const { sessions } = storeOf(call);
  const found = await Promise.all([sessions.readByHandle(handle), sessions.readReleased(handle)]);
  const shown = found.flatMap((session) =>
    session === undefined ? [] : presentShown(call, session),
  );
  return { sessions: shown, nextCursor: null };
}

function filterOf({ status, harness, label }: QueryOf<'listSessions'>): SessionFilter {
  return defined({ status, harness, label: labelOf(label) });
}

export const getSession: Handler<'getSession'> = async (call) =>
  presentShown(call, await findSession(call, call.params.id));

/** A session token shows handle and status of other sessions. */
function presentShown(call: ApiRequest, session: SessionRecord) {
  const { session: own } = call.caller;
  return own === undefined || own.id === session.id
    ? present(call, session)
    : presentSummary(session);
}

function present({ context }: ApiRequest, session: SessionRecord) {
  return presentSession(session, context.control.engine.clock.now());
}

/** Another tenant's session is answered exactly like one that does not exist. */
async function findSession(call: ApiRequest, sessionId: string): Promise<SessionRecord> {
  const session = await storeOf(call).sessions.read(sessionId);
  if (session === undefined) throw notFound('session');
  return session;
}

/** The whole journal, or a page of it, is written as it is read. */
export const listSessionEvents: Handler<'listSessionEvents'> = async (call) => {
  const { limit = Infinity } = call.query;
  const session = await findSession(call, call.params.id);
  const after = positionIn(session, call.query.after);
  const pages = readJournal(call, session, { after, limit });
  // Before the response starts: a damaged journal is an error response.
  const first = await pages.next();
  await streamJson(call, eventLog(present(call, session), session.lastSeq, first, pages));
};

/** Where to read on. Who has read nothing begins with what is kept. Throws `journal_pruned`. */
function positionIn(session: SessionRecord, given: number | undefined): number {
  const { prunedSeq } = session;
  const after = given ?? prunedSeq;
  rejectPastEnd(after, session);
  if (after >= prunedSeq) return after;
  throw new RelayError(
    'journal_pruned',
    `The events up to ${prunedSeq} are no longer kept; read on with after=${prunedSeq}`,
  );
}

async function* readJournal(
  call: ApiRequest,
  { id, lastSeq }: SessionRecord,
  { after, limit }: { after: number; limit: number },
): AsyncGenerator<StoredSessionEvent[], void> {
  const { sessions } = storeOf(call);
  let left = limit;
  for (let cursor = after; cursor < lastSeq && left > 0;) {
    const range = { after: cursor, limit: Math.min(left, lastSeq - cursor) };
    const { events } = await sessions.readPage(id, { ...range, maxBytes: core.pageBytes });
    const last = events.at(-1);
    if (last === undefined) return;
    cursor = last.seq;
    left -= events.length;
    yield events;
  }
}

async function* eventLog(
  session: object,
  lastSeq: number,
  first: IteratorResult<StoredSessionEvent[], void>,
  pages: AsyncGenerator<StoredSessionEvent[], void>,
): AsyncGenerator<string, void> {
  yield `{"session":${JSON.stringify(session)},"events":[`;
  let separator = '';
  let seq = lastSeq;
  for (let page = first; page.done !== true; page = await pages.next()) {
    seq = page.value.at(-1)?.seq ?? seq;
    yield separator + page.value.map((event) => JSON.stringify(event)).join(',');
    separator = ',';
  }
  yield `],"nextCursor":${JSON.stringify(seq < lastSeq ? String(seq) : null)}}`;
}

export const followSession: Handler<'followSession'> = async (call) => {
  const session = await findSession(call, call.params.id);
  const after = positionIn(session, lastEventId(call) ?? call.query.after);
  // A 204 makes an SSE client stop reconnecting.
  if (session.releasedAt !== null && after === session.lastSeq) return;
  const sessionId = session.id;
  const source = { store: storeOf(call), hub: call.context.sessionHub, sessionId };
  const batches = subscribe.followSession(source, {
    after,
    follow: call.query.follow === 'true',
    signal: closedSignal(call.reply.raw),
  });
  const isEnd = ({ type }: StoredSessionEvent) => type === 'session.released';
  void streamJournal(call, {
    projection: sessionProjection,
    batches,
    isEnd,
    subject: { sessionId },
  });
};

export const updateSession: Handler<'updateSession'> = async (call) => {
  const { context, caller, body } = call;
  const { tenantId } = caller;
  const redefine = defined({ model: body.model, labels: body.labels });
  const ref = { tenantId, sessionId: call.params.id };
  const { engine } = context.control;
  const session = await core.changeSession(engine, ref, async ({ session }) => {
    if (session.releasedAt !== null) throw core.sessionReleased(session);
    if (body.model !== undefined && core.hasProgram(session)) {
      throw new RelayError(
        'session_conflict',
        `A session of the harness ${session.harness} has no model of Relay’s`,
      );
    }
    if (body.model !== undefined) await requireModel(engine.models(tenantId), body.model);
    return Object.keys(redefine).length === 0 ? undefined : { redefine };
  });
  return present(call, session);
};

export const deleteSession: Handler<'deleteSession'> = async (call) => {
  const { context, caller } = call;
  const { tenantId, actor: by } = caller;
  const { id: sessionId, handle } = await findSession(call, call.params.id);
  const audit = auditEntry(call, 'session.deleted', { sessionId, handle });
  if (!(await core.dropSession(context.control, { tenantId, sessionId }, { by, audit }))) {
    throw notFound('session');
  }
};

async function commandSession(
  call: ApiRequest & { readonly params: { readonly id: string } },
  name: LifecycleCommand,
) {
  const { context, caller } = call;
  const session = await findSession(call, call.params.id);
  const ref = { tenantId: caller.tenantId, sessionId: session.id };
  const by = { by: caller.actor, isAdmin: caller.scopes.has('admin') };
  const changed = await context.harnesses.of(session).command(ref, name, by);
  return present(call, changed);
}

export const releaseSession: Handler<'releaseSession'> = (call) => commandSession(call, 'release');
export const pauseSession: Handler<'pauseSession'> = (call) => commandSession(call, 'pause');
export const resumeSession: Handler<'resumeSession'> = (call) => commandSession(call, 'resume');
export const cancelSession: Handler<'cancelSession'> = (call) => commandSession(call, 'cancel');

export const forkSession: Handler<'forkSession'> = async (call) => {
  const { context, caller, body } = call;
  const parent = await findSession(call, call.params.id);
  // An allow-once of the session is not granted again.
  const { allowOnce: _, ...inherited } = (parent.permissions ?? {}) as Permissions;
  const permissions = await choosePermissions(call, inherited);
  const harness = context.harnesses.of(parent);
  requireProcessScope(call, harness, parent.harness);
  return present(call, await harness.fork(parent, { ...body, by: caller.actor, permissions }));
};

export const snapshotSession: Handler<'snapshotSession'> = async (call) => {
  const session = await findSession(call, call.params.id);
  const harness = call.context.harnesses.of(session);
  const { id, sessionId, seq } = await harness.snapshot(session);
  return { id, sessionId, seq };
};

export const flushSession: Handler<'flushSession'> = async (call) => {
  const { id: sessionId } = await findSession(call, call.params.id);
  const ref = { tenantId: call.caller.tenantId, sessionId };
  return present(call, await core.flushSession(call.context.control.engine, ref));
};

/** What is typed may be a password: the audit trail has only its length. */
export const inputSession: Handler<'inputSession'> = async (call) => {
  const { body } = call;
  const session = await findSession(call, call.params.id);
  const { id: sessionId, handle } = session;
  const audit =
    'text' in body
      ? auditEntry(call, 'session.typed', { sessionId, handle, characters: body.text.length })
      : [];
  await call.context.harnesses.of(session).input(session, body, audit);
};

/** What only the session itself may do: with its token, or with a key of its owner. */
export async function ownSession(call: ApiRequest, sessionId: string) {
  const session = await findSession(call, sessionId);
  const { caller } = call;
  const isOwn =
    caller.session === undefined
      ? personOf(caller.actor) === session.owner
      : caller.session.id === session.id;
  if (!isOwn) {
    throw new RelayError(
      'scope_required',
      'Requires the token of the session, or a key of its owner',
    );
  }
  return { tenantId: caller.tenantId, sessionId: session.id, harness: session.harness };
}

/** The same, for what the program of a session reports. */
async function ownProgram(call: ApiRequest, sessionId: string) {
  const own = await ownSession(call, sessionId);
  const { harness } = own;
  if (harness === 'remote' || harness === 'human') return own;
  throw new RelayError(
    'session_conflict',
    `Relay itself reports what a session of the harness ${harness} does`,
  );
}

export const reportSessionEvents: Handler<'reportSessionEvents'> = async (call) => {
  const ref = await ownProgram(call, call.params.id);
  const { body } = call;
  const events = body.type === undefined ? body.events : [body];
  const { engine } = call.context.control;
  const key = idempotencyKeyOf(call);
  return present(call, await core.reportEvents(engine, ref, events, key));
};

export const followDeliveries: Handler<'followDeliveries'> = async (call) => {
  await streamDeliveries(call, await ownProgram(call, call.params.id));
};

export const postReceipt: Handler<'postReceipt'> = async (call) => {
  const { params, body, context } = call;
  const ref = await ownProgram(call, params.id);
  const { status, availableAt, reason, retryable } = body;
  const receipt = {
    status,
    ...defined({ availableAt: parseTime(availableAt), reason, retryable }),
  };
  const { engine } = context.control;
  return presentDelivery(await core.recordReceipt(engine, ref, params.deliveryId, receipt));
};

export const answerCommand: Handler<'answerCommand'> = async (call) => {
  const { params, body, context } = call;
  const ref = await ownProgram(call, params.id);
  const { engine } = context.control;
  return present(call, await core.answerCommand(engine, ref, params.commandId, body));
};
