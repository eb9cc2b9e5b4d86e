/** Sessions of programs and people over HTTP, on both databases. */
import type { NewMessage, SessionRecord, SystemStore } from '@relay/core';
import type { DeliveryMode } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifies } from '../../../../../test/conformance/verifies.ts';
import {
  addKey,
  bootServer,
  type RequestOptions,
  type TestServer,
  until,
} from '../../support/server.ts';
import { FrameReader } from '../../support/frames.ts';
import {
  attach,
  attached,
  type AttachedSession,
  leave,
  openStream,
  postReceipt,
  programCapabilities as capabilities,
  programIdentity as identity,
  sendMessage,
} from '../../support/sessions.ts';
import { stores } from '../../support/stores.ts';

type Json = Record<string, unknown>;

describe.each(Object.entries(stores))('sessions over HTTP on %s', (_name, open) => {
  let store: SystemStore;
  let server: TestServer;

  beforeAll(async () => {
    store = await open();
    server = await bootServer({
      store,
      env: { RELAY_DELIVERY_TTL_MS: '60000' },
      file: { rateLimit: { failuresPerMinute: 100_000 } },
    });
  });

  afterAll(async () => {
    await server.stop();
    await store.close();
  });

  const ask: TestServer['ask'] = (path, options) => server.ask(path, options);

  const tenant = () => store.tenant(server.tenantId);

  async function recordOf({ id }: AttachedSession): Promise<SessionRecord> {
    const session = await tenant().sessions.read(id);
    if (session === undefined) throw new Error('The session is gone');
    return session;
  }

  async function send(session: AttachedSession, mode: DeliveryMode = 'on-idle', at = Date.now()) {
    const message: NewMessage = {
      id: uuidv7(),
      from: { type: 'key', id: uuidv7(), name: 'Ada' },
      to: [`@${session.handle}`],
      text: 'hello',
      attachments: [],
      mode: null,
      replyTo: null,
      threadId: uuidv7(),
      hops: 0,
      at,
      channels: [],
      direct: [session.id],
    };
    const id = uuidv7();
    const accepted = { type: 'delivery.accepted', deliveryId: id, messageId: message.id } as const;
    const outcome = await tenant().sessions.change({
      messages: [message],
      changes: [
        {
          sessionId: session.id,
          at,
          events: [accepted],
          newDeliveries: [{ id, messageId: message.id, mode }],
        },
      ],
    });
    expect(outcome.kind).toBe('committed');
    return id;
  }

  const stream = (session: AttachedSession, key = session.token) =>
    openStream(server, session, { key });
  const receipt = (session: AttachedSession, id: string, body: Json, key = session.token) =>
    postReceipt(server, session, id, body, key);

  const typesOf = async ({ path }: AttachedSession) => {
    const { body } = await ask(`${path}/events`);
    return (body['events'] as { type: string; status?: string }[]).map(({ type, status }) =>
      status === undefined ? type : `${type} ${status}`,
    );
  };

  const statusOf = async ({ path }: AttachedSession) => (await ask(path)).body['status'];

  const untilStatus = (session: AttachedSession, status: string) =>
    until(async () => (await statusOf(session)) === status, `a session that is ${status}`);

  describe('an attach', () => {
    it('makes a session with a token, a journal and an audit entry', async () => {
      const session = await attached(server);
      expect(session.token).toMatch(/^relay_sess_[0-9a-f]{72}$/);
      expect((await ask(session.path)).body).toMatchObject({
        id: session.id,
        identity: { handle: session.handle, ...identity },
        harness: 'remote',
        status: 'idle',
        capabilities,
        queue: { length: 0 },
        stuck: false,
        lastSeq: 3,
      });
      expect(await typesOf(session)).toEqual([
        'status.changed starting',
        'session.started',
        'status.changed idle',
      ]);
      const { entries } = await server.json('/v1/audit?action=session.attached&limit=1');
      expect(entries).toMatchObject([{ what: { sessionId: session.id, harness: 'remote' } }]);
      expect(JSON.stringify(await recordOf(session))).not.toContain(session.token);
    });

    it('to a live handle is refused, also with the key that attached it, and changes nothing', async () => {
      const session = await attached(server);
      const before = await recordOf(session);
      const other = await addKey(store, { scopes: ['runs'] });
      for (const options of [{}, { key: other.apiKey }]) {
        for (const more of [{}, { takeover: true }]) {
          const answer = await attach(server, { handle: session.handle, ...more }, options);
          const error = expect.stringContaining('free 30 s after the last contact of its program');
          expect(answer).toMatchObject({ status: 409, body: { code: 'handle_taken', error } });
        }
      }
      expect(await recordOf(session)).toEqual(before);
    });

    it('with the session token continues it with a new token, and the old one is dead', async () => {
      const session = await attached(server);
      const again = await attach(server, { handle: session.handle }, { key: session.token });
      expect(again).toMatchObject({ status: 201, body: { session: { id: session.id } } });
      const token = String(again.body['token']);
      expect(token).not.toBe(session.token);
      expect(await ask(session.path, { key: session.token })).toMatchObject({
        status: 401,
        body: {
          code: 'unauthorized',
          error: expect.stringMatching(/^This session token is not valid.*attach the handle again/),
        },
      });
      expect((await ask(session.path, { key: token })).status).toBe(200);
      expect((await typesOf(session)).at(-1)).toBe('session.resumed');
      const elsewhere = await attach(server, {}, { key: token });
      expect(elsewhere).toMatchObject({ status: 403, body: { code: 'scope_required' } });
    });

    it('is asked for by its id: a handle in the path, or an unknown id, is answered with what to do', async () => {
      const { handle } = await attached(server);
      for (const [path, options] of [
        [`/v1/sessions/${handle}`, {}],
        [`/v1/sessions/${uuidv7()}`, {}],
        [`/v1/sessions/${uuidv7()}`, { method: 'PATCH', body: { labels: {} } }],
      ] as const) {
        expect(await ask(path, options)).toMatchObject({
          status: 404,
          body: { error: expect.stringMatching(/^No such session: .* id, .*GET \/v1\/sessions/) },
        });
      }
    });

    it('to a handle that is no longer in use needs its key, or a takeover by an administrator', async () => {
      const session = await attached(server);
      await leave(server, session, 31_000);
      const other = await addKey(store, { scopes: ['runs'] });
      const admin = await addKey(store, { scopes: ['runs', 'admin'], owner: 'grace' });
      const refused = await attach(server, { handle: session.handle }, { key: other.apiKey });
      expect(refused).toMatchObject({ status: 409, body: { code: 'handle_taken' } });
      const unscoped = await attach(
        server,
        { handle: session.handle, takeover: true },
        { key: other.apiKey },
      );
      expect(unscoped).toMatchObject({ status: 403, body: { code: 'scope_required' } });

      const own = await attach(server, { handle: session.handle });
      expect(own).toMatchObject({ status: 201, body: { session: { id: session.id } } });
      await leave(server, session, 31_000);
      const taken = await attach(
        server,
        { handle: session.handle, takeover: true },
        { key: admin.apiKey },
      );
      expect(taken).toMatchObject({ status: 201, body: { session: { owner: 'grace' } } });
      expect((await ask(session.path, { key: String(own.body['token']) })).status).toBe(401);
      const { entries } = await server.json('/v1/audit?action=session.taken-over&limit=1');
      expect(entries).toMatchObject([
        { who: { id: admin.keyId }, what: { sessionId: session.id } },
      ]);
    });

    it('by two programs at once gives the handle to one of them', async () => {
      const handle = `h-${uuidv7()}`;
      const answers = await Promise.all([1, 2, 3].map(() => attach(server, { handle })));
      expect(answers.map(({ status }) => String(status)).toSorted()).toEqual(['201', '409', '409']);
    });

    it.each([
      ['an unknown capability', { capabilities: { interrupt: true } }],
      ['manual without a queue', { capabilities: { delivery: { modes: ['manual'] } } }],
      ['a handle in capitals', { handle: 'Ada' }],
    ])('with %s is invalid', async (_what, more) => {
      expect(await attach(server, more)).toMatchObject({
        status: 400,
        body: { code: 'invalid_request' },
      });
    });
  });

  describe('a session token', () => {
    it('opens its own session, handles and statuses of others, and nothing else', async () => {
      const session = await attached(server);
      const other = await attached(server);
      const key = session.token;
      expect((await ask(`${session.path}/events`, { key })).status).toBe(200);
      expect((await ask(other.path, { key })).body).toEqual({
        id: other.id,
        identity: { handle: other.handle, ...identity },
        status: 'idle',
      });
      const { body } = await ask('/v1/sessions?limit=2', { key });
      expect(body['sessions']).toMatchObject([{ id: other.id }, { id: session.id, lastSeq: 3 }]);
      expect((body['sessions'] as Json[])[0]).not.toHaveProperty('owner');
      const closed: [string, RequestOptions][] = [
        [`${other.path}/events`, {}],
        [`${other.path}/deliveries/stream`, {}],
        [`${other.path}/events`, { body: { type: 'log', level: 'info', message: 'x' } }],
        [session.path, { method: 'DELETE' }],
        [`${session.path}/release`, { method: 'POST' }],
        ['/v1/runs', {}],
        ['/v1/approvals', {}],
        ['/v1/audit', {}],
        ['/v1/keys', {}],
      ];
      for (const [path, options] of closed) {
        expect(await ask(path, { ...options, key }), path).toMatchObject({
          status: 403,
          body: { code: 'scope_required' },
        });
      }
    });

    it('sends messages as its session if it declares that, and reads only its own', async () => {
      const session = await attached(server);
      const other = await attached(server);
      const silent = await attached(server, {
        capabilities: { messaging: { receive: true } },
      });
      const body = { to: `@${other.handle}`, text: 'from a program' };
      const sent = await ask('/v1/messages', { body, key: session.token });
      expect(sent).toMatchObject({
        status: 201,
        body: { from: { type: 'session', id: session.id, name: session.handle } },
      });
      const refused = await ask('/v1/messages', { body, key: silent.token });
      expect(refused).toMatchObject({
        status: 409,
        body: { code: 'capability_missing', details: { path: 'messaging.send' } },
      });
      const reader = await stream(other);
      expect((await reader.next())?.data).toMatchObject({
        type: 'delivery',
        message: { id: sent.body['id'], text: 'from a program' },
      });
      await reader.disconnect();
      for (const [key, count] of [
        [session.token, 1],
        [other.token, 1],
        [silent.token, 0],
      ] as const) {
        expect((await ask('/v1/messages', { key })).body['messages']).toHaveLength(count);
      }
      expect((await ask('/v1/deliveries', { key: session.token })).status).toBe(403);
    });

    it('that is mistyped, invented or of a dropped session is refused', async () => {
      const session = await attached(server);
      const mistyped = `${session.token.slice(0, -1)}${session.token.endsWith('0') ? '1' : '0'}`;
      expect((await ask(session.path, { key: mistyped })).status).toBe(401);
      expect((await ask(session.path, { method: 'DELETE' })).status).toBe(204);
      expect((await ask(session.path, { key: session.token })).status).toBe(401);
      expect((await ask(session.path)).status).toBe(404);
      const { entries } = await server.json('/v1/audit?action=session.deleted&limit=1');
      expect(entries).toMatchObject([{ what: { sessionId: session.id } }]);
    });
  });

  describe('POST /v1/sessions', () => {
    it('makes a person’s session, which a key of the owner uses', async () => {
      const ada = await addKey(store, { scopes: ['runs'], owner: 'ada' });
      const eve = await addKey(store, { scopes: ['runs'], owner: 'eve' });
      const handle = `h-${uuidv7()}`;
      const body = { harness: 'human', handle, labels: { team: handle } };
      const made = await ask('/v1/sessions', { body, key: ada.apiKey });
      expect(made).toMatchObject({
        status: 201,
        body: { harness: 'human', owner: 'ada', identity: { name: 'ada', kind: 'human' } },
      });
      expect((await ask('/v1/sessions', { body })).body).toMatchObject({ code: 'handle_taken' });
      const { sessions } = await server.json(`/v1/sessions?label=team:${handle}`);
      expect(sessions).toMatchObject([{ id: made.body['id'] }]);

      const id = String(made.body['id']);
      const session = { id, handle, token: ada.apiKey, path: `/v1/sessions/${id}` };
      const deliveryId = await send(session);
      const reader = await stream(session);
      expect((await reader.next())?.data).toMatchObject({ type: 'delivery', deliveryId });
      await reader.disconnect();
      const foreign = await receipt(session, deliveryId, { status: 'consumed' }, eve.apiKey);
      expect(foreign).toMatchObject({ status: 403, body: { code: 'scope_required' } });
      expect(await receipt(session, deliveryId, { status: 'consumed' })).toMatchObject({
        status: 200,
        body: { status: 'consumed' },
      });
      await leave(server, session, 3_600_000);
      expect(await statusOf(session)).toBe('idle');
      const released = await ask(`${session.path}/release`, { method: 'POST' });
      expect(released).toMatchObject({ status: 202, body: { status: 'released' } });
    });

    it.each([
      ['nothing', /there are claude, codex, gemini, human, native, opencode, remote/],
      ['remote', /attach/],
    ])('refuses the harness %s and says what to do', async (harness, message) => {
      const { status, body } = await ask('/v1/sessions', { body: { harness, handle: 'x' } });
      expect(status).toBe(400);
      expect(JSON.stringify(body)).toMatch(message);
    });
  });

  describe('the journal', () => {
    it('is paged, and streamed from any position until the session is released', async () => {
      const session = await attached(server, {
        capabilities: { lifecycle: { release: true } },
      });
      const first = await ask(`${session.path}/events?limit=2`);
      expect(first.body).toMatchObject({ events: [{ seq: 1 }, { seq: 2 }], nextCursor: '2' });
      expect((await ask(`${session.path}/events?after=99`)).body).toMatchObject({
        code: 'cursor_past_end',
      });
      const response = await server.request(`${session.path}/stream?after=1`, {
        key: session.token,
        headers: { 'last-event-id': '2' },
      });
      const reader = new FrameReader(response);
      expect(await reader.next()).toMatchObject({
        id: '3',
        data: { type: 'status.changed', status: 'idle', previousStatus: 'starting' },
      });
      expect(reader.seen[0]?.data).not.toHaveProperty('seq');
      const report = { type: 'log', level: 'info', message: 'working' };
      await ask(`${session.path}/events`, { body: report, key: session.token });
      expect((await reader.next())?.data).toMatchObject(report);
      await leave(server, session, 31_000);
      await untilStatus(session, 'offline');
      await ask(`${session.path}/release`, { method: 'POST' });
      await reader.rest().catch(() => undefined);
      const { lastSeq } = await recordOf(session);
      const over = await server.request(`${session.path}/stream?after=${lastSeq}`);
      expect(over.status).toBe(204);
      const whole = await server.request(`${session.path}/stream`);
      const frames = await new FrameReader(whole).rest();
      expect(frames.map(({ id }) => Number(id))).toEqual(frames.map((_, index) => index + 1));
      expect(frames.at(-1)?.data).toMatchObject({ type: 'session.released' });
    });

    it('ends its stream when the token is replaced or the session is dropped', async () => {
      const session = await attached(server);
      const follow = async (key: string) =>
        new FrameReader(await server.request(`${session.path}/stream?after=3`, { key }));
      const byToken = await follow(session.token);
      const byKey = await follow(server.apiKey);
      await attach(server, { handle: session.handle }, { key: session.token });
      await byToken.rest();
      expect((await byKey.next())?.data.type).toBe('session.resumed');
      await ask(session.path, { method: 'DELETE' });
      await byKey.rest();
    });

    it('stores the events of one idempotency key once, also if they are reported twice at a time', async () => {
      const [session, other] = [await attached(server), await attached(server)];
      const body = { type: 'log', level: 'info', message: 'once' };
      const report = (reported: object, { path, token }: AttachedSession = session) =>
        ask(`${path}/events`, {
          body: reported,
          key: token,
          headers: { 'idempotency-key': 'k1' },
        });
      const answers = await Promise.all([report(body), report(body), report(body)]);
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
      expect((await report(body)).status).toBe(200);
      expect(await report({ ...body, message: 'other' })).toMatchObject({
        status: 422,
        body: { code: 'idempotency_mismatch' },
      });
      const logs = (await typesOf(session)).filter((type) => type === 'log');
      expect(logs).toHaveLength(1);
      // The key of another session is another one.
      await report(body, other);
      expect(await typesOf(other)).toContain('log');
    });

    it('takes declared events, folds status and usage, and refuses undeclared ones whole', async () => {
      const session = await attached(server);
      const key = session.token;
      const working = { type: 'status.changed', status: 'active', reason: 'building' };
      const events = [working, { type: 'usage.updated', tokens: 12, costUsd: 0.5 }];
      const reported = await ask(`${session.path}/events`, { body: { events }, key });
      expect(reported).toMatchObject({
        status: 200,
        body: { status: 'active', usage: { tokens: 12, costUsd: 0.5 }, lastSeq: 5 },
      });
      const refused: unknown[] = [
        { type: 'terminal.output', text: 'x' },
        { type: 'session.released', sessionId: session.id },
        {
          events: [
            { type: 'log', level: 'info', message: 'x' },
            { type: 'tool.called', tool: 'x' },
          ],
        },
      ];
      for (const body of refused) {
        expect(await ask(`${session.path}/events`, { body, key })).toMatchObject({
          status: 422,
          body: { code: 'event_undeclared', details: { path: 'events.emits' } },
        });
      }
      expect((await recordOf(session)).lastSeq).toBe(5);
    });
  });

  describe('PATCH', () => {
    it('changes the labels, and refuses a model for a program', async () => {
      const session = await attached(server);
      const labels = { team: uuidv7() };
      const patched = await ask(session.path, { method: 'PATCH', body: { labels } });
      expect(patched).toMatchObject({ status: 200, body: { labels } });
      expect(await server.json(`/v1/sessions?label=team:${labels.team}`)).toMatchObject({
        sessions: [{ id: session.id }],
      });
      const model = await ask(session.path, { method: 'PATCH', body: { model: 'demo' } });
      expect(model).toMatchObject({ status: 409, body: { code: 'session_conflict' } });
    });
  });

  describe('the deliveries stream', () => {
    it('sends a message once, and receipts make it delivered and consumed', async () => {
      const session = await attached(server);
      const reader = await stream(session);
      const deliveryId = await send(session);
      expect((await reader.next())?.data).toMatchObject({
        type: 'delivery',
        deliveryId,
        message: { text: 'hello', to: `@${session.handle}`, from: { name: 'Ada' } },
        mode: 'on-idle',
        attempt: 1,
        redelivered: false,
      });
      for (const status of ['delivered', 'delivered', 'consumed', 'consumed']) {
        expect(await receipt(session, deliveryId, { status })).toMatchObject({
          status: 200,
          body: { status, attempts: 1 },
        });
      }
      const before = await recordOf(session);
      expect(await receipt(session, deliveryId, { status: 'failed' })).toMatchObject({
        status: 409,
        body: { code: 'receipt_conflict' },
      });
      expect(await recordOf(session)).toEqual(before);
      expect((await typesOf(session)).slice(3)).toEqual([
        'delivery.accepted',
        'delivery.delivered',
        'message.received',
      ]);
      const next = await send(session);
      expect((await reader.next())?.data).toMatchObject({ deliveryId: next, attempt: 1 });
      await reader.disconnect();
    });

    it('refuses a receipt for the delivery of another session', async () => {
      const session = await attached(server);
      const other = await attached(server);
      const deliveryId = await send(other);
      const answer = await receipt(session, deliveryId, { status: 'consumed' });
      expect(answer).toMatchObject({ status: 404, body: { code: 'not_found' } });
      const own = await receipt({ ...session, path: other.path }, deliveryId, {
        status: 'consumed',
      });
      expect(own.status).toBe(403);
      expect(await tenant().messages.readDelivery(deliveryId)).toMatchObject({
        status: 'accepted',
      });
    });

    it('holds on-idle until the session is idle, sends immediate at once, and manual after a flush', async () => {
      const session = await attached(server);
      const key = session.token;
      const report = (status: string) =>
        ask(`${session.path}/events`, { body: { type: 'status.changed', status }, key });
      await report('active');
      const idle = await send(session, 'on-idle');
      const manual = await send(session, 'manual');
      const now = await send(session, 'immediate');
      const reader = await stream(session);
      expect((await reader.next())?.data).toMatchObject({ deliveryId: now });
      await report('idle');
      expect((await reader.next())?.data).toMatchObject({ deliveryId: idle });
      expect((await ask(`${session.path}/flush`, { method: 'POST', key })).status).toBe(200);
      expect((await reader.next())?.data).toMatchObject({ deliveryId: manual, mode: 'manual' });
      await reader.disconnect();
    });

    it('sends a deferred message again when it is available', async () => {
      const session = await attached(server);
      const reader = await stream(session);
      const deliveryId = await send(session);
      await reader.next();
      const availableAt = new Date(Date.now() + 50).toISOString();
      const deferred = await receipt(session, deliveryId, {
        status: 'deferred',
        availableAt,
        reason: 'compiling',
      });
      expect(deferred.body).toMatchObject({ status: 'deferred', reason: 'compiling', availableAt });
      expect((await reader.next())?.data).toMatchObject({
        deliveryId,
        attempt: 2,
        redelivered: true,
      });
      expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(availableAt));
      await reader.disconnect();
    });

    it('keeps the order of many messages', async () => {
      const session = await attached(server);
      const ids: string[] = [];
      for (let count = 0; count < 120; count += 1) ids.push(await send(session));
      const reader = await stream(session);
      const seen: unknown[] = [];
      while (seen.length < ids.length) seen.push((await reader.next())?.data['deliveryId']);
      expect(seen).toEqual(ids);
      await reader.disconnect();
    });
  });

  describe('commands', () => {
    const post = (session: AttachedSession, name: string) =>
      ask(`${session.path}/${name}`, { method: 'POST' });

    function answer(session: AttachedSession, commandId: unknown, body: Json) {
      return ask(`${session.path}/commands/${String(commandId)}`, { body, key: session.token });
    }

    it('pause, resume and release take effect when the program answers', async () => {
      const session = await attached(server);
      const reader = await stream(session);
      expect(await post(session, 'pause')).toMatchObject({ status: 202, body: { status: 'idle' } });
      // Asked again before the answer: it is the same command.
      await post(session, 'pause');
      const pause = (await reader.next())?.data;
      expect(pause).toMatchObject({ type: 'command', command: 'pause', args: {} });
      // Handed over before the program has answered.
      const sent = await sendMessage(server, { to: `@${session.handle}`, text: 'hello' });
      const held = sent.deliveries[0]?.id ?? '';
      expect((await reader.next())?.data).toMatchObject({ deliveryId: held });
      expect(await answer(session, pause?.['commandId'], { ok: true })).toMatchObject({
        body: { status: 'paused' },
      });
      expect((await answer(session, pause?.['commandId'], { ok: true })).status).toBe(200);
      const late = await answer(session, pause?.['commandId'], { ok: false, error: 'no' });
      expect(late).toMatchObject({ status: 409, body: { code: 'receipt_conflict' } });
      const waiting = await send(session);
      await post(session, 'resume');
      const resume = (await reader.next())?.data;
      expect(resume).toMatchObject({ command: 'resume' });
      await answer(session, resume?.['commandId'], { ok: true });
      expect((await reader.next())?.data).toMatchObject({ deliveryId: waiting });

      const releasing = await post(session, 'release');
      expect(releasing).toMatchObject({ status: 202, body: { status: 'releasing' } });
      const release = (await reader.next())?.data;
      await answer(session, release?.['commandId'], { ok: true });
      await reader.rest();
      expect((await ask(session.path)).body).toMatchObject({
        status: 'released',
        queue: { length: 0 },
        releasedAt: expect.any(String),
      });
      for (const id of [held, waiting]) {
        expect(await tenant().messages.readDelivery(id)).toMatchObject({
          status: 'failed',
          reason: 'released',
        });
      }
      expect((await typesOf(session)).at(-1)).toBe('session.released');
      expect((await ask(session.path, { key: session.token })).status).toBe(401);
      expect((await attach(server, { handle: session.handle })).status).toBe(201);
    });

    it('resume ends a pause that the program has not answered yet', async () => {
      const session = await attached(server);
      const reader = await stream(session);
      await post(session, 'pause');
      expect(await post(session, 'resume')).toMatchObject({ status: 202 });
      const [pause, resume] = [(await reader.next())?.data, (await reader.next())?.data];
      expect([pause, resume]).toMatchObject([{ command: 'pause' }, { command: 'resume' }]);
      expect(await answer(session, pause?.['commandId'], { ok: true })).toMatchObject({
        body: { status: 'paused' },
      });
      expect(await answer(session, resume?.['commandId'], { ok: true })).toMatchObject({
        body: { status: 'idle' },
      });
      await reader.disconnect();
    });

    it('DELETE fails what waits for the session, and nothing is reported after a release', async () => {
      const session = await attached(server);
      const waiting = await send(session);
      const reader = await stream(session);
      expect((await ask(session.path, { method: 'DELETE' })).status).toBe(204);
      await reader.rest();
      expect((await ask(session.path)).status).toBe(404);
      expect(await tenant().messages.readDelivery(waiting)).toMatchObject({
        status: 'failed',
        reason: 'released',
      });

      const ada = await addKey(store, { scopes: ['runs'], owner: 'ada' });
      const body = { harness: 'human', handle: `h-${uuidv7()}` };
      const made = await ask('/v1/sessions', { body, key: ada.apiKey });
      const path = `/v1/sessions/${String(made.body['id'])}`;
      await ask(`${path}/release`, { method: 'POST' });
      const late = { type: 'status.changed', status: 'active' };
      expect(await ask(`${path}/events`, { body: late, key: ada.apiKey })).toMatchObject({
        status: 409,
        body: { code: 'session_conflict' },
      });
      const { events } = (await ask(`${path}/events`)).body;
      expect((events as Json[]).at(-1)).toMatchObject({ type: 'session.released' });
    });

    it('that the program refuses, or does not answer in time, have failed', async () => {
      const session = await attached(server);
      const reader = await stream(session);
      await post(session, 'pause');
      const pause = (await reader.next())?.data;
      const refusal = { ok: false, error: 'busy' };
      expect(await answer(session, pause?.['commandId'], refusal)).toMatchObject({
        body: { status: 'idle' },
      });
      const { body } = await ask(`${session.path}/events`);
      expect((body['events'] as Json[]).at(-1)).toMatchObject({
        type: 'error',
        code: 'command_failed',
        error: expect.stringContaining('busy'),
      });
      const at = Date.now() - 31_000;
      const command = {
        id: uuidv7(),
        sessionId: session.id,
        command: 'pause',
        args: {},
        at,
        answerBy: at + 30_000,
      } as const;
      const due = { sessionId: session.id, at, events: [], dueBy: at + 30_000 };
      await tenant().sessions.change({ changes: [due], commands: [command] });
      await until(
        async () => (await typesOf(session)).filter((type) => type === 'error').length === 2,
        'the command to fail',
      );
      expect(await answer(session, command.id, { ok: true })).toMatchObject({
        status: 409,
        body: { code: 'receipt_conflict' },
      });
      expect(await statusOf(session)).toBe('idle');
      await reader.disconnect();
    });

    it.each(['release', 'pause', 'resume'])(
      'of a session that does not declare %s name the capability',
      async (name) => {
        verifies('004:negotiation:release', '004:negotiation:pause', '004:negotiation:resume');
        const lifecycle = { release: false };
        const session = await attached(server, { capabilities: { lifecycle } });
        expect(await post(session, name)).toMatchObject({
          status: 409,
          body: {
            code: 'capability_missing',
            details: { path: `lifecycle.${name}`, asked: true, offered: false },
          },
        });
      },
    );

    it('flush of a session without the mode manual names the capability', async () => {
      const delivery = { modes: ['immediate'] };
      const session = await attached(server, { capabilities: { delivery } });
      expect(await post(session, 'flush')).toMatchObject({
        status: 409,
        body: { code: 'capability_missing', details: { path: 'delivery.modes', asked: 'manual' } },
      });
    });
  });

  describe('a program without a stream', () => {
    it('is offline after 30 seconds, and back with a stream', async () => {
      const session = await attached(server);
      const waiting = await send(session);
      await leave(server, session, 20_000);
      const record = await recordOf(session);
      expect(record).toMatchObject({ status: 'idle' });
      await leave(server, session, 31_000);
      await untilStatus(session, 'offline');
      expect(await tenant().messages.readDelivery(waiting)).toMatchObject({
        status: 'deferred',
        reason: 'offline',
      });
      const reader = await stream(session);
      expect(await statusOf(session)).toBe('idle');
      expect((await reader.next())?.data).toMatchObject({ deliveryId: waiting });
      await reader.disconnect();
    });

    it('lets its messages expire after RELAY_DELIVERY_TTL_MS, and not before', async () => {
      const session = await attached(server);
      const old = await send(session, 'on-idle', Date.now() - 3_600_000);
      const held = await send(session, 'manual', Date.now() - 3_600_000);
      await leave(server, session, 31_000);
      await untilStatus(session, 'offline');
      expect((await recordOf(session)).dueAt).toBeGreaterThan(Date.now());
      expect(await tenant().messages.readDelivery(old)).toMatchObject({ status: 'deferred' });
      const fresh = await send(session, 'immediate');
      await leave(server, session, 61_000);
      for (const id of [old, held]) {
        await until(
          async () => (await tenant().messages.readDelivery(id))?.status === 'failed',
          'the delivery to expire',
        );
        expect(await tenant().messages.readDelivery(id)).toMatchObject({
          reason: 'expired',
          retryable: true,
        });
      }
      expect(await tenant().messages.readDelivery(fresh)).toMatchObject({ status: 'accepted' });
      const { dueAt } = await recordOf(session);
      expect(dueAt).toBeLessThanOrEqual(Date.now() + 60_000);
    });

    it('whose node died is found by another node', async () => {
      const session = await attached(server);
      const id = uuidv7();
      await tenant().sessions.openStream(session.id, { id, node: 'dead', at: Date.now() });
      await until(async () => (await recordOf(session)).stream === null, 'the stream to be closed');
      expect((await recordOf(session)).dueAt).toBeGreaterThan(Date.now());
    });
  });

  describe('a session token', () => {
    it('reads what its session sent or received and what its channels show, by id and in lists alike', async () => {
      const [ada, bob, eve] = [
        await attached(server),
        await attached(server),
        await attached(server),
      ];
      const channel = `c-${uuidv7()}`;
      await ask(`/v1/channels/${channel}`, { method: 'PUT', body: {} });
      for (const { handle } of [ada, eve]) {
        await ask(`/v1/channels/${channel}/members/${handle}`, { method: 'PUT' });
      }
      const sent = async (by: AttachedSession | undefined, body: Json): Promise<string> => {
        const answer = await ask('/v1/messages', { body, ...(by && { key: by.token }) });
        expect(answer.status).toBe(201);
        return String(answer.body['id']);
      };
      const [toAda, toBob] = [`@${ada.handle}`, `@${bob.handle}`];
      const inChannel = await sent(undefined, { to: `#${channel}`, text: 'for all members' });
      const messages = {
        inChannel,
        toAda: await sent(undefined, { to: toAda, text: 'to ada' }),
        group: await sent(bob, { to: [toAda, `@${eve.handle}`], text: 'to ada and eve' }),
        fromAda: await sent(ada, { to: toBob, text: 'from ada' }),
        // In the thread of the channel, and not in the channel.
        aside: await sent(ada, { to: toBob, text: 'aside', replyTo: inChannel }),
      };
      const visible = async ({ token: key }: AttachedSession) => {
        const { body } = await ask('/v1/messages?limit=100', { key });
        const listed = new Set((body['messages'] as { id: string }[]).map(({ id }) => id));
        const names: string[] = [];
        for (const [name, id] of Object.entries(messages)) {
          const { status } = await ask(`/v1/messages/${id}/deliveries`, { key });
          expect(status, name).toBe(listed.has(id) ? 200 : 404);
          if (status === 200) names.push(name);
        }
        return names;
      };
      expect(await visible(ada)).toEqual(['inChannel', 'toAda', 'group', 'fromAda', 'aside']);
      expect(await visible(bob)).toEqual(['group', 'fromAda', 'aside']);
      expect(await visible(eve)).toEqual(['inChannel', 'group']);
      const replyTo = messages.aside;
      const answer = await ask('/v1/messages', { body: { text: 'x', replyTo }, key: eve.token });
      expect(answer.status).toBe(404);
    });
  });
});
