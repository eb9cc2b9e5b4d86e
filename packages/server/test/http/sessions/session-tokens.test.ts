/** What a session token opens, by the route table: of its own session, of another one, of another tenant. */
import { type Route, type RouteName, routes } from '@relay/protocol';
import { createMemoryStore } from '@relay/store';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifies } from '../../../../../test/conformance/verifies.ts';
import { addKey, bootServer, type RequestOptions, type TestServer } from '../../support/server.ts';
import {
  attached,
  type AttachedSession,
  programCapabilities as capabilities,
  programIdentity as identity,
  sendMessage,
  type ShownMessage,
} from '../../support/sessions.ts';

type Json = Record<string, unknown>;

/**
 * The routes that a session token opens, and nothing else. `own`: of its session. `seen`: what it sent,
 * received or shares a channel with. `tenant`: handles and statuses of sessions, sending, and the same over MCP. `actions`:
 * those that are available to it, and its own.
 */
const open: Partial<Record<RouteName, 'own' | 'seen' | 'tenant' | 'actions'>> = {
  attachSession: 'own',
  listSessionEvents: 'own',
  followSession: 'own',
  flushSession: 'own',
  reportSessionEvents: 'own',
  followDeliveries: 'own',
  postReceipt: 'own',
  answerCommand: 'own',
  getMessage: 'seen',
  editMessage: 'seen',
  withdrawMessage: 'seen',
  listMessageDeliveries: 'seen',
  listMessages: 'seen',
  sendMessage: 'tenant',
  listSessions: 'tenant',
  getSession: 'tenant',
  registerAction: 'actions',
  listActions: 'actions',
  removeAction: 'actions',
  invokeAction: 'actions',
  getInvocation: 'actions',
  postInvocationResult: 'actions',
  serveMcp: 'tenant',
};

/** Routes without a key have no caller to refuse, and those with the internal secret take no other one. */
const withKey = (Object.entries(routes) as [RouteName, Route][]).filter(
  ([, { auth }]) => !['public', 'link', 'sign-in', 'internal'].includes(auth ?? ''),
);

const store = createMemoryStore();
let server: TestServer;
/** `one` and `two` are in the tenant `default`; `foreign` is in another one. */
let one: AttachedSession;
let two: AttachedSession;
let foreign: AttachedSession;
let foreignKey: string;

async function ask(path: string, options: RequestOptions = {}) {
  const controller = new AbortController();
  const response = await server.request(path, { ...options, signal: controller.signal });
  if (response.headers.get('content-type')?.startsWith('text/event-stream') === true) {
    controller.abort();
    return { status: response.status, body: {} };
  }
  const text = await response.text();
  return { status: response.status, body: (text === '' ? {} : JSON.parse(text)) as Json };
}

beforeAll(async () => {
  server = await bootServer({ store, file: { rateLimit: { failuresPerMinute: 100_000 } } });
  foreignKey = (await addKey(store, { tenant: 'foreign' })).apiKey;
  [one, two, foreign] = [
    await attached(server),
    await attached(server),
    await attached(server, {}, { key: foreignKey }),
  ];
});

afterAll(async () => {
  await server.stop();
  await store.close();
});

/** With the ids of this session, wherever the path has some. */
function pathOf({ path }: Route, { id, handle }: AttachedSession): string {
  return path.replaceAll(/:(\w+)/g, (_, name: string) => (name === 'handle' ? handle : id));
}

function optionsOf({ method, body }: Route, key: string): RequestOptions {
  return { method, key, ...(body === undefined ? {} : { body: {} }) };
}

describe('a session token', () => {
  it('has an entry here for every route that the table opens to it', () => {
    const opened = withKey.filter(([, { session }]) => session !== undefined);
    expect(opened.map(([name]) => name).toSorted()).toEqual(Object.keys(open).toSorted());
  });

  const closed = withKey.filter(([name]) => open[name] === undefined);

  it.each(closed)('does not open %s', async (_name, route) => {
    for (const { token } of [one, two, foreign]) {
      expect(await ask(pathOf(route, one), optionsOf(route, token))).toMatchObject({
        status: 403,
        body: { code: 'scope_required' },
      });
    }
  });

  const own = withKey.filter(([name]) => open[name] === 'own' && name !== 'attachSession');

  it.each(own)('opens %s of its own session only', async (_name, route) => {
    const path = pathOf(route, one);
    const { sessions } = store.tenant(server.tenantId);
    // Without what an earlier stream leaves behind.
    const recorded = async () => {
      const session = await sessions.read(one.id);
      return { state: session?.state, queue: session?.queue, lastSeq: session?.lastSeq };
    };
    const before = await recorded();
    for (const { token } of [two, foreign]) {
      expect(await ask(path, optionsOf(route, token))).toMatchObject({
        status: 403,
        body: { code: 'scope_required' },
      });
    }
    expect(await recorded()).toEqual(before);
    const { status } = await ask(path, optionsOf(route, one.token));
    expect([200, 202, 400, 404]).toContain(status);
  });

  it('attaches only its own handle', async () => {
    for (const { handle } of [one, foreign, { handle: `free-${uuidv7()}` }]) {
      const body = { handle, identity, capabilities };
      expect(await ask('/v1/sessions/attach', { body, key: two.token })).toMatchObject({
        status: 403,
        body: { code: 'scope_required' },
      });
    }
  });

  it('shows handle and status of other sessions of its tenant, and no other field', async () => {
    const { body } = await ask(two.path, { key: one.token });
    expect(body).toEqual({
      id: two.id,
      identity: { handle: two.handle, ...identity },
      status: expect.any(String) as unknown,
    });
    const { sessions } = (await ask('/v1/sessions', { key: one.token })).body as {
      sessions: Json[];
    };
    for (const { id, ...shown } of sessions) {
      const fields = Object.keys(shown).toSorted();
      if (id !== one.id) expect(fields).toEqual(['identity', 'status']);
    }
    expect(sessions.map(({ id }) => id)).not.toContain(foreign.id);
    expect((await ask(foreign.path, { key: one.token })).status).toBe(404);
    // A filter would tell what the fields do not.
    for (const query of ['label=team:docs', 'harness=native']) {
      expect(await ask(`/v1/sessions?${query}`, { key: one.token })).toMatchObject({
        status: 403,
        body: { code: 'scope_required' },
      });
    }
    expect((await ask('/v1/sessions?status=idle', { key: one.token })).status).toBe(200);
  });

  describe('and messages', () => {
    const channel = `c-${uuidv7()}`;
    let direct: ShownMessage;
    let inChannel: ShownMessage;
    let elsewhere: ShownMessage;

    beforeAll(async () => {
      const silent = await attached(server);
      await ask(`/v1/channels/${channel}`, { method: 'PUT', body: {} });
      await ask(`/v1/channels/${channel}/members/${one.handle}`, { method: 'PUT' });
      const to = `@${one.handle}`;
      direct = await sendMessage(server, { to, text: 'for one' }, { key: two.token });
      inChannel = await sendMessage(server, { to: `#${channel}`, text: 'for all' });
      elsewhere = await sendMessage(server, { to: `@${silent.handle}`, text: 'not for one' });
    });

    it('reads those that it sent or received and those of its channels', async () => {
      const listed = async ({ token: key }: AttachedSession) => {
        const { body } = await ask('/v1/messages', { key });
        return (body['messages'] as ShownMessage[]).map(({ text }) => text).toSorted();
      };
      expect(await listed(one)).toEqual(['for all', 'for one']);
      expect(await listed(two)).toEqual(['for one']);
      expect(await listed(foreign)).toEqual([]);
      const withHandle = await ask(`/v1/messages?channel=${channel}`, { key: two.token });
      expect(withHandle.body['messages']).toEqual([]);
    });

    it.each([
      ['getMessage', {}],
      ['listMessageDeliveries', {}],
      ['editMessage', { text: 'forged' }],
      ['withdrawMessage', {}],
    ] as const)('opens %s of no others', async (name, body) => {
      const route: Route = routes[name];
      const options = { method: route.method, ...(route.body === undefined ? {} : { body }) };
      const hidden: [AttachedSession, ShownMessage][] = [
        [one, elsewhere],
        [two, inChannel],
        [foreign, direct],
      ];
      for (const [{ token: key }, { id }] of hidden) {
        const path = route.path.replace(':id', id);
        expect(await ask(path, { ...options, key })).toMatchObject({
          status: 404,
          body: { code: 'not_found' },
        });
      }
      // What it received is not its own.
      if (route.method === 'GET') return;
      const path = route.path.replace(':id', direct.id);
      expect(await ask(path, { ...options, key: one.token })).toMatchObject({
        status: 403,
        body: { code: 'not_sender' },
      });
    });

    it('sends them as its session, if that declares messaging.send', async () => {
      verifies('004:messaging:send', '004:messaging:no-send');
      const body = { to: `@${two.handle}`, text: 'hello' };
      const forged = { ...body, from: { type: 'key', id: uuidv7(), name: 'admin' } };
      const sent = await ask('/v1/messages', { body, key: one.token });
      expect(sent).toMatchObject({
        status: 201,
        body: { from: { type: 'session', id: one.id, name: one.handle } },
      });
      expect((await ask('/v1/messages', { body: forged, key: one.token })).status).toBe(400);
      const mute = await attached(server, {
        capabilities: { messaging: { receive: true } },
      });
      expect(await ask('/v1/messages', { body, key: mute.token })).toMatchObject({
        status: 409,
        body: {
          code: 'capability_missing',
          details: { path: 'messaging.send', asked: true, offered: false },
        },
      });
      expect((await ask('/v1/messages', { body, key: foreign.token })).status).toBe(404);
    });
  });
});
