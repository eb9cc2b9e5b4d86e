/** `/v1/messages` and `/v1/deliveries`: send, list, change, wait and deliver again. */
import * as core from '@relay/core';
import { defined, type Sender } from '@relay/protocol';
import { closedSignal } from '../../../streaming/response-writer.ts';
import type { Caller } from '../../auth.ts';
import { notFound } from '../../errors.ts';
import { presentDelivery, presentMessage } from '../../views/message.ts';
import { parseTime, readListed, readListedBySize } from '../../views/pagination.ts';
import { type ApiRequest, type Handler, type RouteRequest, storeOf } from '../handler.ts';

type Shown = ReturnType<typeof presentMessage>;

/** Whatever a body says, the sender is who has authenticated. */
export function senderOf({ actor, session }: Caller): Sender {
  if (session !== undefined) return { type: 'session', id: session.id, name: session.handle };
  return { type: 'key', id: actor.id, name: actor.name };
}

export const sendMessage: Handler<'sendMessage'> = async (call) => {
  const { context, caller, body } = call;
  const { tenantId, actor: by } = caller;
  const { to, ...draft } = body;
  const addresses = typeof to === 'string' ? [to] : to;
  const sent = await core.sendMessage(
    context.control,
    { tenantId, from: senderOf(caller), by },
    { ...draft, ...defined({ to: addresses }) },
  );
  if (sent.replayed) call.reply.header('idempotent-replayed', 'true');
  return presentMessage(sent.message, sent.deliveries);
};

export const listMessages: Handler<'listMessages'> = async (call) => {
  const { channel, with: handle, thread, q: query, since, ...page } = call.query;
  const store = storeOf(call);
  const participant = handle === undefined ? undefined : await sessionWith(store, handle);
  // Nobody has that handle, so nobody has written to it.
  if (handle !== undefined && participant === undefined) return { messages: [], nextCursor: null };
  const filter = defined({
    channel,
    with: participant,
    thread,
    query,
    since: parseTime(since),
    visibleTo: await visibilityOf(call),
  });
  const { items, ...rest } = await readListedBySize(page, (each) =>
    store.messages.list(filter, each),
  );
  return { messages: await Promise.all(items.map((each) => shown(call, each))), ...rest };
};

async function sessionWith(store: core.TenantStore, handle: string): Promise<string | undefined> {
  const { sessions } = store;
  const session = (await sessions.readByHandle(handle)) ?? (await sessions.readReleased(handle));
  return session?.id;
}

/** A key reads all messages of its tenant. */
async function visibilityOf(call: ApiRequest): Promise<core.MessageReader | undefined> {
  const { session } = call.caller;
  return session === undefined ? undefined : core.readerOf(storeOf(call), session.id);
}

async function findMessage(call: ApiRequest, messageId: string): Promise<core.MessageRecord> {
  const message = await storeOf(call).messages.read(messageId, await visibilityOf(call));
  if (message === undefined) throw notFound('message');
  return message;
}

async function shown(call: ApiRequest, message: core.MessageRecord): Promise<Shown> {
  return presentMessage(message, await storeOf(call).messages.deliveriesOf(message.id));
}

export const getMessage: Handler<'getMessage'> = async (call) =>
  shown(call, await findMessage(call, call.params.id));

function changerOf({ caller }: ApiRequest): core.MessageChanger {
  const { tenantId, actor: by, scopes } = caller;
  return { tenantId, from: senderOf(caller), by, isAdmin: scopes.has('admin') };
}

export const editMessage: Handler<'editMessage'> = async (call) => {
  const { id } = call.params;
  await findMessage(call, id);
  await core.editMessage(call.context.control, changerOf(call), id, call.body);
  return shown(call, await findMessage(call, id));
};

export const withdrawMessage: Handler<'withdrawMessage'> = async (call) => {
  const { id } = call.params;
  await findMessage(call, id);
  await core.withdrawMessage(call.context.control, changerOf(call), id);
};

export const listMessageDeliveries: Handler<'listMessageDeliveries'> = async (call) => {
  const { id } = await findMessage(call, call.params.id);
  const { wait } = call.query;
  const { messages } = storeOf(call);
  const deliveries =
    wait === undefined ? await messages.deliveriesOf(id) : await awaitDeliveries(call, id, wait);
  return { deliveries: deliveries.map(presentDelivery) };
};

const pollMs = 1_000;

/** A long poll. It ends with the deliveries, the connection or the server, or after `waitMs`. */
async function awaitDeliveries(
  call: RouteRequest<'listMessageDeliveries'>,
  messageId: string,
  status: 'delivered' | 'consumed',
): Promise<core.MessageDelivery[]> {
  const { sessionHub, control, streams } = call.context;
  const { messages } = storeOf(call);
  const deadline = performance.now() + call.query.waitMs;
  const closing = new AbortController();
  const remove = streams.add(call.caller, (reason) => closing.abort(reason));
  const signal = AbortSignal.any([closedSignal(call.reply.raw), closing.signal]);
  const changed = new core.Signal();
  let deliveries = await messages.deliveriesOf(messageId);
  // It reads the store often enough without a comparison.
  const follower = { receive: () => changed.notify(), lastSeq: Infinity };
  const stops = deliveries.map(({ sessionId }) => sessionHub.add(sessionId, follower));
  try {
    for (;;) {
      deliveries = await messages.deliveriesOf(messageId);
      const left = deadline - performance.now();
      const isOver = deliveries.every((delivery) => hasCome(delivery, status));
      if (isOver || left <= 0 || signal.aborted) return deliveries;
      await changed.waitFor({ clock: control.engine.clock, ms: Math.min(left, pollMs), signal });
    }
  } finally {
    remove();
    for (const stop of stops) stop();
  }
}

/** To the status, or to one that nothing follows. */
function hasCome(
  { status, finalAt }: core.MessageDelivery,
  wanted: 'delivered' | 'consumed',
): boolean {
  return finalAt !== null || status === wanted || (wanted === 'delivered' && status === 'consumed');
}

export const listDeliveries: Handler<'listDeliveries'> = async (call) => {
  const { status, sessionId, ...page } = call.query;
  const { messages } = storeOf(call);
  const { items, ...rest } = await readListed(page, (each) =>
    messages.listDeliveries(defined({ status, sessionId }), each),
  );
  return { deliveries: items.map(presentDelivery), ...rest };
};

/** Any key may: it sends nothing new. */
export const redeliver: Handler<'redeliver'> = async (call) => {
  const { id } = call.params;
  await core.redeliver(call.context.control, { ...changerOf(call), isAdmin: true }, id);
  const delivery = await storeOf(call).messages.readDelivery(id);
  if (delivery === undefined) throw notFound('delivery');
  return presentDelivery(delivery);
};
