/** Native sessions over HTTP, on both databases. */
import type { SystemStore } from '@relay/core';
import { finish, text } from '@relay/core/testing';
import { createModelRegistry } from '@relay/models';
import { createMemoryStore, openPostgresStore } from '@relay/store';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createStreamingModel } from '../../../../test/loop/fixture.ts';
import { createDatabase, type TestDatabase } from '../../../../test/support/postgres.ts';
import {
  addKey,
  bootServer,
  type RequestOptions,
  type TestServer,
  until,
} from '../support/server.ts';
import { sendMessage } from '../support/sessions.ts';

type Json = Record<string, unknown>;

let database: TestDatabase | undefined;
const stores: Readonly<Record<string, () => Promise<SystemStore>>> = {
  SQLite: async () => createMemoryStore(),
  PostgreSQL: async () => {
    database = await createDatabase();
    return openPostgresStore({ url: database.url });
  },
};

describe.each(Object.entries(stores))('native sessions over HTTP on %s', (_name, open) => {
  let store: SystemStore;
  let server: TestServer;

  beforeAll(async () => {
    store = await open();
    const model = createStreamingModel(() => [[text('Done.'), finish()]]);
    const models = createModelRegistry([{ id: 'scripted', provider: 'test', model }]);
    server = await bootServer({
      store,
      models,
      file: { agents: [{ name: 'writer', model: 'scripted' }, { name: 'lost' }] },
    });
  });

  afterAll(async () => {
    await server.stop();
    await store.close();
    await database?.drop();
    database = undefined;
  });

  async function ask(path: string, options: RequestOptions = {}) {
    const response = await server.request(path, options);
    const body = await response.text();
    return { status: response.status, body: (body === '' ? {} : JSON.parse(body)) as Json };
  }

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
      expect(snapshot).toEqual({
        status: 201,
        body: { id: expect.any(String) as unknown, sessionId: id, seq: lastSeq },
      });
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
});
