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
});
