/** Native sessions over HTTP, on both databases. */
import type { SystemStore } from '@relay/core';
import { finish, text } from '@relay/core/testing';
import { createModelRegistry } from '@relay/models';
import { type ScriptedProvider, startScriptedProvider, textStream } from '@relay/models/testing';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { aborted, createStreamingModel } from '../../../../../test/loop/fixture.ts';
import {
  addKey,
  bootServer,
  type RequestOptions,
  type TestServer,
  until,
} from '../../support/server.ts';
import { stores } from '../../support/stores.ts';
import { sendMessage } from '../../support/sessions.ts';

type Json = Record<string, unknown>;

describe.each(Object.entries(stores))('native sessions over HTTP on %s', (_name, open) => {
  let store: SystemStore;
  let server: TestServer;
  let provider: ScriptedProvider;

  beforeAll(async () => {
    store = await open();
    provider = await startScriptedProvider((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(textStream(['Done.']));
    });
    const model = createStreamingModel(async function* (_request, signal) {
      yield [text('To begin ')];
      await aborted(signal);
    });
    const done = createStreamingModel(() => [[text('Done.'), finish()]]);
    const models = createModelRegistry([
      { id: 'scripted', provider: 'test', model: done },
      { id: 'endless', provider: 'test', model },
    ]);
    server = await bootServer({
      store,
      models,
      env: { RELAY_PRIVATE_NETWORKS: '127.0.0.0/8' },
      file: { agents: [{ name: 'writer', model: 'scripted' }, { name: 'lost' }] },
    });
  });

  afterAll(async () => {
    await server.stop();
    await provider.close();
    await store.close();
  });

  const ask: TestServer['ask'] = (path, options) => server.ask(path, options);

  function create(more: Json = {}, options: RequestOptions = {}) {
    const body = { harness: 'native', handle: `h-${uuidv7()}`, model: 'scripted', ...more };
    return ask('/v1/sessions', { body, ...options });
  }

  describe('POST /v1/sessions', () => {
    it('starts an agent that works on messages, and records who did it', async () => {
      const ada = await addKey(store, { scopes: ['runs'], owner: 'ada' });
      const handle = `h-${uuidv7()}`;
      const made = await create(
        { handle, agent: 'writer', model: undefined, labels: { team: 'docs' } },
        { key: ada.apiKey },
      );
      expect(made).toMatchObject({
        status: 201,
        body: {
          harness: 'native',
          status: 'idle',
          identity: { handle, name: 'writer', kind: 'agent' },
          agent: 'writer',
          labels: { team: 'docs' },
          owner: 'ada',
        },
      });
      const path = `/v1/sessions/${String(made.body['id'])}`;
      const { id } = await sendMessage(server, { to: `@${handle}`, text: 'Write it' });
      const { body } = await ask(`/v1/messages/${id}/deliveries?wait=consumed&waitMs=15000`);
      expect(body).toMatchObject({ deliveries: [{ status: 'consumed' }] });
      await until(async () => (await ask(path)).body['status'] === 'idle', 'the end of the turn');
      expect((await ask(path)).body).toMatchObject({ usage: { tokens: expect.any(Number) } });
      const { entries } = await server.json('/v1/audit?action=session.created&limit=1');
      expect(entries).toMatchObject([
        { who: { id: ada.keyId }, what: { handle, harness: 'native' } },
      ]);
      const again = await create({ handle });
      expect(again).toMatchObject({ status: 409, body: { code: 'handle_taken' } });
    });

    it.each([
      [{ agent: 'nobody' }, 'unknown_agent', /no agent named nobody/],
      [{ model: 'nothing' }, 'unknown_model', /No provider offers the model nothing/],
      [{ model: 'gpt-5.4' }, 'credential_missing', /no credential for the provider openai/],
      [{ agent: 'lost', model: undefined }, 'invalid_request', /model/],
      [{ workspace: 'docs' }, 'invalid_request', /workspace of its tenant/],
    ])('refuses %j and says why', async (more, code, message) => {
      const { status, body } = await create(more);
      expect(status).toBeGreaterThanOrEqual(400);
      expect(status).toBeLessThan(500);
      expect(body).toMatchObject({ code });
      expect(JSON.stringify(body)).toMatch(message);
    });
  });

  describe('forks and snapshots', () => {
    const post = (path: string, body?: Json, key = server.apiKey) =>
      ask(path, { method: 'POST', key, ...(body === undefined ? {} : { body }) });

    async function afterTurn(more: Json = {}) {
      const { body } = await create(more);
      const { handle } = body['identity'] as { handle: string };
      const path = `/v1/sessions/${String(body['id'])}`;
      await sendMessage(server, { to: `@${handle}`, text: 'Write it' });
      await until(async () => {
        const { usage, status } = (await ask(path)).body as { usage: Json; status: string };
        return status === 'idle' && Number(usage['tokens']) > 0;
      }, 'the end of the turn');
      return { id: String(body['id']), handle, path };
    }

    it('make sessions that continue from there, of those that are not released', async () => {
      const { id, path } = await afterTurn({ labels: { team: 'docs' } });
      const handle = `h-${uuidv7()}`;
      const forked = await post(`${path}/fork`, { handle });
      expect(forked).toMatchObject({
        status: 201,
        body: { parentSessionId: id, status: 'idle', model: 'scripted', labels: { team: 'docs' } },
      });
      const { entries } = await server.json('/v1/audit?action=session.created&limit=1');
      expect(entries).toMatchObject([{ what: { handle, parentSessionId: id } }]);
      expect(await post(`${path}/fork`, { handle })).toMatchObject({
        status: 409,
        body: { code: 'handle_taken' },
      });
      const { lastSeq } = (await ask(path)).body as { lastSeq: number };
      for (const seq of [6, lastSeq + 1]) {
        expect(await post(`${path}/fork`, { handle: 'x', seq })).toMatchObject({
          status: 409,
          body: { code: 'not_a_boundary' },
        });
      }
      const snapshot = await post(`${path}/snapshot`);
      expect([snapshot.status, snapshot.body]).toEqual([
        201,
        { id: expect.any(String) as unknown, sessionId: id, seq: lastSeq },
      ]);
      const fromSnapshot = snapshot.body['id'];
      const started = await create({ model: undefined, fromSnapshot });
      expect(started).toMatchObject({
        status: 201,
        body: { parentSessionId: id, model: 'scripted' },
      });
      const stranger = await addKey(store, { tenant: 'other' });
      expect(await create({ fromSnapshot }, { key: stranger.apiKey })).toMatchObject({
        status: 400,
        body: { code: 'invalid_request' },
      });
      for (const name of ['fork', 'snapshot']) {
        const body = name === 'fork' ? { handle: 'x' } : undefined;
        expect((await post(`${path}/${name}`, body, stranger.apiKey)).status).toBe(404);
      }
    });

    it('need the scope approve if the session may call tools without approval', async () => {
      const rule = { tool: 'send_note', params: {} };
      const { path } = await afterTurn({ permissions: { allowlist: [rule] } });
      const { apiKey } = await addKey(store, { scopes: ['runs'] });
      const handle = `h-${uuidv7()}`;
      expect(await post(`${path}/fork`, { handle }, apiKey)).toMatchObject({
        status: 403,
        body: { code: 'approve_scope_required' },
      });
      expect((await post(`${path}/fork`, { handle })).status).toBe(201);
    });
  });

  interface Made {
    readonly handle: string;
    readonly path: string;
  }

  async function made(more: Json = {}): Promise<Made> {
    const handle = `h-${uuidv7()}`;
    const { status, body } = await create({ handle, ...more });
    expect(status).toBe(201);
    return { handle, path: `/v1/sessions/${String(body['id'])}` };
  }

  const post = ({ path }: Made, name: string) => ask(`${path}/${name}`, { method: 'POST' });

  function untilStatus({ path }: Made, status: string): Promise<Json> {
    return until(async () => {
      const { body } = await ask(path);
      return body['status'] === status && body;
    }, `the status ${status}`);
  }

  async function send({ handle }: Made, more: Json = {}): Promise<string> {
    const { deliveries } = await sendMessage(server, { to: `@${handle}`, text: 'Go on', ...more });
    return deliveries[0]?.id ?? '';
  }

  const deliveryOf = (id: string) => store.tenant(server.tenantId).messages.readDelivery(id);

  async function editMode(deliveryId: string, mode: string): Promise<void> {
    const path = `/v1/messages/${(await deliveryOf(deliveryId))?.messageId}`;
    expect((await ask(path, { method: 'PATCH', body: { mode } })).status).toBe(200);
  }

  describe('commands', () => {
    it('pause, resume, cancel and release act on the turn, and DELETE drops the session', async () => {
      const session = await made({ model: 'endless' });
      const other = await made({ model: 'endless' });
      for (const each of [session, other]) await send(each);
      const { activeRunId } = await untilStatus(session, 'active');
      expect(await post(session, 'pause')).toMatchObject({
        status: 202,
        body: { status: 'active' },
      });
      const waiting = await send(session);
      expect(await deliveryOf(waiting)).toMatchObject({ status: 'deferred', reason: 'paused' });
      expect((await post(session, 'cancel')).status).toBe(202);
      await untilStatus(session, 'paused');
      expect(await ask(`/v1/runs/${String(activeRunId)}`)).toMatchObject({
        body: { status: 'canceled' },
      });
      expect((await post(session, 'resume')).status).toBe(202);
      await untilStatus(session, 'active');
      expect(await post(session, 'release')).toMatchObject({ status: 202 });
      const released = await untilStatus(session, 'released');
      expect(released).toMatchObject({ queue: { length: 0 }, releasedAt: expect.any(String) });
      const { entries } = await server.json('/v1/audit?action=session.released&limit=1');
      expect(entries).toMatchObject([{ what: { handle: session.handle } }]);

      const { activeRunId: last } = await untilStatus(other, 'active');
      const lost = await send(other);
      expect((await ask(other.path, { method: 'DELETE' })).status).toBe(204);
      expect((await ask(other.path)).status).toBe(404);
      expect(await deliveryOf(lost)).toMatchObject({ status: 'failed', reason: 'released' });
      await until(async () => {
        const { body } = await ask(`/v1/runs/${String(last)}`);
        return body['status'] === 'canceled';
      }, 'the end of the run');
    });

    it('flush starts a turn with the manual messages', async () => {
      const session = await made();
      const manual = await send(session, { mode: 'manual' });
      expect(await deliveryOf(manual)).toMatchObject({ status: 'accepted' });
      expect((await post(session, 'flush')).status).toBe(200);
      await until(async () => (await deliveryOf(manual))?.status === 'consumed', 'the turn');
    });

    it('a manual message that is edited to another mode starts a turn without a flush', async () => {
      const session = await made();
      const manual = await send(session, { mode: 'manual' });
      await editMode(manual, 'on-idle');
      await until(async () => (await deliveryOf(manual))?.status === 'consumed', 'the turn');
    });

    it('a message that is edited to manual while it is paused waits for a flush', async () => {
      const session = await made();
      expect((await post(session, 'pause')).status).toBe(202);
      const paused = await send(session);
      expect(await deliveryOf(paused)).toMatchObject({ status: 'deferred', reason: 'paused' });
      await editMode(paused, 'manual');
      expect((await post(session, 'resume')).status).toBe(202);
      const other = await send(session);
      await until(async () => (await deliveryOf(other))?.status === 'consumed', 'another turn');
      expect(await deliveryOf(paused)).toMatchObject({ status: 'accepted', mode: 'manual' });
      expect((await post(session, 'flush')).status).toBe(200);
      await until(async () => (await deliveryOf(paused))?.status === 'consumed', 'the turn');
    });
  });

  it('PATCH changes the model of the next turn, and the labels', async () => {
    const session = await made({ model: 'endless' });
    const patch = (body: Json) => ask(session.path, { method: 'PATCH', body });
    expect(await patch({ model: 'nothing' })).toMatchObject({ body: { code: 'unknown_model' } });
    expect(await patch({ model: 'scripted', labels: { team: 'docs' } })).toMatchObject({
      status: 200,
      body: { model: 'scripted', labels: { team: 'docs' } },
    });
    const delivery = await send(session);
    await until(async () => (await deliveryOf(delivery))?.status === 'consumed', 'the turn');
    await untilStatus(session, 'idle');
  });

  it('is blocked while the credential of its model is missing, and continues when it is there', async () => {
    const credential = { apiKey: 'sk-test', baseUrl: provider.baseUrl };
    const put = () => ask('/v1/credentials/openai', { method: 'PUT', body: credential });
    await put();
    const session = await made({ model: 'gpt-4o-mini' });
    await ask('/v1/credentials/openai', { method: 'DELETE' });
    const waiting = await send(session);
    await untilStatus(session, 'blocked');
    expect(await deliveryOf(waiting)).toMatchObject({ status: 'accepted' });
    const { events } = (await ask(`${session.path}/events`)).body;
    expect((events as Json[]).at(-1)).toMatchObject({
      type: 'status.changed',
      status: 'blocked',
      reason: expect.stringContaining('openai'),
    });
    await put();
    await until(async () => (await deliveryOf(waiting))?.status === 'consumed', 'the turn');
    await untilStatus(session, 'idle');
    await ask('/v1/credentials/openai', { method: 'DELETE' });
  });

  it('that lost its key goes on with a key of the same owner that resumes it', async () => {
    const [first, second] = [
      await addKey(store, { scopes: ['runs'], owner: 'ada' }),
      await addKey(store, { scopes: ['runs'], owner: 'ada' }),
    ];
    const eve = await addKey(store, { scopes: ['runs'], owner: 'eve' });
    const handle = `h-${uuidv7()}`;
    const { body } = await create({ handle }, { key: first.apiKey });
    const session = { handle, path: `/v1/sessions/${String(body['id'])}` };
    await store.tenant(server.tenantId).revokeKey(first.keyId, Date.now());
    const waiting = await send(session);
    await untilStatus(session, 'blocked');
    const resume = (key: string) => ask(`${session.path}/resume`, { method: 'POST', key });
    expect(await resume(eve.apiKey)).toMatchObject({ body: { status: 'blocked' } });
    expect((await resume(second.apiKey)).status).toBe(202);
    await until(async () => (await deliveryOf(waiting))?.status === 'consumed', 'the turn');
  });
});
