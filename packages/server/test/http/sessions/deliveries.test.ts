/** Deliveries to programs: receipts, streams that replace each other, and changes of messages meanwhile. */
import type { SessionWrite, SystemStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifies } from '../../../../../test/conformance/verifies.ts';
import type { FrameReader } from '../../support/frames.ts';
import { bootServer, type TestServer, until } from '../../support/server.ts';
import { stores } from '../../support/stores.ts';
import {
  attachAgain,
  attached,
  type AttachedSession,
  journalOf,
  leave,
  openStream,
  postEvents,
  postReceipt,
  programCapabilities,
  sendMessage,
  type ShownMessage,
} from '../../support/sessions.ts';

type Json = Record<string, unknown>;

interface Steps {
  readonly beforeWrite: (write: SessionWrite) => Promise<void>;
  readonly afterRead: (sessionId: string) => Promise<void>;
}

/** The store, with steps before each write of sessions and after each read of one. */
function withSteps(store: SystemStore, { beforeWrite, afterRead }: Steps): SystemStore {
  const overriding = <Target extends object>(target: Target, members: object): Target =>
    new Proxy(target, {
      get(_, name) {
        const from: object = Object.hasOwn(members, name) ? members : target;
        const value: unknown = Reflect.get(from, name);
        return typeof value === 'function' ? (value.bind(from) as unknown) : value;
      },
    });
  return overriding(store, {
    tenant(tenantId: string) {
      const tenant = store.tenant(tenantId);
      const sessions = overriding(tenant.sessions, {
        async change(write: SessionWrite) {
          await beforeWrite(write);
          return tenant.sessions.change(write);
        },
        async read(sessionId: string) {
          const session = await tenant.sessions.read(sessionId);
          await afterRead(sessionId);
          return session;
        },
      });
      return overriding(tenant, { sessions });
    },
  });
}

describe.each(Object.entries(stores))('deliveries to programs on %s', (_name, open) => {
  let server: TestServer;
  let stop: () => Promise<void>;
  let beforeWrite: Steps['beforeWrite'] = async () => undefined;
  let afterRead: Steps['afterRead'] = async () => undefined;

  beforeAll(async () => {
    const store = await open();
    server = await bootServer({
      store: withSteps(store, {
        beforeWrite: (write) => beforeWrite(write),
        afterRead: (sessionId) => afterRead(sessionId),
      }),
      env: { RELAY_INBOX_LIMIT: '5' },
    });
    stop = async () => {
      await server.stop();
      await store.close();
    };
  });
  afterAll(() => stop());

  const ask: TestServer['ask'] = (path, options) => server.ask(path, options);

  const stream = (program: AttachedSession) => openStream(server, program);
  const receipt = (program: AttachedSession, deliveryId: string, body: Json) =>
    postReceipt(server, program, deliveryId, body);

  const send = (program: AttachedSession, text: string, more: Json = {}): Promise<ShownMessage> =>
    sendMessage(server, { to: `@${program.handle}`, text, ...more });
  const idOf = ({ deliveries }: ShownMessage) => deliveries[0]?.id ?? '';

  const tenant = () => server.store.tenant(server.tenantId);
  const stored = async (deliveryId: string) => tenant().messages.readDelivery(deliveryId);

  it('can no longer be edited or withdrawn once they were sent, whatever the receipts say', async () => {
    const program = await attached(server);
    const reader = await stream(program);
    const sent = await send(program, 'first');
    await reader.next();
    const path = `/v1/messages/${sent.id}`;
    const change = (method: string) =>
      ask(path, method === 'PATCH' ? { method, body: { text: 'other' } } : { method });
    const refused = { status: 409, body: { code: 'message_delivered' } };
    for (const method of ['PATCH', 'DELETE']) expect(await change(method)).toMatchObject(refused);
    await receipt(program, idOf(sent), { status: 'deferred', reason: 'busy' });
    for (const method of ['PATCH', 'DELETE']) expect(await change(method)).toMatchObject(refused);
    expect(await receipt(program, idOf(sent), { status: 'consumed' })).toMatchObject({
      status: 200,
      body: { status: 'consumed' },
    });
    expect(await tenant().messages.read(sent.id)).toMatchObject({
      text: 'first',
      withdrawnAt: null,
    });
    await reader.disconnect();
  });

  it('that are sent while their message is edited or withdrawn are one or the other', async () => {
    const program = await attached(server);
    const reader = await stream(program);
    for (const method of ['PATCH', 'DELETE'] as const) {
      const sent = await tenant().sessions.read(program.id);
      expect(sent?.queue.length).toBe(0);
      let changed: ReturnType<typeof ask> | undefined;
      let isHeld = true;
      // The change is requested between reading the inbox and recording the attempt.
      beforeWrite = async ({ changes }) => {
        const isAttempt = changes[0]?.deliveries?.[0]?.isAttempt === true;
        if (!isAttempt || !isHeld || changes[0]?.sessionId !== program.id) return;
        isHeld = false;
        const { messages } = await server.json(`/v1/messages?with=${program.handle}&limit=1`);
        const [{ id } = { id: '' }] = messages as ShownMessage[];
        const body = method === 'PATCH' ? { body: { text: 'edited' } } : {};
        changed = ask(`/v1/messages/${id}`, { method, ...body });
        await changed;
      };
      const message = await send(program, 'original');
      await until(() => changed !== undefined, 'the change');
      expect((await changed)?.status).toBe(method === 'PATCH' ? 200 : 204);
      beforeWrite = async () => undefined;
      if (method === 'PATCH') {
        expect((await reader.next())?.data).toMatchObject({
          deliveryId: idOf(message),
          message: { text: 'edited' },
          attempt: 1,
        });
        await receipt(program, idOf(message), { status: 'consumed' });
      } else {
        expect(await stored(idOf(message))).toMatchObject({ status: 'failed', attempts: 0 });
      }
    }
    await reader.disconnect();
  });

  it('are sent again, marked, on each stream and after each attach until they are consumed', async () => {
    const program = await attached(server);
    let reader = await stream(program);
    const handed = idOf(await send(program, 'handed'));
    const unknown = idOf(await send(program, 'unknown'));
    for (const id of [handed, unknown]) {
      expect((await reader.next())?.data).toMatchObject({ deliveryId: id, redelivered: false });
    }
    await receipt(program, handed, { status: 'delivered' });
    const { deliveredAt } = (await stored(handed)) ?? {};
    for (let attempt = 2; attempt < 6; attempt += 1) {
      if (attempt % 2 === 0) await attachAgain(server, program);
      else await reader.disconnect();
      reader = await stream(program);
      for (const id of [handed, unknown]) {
        expect((await reader.next())?.data).toMatchObject({
          deliveryId: id,
          attempt,
          redelivered: true,
        });
      }
    }
    expect(await stored(handed)).toMatchObject({ status: 'delivered', deliveredAt });
    await receipt(program, handed, { status: 'consumed' });
    await receipt(program, unknown, { status: 'consumed' });
    // Nothing is sent twice on one stream: what follows is new.
    const next = idOf(await send(program, 'next'));
    expect((await reader.next())?.data).toMatchObject({ deliveryId: next, attempt: 1 });
    await reader.disconnect();
  });

  it('that wait for idle are not sent beside one that a restarted program is sent again', async () => {
    const program = await attached(server);
    const before = await stream(program);
    const [first, unknown] = [await send(program, 'first'), await send(program, 'unknown')];
    for (const message of [first, unknown]) {
      expect((await before.next())?.data).toMatchObject({ deliveryId: idOf(message) });
    }
    await postEvents(server, program, { type: 'status.changed', status: 'active' });
    await receipt(program, idOf(first), { status: 'delivered' });
    const waiting = await send(program, 'when you have time');
    // The program was killed, and its new process attaches: the session is idle again.
    await before.disconnect();
    await attachAgain(server, program);
    const after = await stream(program);
    for (const message of [first, unknown]) {
      expect((await after.next())?.data).toMatchObject({
        deliveryId: idOf(message),
        redelivered: true,
      });
    }
    const now = await send(program, 'stop', { mode: 'immediate' });
    expect((await after.next())?.data).toMatchObject({ deliveryId: idOf(now), mode: 'immediate' });
    await receipt(program, idOf(now), { status: 'consumed' });
    await receipt(program, idOf(first), { status: 'consumed' });
    expect(await stored(idOf(waiting))).toMatchObject({ status: 'accepted', attempts: 0 });
    const edit = { method: 'PATCH', body: { text: 'at last' } };
    expect((await ask(`/v1/messages/${waiting.id}`, edit)).status).toBe(200);
    await receipt(program, idOf(unknown), { status: 'consumed' });
    expect((await after.next())?.data).toMatchObject({
      deliveryId: idOf(waiting),
      message: { text: 'at last' },
      attempt: 1,
    });
    await after.disconnect();
  });

  it('that wait for a flush go on waiting, also if their program defers them', async () => {
    const program = await attached(server);
    const reader = await stream(program);
    const held = idOf(await send(program, 'held', { mode: 'manual' }));
    expect(await receipt(program, held, { status: 'deferred', reason: 'busy' })).toMatchObject({
      status: 200,
      body: { status: 'accepted' },
    });
    const other = idOf(await send(program, 'other'));
    expect((await reader.next())?.data).toMatchObject({ deliveryId: other });
    expect(await stored(held)).toMatchObject({ status: 'accepted', attempts: 0 });
    await ask(`${program.path}/flush`, { method: 'POST', key: program.token });
    expect((await reader.next())?.data).toMatchObject({ deliveryId: held, mode: 'manual' });
    await reader.disconnect();
  });

  it('are sent on a stream that opens while its program makes a request without one', async () => {
    const program = await attached(server);
    await leave(server, program, 20_000);
    let reader: FrameReader | undefined;
    // The request has read that no stream is open.
    afterRead = async (sessionId) => {
      if (sessionId !== program.id) return;
      afterRead = async () => undefined;
      reader = await stream(program);
    };
    const body = {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'list_sessions', arguments: {} },
    };
    const headers = { accept: 'application/json, text/event-stream' };
    const answered = await server.request('/mcp', { body, headers, key: program.token });
    expect(answered.status).toBe(200);
    await answered.text();
    expect((await tenant().sessions.read(program.id))?.stream).not.toBeNull();
    const id = idOf(await send(program, 'hello'));
    expect((await reader?.next())?.data).toMatchObject({ deliveryId: id });
    await reader?.disconnect();
  });

  it('are sent once on one stream, also when the inbox is empty in between', async () => {
    const program = await attached(server);
    const reader = await stream(program);
    const ids: string[] = [];
    for (let count = 0; count < 4; count += 1) {
      ids.push(idOf(await send(program, `${count}`)));
      expect((await reader.next())?.data).toMatchObject({ deliveryId: ids.at(-1) });
      await receipt(program, ids.at(-1) ?? '', { status: 'delivered' });
    }
    expect((await tenant().sessions.read(program.id))?.queue.length).toBe(0);
    await postEvents(server, program, { type: 'log', level: 'info', message: 'still here' });
    const last = idOf(await send(program, 'last'));
    expect((await reader.next())?.data).toMatchObject({ deliveryId: last });
    for (const id of ids) expect(await stored(id)).toMatchObject({ attempts: 1 });
    await reader.disconnect();
  });

  it.each(['before', 'after'])(
    'of two streams at once are sent by the newer one only, %s the older one tries',
    async (when) => {
      const program = await attached(server);
      const older = await stream(program);
      const held = Promise.withResolvers<undefined>();
      const reached = Promise.withResolvers<undefined>();
      let writes = 0;
      beforeWrite = async ({ changes }) => {
        const isAttempt = changes[0]?.deliveries?.[0]?.isAttempt === true;
        if (!isAttempt || changes[0]?.sessionId !== program.id) return;
        writes += 1;
        if (writes === 1) {
          reached.resolve(undefined);
          await held.promise;
        } else if (when === 'after') {
          held.resolve(undefined);
          await older.rest();
        }
      };
      const id = idOf(await send(program, 'once'));
      await reached.promise;
      const newer = await stream(program);
      expect((await newer.next())?.data).toMatchObject({
        deliveryId: id,
        attempt: 1,
        redelivered: false,
      });
      held.resolve(undefined);
      expect(await older.rest()).toEqual([]);
      expect(await stored(id)).toMatchObject({ attempts: 1 });
      beforeWrite = async () => undefined;
      await newer.disconnect();
    },
  );

  it('that are deferred without a time are sent again after a while, as often as they are deferred', async () => {
    const program = await attached(server);
    const reader = await stream(program);
    const id = idOf(await send(program, 'later'));
    await reader.next();
    const { clock } = server.relay.control.engine;
    for (let attempt = 2; attempt < 4; attempt += 1) {
      const before = clock.now();
      const deferral = { status: 'deferred', reason: 'busy' };
      const first = await receipt(program, id, deferral);
      expect(first).toMatchObject({ status: 200, body: { status: 'deferred', reason: 'busy' } });
      const availableAt = Date.parse(String(first.body['availableAt']));
      expect(availableAt).toBeGreaterThanOrEqual(before + 5_000);
      // The same receipt again changes nothing.
      expect((await receipt(program, id, deferral)).body).toEqual(first.body);
      // As if the time had passed.
      await tenant().sessions.change({
        changes: [
          {
            sessionId: program.id,
            at: before,
            events: [],
            deliveries: [
              { id, from: ['deferred'], to: 'deferred', reason: 'busy', availableAt: before },
            ],
          },
        ],
      });
      expect((await reader.next())?.data).toMatchObject({
        deliveryId: id,
        attempt,
        redelivered: true,
      });
    }
    await reader.disconnect();
  });

  it('of a queue are accepted while the session works, and sent when it is idle; immediate ones at once', async () => {
    verifies('004:delivery:declared-modes', '004:delivery:queue-accepts-now');
    verifies('004:delivery:queue-reports-receipts', '004:delivery:on-idle-boundary');
    const program = await attached(server);
    const reader = await stream(program);
    const report = (status: string) =>
      postEvents(server, program, { type: 'status.changed', status });
    await report('active');
    const later = await send(program, 'when you have time');
    expect(later).toMatchObject({ mode: 'on-idle', deliveries: [{ status: 'accepted' }] });
    const now = idOf(await send(program, 'stop', { mode: 'immediate' }));
    expect((await reader.next())?.data).toMatchObject({ deliveryId: now, mode: 'immediate' });
    await receipt(program, now, { status: 'consumed' });
    const undeclared = { to: `@${program.handle}`, text: 'x', mode: 'next-message' };
    expect(await ask('/v1/messages', { body: undeclared })).toMatchObject({
      status: 409,
      body: { details: { path: 'delivery.modes', offered: programCapabilities.delivery.modes } },
    });
    await report('idle');
    expect((await reader.next())?.data).toMatchObject({ deliveryId: idOf(later) });
    for (const status of ['delivered', 'consumed']) {
      await receipt(program, idOf(later), { status });
    }
    const ofLater = (await journalOf(server, program)).filter(
      (event) => event['deliveryId'] === idOf(later),
    );
    expect(ofLater.map(({ type }) => type)).toEqual([
      'delivery.accepted',
      'delivery.delivered',
      'message.received',
    ]);
    await reader.disconnect();
  });

  it('are not sent while the session is paused, also those that the program had before', async () => {
    const program = await attached(server);
    let reader = await stream(program);
    const id = idOf(await send(program, 'handed'));
    await reader.next();
    await receipt(program, id, { status: 'delivered' });
    const command = async (name: string) => {
      await ask(`${program.path}/${name}`, { method: 'POST' });
      const frame = (await reader.next())?.data;
      expect(frame).toMatchObject({ type: 'command', command: name });
      const body = { ok: true };
      await ask(`${program.path}/commands/${String(frame?.['commandId'])}`, {
        body,
        key: program.token,
      });
    };
    await command('pause');
    await reader.disconnect();
    reader = await stream(program);
    // The first frame of the new stream is the command, not the delivery.
    await command('resume');
    expect((await reader.next())?.data).toMatchObject({ deliveryId: id, redelivered: true });
    await reader.disconnect();
  });

  it('have receipts that hide secrets, and so have the answers of commands', async () => {
    const program = await attached(server);
    const reader = await stream(program);
    const id = idOf(await send(program, 'x'));
    await reader.next();
    const secret = server.apiKey;
    const failed = await receipt(program, id, { status: 'failed', reason: `No: ${secret}` });
    expect(failed.status).toBe(200);
    const commands: unknown[] = [];
    for (const answer of [
      { ok: false, error: `No: ${secret}` },
      { ok: true, result: { key: secret } },
    ]) {
      await ask(`${program.path}/pause`, { method: 'POST' });
      const commandId = String((await reader.next())?.data['commandId']);
      const path = `${program.path}/commands/${commandId}`;
      expect((await ask(path, { body: answer, key: program.token })).status).toBe(200);
      commands.push(await tenant().sessions.readCommand(program.id, commandId));
    }
    expect(commands).toMatchObject([{ answer: { ok: false } }, { answer: { ok: true } }]);
    const journal = await journalOf(server, program);
    expect(journal.map(({ type }) => type)).toEqual(
      expect.arrayContaining(['delivery.failed', 'error']),
    );
    const everything = [journal, commands, await stored(id)];
    expect(JSON.stringify(everything)).not.toContain(secret);
    await reader.disconnect();
  });

  it('have receipts that other changes of the session do not delay', async () => {
    const program = await attached(server);
    const id = idOf(await send(program, 'x'));
    let writes = 0;
    // Before each write that a receipt makes, something else changes the session.
    beforeWrite = async ({ changes }) => {
      const [change] = changes;
      if (change?.sessionId !== program.id || change.deliveries?.[0]?.id !== id) return;
      writes += 1;
      if (writes > 20) return;
      const { version = 0 } = (await tenant().sessions.read(program.id)) ?? {};
      await tenant().sessions.change({
        changes: [{ sessionId: program.id, at: Date.now(), ifVersion: version, events: [] }],
      });
    };
    expect(await receipt(program, id, { status: 'consumed' })).toMatchObject({ status: 200 });
    beforeWrite = async () => undefined;
    expect(writes).toBe(1);
  });

  it('refuse receipts for others, after the last one, and with an old token, and change nothing', async () => {
    const [program, other] = [await attached(server), await attached(server)];
    const [mine, foreign] = [idOf(await send(program, 'mine')), idOf(await send(other, 'foreign'))];
    const consumed = { status: 'consumed' };
    expect(await receipt(program, foreign, consumed)).toMatchObject({ status: 404 });
    expect(await receipt(program, uuidv7(), consumed)).toMatchObject({ status: 404 });
    expect(await receipt({ ...program, path: other.path }, foreign, consumed)).toMatchObject({
      status: 403,
    });
    const { token: stale } = program;
    await attachAgain(server, program);
    expect(await receipt({ ...program, token: stale }, mine, consumed)).toMatchObject({
      status: 401,
    });
    for (const id of [mine, foreign])
      expect(await stored(id)).toMatchObject({ status: 'accepted' });
    for (const _ of [1, 2]) expect((await receipt(program, mine, consumed)).status).toBe(200);
    const before = [await stored(mine), await journalOf(server, program)];
    for (const status of ['delivered', 'deferred', 'failed']) {
      expect(await receipt(program, mine, { status })).toMatchObject({
        status: 409,
        body: { code: 'receipt_conflict' },
      });
    }
    expect([await stored(mine), await journalOf(server, program)]).toEqual(before);
  });

  it('count in the inbox until they end, and a full inbox names its limit', async () => {
    const program = await attached(server);
    const sent: string[] = [];
    for (let count = 0; count < 5; count += 1) sent.push(idOf(await send(program, `${count}`)));
    const [first = '', second = ''] = sent;
    await receipt(program, first, { status: 'delivered' });
    const body = { to: `@${program.handle}`, text: 'one more' };
    const full = await ask('/v1/messages', { body });
    expect(full).toMatchObject({ status: 429, body: { code: 'inbox_full' } });
    expect(String(full.body['error'])).toContain('RELAY_INBOX_LIMIT');
    expect(String(full.body['error'])).toContain('5 messages');
    expect((await ask(program.path)).body).toMatchObject({ queue: { length: 4 } });
    await receipt(program, second, { status: 'consumed' });
    await send(program, 'one more');
  });

  it('need a stream if the session has no queue', async () => {
    const delivery = { modes: ['on-idle'] };
    const program = await attached(server, { capabilities: { delivery } });
    const body = { to: `@${program.handle}`, text: 'x' };
    const refused = await ask('/v1/messages', { body });
    expect(refused).toMatchObject({
      status: 409,
      body: {
        code: 'capability_missing',
        details: { path: 'delivery.queue', asked: true, offered: false },
      },
    });
    expect((await journalOf(server, program)).at(-1)).toMatchObject({ type: 'delivery.failed' });
    const reader = await stream(program);
    const id = idOf(await send(program, 'x'));
    expect((await reader.next())?.data).toMatchObject({ deliveryId: id });
    await reader.disconnect();
  });

  it('that are delivered again start anew, and wait if their session is offline', async () => {
    const program = await attached(server);
    const id = idOf(await send(program, 'x'));
    const failure = { status: 'failed', reason: 'No time', retryable: true };
    await receipt(program, id, failure);
    const at = Date.now() - 3_600_000;
    const streamId = uuidv7();
    await tenant().sessions.openStream(program.id, { id: streamId, node: 'gone', at });
    await tenant().sessions.closeStream(program.id, { id: streamId, at, dueBy: at + 30_000 });
    await until(async () => (await ask(program.path)).body['status'] === 'offline', 'offline');
    const before = Date.now();
    expect(await ask(`/v1/deliveries/${id}/redeliver`, { method: 'POST' })).toMatchObject({
      status: 200,
      body: { status: 'deferred', reason: 'offline' },
    });
    const delivery = await stored(id);
    expect(delivery?.at).toBeGreaterThanOrEqual(before);
    expect((await journalOf(server, program)).slice(-2)).toMatchObject([
      { type: 'delivery.accepted', deliveryId: id },
      { type: 'delivery.deferred', deliveryId: id, reason: 'offline' },
    ]);
    const reader = await stream(program);
    expect((await reader.next())?.data).toMatchObject({ deliveryId: id });
    await reader.disconnect();
  });

  it('keep the order of what a program reports in one request', async () => {
    const program = await attached(server);
    const events = [
      { type: 'status.changed', status: 'active' },
      { type: 'log', level: 'info', message: 'working' },
      { type: 'status.changed', status: 'idle' },
      { type: 'log', level: 'info', message: 'done' },
    ];
    const before = (await journalOf(server, program)).length;
    const answer = await ask(`${program.path}/events`, { body: { events }, key: program.token });
    expect(answer).toMatchObject({ status: 200, body: { status: 'idle' } });
    expect((await journalOf(server, program)).slice(before)).toMatchObject(events);
  });
});
