import type { DeliveryChange, TenantStore } from '@relay/core';
import { type AgentStatus, defined, deliveryStatuses } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import {
  allListed,
  cancelCommand,
  ending,
  newAudit,
  newRun,
  noon,
  useStore,
  type Open,
} from '../fixtures.ts';
import { addSession, changeOf, lastSeqOf, newDelivery, send, sending, whole } from './fixtures.ts';

function changed(tenant: TenantStore, sessionId: string, change: DeliveryChange, at = noon) {
  const deliveries = [change];
  return tenant.sessions.change({ changes: [changeOf(sessionId, { at, deliveries })] });
}

export function deliveryTests(open: Open): void {
  const { tenant: newTenant } = useStore(open);

  test('message, deliveries and commands for runs are stored together or not at all', async () => {
    const tenant = newTenant();
    const [one, two] = [await addSession(tenant), await addSession(tenant)];
    const run = await newRun(tenant);
    const ended = await newRun(tenant);
    await tenant.append(ending(ended));
    const queued = cancelCommand('message');
    const write = sending([one, two], {
      text: 'a\u0000b',
      attachments: [{ type: 'text', text: 'x' }],
      mode: 'immediate',
    });
    const refused = {
      ...write,
      runCommands: [run, ended].map(({ id }) => ({ runId: id, queued })),
    };
    expect(await tenant.sessions.change(refused)).toEqual({ kind: 'run-ended', runId: ended.id });
    expect(await tenant.readInbox(run.id)).toEqual([]);
    const [message] = write.messages;
    expect(await tenant.messages.read(message.id)).toBeUndefined();
    expect(await lastSeqOf(tenant, one)).toBe(1);

    const audit = [newAudit()];
    const accepted = { ...write, runCommands: [{ runId: run.id, queued }], audit };
    expect(await tenant.sessions.change(accepted)).toEqual({
      kind: 'committed',
      lastSeqs: [2, 2],
    });
    expect(await tenant.readInbox(run.id)).toEqual([queued]);
    const { channels: _channels, direct: _direct, ...sent } = message;
    const stored = { ...sent, editedAt: null, withdrawnAt: null };
    expect(await tenant.messages.read(message.id)).toEqual(stored);
    const deliveries = await tenant.messages.deliveriesOf(message.id);
    expect(deliveries.map(({ sessionId }) => sessionId).toSorted()).toEqual([one, two].toSorted());
    const [entry] = await tenant.messages.inbox(one, whole);
    expect(entry).toEqual({
      id: write.changes[0]?.newDeliveries?.[0]?.id,
      messageId: message.id,
      sessionId: one,
      handle: `h-${one}`,
      bytes: expect.any(Number),
      position: 2,
      mode: 'on-idle',
      status: 'accepted',
      reason: null,
      error: null,
      retryable: false,
      inferred: false,
      attempts: 0,
      streamId: null,
      revision: 0,
      at: noon,
      availableAt: null,
      deliveredAt: null,
      consumedAt: null,
      finalAt: null,
      message: stored,
    });
    expect(await tenant.sessions.read(one)).toMatchObject({
      queue: { length: 1, oldestAt: noon, oldestUnheldAt: noon },
    });
  });

  test('a delivery that is refused at once is stored with its error and is not in the inbox', async () => {
    const tenant = newTenant();
    const [one, two] = [await addSession(tenant), await addSession(tenant)];
    const error = { code: 'capability_missing', path: 'delivery.modes' };
    const refusal = { status: 'failed', reason: 'capability_missing', error } as const;
    const { deliveries } = await send(tenant, [one], {}, refusal);
    expect(deliveries).toMatchObject([{ ...refusal, finalAt: noon, position: 2 }]);
    expect(await tenant.messages.inbox(one, whole)).toEqual([]);
    expect(await tenant.sessions.read(one)).toMatchObject({ queue: { length: 0 } });
    await send(tenant, [two]);
    const failed = await tenant.messages.listDeliveries({ status: 'failed' }, { limit: 9 });
    expect(failed.items).toEqual(deliveries);
  });

  test('a delivery moves only from the statuses that are named', async () => {
    const tenant = newTenant();
    const [sessionId, other] = [await addSession(tenant), await addSession(tenant)];
    for (const status of deliveryStatuses) {
      const { deliveries } = await send(tenant, [sessionId], {}, { status });
      const id = deliveries[0]?.id ?? '';
      const others = deliveryStatuses.filter((each) => each !== status);
      const to = 'failed';
      const seq = await lastSeqOf(tenant, sessionId);
      expect(await changed(tenant, sessionId, { id, from: others, to })).toEqual({
        kind: 'conflict',
        sessionId,
      });
      expect(await changed(tenant, other, { id, from: [status], to })).toMatchObject({
        kind: 'conflict',
      });
      expect(await changed(newTenant(), sessionId, { id, from: [status], to })).toMatchObject({
        kind: 'gone',
      });
      expect(await tenant.messages.readDelivery(id)).toEqual(deliveries[0]);
      expect(await lastSeqOf(tenant, sessionId)).toBe(seq);
      expect(await changed(tenant, sessionId, { id, from: [status], to })).toMatchObject({
        kind: 'committed',
      });
      expect(await tenant.messages.readDelivery(id)).toMatchObject({ status: 'failed' });
    }
  });

  test('of many that hand over a delivery at once one succeeds', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const { deliveries } = await send(tenant, [sessionId]);
    const id = deliveries[0]?.id ?? '';
    const change = { id, from: ['accepted'], to: 'delivered', isAttempt: true } as const;
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, () => changed(tenant, sessionId, change)),
    );
    expect(outcomes.filter(({ kind }) => kind === 'committed')).toHaveLength(1);
    expect(await tenant.messages.readDelivery(id)).toMatchObject({ attempts: 1 });
  });

  test('of many that send a delivery at once one succeeds, and only on the stream of the session', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const { deliveries } = await send(tenant, [sessionId]);
    const id = deliveries[0]?.id ?? '';
    const [old, current] = [uuidv7(), uuidv7()];
    for (const stream of [old, current]) {
      await tenant.sessions.openStream(sessionId, { id: stream, node: 'n', at: noon });
    }
    const attempt = (streamId: string, ifAttempts = 0) => {
      const to = { from: ['accepted'], to: 'accepted' } as const;
      const change = { id, ...to, isAttempt: true, ifAttempts, streamId };
      const changes = [changeOf(sessionId, { ifStream: streamId, deliveries: [change] })];
      return tenant.sessions.change({ changes });
    };
    expect(await attempt(old)).toEqual({ kind: 'conflict', sessionId });
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => attempt(current)));
    expect(outcomes.filter(({ kind }) => kind === 'committed')).toHaveLength(1);
    expect(outcomes.find(({ kind }) => kind !== 'committed')).toEqual({
      kind: 'conflict',
      sessionId,
    });
    const sent = { attempts: 1, streamId: current };
    expect(await tenant.messages.readDelivery(id)).toMatchObject(sent);
    // A receipt leaves the stream as it is; a deferral makes it sendable on the same one.
    await changed(tenant, sessionId, { id, from: ['accepted'], to: 'delivered' });
    expect(await tenant.messages.readDelivery(id)).toMatchObject(sent);
    const deferral = { id, from: ['delivered'], to: 'deferred', streamId: null } as const;
    await changed(tenant, sessionId, deferral);
    expect(await tenant.messages.readDelivery(id)).toMatchObject({ attempts: 1, streamId: null });
  });

  test('a delivery is sent only in the status in which it could be', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const { deliveries } = await send(tenant, [sessionId]);
    const change = { id: deliveries[0]?.id ?? '', from: ['accepted'], to: 'delivered' } as const;
    const status = (await tenant.sessions.read(sessionId))?.status;
    const changeIn = (ifStatus: AgentStatus | undefined) =>
      tenant.sessions.change({
        changes: [changeOf(sessionId, { ...defined({ ifStatus }), deliveries: [change] })],
      });
    const other = status === 'paused' ? 'idle' : 'paused';
    expect(await changeIn(other)).toEqual({ kind: 'conflict', sessionId });
    expect(await changeIn(status)).toMatchObject({ kind: 'committed' });
  });

  test('what can be sent is in order, not yet on this stream, available, and of the asked kinds', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const other = await addSession(tenant);
    const streamId = uuidv7();
    await tenant.sessions.openStream(sessionId, { id: streamId, node: 'n', at: noon });
    const add = async (options: Parameters<typeof send>[3], to = sessionId) =>
      (await send(tenant, [to], {}, options)).deliveries[0]?.id ?? '';
    const delivered = await add({ status: 'delivered' });
    const first = await add({});
    const later = await add({ status: 'deferred', availableAt: noon + 5 });
    await add({ mode: 'manual' });
    await add({ status: 'failed' });
    await add({ status: 'consumed' });
    await add({}, other);
    const last = await add({ status: 'deferred', availableAt: noon });
    const kinds = (['accepted', 'deferred', 'delivered'] as const).map((status) => ({
      mode: 'on-idle' as const,
      status,
    }));
    const all = { streamId, kinds, now: noon, limit: 9, maxBytes: 1_000 };
    const sendable = async (changed: Partial<typeof all> = {}) => {
      const entries = await tenant.messages.sendable(sessionId, { ...all, ...changed });
      return entries.map(({ id }) => id);
    };
    expect(await sendable()).toEqual([delivered, first, last]);
    const [{ bytes } = { bytes: 0 }] = await tenant.messages.sendable(sessionId, all);
    expect(await sendable({ maxBytes: 1 })).toEqual([delivered]);
    expect(await sendable({ maxBytes: bytes })).toEqual([delivered]);
    expect(await sendable({ maxBytes: bytes + 1 })).toEqual([delivered, first]);
    expect(await sendable({ limit: 1 })).toEqual([delivered]);
    expect(await sendable({ kinds: kinds.slice(0, 1) })).toEqual([first]);
    expect(await sendable({ kinds: [] })).toEqual([]);
    expect(await sendable({ now: noon + 5 })).toEqual([delivered, first, later, last]);
    expect(await tenant.messages.nextAvailable(sessionId, noon)).toBe(noon + 5);
    expect(await tenant.messages.nextAvailable(sessionId, noon + 5)).toBeUndefined();
    const sent = { id: first, from: ['accepted'], to: 'accepted', streamId } as const;
    await changed(tenant, sessionId, sent);
    expect(await sendable()).toEqual([delivered, last]);
    expect(await newTenant().messages.sendable(sessionId, all)).toEqual([]);
  });

  test('what starts a turn is not sent before the session has ended with what it is sent again', async () => {
    const tenant = newTenant();
    const [sessionId, other] = [await addSession(tenant), await addSession(tenant)];
    const [before, streamId] = [uuidv7(), uuidv7()];
    await tenant.sessions.openStream(sessionId, { id: streamId, node: 'n', at: noon });
    const add = async (options: Parameters<typeof send>[3] = {}, to = sessionId) =>
      (await send(tenant, [to], {}, options)).deliveries[0]?.id ?? '';
    const sentOn = (id: string, stream: string, to = sessionId) =>
      changed(tenant, to, {
        id,
        from: ['accepted'],
        to: 'accepted',
        streamId: stream,
        isAttempt: true,
      });
    const first = await add();
    const again = await add();
    const now = await add({ mode: 'immediate' });
    await sentOn(await add({}, other), before, other);
    await sentOn(again, before);
    const kinds = (['on-idle', 'immediate'] as const).flatMap((mode) =>
      (['accepted', 'deferred', 'delivered'] as const).map((status) => ({
        mode,
        status,
        startsTurn: mode === 'on-idle' && status !== 'delivered',
      })),
    );
    const query = { streamId, kinds, now: noon, limit: 9, maxBytes: 1_000 };
    const sendable = async () =>
      (await tenant.messages.sendable(sessionId, query)).map(({ id }) => id);
    expect(await sendable()).toEqual([again, now]);
    await sentOn(again, streamId);
    expect(await sendable()).toEqual([now]);
    const status = 'accepted' as const;
    await changed(tenant, sessionId, { id: again, from: [status], to: 'delivered' });
    expect(await sendable()).toEqual([now]);
    const deferred = { from: ['delivered'], to: 'deferred', availableAt: noon + 5 } as const;
    await changed(tenant, sessionId, { id: again, ...deferred, streamId: null });
    expect(await sendable()).toEqual([first, now]);
    // One that was sent once, on this stream, holds nothing up.
    await sentOn(first, streamId);
    const last = await add();
    expect(await sendable()).toEqual([now, last]);
  });

  test('a message that is withdrawn while one of its deliveries is accepted again has no open delivery', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    for (let round = 0; round < 10; round += 1) {
      const { id: messageId, deliveries } = await send(
        tenant,
        [sessionId],
        {},
        { status: 'failed' },
      );
      const id = deliveries[0]?.id ?? '';
      const again = { id, from: ['failed'], to: 'accepted', isRequeued: true } as const;
      const [withdrawn, requeued] = await Promise.all([
        tenant.messages.withdraw(messageId, noon, { changes: [] }),
        changed(tenant, sessionId, again),
      ]);
      expect([withdrawn.kind, requeued.kind].toSorted()).toEqual(['committed', 'conflict']);
      const { withdrawnAt } = (await tenant.messages.read(messageId)) ?? {};
      const { status } = (await tenant.messages.readDelivery(id)) ?? {};
      expect(status).toBe(withdrawnAt === null ? 'accepted' : 'failed');
    }
  });

  test('a delivery keeps the times of its way, and its reason only while it holds', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const { deliveries } = await send(tenant, [sessionId]);
    const id = deliveries[0]?.id ?? '';
    const { messages } = tenant;
    const open = ['accepted', 'deferred', 'delivered'] as const;
    // Written to a stream, without a receipt.
    await changed(tenant, sessionId, { id, from: open, to: 'accepted', isAttempt: true });
    expect(await messages.inbox(sessionId, whole)).toMatchObject([{ position: 2, attempts: 1 }]);
    const deferred = { to: 'deferred', reason: 'paused', availableAt: noon + 9 } as const;
    await changed(tenant, sessionId, { id, from: open, ...deferred });
    expect(await messages.inbox(sessionId, whole)).toMatchObject([
      { status: 'deferred', reason: 'paused', availableAt: noon + 9, position: 2 },
    ]);
    await changed(
      tenant,
      sessionId,
      { id, from: open, to: 'delivered', isAttempt: true },
      noon + 1,
    );
    expect(await messages.inbox(sessionId, whole)).toEqual([]);
    expect(await messages.unconsumed(sessionId, whole)).toMatchObject([
      { status: 'delivered', reason: null, availableAt: null, deliveredAt: noon + 1, attempts: 2 },
    ]);
    // Sent again, it is still delivered since then.
    await changed(
      tenant,
      sessionId,
      { id, from: open, to: 'delivered', isAttempt: true },
      noon + 2,
    );
    expect(await messages.readDelivery(id)).toMatchObject({ deliveredAt: noon + 1, attempts: 3 });
    const consumed = { id, from: open, to: 'consumed', inferred: true } as const;
    await changed(tenant, sessionId, consumed, noon + 2);
    expect(await messages.unconsumed(sessionId, whole)).toEqual([]);
    expect(await messages.readDelivery(id)).toMatchObject({
      status: 'consumed',
      inferred: true,
      deliveredAt: noon + 1,
      consumedAt: noon + 2,
      finalAt: noon + 2,
    });
  });

  test('where consumption cannot be observed, a delivered message is final', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const { deliveries } = await send(tenant, [sessionId]);
    const id = deliveries[0]?.id ?? '';
    const change = { id, from: ['accepted'], to: 'delivered', isFinal: true } as const;
    await changed(tenant, sessionId, change);
    expect(await tenant.messages.unconsumed(sessionId, whole)).toEqual([]);
    expect(await tenant.messages.readDelivery(id)).toMatchObject({ finalAt: noon });
  });

  test('a failed delivery that is accepted again is the last in the inbox', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const first = await send(tenant, [sessionId]);
    const second = await send(tenant, [sessionId]);
    const id = first.deliveries[0]?.id ?? '';
    const failure = { id, from: ['accepted'], to: 'failed', reason: 'expired' } as const;
    await changed(tenant, sessionId, { ...failure, retryable: true });
    expect(await tenant.messages.readDelivery(id)).toMatchObject({
      retryable: true,
      finalAt: noon,
    });
    const accepted = { type: 'delivery.accepted', deliveryId: id, messageId: first.id } as const;
    const again = changeOf(sessionId, {
      at: noon + 60,
      events: [accepted],
      deliveries: [{ id, from: ['failed'], to: 'accepted', isRequeued: true }],
    });
    await tenant.sessions.change({ changes: [again] });
    const inbox = await tenant.messages.inbox(sessionId, whole);
    expect(inbox.map(({ messageId, position }) => [messageId, position])).toEqual([
      [second.id, 3],
      [first.id, 5],
    ]);
    expect(inbox[1]).toMatchObject({ reason: null, retryable: false, finalAt: null });
    expect(inbox[1]).toMatchObject({ at: noon + 60, deliveredAt: null });
  });

  test('an inbox takes exactly as many messages as its limit, however many send at once', async () => {
    const tenant = newTenant();
    const [sessionId, other] = [await addSession(tenant), await addSession(tenant)];
    const inboxLimit = { messages: 10, bytes: 1_000_000 };
    const outcomes = await Promise.all(
      Array.from({ length: 30 }, (_, n) =>
        tenant.sessions.change({
          ...sending(n % 3 === 0 ? [sessionId, other] : [sessionId]),
          inboxLimit,
        }),
      ),
    );
    expect(outcomes.filter(({ kind }) => kind === 'committed')).toHaveLength(10);
    const full = outcomes.filter(({ kind }) => kind === 'inbox-full');
    expect(full).toHaveLength(20);
    expect(full[0]).toEqual({ kind: 'inbox-full', sessionId });
    const inbox = await tenant.messages.inbox(sessionId, whole);
    expect(inbox).toHaveLength(10);
    expect(await lastSeqOf(tenant, sessionId)).toBe(11);

    // What the session has and never consumes counts until it ends.
    const [first] = inbox;
    const id = first?.id ?? '';
    await changed(tenant, sessionId, { id, from: ['accepted'], to: 'delivered' });
    expect(await tenant.sessions.change({ ...sending([sessionId]), inboxLimit })).toMatchObject({
      kind: 'inbox-full',
    });
    await changed(tenant, sessionId, { id, from: ['delivered'], to: 'failed' });
    expect(await tenant.sessions.change({ ...sending([sessionId]), inboxLimit })).toMatchObject({
      kind: 'committed',
    });
    const requeued = { id, from: ['failed'], to: 'accepted', isRequeued: true } as const;
    expect(
      await tenant.sessions.change({
        changes: [changeOf(sessionId, { deliveries: [requeued] })],
        inboxLimit,
      }),
    ).toEqual({ kind: 'inbox-full', sessionId });
  });

  test('an inbox is limited to 1,000 messages and 10 MB unless told otherwise', async () => {
    const tenant = newTenant();
    const [many, large] = [await addSession(tenant), await addSession(tenant)];
    const messages = Array.from({ length: 1_000 }, () => sending([many]));
    const changes = messages.flatMap((write) => write.changes);
    const all = { changes, messages: messages.flatMap((write) => write.messages) };
    expect(await tenant.sessions.change(all)).toMatchObject({ kind: 'committed' });
    expect(await tenant.sessions.change(sending([many]))).toEqual({
      kind: 'inbox-full',
      sessionId: many,
    });
    const text = 'x'.repeat(4 * 1024 * 1024);
    for (let n = 0; n < 2; n += 1) await send(tenant, [large], { text });
    expect(await tenant.sessions.change(sending([large], { text }))).toEqual({
      kind: 'inbox-full',
      sessionId: large,
    });
    expect(await tenant.sessions.read(large)).toMatchObject({ queue: { length: 2 } });
  });

  test('a delivery of a message that does not exist is not stored', async () => {
    const [tenant, stranger] = [newTenant(), newTenant()];
    const sessionId = await addSession(tenant);
    const foreign = await send(stranger, [await addSession(stranger)]);
    for (const messageId of [uuidv7(), foreign.id]) {
      const change = changeOf(sessionId, { newDeliveries: [newDelivery(messageId)] });
      expect(await tenant.sessions.change({ changes: [change] })).toMatchObject({
        kind: 'conflict',
      });
    }
    expect(await lastSeqOf(tenant, sessionId)).toBe(1);
  });

  test('deliveries are listed by time, of one session or those that failed', async () => {
    const tenant = newTenant();
    const [one, two] = [await addSession(tenant), await addSession(tenant)];
    const sent: string[] = [];
    for (let n = 0; n < 6; n += 1) {
      const status = n % 2 === 0 ? 'failed' : 'accepted';
      const { deliveries } = await send(tenant, [n < 4 ? one : two], { at: noon + n }, { status });
      sent.unshift(deliveries[0]?.id ?? '');
    }
    const listed = (filter: Parameters<typeof tenant.messages.listDeliveries>[0]) =>
      allListed(1, (page) => tenant.messages.listDeliveries(filter, page));
    expect(await listed({ status: 'failed' })).toEqual([sent[1], sent[3], sent[5]]);
    expect(await listed({})).toEqual(sent);
    expect(await listed({ sessionId: one })).toEqual(sent.slice(2));
    expect(await listed({ sessionId: one, status: 'accepted' })).toEqual([sent[2], sent[4]]);
  });

  test('the queue of a session counts what is undelivered, and tells the oldest that is not manual', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    await send(tenant, [sessionId], { at: noon }, { mode: 'manual' });
    const { deliveries } = await send(tenant, [sessionId], { at: noon + 1, text: 'ä' });
    await send(tenant, [sessionId], { at: noon + 2 }, { status: 'deferred' });
    await send(tenant, [sessionId], { at: noon - 5 }, { status: 'delivered' });
    const flushed = { mode: 'manual', status: 'deferred' } as const;
    const queue = async () => (await tenant.sessions.read(sessionId))?.queue;
    expect(await queue()).toEqual({
      length: 3,
      bytes: 5 + 2 + 5 + 3 * 2,
      oldestAt: noon,
      oldestUnheldAt: noon + 1,
    });
    const id = deliveries[0]?.id ?? '';
    await changed(tenant, sessionId, { id, from: ['accepted'], to: 'consumed' });
    expect(await queue()).toMatchObject({ length: 2, oldestUnheldAt: noon + 2 });
    await send(tenant, [sessionId], { at: noon - 1 }, flushed);
    expect(await queue()).toMatchObject({ length: 3, oldestUnheldAt: noon - 1 });
    const { items } = await tenant.sessions.list({}, { limit: 1 });
    const [listed] = items;
    expect(listed?.queue).toEqual(await queue());
  });
}
