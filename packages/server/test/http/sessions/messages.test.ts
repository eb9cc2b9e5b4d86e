/** Messages, deliveries and channels over HTTP, on both databases. */
import {
  decideDelivery,
  newSession,
  sendMessage as send,
  type SessionWrite,
  type SystemStore,
} from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifies } from '../../../../../test/conformance/verifies.ts';
import { eventsOf, startRun } from '../../support/requests.ts';
import {
  addKey,
  bootServer,
  type RequestOptions,
  type TestServer,
  until,
} from '../../support/server.ts';
import {
  addSession,
  sendMessage,
  type ShownDelivery,
  type ShownMessage,
} from '../../support/sessions.ts';
import { stores } from '../../support/stores.ts';

/** The same object with other members. */
function overriding<Target extends object>(target: Target, members: object): Target {
  return new Proxy(target, {
    get(_, name) {
      const from: object = Object.hasOwn(members, name) ? members : target;
      const value: unknown = Reflect.get(from, name);
      return typeof value === 'function' ? (value.bind(from) as unknown) : value;
    },
  });
}

let names = 0;
/** A handle that no other test uses. */
const fresh = (name: string) => `${name}-${(names += 1)}`;

describe.each(Object.entries(stores))('messages on %s', (_name, open) => {
  let server: TestServer;
  let store: SystemStore;

  beforeAll(async () => {
    store = await open();
    server = await bootServer({ store, env: { RELAY_INBOX_LIMIT: '20' } });
  });
  afterAll(async () => {
    await server.stop();
    await store.close();
  });

  const tenant = () => server.store.tenant(server.tenantId);

  async function refusal(path: string, options: RequestOptions): Promise<Record<string, unknown>> {
    const response = await server.request(path, options);
    return { status: response.status, ...((await response.json()) as object) };
  }

  async function journalOf(sessionId: string) {
    const events = await tenant().sessions.readEvents(sessionId, { after: 0, limit: 1_000 });
    return events.filter(({ type }) => /^(delivery|message)\./.test(type));
  }

  /** What the program of a session would report. */
  async function receive(deliveryId: string, type: 'deliver' | 'consume' | 'fail'): Promise<void> {
    const delivery = await tenant().messages.readDelivery(deliveryId);
    if (delivery === undefined) throw new Error('There is no such delivery');
    const state = { ...delivery, isObservable: true };
    const input = type === 'fail' ? { type, reason: 'No time', retryable: true } : { type };
    const decision = decideDelivery(state, input);
    if (decision.kind !== 'accepted') throw new Error(`The delivery is ${decision.kind}`);
    const { sessionId } = delivery;
    const { events, change } = decision;
    const changes = [{ sessionId, at: Date.now(), events, deliveries: [change] }];
    expect(await tenant().sessions.change({ changes })).toMatchObject({ kind: 'committed' });
  }

  const list = async (query: string) =>
    (await server.json(`/v1/messages?${query}`))['messages'] as ShownMessage[];
  const textsOf = async (query: string) => (await list(query)).map(({ text }) => text);
  const deliveriesOf = async (id: string, query = '') =>
    (await server.json(`/v1/messages/${id}/deliveries${query}`))['deliveries'] as ShownDelivery[];

  it('are accepted for their recipient, with an event, an audit entry and the sender of the key', async () => {
    const handle = fresh('ada');
    const sessionId = await addSession(server, { handle });
    const { apiKey: key, keyId } = await addKey(server.store, { scopes: ['runs'] });
    const message = await sendMessage(server, { to: `@${handle}`, text: 'Hello' }, { key });
    const [delivery] = message.deliveries;
    expect(message).toEqual({
      id: expect.any(String),
      from: { type: 'key', id: keyId, name: 'key of default' },
      to: `@${handle}`,
      text: 'Hello',
      attachments: [],
      mode: 'on-idle',
      at: expect.stringMatching(/Z$/),
      deliveries: [{ id: expect.any(String), sessionId, handle, status: 'accepted' }],
    });
    expect(await journalOf(sessionId)).toMatchObject([
      { type: 'delivery.accepted', deliveryId: delivery?.id, messageId: message.id },
    ]);
    expect(await server.json(`/v1/audit?action=message.sent&actor=${keyId}`)).toMatchObject({
      entries: [{ what: { messageId: message.id, to: [`@${handle}`] } }],
    });
    expect(await deliveriesOf(message.id)).toMatchObject([
      { ...delivery, messageId: message.id, mode: 'on-idle', attempts: 0 },
    ]);
  });

  it('refuse a body that names another sender', async () => {
    const handle = fresh('ada');
    await addSession(server, { handle });
    const body = { to: `@${handle}`, text: 'x', from: { type: 'key', id: uuidv7(), name: 'boss' } };
    expect(await refusal('/v1/messages', { body })).toMatchObject({
      status: 400,
      details: [{ path: 'from' }],
    });
  });

  it.each(['immediate', 'next-message', 'next-tool-call', 'on-idle', 'manual'])(
    'with the mode %s are accepted by a session that declares it, and refused by another',
    async (mode) => {
      verifies('004:negotiation:delivery-mode', '004:negotiation:structured-error');
      verifies('004:negotiation:no-silent-loss');
      const [with_, without] = [fresh('with'), fresh('without')];
      await addSession(server, { handle: with_ });
      const others = ['immediate', 'on-idle'].filter((each) => each !== mode);
      const sessionId = await addSession(server, {
        handle: without,
        delivery: { modes: others as ['immediate'] },
      });
      const sent = await sendMessage(server, { to: `@${with_}`, text: 'x', mode });
      expect(sent).toMatchObject({ mode, deliveries: [{ status: 'accepted' }] });
      const answer = await refusal('/v1/messages', {
        body: { to: `@${without}`, text: 'x', mode },
      });
      expect(answer).toMatchObject({
        status: 409,
        code: 'capability_missing',
        details: { path: 'delivery.modes', asked: mode, offered: others },
      });
      const { messageId } = answer['details'] as { messageId: string };
      expect(await journalOf(sessionId)).toMatchObject([
        { type: 'delivery.failed', messageId, reason: 'capability_missing' },
      ]);
      expect(await deliveriesOf(messageId)).toMatchObject([
        { status: 'failed', error: { code: 'capability_missing', details: { asked: mode } } },
      ]);
    },
  );

  it('with attachments are refused by a session that does not take their type', async () => {
    verifies('004:negotiation:content-type');
    const handle = fresh('texts');
    await addSession(server, { handle, messaging: { attachments: ['text'] } });
    const image = { type: 'image', url: 'https://images.example/a.png' };
    const body = { to: `@${handle}`, text: 'Look', attachments: [image] };
    expect(await refusal('/v1/messages', { body })).toMatchObject({
      status: 409,
      code: 'capability_missing',
      details: { path: 'messaging.attachments', asked: 'image', offered: ['text'] },
    });
    const note = { type: 'text', text: 'a note' };
    const sent = await sendMessage(server, { ...body, attachments: [note] });
    expect(sent).toMatchObject({ attachments: [note], deliveries: [{ status: 'accepted' }] });
  });

  it('are refused by a session without a queue that is busy, and taken when it is idle', async () => {
    verifies('004:negotiation:no-queue-busy');
    const [busy, idle] = [fresh('busy'), fresh('idle')];
    const delivery = { modes: ['on-idle'] as ['on-idle'], queue: false };
    await addSession(server, { handle: busy, delivery, turn: 'active' });
    await addSession(server, { handle: idle, delivery, isStreaming: true });
    expect(await refusal('/v1/messages', { body: { to: `@${busy}`, text: 'x' } })).toMatchObject({
      status: 409,
      details: { path: 'delivery.queue', asked: true, offered: false },
    });
    await sendMessage(server, { to: `@${idle}`, text: 'x' });
  });

  it.each(['releasing', 'released', 'failed'] as const)(
    'are refused by a session that is %s',
    async (lifecycle) => {
      const handle = fresh('over');
      await addSession(server, { handle, lifecycle });
      const answer = await refusal('/v1/messages', { body: { to: `@${handle}`, text: 'x' } });
      expect(answer).toMatchObject({
        status: 409,
        code: 'capability_missing',
        details: { path: 'messaging.receive', asked: true, offered: false },
      });
      const { messageId } = answer['details'] as { messageId: string };
      expect(await deliveriesOf(messageId)).toMatchObject([{ handle, status: 'failed' }]);
    },
  );

  it.each([
    ['paused', { lifecycle: 'paused' }],
    ['offline', { connection: 'unreachable' }],
  ] as const)('are deferred by a session that is %s', async (reason, state) => {
    const handle = fresh('later');
    const sessionId = await addSession(server, { handle, ...state });
    const sent = await sendMessage(server, { to: `@${handle}`, text: 'x' });
    expect(sent.deliveries).toMatchObject([{ status: 'deferred' }]);
    expect(await deliveriesOf(sent.id)).toMatchObject([{ reason }]);
    expect(await journalOf(sessionId)).toMatchObject([
      { type: 'delivery.accepted' },
      { type: 'delivery.deferred', reason },
    ]);
  });

  it('to one that can take them and one that cannot are sent, and say what failed', async () => {
    const [one, other] = [fresh('one'), fresh('other')];
    await addSession(server, { handle: one });
    await addSession(server, { handle: other, lifecycle: 'failed' });
    const sent = await sendMessage(server, { to: [`@${one}`, `@${other}`], text: 'x' });
    expect(sent.deliveries).toHaveLength(2);
    expect(sent.deliveries).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ handle: one, status: 'accepted' }),
        expect.objectContaining({
          handle: other,
          status: 'failed',
          error: expect.objectContaining({ code: 'capability_missing' }),
        }),
      ]),
    );
  });

  it.each([
    ['handle', '@nobody'],
    ['channel', '#nowhere'],
  ])('to an unknown %s are 404, and nothing is stored', async (_what, address) => {
    const handle = fresh('known');
    const sessionId = await addSession(server, { handle });
    const text = `never stored ${fresh('x')}`;
    const body = { to: [`@${handle}`, address], text };
    expect(await refusal('/v1/messages', { body })).toMatchObject({
      status: 404,
      code: 'not_found',
      error: expect.stringContaining(address),
    });
    expect(await journalOf(sessionId)).toEqual([]);
    expect(await textsOf(`with=${handle}`)).toEqual([]);
  });

  it('in a channel reach each member once, also one that is addressed itself', async () => {
    const [name, one, two, outside] = [fresh('c'), fresh('one'), fresh('two'), fresh('outside')];
    for (const handle of [one, two, outside]) await addSession(server, { handle });
    const path = `/v1/channels/${name}`;
    expect(await server.json(path, { method: 'PUT', body: { topic: 'Work' } })).toMatchObject({
      name,
      topic: 'Work',
      members: [],
    });
    for (const handle of [one, two]) {
      const added = await server.request(`${path}/members/${handle}`, { method: 'PUT' });
      expect(added.status).toBe(204);
    }
    expect(await server.json(path)).toMatchObject({ topic: 'Work', members: [one, two] });
    const text = `@${one} look`;
    const sent = await sendMessage(server, { to: [`#${name}`, `@${one}`], text });
    expect(sent.deliveries.map(({ handle }) => handle).toSorted()).toEqual([one, two]);
    expect(await textsOf(`channel=${name}`)).toEqual([text]);
    expect(await textsOf(`with=${one}`)).toEqual([text]);
    expect(await textsOf(`with=${two}`)).toEqual([]);

    const removed = await server.request(`${path}/members/${two}`, { method: 'DELETE' });
    expect(removed.status).toBe(204);
    const second = await sendMessage(server, { to: `#${name}`, text: 'again' });
    expect(second.deliveries.map(({ handle }) => handle)).toEqual([one]);
    const { entries } = await server.json('/v1/audit?action=channel.member-removed');
    expect(entries).toMatchObject([{ what: { channel: name, handle: two } }]);
    expect(await refusal(`${path}/members/nobody`, { method: 'PUT' })).toMatchObject({
      status: 404,
    });
  });

  it('lists channels by name, page by page', async () => {
    const channels = [fresh('p'), fresh('p'), fresh('p')].toSorted();
    for (const name of channels) await server.request(`/v1/channels/${name}`, { method: 'PUT' });
    const listed: string[] = [];
    for (let cursor: string | null = ''; cursor !== null;) {
      const query: string = cursor === '' ? '' : `&cursor=${cursor}`;
      const page = await server.json(`/v1/channels?limit=2${query}`);
      listed.push(...(page['channels'] as { name: string }[]).map(({ name }) => name));
      cursor = page['nextCursor'] as string | null;
    }
    expect(listed).toEqual(listed.toSorted());
    expect(listed).toEqual(expect.arrayContaining(channels));
    expect(await refusal('/v1/channels?cursor=%40', {})).toMatchObject({ status: 400 });
  });

  it('without recipients go to the participants of the thread, but not to their sender', async () => {
    const [one, two] = [fresh('one'), fresh('two')];
    const oneId = await addSession(server, { handle: one });
    await addSession(server, { handle: two });
    const first = await sendMessage(server, { to: [`@${one}`, `@${two}`], text: 'Who knows?' });
    const author = {
      tenantId: server.tenantId,
      from: { type: 'session', id: oneId, name: one },
      by: { type: 'system', id: oneId, name: one },
    } as const;
    const draft = { text: 'I do', replyTo: first.id };
    const { message, deliveries } = await send(server.relay.control, author, draft);
    expect(message).toMatchObject({
      to: [`@${two}`],
      replyTo: first.id,
      threadId: first.id,
      hops: 1,
    });
    expect(deliveries).toMatchObject([{ handle: two, status: 'accepted' }]);
    expect(await journalOf(oneId)).toMatchObject([
      { type: 'delivery.accepted' },
      { type: 'message.sent', messageId: message.id },
    ]);
    const reply = await sendMessage(server, { text: 'Thanks', replyTo: message.id });
    expect(reply.deliveries.map(({ handle }) => handle).toSorted()).toEqual([one, two]);
    expect(await textsOf(`thread=${first.id}`)).toEqual(['Thanks', 'I do', 'Who knows?']);
    const body = { text: 'x', replyTo: uuidv7() };
    expect(await refusal('/v1/messages', { body })).toMatchObject({ status: 404 });
  });

  it('of agents that answer each other end with the 17th, which is an event', async () => {
    const handles = [fresh('ping'), fresh('pong')];
    const ids: string[] = [];
    for (const handle of handles) ids.push(await addSession(server, { handle, kind: 'agent' }));
    const first = await sendMessage(server, { to: `@${handles[0]}`, text: 'Begin' });
    let replyTo = first.id;
    const answer = async (turn: number) => {
      const id = ids[turn % 2] ?? '';
      const name = handles[turn % 2] ?? '';
      const from = { type: 'session', id, name } as const;
      const by = { type: 'system', id, name } as const;
      const author = { tenantId: server.tenantId, from, by };
      const to = [`@${handles[(turn + 1) % 2]}`];
      return send(server.relay.control, author, { to, text: `Answer ${turn}`, replyTo });
    };
    for (let turn = 0; turn < 16; turn += 1) replyTo = (await answer(turn)).message.id;
    await expect(answer(16)).rejects.toMatchObject({ code: 'loop_limit' });
    const events = await journalOf(ids[1] ?? '');
    expect(events.at(-1)).toMatchObject({ type: 'delivery.failed', reason: 'loop_limit' });
    // A person may go on.
    expect(await sendMessage(server, { text: 'Enough', replyTo })).toMatchObject({
      deliveries: [{ status: 'accepted' }, { status: 'accepted' }],
    });
  });

  it('of a session that may not send are refused', async () => {
    const [handle, other] = [fresh('mute'), fresh('other')];
    const id = await addSession(server, { handle, messaging: { send: false } });
    await addSession(server, { handle: other });
    const author = {
      tenantId: server.tenantId,
      from: { type: 'session', id, name: handle },
      by: { type: 'system', id, name: handle },
    } as const;
    await expect(
      send(server.relay.control, author, { to: [`@${other}`], text: 'x' }),
    ).rejects.toMatchObject({ code: 'capability_missing', capability: { path: 'messaging.send' } });
  });

  it('of concurrent senders keep one order per recipient, and none is lost', async () => {
    const handles = [fresh('one'), fresh('two')];
    const name = fresh('all');
    await server.request(`/v1/channels/${name}`, { method: 'PUT' });
    const ids: string[] = [];
    // The second decides each message by its state.
    for (const [index, handle] of handles.entries()) {
      const delivery = index === 0 ? {} : { modes: ['immediate'] as ['immediate'], queue: false };
      ids.push(await addSession(server, { handle, delivery, isStreaming: index === 1 }));
      await server.request(`/v1/channels/${name}/members/${handle}`, { method: 'PUT' });
    }
    const sent = await Promise.all(
      Array.from({ length: 15 }, (_, index) =>
        sendMessage(server, { to: `#${name}`, text: `message ${index}` }),
      ),
    );
    const inboxes = await Promise.all(
      ids.map((id) => tenant().messages.inbox(id, { after: 0, limit: 100 })),
    );
    for (const [index, inbox] of inboxes.entries()) {
      const messageIds = inbox.map(({ messageId }) => messageId);
      expect(messageIds.toSorted()).toEqual(sent.map(({ id }) => id).toSorted());
      const accepted = (await journalOf(ids[index] ?? '')).map((event) =>
        event.type === 'delivery.accepted' ? event.messageId : event.type,
      );
      expect(accepted).toEqual(messageIds);
    }
    expect(inboxes[0]?.map(({ messageId }) => messageId)).toEqual(
      inboxes[1]?.map(({ messageId }) => messageId),
    );
  });

  it('with an idempotency key are sent once, however often and by whomever at once', async () => {
    const handle = fresh('once');
    const sessionId = await addSession(server, { handle });
    const body = { to: `@${handle}`, text: 'Pay', idempotencyKey: fresh('key') };
    const sent = await Promise.all(Array.from({ length: 5 }, () => sendMessage(server, body)));
    expect(new Set(sent.map(({ id }) => id)).size).toBe(1);
    expect(await journalOf(sessionId)).toHaveLength(1);
    const again = await server.request('/v1/messages', { body });
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(await refusal('/v1/messages', { body: { ...body, text: 'Pay more' } })).toMatchObject({
      status: 422,
      code: 'idempotency_mismatch',
    });
    const { apiKey: key } = await addKey(server.store, {});
    const other = await sendMessage(server, body, { key });
    expect(other.id).not.toBe(sent[0]?.id);
    const refused = { ...body, to: `@${fresh('over')}`, idempotencyKey: fresh('key') };
    await addSession(server, { handle: refused.to.slice(1), lifecycle: 'failed' });
    const first = await refusal('/v1/messages', { body: refused });
    expect(first).toMatchObject({ status: 409, code: 'capability_missing' });
    expect(await refusal('/v1/messages', { body: refused })).toEqual(first);
  });

  it('are refused by a full inbox, which does not silence a channel', async () => {
    const [full, other, name] = [fresh('full'), fresh('other'), fresh('c')];
    const fullId = await addSession(server, { handle: full });
    await addSession(server, { handle: other });
    await server.request(`/v1/channels/${name}`, { method: 'PUT' });
    for (const handle of [full, other]) {
      await server.request(`/v1/channels/${name}/members/${handle}`, { method: 'PUT' });
    }
    for (let index = 0; index < 20; index += 1) {
      await sendMessage(server, { to: `@${full}`, text: `${index}` });
    }
    expect(await refusal('/v1/messages', { body: { to: `@${full}`, text: 'x' } })).toMatchObject({
      status: 429,
      code: 'inbox_full',
    });
    expect(await journalOf(fullId)).toHaveLength(20);
    const sent = await sendMessage(server, { to: `#${name}`, text: 'All' });
    const byHandle = Object.fromEntries(sent.deliveries.map((each) => [each.handle, each]));
    expect(byHandle[other]).toMatchObject({ status: 'accepted' });
    expect(byHandle[full]).toMatchObject({
      status: 'failed',
      error: { code: 'inbox_full', retryable: true },
    });
  });

  it('to a mistyped handle name the one that was meant, among those of the tenant', async () => {
    const handle = fresh('builder');
    const { apiKey: key } = await addKey(server.store, { tenant: fresh('other') });
    await addSession(server, { handle });
    const body = { to: `@${handle.replace('builder', 'bulider')}`, text: 'x' };
    const error = `No such session: ${body.to}; did you mean @${handle}?`;
    expect(await refusal('/v1/messages', { body })).toMatchObject({ status: 404, error });
    expect(await refusal('/v1/messages', { body, key })).toMatchObject({
      status: 404,
      error: `No such session: ${body.to}`,
    });
    expect(await refusal('/v1/messages', { body: { to: '@nobody', text: 'x' } })).toMatchObject({
      error: 'No such session: @nobody',
    });
  });

  it('that no inbox can ever take are refused for good, and the error names the limit', async () => {
    const [handle, name] = [fresh('small'), fresh('c')];
    await addSession(server, { handle });
    await server.request(`/v1/channels/${name}`, { method: 'PUT' });
    await server.request(`/v1/channels/${name}/members/${handle}`, { method: 'PUT' });
    const { engine } = server.relay.control;
    const inboxLimit = { messages: 20, bytes: 100 };
    const control = { engine: { ...engine, settings: { ...engine.settings, inboxLimit } } };
    const from = { type: 'key', id: uuidv7(), name: 'Ada' } as const;
    const author = { tenantId: server.tenantId, from, by: from };
    const error = expect.stringContaining('takes 100 at most');
    for (const to of [[`@${handle}`], [`#${name}`]]) {
      await expect(send(control, author, { to, text: 'ä'.repeat(50) })).rejects.toMatchObject({
        code: 'payload_too_large',
        status: 413,
        retryable: false,
        message: error,
      });
    }
    const { message } = await send(control, author, { to: [`@${handle}`], text: 'ä'.repeat(49) });
    expect(message.text).toHaveLength(49);
    // Of what was sent before, more than the rest of the inbox takes is a matter of time.
    await expect(send(control, author, { to: [`@${handle}`], text: 'x' })).rejects.toMatchObject({
      code: 'inbox_full',
      retryable: true,
    });
    const attachments = [{ type: 'text', text: 'a'.repeat(6_000_000) }];
    const large = await sendMessage(server, { to: `@${handle}`, text: 'See this', attachments });
    const body = { text: 'b'.repeat(6_000_000) };
    expect(await refusal(`/v1/messages/${large.id}`, { method: 'PATCH', body })).toMatchObject({
      status: 413,
      code: 'payload_too_large',
    });
  });

  it('to a busy native session are also commands of its run, which edits replace', async () => {
    const { runId, reader } = await startRun(server, { input: 'notify me' });
    await reader.until('approval_requested');
    await reader.disconnect();
    const handle = fresh('native');
    await addSession(server, { handle, harness: 'native', turn: 'active', activeRunId: runId });
    const inbox = async () =>
      (await tenant().readInbox(runId)).flatMap(({ id, command }) =>
        command.kind === 'message' ? [{ id, ...command }] : [],
      );
    const sent = await sendMessage(server, {
      to: `@${handle}`,
      text: 'Stop',
      mode: 'next-message',
    });
    await sendMessage(server, { to: `@${handle}`, text: 'Later' });
    const deliveryId = sent.deliveries[0]?.id;
    expect(await inbox()).toMatchObject([
      { id: deliveryId, deliveryId, messageId: sent.id, mode: 'next-message', content: 'Stop' },
    ]);
    const options = { method: 'PATCH', body: { text: 'Wait' } };
    expect((await server.request(`/v1/messages/${sent.id}`, options)).status).toBe(200);
    expect(await inbox()).toMatchObject([{ id: deliveryId, content: 'Wait' }]);
    await server.request(`/v1/messages/${sent.id}`, { method: 'DELETE' });
    expect(await inbox()).toEqual([]);
    const again = await server.request(`/v1/deliveries/${deliveryId}/redeliver`, {
      method: 'POST',
    });
    expect(again.status).toBe(409);
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    await until(
      async () => (await eventsOf(server, runId)).events.at(-1)?.type === 'run.ended',
      'the end of the run',
    );
    // Its turn is over, and the session does not know it yet: the message is decided again.
    const read = tenant().sessions.readByHandle(handle);
    const { id = '', version = 0 } = (await read) ?? {};
    const late = sendMessage(server, { to: `@${handle}`, text: 'Late', mode: 'immediate' });
    const ended = { sessionId: id, at: Date.now(), ifVersion: version, events: [] };
    await tenant().sessions.change({ changes: [{ ...ended, progress: { activeRunId: null } }] });
    expect(await late).toMatchObject({ deliveries: [{ status: 'accepted' }] });
  });

  /** The server's own control, with a step before its first write of a message. */
  function controlWith(before: () => Promise<unknown>) {
    const { control } = server.relay;
    const [store, writes] = [tenant(), [] as SessionWrite[]];
    const sessions = overriding(store.sessions, {
      async change(write: SessionWrite) {
        if (writes.push(write) === 1) await before();
        return store.sessions.change(write);
      },
    });
    const system = overriding(server.store, { tenant: () => overriding(store, { sessions }) });
    return { control: { ...control, engine: { ...control.engine, store: system } }, writes };
  }

  const byKey = () => {
    const from = { type: 'key', id: uuidv7(), name: 'Ada' } as const;
    return { tenantId: server.tenantId, from, by: from };
  };

  it('to an idle native session whose turn starts meanwhile become commands of its run', async () => {
    const { runId, reader } = await startRun(server, { input: 'notify me' });
    await reader.until('approval_requested');
    await reader.disconnect();
    const handle = fresh('native');
    const sessionId = await addSession(server, { handle, harness: 'native' });
    const { control, writes } = controlWith(async () => {
      const { version: ifVersion = 0, state } = (await tenant().sessions.read(sessionId)) ?? {};
      const turn = { ...newSession, ...state, turn: 'active' } as const;
      const progress = { status: 'active', state: turn, activeRunId: runId } as const;
      const change = { sessionId, at: Date.now(), ifVersion, events: [], progress };
      expect(await tenant().sessions.change({ changes: [change] })).toMatchObject({
        kind: 'committed',
      });
    });
    const draft = { to: [`@${handle}`], text: 'Stop', mode: 'immediate' } as const;
    const { deliveries } = await send(control, byKey(), draft);
    expect(writes).toHaveLength(2);
    expect(await tenant().readInbox(runId)).toMatchObject([
      { id: deliveries[0]?.id, command: { kind: 'message', mode: 'immediate' } },
    ]);
    expect(await journalOf(sessionId)).toHaveLength(1);
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
  });

  it('to a session that is released meanwhile are refused, and to many are one write', async () => {
    const [one, two] = [fresh('one'), fresh('two')];
    const sessionId = await addSession(server, { handle: one });
    await addSession(server, { handle: two });
    const released = { ...newSession, lifecycle: 'released' } as const;
    const progress = { status: 'released', state: released, releasedAt: Date.now() } as const;
    const end = { sessionId, at: Date.now(), ifVersion: 1, events: [], progress };
    const { control, writes } = controlWith(() => tenant().sessions.change({ changes: [end] }));
    const draft = { to: [`@${one}`, `@${two}`], text: 'x' };
    const { deliveries } = await send(control, byKey(), draft);
    const statuses = Object.fromEntries(deliveries.map((each) => [each.handle, each.status]));
    expect(statuses).toEqual({ [one]: 'failed', [two]: 'accepted' });
    expect(writes).toHaveLength(2);
    await send(control, byKey(), { to: [`@${two}`], text: 'x' });
    expect(writes).toHaveLength(3);
  });

  it('can be edited by their sender until a recipient has them', async () => {
    const handle = fresh('editor');
    const sessionId = await addSession(server, {
      handle,
      delivery: { modes: ['on-idle', 'immediate'] },
    });
    const sent = await sendMessage(server, { to: `@${handle}`, text: 'Teh' });
    const path = `/v1/messages/${sent.id}`;
    const edit = (body: object, key?: string) =>
      refusal(path, { method: 'PATCH', body, ...(key === undefined ? {} : { key }) });
    expect(await edit({ text: 'The', mode: 'immediate' })).toMatchObject({
      status: 200,
      text: 'The',
      mode: 'immediate',
      editedAt: expect.any(String),
    });
    expect(await edit({ mode: 'manual' })).toMatchObject({
      status: 409,
      code: 'capability_missing',
      details: { path: 'delivery.modes', asked: 'manual' },
    });
    const { apiKey: stranger } = await addKey(server.store, {});
    expect(await edit({ text: 'Mine' }, stranger)).toMatchObject({
      status: 403,
      code: 'not_sender',
    });
    const [entry] = await tenant().messages.inbox(sessionId, { after: 0, limit: 1 });
    expect(entry).toMatchObject({ message: { text: 'The' }, mode: 'immediate', revision: 1 });
    await receive(sent.deliveries[0]?.id ?? '', 'deliver');
    expect(await edit({ text: 'Late' })).toMatchObject({ status: 409, code: 'message_delivered' });
    expect(await refusal(path, { method: 'DELETE' })).toMatchObject({
      status: 409,
      code: 'message_delivered',
    });
  });

  it('can be withdrawn until a recipient has them: their deliveries fail', async () => {
    const [one, two] = [fresh('one'), fresh('two')];
    const oneId = await addSession(server, { handle: one });
    await addSession(server, { handle: two });
    const sent = await sendMessage(server, { to: [`@${one}`, `@${two}`], text: 'Oops' });
    const path = `/v1/messages/${sent.id}`;
    const { apiKey: operator } = await addKey(server.store, { scopes: ['runs'] });
    expect(await refusal(path, { method: 'DELETE', key: operator })).toMatchObject({ status: 403 });
    for (const _ of [1, 2]) {
      expect((await server.request(path, { method: 'DELETE' })).status).toBe(204);
    }
    const deliveries = await deliveriesOf(sent.id);
    expect(deliveries).toHaveLength(2);
    for (const delivery of deliveries) {
      expect(delivery).toMatchObject({ status: 'failed', error: { code: 'withdrawn' } });
    }
    expect(await journalOf(oneId)).toMatchObject([
      { type: 'delivery.accepted' },
      { type: 'delivery.failed', reason: 'withdrawn' },
    ]);
    expect(await refusal(path, { method: 'PATCH', body: { text: 'x' } })).toMatchObject({
      status: 409,
      code: 'receipt_conflict',
    });
    const again = `/v1/deliveries/${deliveries[0]?.id}/redeliver`;
    expect(await refusal(again, { method: 'POST' })).toMatchObject({ status: 409 });
  });

  it('that failed are listed, and delivered again at the end of the inbox', async () => {
    const handle = fresh('flaky');
    const sessionId = await addSession(server, { handle });
    const first = await sendMessage(server, { to: `@${handle}`, text: 'first' });
    await sendMessage(server, { to: `@${handle}`, text: 'second' });
    const deliveryId = first.deliveries[0]?.id ?? '';
    await receive(deliveryId, 'fail');
    const query = `status=failed&sessionId=${sessionId}`;
    expect(await server.json(`/v1/deliveries?${query}`)).toMatchObject({
      deliveries: [{ id: deliveryId, error: { code: 'No time', retryable: true } }],
      nextCursor: null,
    });
    const path = `/v1/deliveries/${deliveryId}/redeliver`;
    for (const _ of [1, 2]) {
      expect(await server.json(path, { method: 'POST' })).toMatchObject({
        id: deliveryId,
        status: 'accepted',
      });
    }
    const inbox = await tenant().messages.inbox(sessionId, { after: 0, limit: 10 });
    expect(inbox.map(({ message }) => message.text)).toEqual(['second', 'first']);
    await receive(deliveryId, 'consume');
    expect(await refusal(path, { method: 'POST' })).toMatchObject({
      status: 409,
      code: 'receipt_conflict',
    });
  });

  it('can be waited for until they are consumed, or for a time', async () => {
    const handle = fresh('slow');
    await addSession(server, { handle });
    const { id, deliveries } = await sendMessage(server, { to: `@${handle}`, text: 'x' });
    const deliveryId = deliveries[0]?.id ?? '';
    expect(await deliveriesOf(id, '?wait=consumed&waitMs=1')).toMatchObject([
      { status: 'accepted' },
    ]);
    const waiting = deliveriesOf(id, '?wait=consumed&waitMs=20000');
    const { sessionHub } = server.relay;
    await until(() => sessionHub.size > 0, 'the waiting request');
    await receive(deliveryId, 'consume');
    sessionHub.publish(deliveries[0]?.sessionId ?? '', []);
    expect(await waiting).toMatchObject([
      { id: deliveryId, status: 'consumed', consumedAt: expect.any(String) },
    ]);
    await until(() => sessionHub.size === 0, 'the end of the request');
    expect(await refusal(`/v1/messages/${id}/deliveries?waitMs=60001`, {})).toMatchObject({
      status: 400,
    });
  });

  it('of a program that only replies are in its conversation with a key, for no other session', async () => {
    const [handle, other] = [fresh('answering'), fresh('other')];
    const id = await addSession(server, { handle });
    await addSession(server, { handle: other });
    const first = await sendMessage(server, { to: `@${handle}`, text: 'Who knows?' });
    const author = {
      tenantId: server.tenantId,
      from: { type: 'session', id, name: handle },
      by: { type: 'system', id, name: handle },
    } as const;
    const { control } = server.relay;
    const { message } = await send(control, author, { text: 'I do', replyTo: first.id });
    await send(control, author, { text: 'And more', replyTo: message.id });
    expect(message.to).toEqual([]);
    expect(await textsOf(`with=${handle}`)).toEqual(['And more', 'I do', 'Who knows?']);
    expect(await textsOf(`with=${other}`)).toEqual([]);
  });

  it('are listed newest first, searched by words, and bounded by time', async () => {
    const handle = fresh('reader');
    await addSession(server, { handle });
    const sent = [];
    for (const text of ['the red fox', 'the blue whale', 'a red whale']) {
      sent.push(await sendMessage(server, { to: `@${handle}`, text }));
    }
    expect(await textsOf(`with=@${handle}`)).toEqual([
      'a red whale',
      'the blue whale',
      'the red fox',
    ]);
    expect(await textsOf(`with=${handle}&q=red`)).toEqual(['a red whale', 'the red fox']);
    expect(await textsOf(`with=${handle}&since=${String(sent[2]?.['at'])}`)).toContain(
      'a red whale',
    );
    expect(await textsOf(`with=${handle}&since=2999-01-01T00:00:00Z`)).toEqual([]);
    const page = await server.json(`/v1/messages?with=${handle}&limit=2`);
    expect(page['messages']).toHaveLength(2);
    expect(await textsOf(`with=${handle}&limit=2&cursor=${String(page['nextCursor'])}`)).toEqual([
      'the red fox',
    ]);
    expect(await textsOf('with=nobody')).toEqual([]);
  });

  it('are counted by the metrics', async () => {
    const handle = fresh('counted');
    await addSession(server, { handle });
    const count = async (name: string) => {
      const text = await (await server.request('/metrics')).text();
      return Number(
        text
          .split('\n')
          .find((line) => line.startsWith(name))
          ?.split(' ')
          .at(-1) ?? 0,
      );
    };
    const accepted = 'relay_deliveries_total{status="accepted"}';
    const before = [await count('relay_messages_sent_total'), await count(accepted)];
    await sendMessage(server, { to: `@${handle}`, text: 'x' });
    const after = [await count('relay_messages_sent_total'), await count(accepted)];
    expect(after).toEqual(before.map((value) => value + 1));
  });
});
