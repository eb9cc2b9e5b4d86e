/** `/v1/keys`: create, list and revoke keys, and the effects of a revocation. */
import { scopes as allScopes, scopesOfRole } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { describe, expect, it, onTestFinished } from 'vitest';
import { kindOfSecret } from '../../../src/secrets/keys.ts';
import { FrameReader } from '../../support/frames.ts';
import {
  addKey,
  type BootOptions,
  bootServer,
  type TestServer,
  until,
  type RequestOptions,
} from '../../support/server.ts';
import {
  decideCall,
  resumeRun,
  startApiChat,
  startChat,
  startRun,
} from '../../support/requests.ts';

interface MadeKey {
  readonly id: string;
  readonly name: string;
  readonly scopes: readonly string[];
  readonly apiKey: string;
  readonly [field: string]: unknown;
}

interface KeyList {
  readonly keys: readonly (Omit<MadeKey, 'apiKey'> & Record<string, unknown>)[];
  readonly nextCursor: string | null;
}

async function boot(options: BootOptions = {}): Promise<TestServer> {
  const server = await bootServer(options);
  onTestFinished(() => server.stop());
  return server;
}

async function makeKey(server: TestServer, body: Record<string, unknown> = {}): Promise<MadeKey> {
  const response = await server.request('/v1/keys', {
    body: { name: 'made', scopes: ['runs'], ...body },
  });
  expect(response.status).toBe(201);
  return (await response.json()) as MadeKey;
}

async function keysOf(
  server: TestServer,
  query = '',
  options: RequestOptions = {},
): Promise<KeyList> {
  return (await server.json(`/v1/keys${query}`, options)) as unknown as KeyList;
}

function revoke(server: TestServer, id: string, options: RequestOptions = {}): Promise<Response> {
  return server.request(`/v1/keys/${id}`, { ...options, method: 'DELETE' });
}

const inAnHour = () => new Date(Date.now() + 3_600_000).toISOString();

describe('/v1/keys', () => {
  it('creates a key that works at once, and returns it once', async () => {
    const server = await boot();
    const expiresAt = inAnHour();
    const made = await makeKey(server, {
      name: 'ci',
      owner: 'The build',
      scopes: ['approve', 'runs'],
      expiresAt,
    });
    expect(made).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      kind: 'api',
      name: 'ci',
      owner: 'The build',
      scopes: ['approve', 'runs'],
      groups: [],
      createdAt: expect.stringMatching(/Z$/),
      expiresAt,
      apiKey: expect.stringMatching(/^relay_live_[0-9a-f]{72}$/),
    });
    expect(kindOfSecret(made.apiKey)).toBe('api');
    expect((await server.request('/models', { key: made.apiKey })).status).toBe(200);
    // Neither the key nor its hash is returned again.
    const list = JSON.stringify(await keysOf(server));
    expect(list).toContain(made.id);
    const secret = made.apiKey.slice('relay_live_'.length);
    for (const part of [secret, secret.slice(0, 16), secret.slice(-16), 'relay_live', 'hash']) {
      expect(list).not.toContain(part);
    }
  });

  it('omits optional fields', async () => {
    const server = await boot();
    const made = await makeKey(server, { name: 'plain' });
    expect(Object.keys(made).toSorted()).toEqual([
      'apiKey',
      'createdAt',
      'groups',
      'id',
      'kind',
      'name',
      'scopes',
    ]);
  });

  it('gives a key the requested scopes, and the tenant of its creator', async () => {
    const server = await boot();
    const { apiKey: key } = await makeKey(server, { scopes: ['runs'] });
    expect((await server.request('/v1/runs', { key })).status).toBe(200);
    for (const [method, path] of [
      ['GET', '/v1/keys'],
      ['DELETE', `/v1/keys/${uuidv7()}`],
    ]) {
      const refused = await server.request(path ?? '', { key, method: method ?? '' });
      expect(refused.status).toBe(403);
    }
    const body = { name: 'more', scopes: ['admin'] };
    expect((await server.request('/v1/keys', { key, body })).status).toBe(403);
    const stranger = await addKey(server.store, { tenant: 'stranger' });
    const theirs = await server.json('/v1/keys', {
      key: stranger.apiKey,
      body: { name: 'theirs', scopes: ['runs'] },
    });
    const { keys } = await keysOf(server);
    expect(keys.map(({ id }) => id)).not.toContain(theirs['id']);
    const own = await keysOf(server, '', { key: stranger.apiKey });
    expect(own.keys.map(({ id }) => id)).toEqual([theirs['id'], stranger.keyId]);
  });

  it.each(Object.entries(scopesOfRole))(
    'gives a key the scopes of the role %s, and shows the role',
    async (role, scopes) => {
      const server = await boot();
      const made = await makeKey(server, {
        role,
        scopes: undefined,
        groups: ['release', 'on-call'],
      });
      expect(made).toMatchObject({ role, scopes, groups: ['release', 'on-call'] });
      const { keys } = await keysOf(server);
      expect(keys.find(({ id }) => id === made.id)).toMatchObject({ role, scopes });
    },
  );

  it('gives nobody a scope that the caller lacks, by a role either', async () => {
    const server = await boot();
    const { apiKey: key } = await makeKey(server, { role: 'admin', scopes: undefined });
    for (const wanted of [{ role: 'approver' }, { scopes: ['approve'] }, { scopes: allScopes }]) {
      const body = { name: 'made', groups: ['release'], owner: 'ada', ...wanted };
      const response = await server.request('/v1/keys', { key, body });
      expect(response.status).toBe(403);
      expect(await response.json()).toEqual({
        error: 'This key lacks the scope approve, so it cannot give it to another key',
        code: 'scope_not_held',
      });
    }
    const allowed = await server.request('/v1/keys', {
      key,
      body: { name: 'o', role: 'operator' },
    });
    expect(allowed.status).toBe(201);
    expect((await keysOf(server)).keys).toHaveLength(3);
  });

  it('records the role, groups and owner of a new key in the audit trail', async () => {
    const server = await boot();
    const { id } = await makeKey(server, {
      role: 'approver',
      scopes: undefined,
      groups: ['release'],
      owner: 'ada',
    });
    const { entries } = (await server.json('/v1/audit?action=key.created')) as {
      entries: readonly Record<string, unknown>[];
    };
    expect(entries[0]).toMatchObject({
      who: { type: 'key', role: 'admin' },
      what: { keyId: id, role: 'approver', groups: ['release'], owner: 'ada' },
    });
  });

  it('lists keys newest first, page by page, the revoked ones among them', async () => {
    const server = await boot();
    const made: string[] = [];
    for (let n = 0; n < 7; n += 1) made.push((await makeKey(server, { name: `key ${n}` })).id);
    await revoke(server, made[3] ?? '');
    const seen: KeyList['keys'][number][] = [];
    let cursor: string | null = '';
    for (let pages = 0; cursor !== null; pages += 1) {
      expect(pages).toBeLessThan(5);
      const page = await keysOf(server, `?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`);
      expect(page.keys.length).toBeLessThanOrEqual(2);
      seen.push(...page.keys);
      cursor = page.nextCursor;
    }
    // The key of the test itself was there before them.
    expect(seen.map(({ id }) => id).slice(0, 7)).toEqual(made.toReversed());
    expect(seen).toHaveLength(8);
    for (const key of seen) {
      expect('revokedAt' in key).toBe(key.id === made[3]);
    }
  });

  it.each<[string, unknown, string]>([
    ['nothing', {}, 'name'],
    ['no scopes', { name: 'x' }, 'scopes'],
    ['an empty name', { name: '', scopes: ['runs'] }, 'name'],
    ['a name that is too long', { name: 'x'.repeat(65), scopes: ['runs'] }, 'name'],
    ['a name that is no text', { name: 1, scopes: ['runs'] }, 'name'],
    ['an empty list of scopes', { name: 'x', scopes: [] }, 'scopes'],
    ['scopes that are no list', { name: 'x', scopes: 'runs' }, 'scopes'],
    ['an unknown role', { name: 'x', role: 'root' }, 'role'],
    ['a role and scopes', { name: 'x', role: 'viewer', scopes: ['read'] }, 'scopes'],
    ['a group twice', { name: 'x', role: 'viewer', groups: ['a', 'a'] }, 'groups'],
    ['a group with a space', { name: 'x', role: 'viewer', groups: ['a b'] }, 'groups[0]'],
    ['an unknown scope', { name: 'x', scopes: ['runs', 'root'] }, 'scopes[1]'],
    ['a scope twice', { name: 'x', scopes: ['runs', 'runs'] }, 'scopes'],
    ['an empty owner', { name: 'x', scopes: ['runs'], owner: '' }, 'owner'],
    ['an owner that is too long', { name: 'x', scopes: ['runs'], owner: 'x'.repeat(129) }, 'owner'],
    ['no owner at all', { name: 'x', scopes: ['runs'], owner: null }, 'owner'],
    ['a past', { name: 'x', scopes: ['runs'], expiresAt: '2020-01-01T00:00:00Z' }, 'expiresAt'],
    ['no time', { name: 'x', scopes: ['runs'], expiresAt: 'tomorrow' }, 'expiresAt'],
    [
      'a time without a zone',
      { name: 'x', scopes: ['runs'], expiresAt: '2999-01-01T00:00:00' },
      'expiresAt',
    ],
    [
      'a day that is none',
      { name: 'x', scopes: ['runs'], expiresAt: '2999-02-30T00:00:00Z' },
      'expiresAt',
    ],
    ['a time as a number', { name: 'x', scopes: ['runs'], expiresAt: 4e12 }, 'expiresAt'],
    ['a tenant', { name: 'x', scopes: ['runs'], tenantId: uuidv7() }, 'tenantId'],
    ['a null character in the name', { name: 'x\u0000', scopes: ['runs'] }, 'name'],
    ['a line break in the owner', { name: 'x', owner: 'a\nb', scopes: ['runs'] }, 'owner'],
    ['an id', { name: 'x', scopes: ['runs'], id: uuidv7() }, 'id'],
    ['a key of one’s own', { name: 'x', scopes: ['runs'], apiKey: 'relay_live_1' }, 'apiKey'],
  ])('refuses %s with 400 and the field’s path, and creates nothing', async (_what, body, path) => {
    const server = await boot();
    const response = await server.request('/v1/keys', { body });
    expect(response.status).toBe(400);
    const error = (await response.json()) as { code: string; details: { path: string }[] };
    expect(error.code).toBe('invalid_request');
    expect(error.details.map((detail) => detail.path)).toContain(path);
    expect((await keysOf(server)).keys).toHaveLength(1);
  });

  it('stores a name and an owner exactly', async () => {
    const server = await boot();
    const odd = '"; DROP TABLE keys; --\ud83d\ude00 <b> e\u0301 \u00e9 \u5b57 \u202e ';
    const { id } = await makeKey(server, { name: odd, owner: odd });
    const { keys } = await keysOf(server);
    expect(keys.find((key) => key.id === id)).toMatchObject({ name: odd, owner: odd });
  });

  it('accepts an expiry in any time zone', async () => {
    const server = await boot();
    const at = new Date(Date.now() + 1_200);
    const local = new Date(at.getTime() + 5.5 * 3_600_000).toISOString().replace('Z', '+05:30');
    const made = await makeKey(server, { expiresAt: local });
    expect(made['expiresAt']).toBe(at.toISOString());
    const talk = await startRun(server, { input: 'slow 60000' }, { key: made.apiKey });
    await talk.reader.until('token');
    await talk.reader.rest();
    expect(Date.now()).toBeGreaterThanOrEqual(at.getTime());
    expect(Date.now() - at.getTime()).toBeLessThan(1_000);
    expect((await server.request('/models', { key: made.apiKey })).status).toBe(401);
    await server.request(`/v1/runs/${talk.runId}/cancel`, { method: 'POST' });
  });

  describe('a revoked key', () => {
    it('is refused at once, stays in the list, and can be revoked again', async () => {
      const server = await boot();
      const { id, apiKey: key } = await makeKey(server);
      const first = await revoke(server, id);
      expect([first.status, await first.text()]).toEqual([204, '']);
      const refused = await server.request('/models', { key });
      expect(refused.status).toBe(401);
      expect(await refused.json()).toMatchObject({ code: 'unauthorized' });
      const listed = (await keysOf(server)).keys.find((each) => each.id === id);
      expect(listed?.['revokedAt']).toMatch(/Z$/);
      await new Promise((resolve) => setTimeout(resolve, 5));
      expect((await revoke(server, id)).status).toBe(204);
      expect((await keysOf(server)).keys.find((each) => each.id === id)).toEqual(listed);
    });

    it('may be the caller’s own', async () => {
      const server = await boot();
      const { id, apiKey: key } = await makeKey(server, { scopes: ['admin', 'runs'] });
      const talk = await startRun(server, { input: 'slow 60000' }, { key });
      await talk.reader.until('token');
      expect((await revoke(server, id, { key })).status).toBe(204);
      await talk.reader.rest();
      expect((await revoke(server, id, { key })).status).toBe(401);
      expect((await revoke(server, id)).status).toBe(204);
      await server.request(`/v1/runs/${talk.runId}/cancel`, { method: 'POST' });
    });

    it('cannot be revoked if it is unknown or of another tenant', async () => {
      const server = await boot();
      const stranger = await addKey(server.store, { tenant: 'stranger' });
      for (const id of [uuidv7(), 'no-id', stranger.keyId]) {
        const response = await revoke(server, id);
        expect(response.status).toBe(404);
        expect(await response.json()).toEqual({
          error: 'No such key',
          code: 'not_found',
        });
      }
      expect((await server.request('/models', { key: stranger.apiKey })).status).toBe(200);
    });

    /** Opens one stream of each kind with one key. */
    async function everythingOpen(server: TestServer, key: string) {
      const options = { key };
      const waiting = await startApiChat(server, 'notify wait', options);
      await waiting.reader.until('tool_approval_requested');
      const talking = await startRun(server, { input: 'slow 60000' }, options);
      await talking.reader.until('token');
      const followed = await server.request(`/v1/runs/${waiting.runId}/stream`, options);
      const chat = await startChat(server, 'notify chat', options);
      await chat.reader.until('relay');
      const readers = [waiting.reader, talking.reader, chat.reader, new FrameReader(followed)];
      return { readers, runIds: [waiting.runId, talking.runId, chat.runId] };
    }

    it.each<[string, (server: TestServer, id: string) => Promise<unknown>]>([
      ['here', (server, id) => revoke(server, id)],
      [
        'by another node on the same store',
        (server, id) => server.store.tenant(server.tenantId).revokeKey(id, Date.now()),
      ],
    ])('loses all its streams at once if it is revoked %s', async (_where, revokeIt) => {
      const server = await boot();
      const scopes = ['runs', 'approve'];
      const [doomed, spared] = [
        await makeKey(server, { scopes }),
        await makeKey(server, { scopes }),
      ];
      const { readers, runIds } = await everythingOpen(server, doomed.apiKey);
      const other = await startRun(server, { input: 'slow 60000' }, { key: spared.apiKey });
      await other.reader.until('token');
      await revokeIt(server, doomed.id);
      // Their runs would continue for a minute.
      await Promise.all(readers.map((reader) => reader.rest()));
      for (const { types } of readers) expect(types).not.toContain('done');
      // Other streams and the runs continue.
      await server.request(`/v1/runs/${other.runId}/cancel`, { method: 'POST' });
      expect((await other.reader.until('done')).data).toMatchObject({ status: 'canceled' });
      const statuses = await Promise.all(
        runIds.slice(0, 2).map(async (id) => (await server.json(`/v1/runs/${id}`))['status']),
      );
      expect(statuses).toEqual(['waiting', 'running']);
      await until(() => server.relay.hub.size === 0, 'the streams to be forgotten');
      for (const id of runIds) await server.request(`/v1/runs/${id}/cancel`, { method: 'POST' });
    });

    it('is refused while it waits for resume and tool-approval', async () => {
      const server = await boot();
      const { id, apiKey: key } = await makeKey(server, { scopes: ['runs', 'approve'] });
      const slow = await startRun(server, { input: 'slow 60000' });
      const asked = await startRun(server, {
        input: 'use send_note {"to":"a","text":"b"}\nuse agent {"prompt":"slow 60000"}',
        tools: ['send_note', 'agent'].map((name) => ({ name, kind: 'builtin' })),
      });
      await asked.reader.until('approval_requested');
      const decision = { runId: asked.runId, toolCallId: 'call_1', action: 'approve' };
      const pending = [
        resumeRun(server, slow.runId, { key }),
        decideCall(server, decision, { key }),
      ];
      await until(() => server.notes().length === 1, 'the note');
      await revoke(server, id);
      for (const { code, body } of await Promise.all(pending)) {
        expect(code).toBe(401);
        expect(body).toEqual({ error: 'A valid API key is required', code: 'unauthorized' });
      }
      for (const { runId } of [slow, asked]) {
        await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
      }
    });

    it('is disconnected in the middle of a large stream', async () => {
      const server = await boot();
      const faults: unknown[] = [];
      const note = (error: unknown) => faults.push(error);
      process.on('uncaughtException', note);
      onTestFinished(() => void process.off('uncaughtException', note));
      for (let n = 0; n < 8; n += 1) {
        const { id, apiKey: key } = await makeKey(server);
        const talks = await Promise.all(
          Array.from({ length: 4 }, () => startRun(server, { input: 'say 20000' }, { key })),
        );
        await Promise.all(talks.map(({ reader }) => reader.until('token')));
        const reading = talks.map(({ reader }) => reader.rest());
        await revoke(server, id);
        await Promise.all(reading);
        for (const { runId } of talks) {
          await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
        }
      }
      expect(faults).toEqual([]);
      expect(server.logged).toEqual([]);
      expect((await server.request('/health')).status).toBe(200);
    });
  });
});
