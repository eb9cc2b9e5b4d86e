/** Who may attach under a handle, and how long the token of a session works. */
import { findKeyInForce } from '@relay/core';
import { createMemoryStore } from '@relay/store';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifies } from '../../../../../test/conformance/verifies.ts';
import { FrameReader } from '../../support/frames.ts';
import { addKey, bootServer, type TestServer, until } from '../../support/server.ts';
import {
  attach,
  attached,
  type AttachedSession,
  leave,
  openStream,
  programCapabilities as capabilities,
  programIdentity as identity,
} from '../../support/sessions.ts';

type Json = Record<string, unknown>;

const store = createMemoryStore();
let server: TestServer;

beforeAll(async () => {
  server = await bootServer({
    store,
    file: { rateLimit: { failuresPerMinute: 100_000 } },
  });
});

afterAll(async () => {
  await server.stop();
  await store.close();
});

const sessions = () => store.tenant(server.tenantId).sessions;

const ask: TestServer['ask'] = (path, options) => server.ask(path, options);

const journal = { kind: 'stream' };

const rotate = (id: string, overlapSeconds: number) =>
  ask(`/v1/keys/${id}/rotate`, { body: { overlapSeconds } });
const revoke = (id: string) => ask(`/v1/keys/${id}`, { method: 'DELETE' });

describe('a session token', () => {
  it('ends with the key that attached its session, and so do its open streams', async () => {
    const key = await addKey(store, { scopes: ['runs'] });
    const session = await attached(server, {}, { key: key.apiKey });
    const unaffected = await attached(server);
    const readers = [await openStream(server, session, journal), await openStream(server, session)];
    const other = await openStream(server, unaffected);
    expect((await revoke(key.keyId)).status).toBe(204);
    for (const reader of readers) await reader.rest();
    expect((await ask(session.path, { key: session.token })).status).toBe(401);
    expect((await attach(server, { handle: session.handle }, { key: session.token })).status).toBe(
      401,
    );
    expect((await ask(unaffected.path, { key: unaffected.token })).status).toBe(200);
    await other.disconnect();
  });

  it('ends when its key expires', async () => {
    const expiresAt = Date.now() + 1_500;
    const key = await addKey(store, { scopes: ['runs'], expiresAt });
    const session = await attached(server, {}, { key: key.apiKey });
    const reader = await openStream(server, session, journal);
    await reader.rest();
    expect(Date.now()).toBeGreaterThanOrEqual(expiresAt);
    expect((await ask(session.path, { key: session.token })).status).toBe(401);
  });

  it('outlives a rotation of its key, until the key that replaces it is revoked', async () => {
    const key = await addKey(store, { scopes: ['runs'] });
    const session = await attached(server, {}, { key: key.apiKey });
    const reader = await openStream(server, session, journal);
    const { body: second } = await rotate(key.keyId, 0);
    const { body: third } = await rotate(String(second['id']), 0);
    expect((await ask(session.path, { key: key.apiKey })).status).toBe(401);
    expect((await ask(session.path, { key: session.token })).status).toBe(200);
    expect((await reader.next())?.data.type).toBe('status.changed');
    await revoke(String(third['id']));
    await reader.rest();
    expect((await ask(session.path, { key: session.token })).status).toBe(401);
  });

  it('ends with a key that is revoked after its rotation', async () => {
    const key = await addKey(store, { scopes: ['runs'] });
    const session = await attached(server, {}, { key: key.apiKey });
    const { body } = await rotate(key.keyId, 3600);
    await revoke(key.keyId);
    expect((await ask(session.path, { key: session.token })).status).toBe(401);
    const tenant = store.tenant(server.tenantId);
    const replacing = String(body['id']);
    expect((await findKeyInForce(tenant, replacing, Date.now()))?.id).toBe(replacing);
    expect(await findKeyInForce(tenant, key.keyId, Date.now())).toBeUndefined();
  });

  it('that is replaced closes the streams that it opened, and no others', async () => {
    const session = await attached(server);
    const old = [await openStream(server, session, journal), await openStream(server, session)];
    const { body } = await attach(server, { handle: session.handle }, { key: session.token });
    for (const reader of old) await reader.rest();
    const renewed = { ...session, token: String(body['token']) };
    const reader = await openStream(server, renewed, journal);
    expect((await reader.next())?.data.type).toBe('status.changed');
    await reader.disconnect();
  });
});

describe('an attach to a handle that a session has', () => {
  interface Situation {
    readonly session: AttachedSession;
    readonly own: { readonly apiKey: string; readonly keyId: string };
  }
  type Caller = (situation: Situation) => Promise<string> | string;

  const callers = {
    'its session token': ({ session }) => session.token,
    'the key that attached it': ({ own }) => own.apiKey,
    'the key that replaces that key': async ({ own }) =>
      String((await rotate(own.keyId, 3600)).body['apiKey']),
    'another key': async () => (await addKey(store, { scopes: ['runs'] })).apiKey,
    'another key of the owner': async () =>
      (await addKey(store, { scopes: ['runs'], owner: 'ada' })).apiKey,
    'another key with the scope admin': async () =>
      (await addKey(store, { scopes: ['runs', 'admin'] })).apiKey,
    'a key without the scope runs': async () =>
      (await addKey(store, { scopes: ['read', 'approve'] })).apiKey,
  } as const satisfies Record<string, Caller>;

  type Use = 'just attached' | 'streaming' | 'without a stream for 29 s' | 'for 31 s' | 'reporting';

  async function bring(use: Use, session: AttachedSession): Promise<FrameReader | undefined> {
    switch (use) {
      case 'just attached':
        return undefined;
      case 'streaming':
        await leave(server, session, 60_000);
        return openStream(server, session);
      case 'without a stream for 29 s':
        await leave(server, session, 29_000);
        return undefined;
      case 'for 31 s':
        await leave(server, session, 31_000);
        return undefined;
      case 'reporting': {
        await leave(server, session, 31_000);
        const body = { type: 'log', level: 'info', message: 'alive' };
        await ask(`${session.path}/events`, { body, key: session.token });
        return undefined;
      }
    }
  }

  const ok = { status: 201 };
  const taken = { status: 409, code: 'handle_taken' };
  const unscoped = { status: 403, code: 'scope_required' };

  type Row = [Use, keyof typeof callers, takeover: boolean, { status: number; code?: string }];
  const inUse: Use[] = ['just attached', 'streaming', 'without a stream for 29 s', 'reporting'];
  const rows: Row[] = [
    ...inUse.flatMap((use): Row[] => [
      [use, 'its session token', false, ok],
      [use, 'the key that attached it', false, taken],
      [use, 'the key that attached it', true, taken],
      [use, 'the key that replaces that key', false, taken],
      [use, 'another key', false, taken],
      [use, 'another key with the scope admin', true, taken],
    ]),
    ['for 31 s', 'its session token', false, ok],
    ['for 31 s', 'the key that attached it', false, ok],
    ['for 31 s', 'the key that replaces that key', false, ok],
    ['for 31 s', 'another key', false, taken],
    ['for 31 s', 'another key', true, unscoped],
    ['for 31 s', 'another key of the owner', false, taken],
    ['for 31 s', 'another key with the scope admin', false, taken],
    ['for 31 s', 'another key with the scope admin', true, ok],
    ['for 31 s', 'a key without the scope runs', false, unscoped],
  ];

  it.each(rows)(
    '%s, by %s (takeover: %s), is answered with %o',
    async (use, caller, takeover, expected) => {
      const own = await addKey(store, { scopes: ['runs'], owner: 'ada' });
      const session = await attached(server, {}, { key: own.apiKey });
      const key = await callers[caller]({ session, own });
      const stream = await bring(use, session);
      const before = await sessions().read(session.id);
      const { status, body } = await attach(server, { handle: session.handle, takeover }, { key });
      expect({ status, code: body['code'] }).toEqual({ code: undefined, ...expected });
      const old = await ask(session.path, { key: session.token });
      if (status !== 201) {
        // All but its connection, which may be lost meanwhile.
        expect(await sessions().read(session.id)).toMatchObject({
          name: before?.name,
          keyId: before?.keyId,
          seenAt: before?.seenAt,
          stream: before?.stream,
        });
        expect(old.status).toBe(200);
        await stream?.disconnect();
        return;
      }
      expect(body['session']).toMatchObject({ id: session.id, status: 'idle' });
      expect(old.status).toBe(401);
      await stream?.rest();
      const token = String(body['token']);
      expect((await ask(session.path, { key: token })).status).toBe(200);
      const { body: log } = await ask(`${session.path}/events`);
      expect((log['events'] as Json[]).map(({ type }) => type)).toContain('session.resumed');
      const [entry] = (await server.json('/v1/audit?limit=1'))['entries'] as Json[];
      expect(entry).toMatchObject({
        action: takeover ? 'session.taken-over' : 'session.attached',
        what: { sessionId: session.id, handle: session.handle },
      });
    },
  );

  it('of a released session makes a new one', async () => {
    const session = await attached(server);
    await leave(server, session, 31_000);
    await until(async () => (await ask(session.path)).body['status'] === 'offline', 'offline');
    await ask(`${session.path}/release`, { method: 'POST' });
    const { apiKey: key } = await addKey(store, { scopes: ['runs'] });
    const { status, body } = await attach(server, { handle: session.handle }, { key });
    expect(status).toBe(201);
    expect((body['session'] as Json)['id']).not.toBe(session.id);
  });

  it('of another kind is refused: a person does not become a program', async () => {
    const session = await attached(server);
    await leave(server, session, 31_000);
    const more = { identity: { name: 'Ada', kind: 'human' } };
    expect(await attach(server, { handle: session.handle, ...more })).toMatchObject({
      status: 409,
      body: { code: 'handle_taken' },
    });
  });

  it('may change what the session can do, and nothing else does', async () => {
    verifies(
      '004:capabilities:on-session',
      '004:capabilities:told-on-attach',
      '004:capabilities:differ-per-session',
    );
    const session = await attached(server);
    const other = await attached(server);
    const less = { ...capabilities, messaging: { receive: true }, actions: { invoke: true } };
    const patched = await ask(session.path, { method: 'PATCH', body: { capabilities: less } });
    expect(patched).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
    expect((await ask(session.path)).body).toMatchObject({ capabilities });
    const again = await attach(
      server,
      { handle: session.handle, capabilities: less },
      { key: session.token },
    );
    expect(again.body['session']).toMatchObject({ id: session.id, capabilities: less });
    expect((await ask(session.path)).body['capabilities']).toEqual(less);
    expect((await ask(other.path)).body['capabilities']).toEqual(capabilities);
  });
});

describe('the declaration of a session', () => {
  const { messaging, delivery, events, lifecycle } = capabilities;

  it.each<[string, Json]>([
    ['an unknown capability', { ...capabilities, interrupt: true }],
    ['channels', { ...capabilities, messaging: { ...messaging, channels: true } }],
    [
      'interrupt as a delivery capability',
      { ...capabilities, delivery: { ...delivery, interrupt: true } },
    ],
    [
      'an unknown lifecycle operation',
      { ...capabilities, lifecycle: { ...lifecycle, cancel: true } },
    ],
    ['names of actions', { ...capabilities, actions: { invoke: true, names: ['deploy'] } }],
    ['receive: false', { ...capabilities, messaging: { receive: false } }],
    ['an unknown mode', { ...capabilities, delivery: { modes: ['later'] } }],
    ['no mode', { ...capabilities, delivery: { modes: [] } }],
    ['manual without a queue', { ...capabilities, delivery: { modes: ['manual'] } }],
    [
      'manual with queue: false',
      { ...capabilities, delivery: { modes: ['manual'], queue: false } },
    ],
    ['an unknown event', { ...capabilities, events: { emits: ['status.sleeping'] } }],
    ['no lifecycle', { messaging, delivery, events, lifecycle: undefined }],
  ])('with %s is refused', async (_what, declared) => {
    const handle = `h-${uuidv7()}`;
    expect(await attach(server, { handle, capabilities: declared })).toMatchObject({
      status: 400,
      body: { code: 'invalid_request' },
    });
    expect(await sessions().readByHandle(handle)).toBeUndefined();
  });

  it('has no status in its identity', async () => {
    const status = { identity: { ...identity, status: 'idle' } };
    expect((await attach(server, status)).status).toBe(400);
    const { path } = await attached(server);
    expect(Object.keys((await ask(path)).body['identity'] as Json).toSorted()).toEqual([
      'handle',
      'kind',
      'name',
    ]);
  });
});

describe('a program without a stream', () => {
  const statusOf = async ({ path }: AttachedSession) => (await ask(path)).body['status'];

  it('is offline after 30 seconds, unless it reports events', async () => {
    const session = await attached(server);
    const silent = await attached(server);
    await leave(server, silent, 31_000);
    await leave(server, session, 29_900);
    const body = { type: 'log', level: 'info', message: 'alive' };
    await ask(`${session.path}/events`, { body, key: session.token });
    await until(async () => (await statusOf(silent)) === 'offline', 'a session that is offline');
    expect(await statusOf(session)).toBe('idle');
    expect((await sessions().read(session.id))?.dueAt).toBeGreaterThan(Date.now() + 20_000);

    const report = { type: 'status.changed', status: 'active' };
    await ask(`${silent.path}/events`, { body: report, key: silent.token });
    expect(await statusOf(silent)).toBe('active');
    expect((await sessions().read(silent.id))?.dueAt).toBeGreaterThan(Date.now() + 20_000);
  });

  it('that is a person is never offline, and cannot say so', async () => {
    const emits = ['status.changed', 'status.offline'];
    const session = await attached(server, {
      identity: { name: 'Ada', kind: 'human' },
      capabilities: { events: { emits } },
    });
    await leave(server, session, 3_600_000);
    await until(async () => (await sessions().read(session.id))?.dueAt === null, 'nothing due');
    const body = { type: 'status.changed', status: 'offline' };
    expect(await ask(`${session.path}/events`, { body, key: session.token })).toMatchObject({
      status: 409,
      body: { code: 'session_conflict' },
    });
    expect(await statusOf(session)).toBe('idle');
  });
});
