/** Webhooks about sessions and messages, on both databases. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { SystemStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifies } from '../../../../../test/conformance/verifies.ts';
import { addKey, bootServer, type TestServer, until } from '../../support/server.ts';
import { attached } from '../../support/sessions.ts';
import { stores } from '../../support/stores.ts';

type Json = Record<string, unknown>;

describe.each(Object.entries(stores))('webhooks about sessions on %s', (_name, open) => {
  let store: SystemStore;
  let server: TestServer;
  let base: string;
  const received: { path: string; signature: unknown; body: Json }[] = [];
  const receiver: Server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => (text += chunk.toString()));
    request.on('end', () => {
      const signature = request.headers['webhook-signature'];
      received.push({ path: request.url ?? '', signature, body: JSON.parse(text) as Json });
      response.end();
    });
  });

  beforeAll(async () => {
    store = await open();
    server = await bootServer({ store, env: { RELAY_PRIVATE_NETWORKS: '127.0.0.0/8' } });
    await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
    base = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
  });

  afterAll(async () => {
    await server.stop();
    await store.close();
    receiver.closeAllConnections();
    receiver.close();
  });

  const ask: TestServer['ask'] = (path, options) => server.ask(path, options);

  function hook(events: readonly string[], filter?: Json, key?: string) {
    const body = { url: `${base}/${uuidv7()}`, events, ...(filter && { filter }) };
    return ask('/v1/webhooks', { body, ...(key === undefined ? {} : { key }) });
  }

  async function hooked(events: readonly string[], filter?: Json): Promise<string> {
    const { status, body } = await hook(events, filter);
    expect([status, body]).toEqual([201, expect.anything()]);
    return String(body['id']);
  }

  /** The events that are stored for a webhook, oldest first. */
  async function outbox(id: string): Promise<string[]> {
    const { body } = await ask(`/v1/webhooks/${id}/deliveries?limit=100`);
    const deliveries = body['deliveries'] as { event: string; at: string; id: string }[];
    return deliveries.map(({ event }) => event).toReversed();
  }

  async function send(to: string, text = 'hello') {
    const { body } = await ask('/v1/messages', { body: { to, text } });
    const deliveries = body['deliveries'] as { id: string; handle: string }[];
    return { id: String(body['id']), deliveries };
  }

  it('are told of a session and its messages, signed and without their text', async () => {
    const session = await attached(server);
    const id = await hooked(['session.*', 'message.*', 'delivery.failed'], {
      handle: session.handle,
    });
    const other = await attached(server);
    const status = { type: 'status.changed', status: 'active' };
    await ask(`${session.path}/events`, { body: status, key: session.token });
    await ask(`${other.path}/events`, { body: status, key: other.token });
    const [one, two] = [
      await send(`@${session.handle}`, 'secret'),
      await send(`@${session.handle}`),
    ];
    await send(`@${other.handle}`);
    const receipt = (sent: typeof one, body: Json) =>
      ask(`${session.path}/deliveries/${sent.deliveries[0]?.id}/receipt`, {
        body,
        key: session.token,
      });
    await receipt(one, { status: 'consumed' });
    await receipt(two, { status: 'failed', reason: 'no "space"', retryable: true });
    expect(await outbox(id)).toEqual([
      'session.status-changed',
      'message.sent',
      'message.sent',
      'message.received',
      'delivery.failed',
    ]);
    const list = (await ask('/v1/webhooks')).body['webhooks'] as Json[];
    const { url, ...shown } = list.find((each) => each['id'] === id) ?? {};
    expect(shown).toMatchObject({
      filter: { handle: session.handle },
      events: expect.arrayContaining(['session.forked', 'message.received']),
    });
    const path = new URL(String(url)).pathname;
    const bodies = await until(() => {
      const some = received.filter((each) => each.path === path);
      return some.length === 5 && some;
    }, 'the deliveries');
    expect(bodies.every(({ signature }) => String(signature).startsWith('v1,'))).toBe(true);
    const bodyOf = (type: string) => bodies.find(({ body }) => body['type'] === type)?.body;
    const { id: sessionId, handle } = session;
    expect(bodyOf('session.status-changed')).toEqual({
      id: `session.status-changed:${sessionId}:4`,
      type: 'session.status-changed',
      at: expect.any(String),
      seq: 4,
      session: { id: sessionId, handle },
      status: 'active',
      previousStatus: 'idle',
    });
    expect(bodyOf('delivery.failed')).toMatchObject({
      session: { id: sessionId, handle },
      message: { id: two.id },
      delivery: { id: two.deliveries[0]?.id, reason: 'no "space"', retryable: true },
    });
    expect(bodies.map(({ body }) => JSON.stringify(body)).join('')).not.toContain('secret');
    const seq = Number(bodyOf('message.received')?.['seq']);
    const { body: log } = await ask(`${session.path}/events?after=${seq - 1}&limit=1`);
    expect(log['events']).toMatchObject([{ type: 'message.received', messageId: one.id }]);
  });

  it('are told of the beginning and the end of sessions', async () => {
    const id = await hooked(['session.started', 'session.released', 'delivery.failed']);
    const session = await attached(server);
    const waiting = await send(`@${session.handle}`);
    await ask(`${session.path}/events`, {
      body: { type: 'status.changed', status: 'released' },
      key: session.token,
    });
    expect(waiting.deliveries).toHaveLength(1);
    expect((await outbox(id)).toSorted()).toEqual([
      'delivery.failed',
      'session.released',
      'session.started',
    ]);
    // Its journal has ended; what is sent to it fails all the same.
    await send(`@${session.handle}`);
    expect(await outbox(id)).toHaveLength(4);
  });

  it('are limited to a channel or a mention', async () => {
    const [member, guest] = [await attached(server), await attached(server)];
    const channel = `c-${uuidv7()}`;
    await ask(`/v1/channels/${channel}`, { method: 'PUT', body: {} });
    await ask(`/v1/channels/${channel}/members/${member.handle}`, { method: 'PUT' });
    const ofChannel = await hooked(['message.*'], { channel });
    const ofMention = await hooked(['message.*'], { mention: member.handle });
    const ofBoth = await hooked(['message.sent'], { channel, mention: guest.handle });
    const consume = async (session: typeof member, sent: Awaited<ReturnType<typeof send>>) => {
      const delivery = sent.deliveries.find(({ handle }) => handle === session.handle);
      const path = `${session.path}/deliveries/${delivery?.id}/receipt`;
      expect((await ask(path, { body: { status: 'consumed' }, key: session.token })).status).toBe(
        200,
      );
    };
    await consume(member, await send(`#${channel}`, 'all'));
    await consume(guest, await send(`@${guest.handle}`, `ask @${member.handle}.`));
    await consume(member, await send(`#${channel}`, `@${guest.handle}, look`));
    await send(`@${guest.handle}`, `not@${member.handle}x, nor \`@${member.handle}\``);
    const pair = ['message.sent', 'message.received'];
    expect(await outbox(ofChannel)).toEqual([...pair, ...pair]);
    expect(await outbox(ofMention)).toEqual(pair);
    expect(await outbox(ofBoth)).toEqual(['message.sent']);
  });

  it('match the text of an edited message', async () => {
    const session = await attached(server);
    const id = await hooked(['message.received'], { mention: 'ada' });
    const sent = await send(`@${session.handle}`, 'nobody');
    const edit = { method: 'PATCH', body: { text: 'for @ada' } };
    expect((await ask(`/v1/messages/${sent.id}`, edit)).status).toBe(200);
    const path = `${session.path}/deliveries/${sent.deliveries[0]?.id}/receipt`;
    await ask(path, { body: { status: 'consumed' }, key: session.token });
    expect(await outbox(id)).toEqual(['message.received']);
  });

  it('are told nothing of what is not stored, nor of another tenant', async () => {
    const session = await attached(server);
    const id = await hooked(['session.*', 'message.*']);
    const { tenantId, apiKey } = await addKey(store, { tenant: `t-${uuidv7()}` });
    const { body } = await hook(['session.*', 'message.*'], undefined, apiKey);
    const tenant = store.tenant(server.tenantId);
    const { kind } = await tenant.sessions.change({
      changes: [
        {
          sessionId: session.id,
          at: Date.now(),
          ifVersion: 99,
          events: [{ type: 'session.resumed', sessionId: session.id }],
        },
      ],
    });
    expect(kind).toBe('conflict');
    await ask('/v1/messages', { body: { to: '@nobody-has-it', text: 'lost' } });
    expect(await outbox(id)).toEqual([]);
    await send(`@${session.handle}`);
    expect(await outbox(id)).toEqual(['message.sent']);
    const page = { limit: 9 };
    expect(await store.tenant(tenantId).webhooks.deliveries(String(body['id']), page)).toEqual([]);
  });

  it('are refused if their filter cannot match', async () => {
    verifies('004:negotiation:event-predicates');
    const silent = await attached(server, { capabilities: { events: { emits: ['log'] } } });
    const refused = await hook(['session.status-changed'], { handle: silent.handle });
    expect([refused.status, refused.body['code']]).toEqual([409, 'capability_missing']);
    expect(refused.body['details']).toEqual({
      path: 'events.emits',
      asked: 'status.changed',
      offered: ['log'],
    });
    expect((await hook(['session.released'], { handle: silent.handle })).status).toBe(201);
    expect((await hook(['session.status-changed'], { handle: 'not-yet' })).status).toBe(201);
    for (const [events, filter, path] of [
      [['run.ended'], { handle: 'ada' }, 'filter.handle'],
      [['session.*', 'message.*'], { channel: 'builds' }, 'filter.channel'],
      [['session.started'], { mention: 'ada' }, 'filter.mention'],
      [['message.sent'], { handle: 'No Handle' }, 'filter.handle'],
      [['message.sent'], { text: 'ada' }, 'filter.text'],
    ] as const) {
      const { status, body } = await hook(events, filter);
      expect([status, body['details']]).toEqual([400, [{ path, message: expect.any(String) }]]);
    }
  });
});
