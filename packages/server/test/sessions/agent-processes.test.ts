/** Sessions of harnesses that run processes, on both databases: what they are given, and what is left of them. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SystemStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Agent, agentCapabilities, Agents } from '../support/agents.ts';
import { addKey, bootServer, type TestServer, until } from '../support/server.ts';
import { stores } from '../support/stores.ts';

type Json = Record<string, unknown>;

const agents = new Agents('coder');
const harnesses = [agents.harness];

describe.each(Object.entries(stores))('agents as processes on %s', (_name, open) => {
  let store: SystemStore;
  let server: TestServer;
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'relay-agents-')));
  const workspace = join(folder, 'workspace');
  const dataDir = join(folder, 'data');

  const boot = (env: Record<string, string> = {}) =>
    bootServer({
      store,
      file: { harnesses },
      env: {
        RELAY_NODE_ID: 'one',
        RELAY_DATA_DIR: dataDir,
        RELAY_WORKSPACE: workspace,
        RELAY_SANDBOX: 'off',
        ...env,
      },
    });

  beforeAll(async () => {
    mkdirSync(join(workspace, 'shop', 'src'), { recursive: true });
    mkdirSync(dataDir);
    symlinkSync(join(workspace, 'shop'), join(workspace, 'linked'));
    symlinkSync(dataDir, join(workspace, 'escape'));
    writeFileSync(join(workspace, 'file'), '');
    store = await open();
    server = await boot();
  });

  afterAll(async () => {
    await server.stop();
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  });

  function post(more: Json = {}, key?: string) {
    const body = { harness: 'coder', handle: `h-${uuidv7()}`, ...more };
    return server.ask('/v1/sessions', { body, ...(key === undefined ? {} : { key }) });
  }

  async function created(more: Json = {}, key?: string) {
    const { status, body } = await post(more, key);
    expect([status, body]).toEqual([201, expect.anything()]);
    const id = String(body['id']);
    const { handle } = body['identity'] as { handle: string };
    const agent = () => agents.of(handle);
    return { id, handle, body, path: `/v1/sessions/${id}`, agent };
  }

  const tenant = () => store.tenant(server.tenantId);

  function sessionIs(id: string, status: string) {
    return until(async () => {
      const session = await tenant().sessions.read(id);
      return session?.status === status && session;
    }, `the session to be ${status}`);
  }

  function gone(path: string) {
    return until(() => !existsSync(path), `${path} to be removed`);
  }

  const withToken = (token: string, path: string) => server.ask(path, { key: token });

  it('starts in a folder of the workspace, and is starting until its harness reports a status', async () => {
    const session = await created({ workspace: 'shop', labels: { team: 'a' } });
    expect(session.body).toMatchObject({ status: 'starting', workspace: 'shop', harness: 'coder' });
    const { process: given } = session.agent();
    expect(given).toMatchObject({
      tenantId: server.tenantId,
      isDefaultTenant: true,
      workspace: join(workspace, 'shop'),
      mcp: { url: `${server.url}/mcp` },
    });
    expect(given.hidden()).toContain(dataDir);
    await session.agent().is('idle');
    await sessionIs(session.id, 'idle');
    expect((await server.ask(session.path)).body).toMatchObject({ workspace: 'shop' });
    const types = (await tenant().sessions.readEvents(session.id, { after: 0, limit: 10 })).map(
      ({ type }) => type,
    );
    expect(types).toEqual(['status.changed', 'session.started', 'status.changed']);
  });

  it('takes the whole workspace by default, and a link or an absolute path inside it', async () => {
    const whole = await created();
    expect(whole.body['workspace']).toBe('.');
    expect(whole.agent().process.workspace).toBe(workspace);
    const linked = await created({ workspace: 'linked/src' });
    expect(linked.body['workspace']).toBe('shop/src');
    const absolute = await created({ workspace: join(workspace, 'shop') });
    expect(absolute.body['workspace']).toBe('shop');
  });

  it.each([['..'], ['../data'], ['/'], ['escape'], ['nowhere'], ['file']])(
    'refuses the workspace %s',
    async (wrong) => {
      const { status, body } = await post({ workspace: wrong });
      expect([status, body['code']]).toEqual([400, 'invalid_request']);
      expect(body['details']).toMatchObject([{ path: 'workspace' }]);
    },
  );

  it('requires the scopes runs and approve, and a workspace of the tenant', async () => {
    const { apiKey: runsOnly } = await addKey(store, { scopes: ['runs', 'read'] });
    const refused = await post({}, runsOnly);
    expect([refused.status, refused.body['code']]).toEqual([403, 'scope_required']);
    expect(refused.body['error']).toContain('approve');
    const session = await created();
    const fork = await server.ask(`${session.path}/fork`, {
      body: { handle: `h-${uuidv7()}` },
      key: runsOnly,
    });
    expect([fork.status, fork.body['code']]).toEqual([403, 'scope_required']);
    const { apiKey: homeless } = await addKey(store, { tenant: `t-${uuidv7()}` });
    const missing = await post({}, homeless);
    expect([missing.status, missing.body['code']]).toEqual([409, 'workspace_missing']);
  });

  it('gives its agent a token that works when the session is stored, and not before', async () => {
    const seen: [string, number][] = [];
    const tryToken = (when: string) => async (agent: Agent) => {
      const { input, process: given } = agent;
      const { status } = await withToken(given.mcp.token, `/v1/sessions/${input.sessionId}`);
      seen.push([when, status]);
    };
    agents.onCreate = tryToken('created');
    agents.onSubscribed = tryToken('subscribed');
    const session = await created();
    await until(() => seen.length === 2, 'both requests');
    agents.onCreate = async () => undefined;
    agents.onSubscribed = async () => undefined;
    expect(seen).toEqual([
      ['created', 401],
      ['subscribed', 200],
    ]);
    const { token } = session.agent().process.mcp;
    const other = await created();
    expect((await withToken(token, `${other.path}/events`)).status).toBe(403);
    const sessions = await withToken(token, '/v1/sessions');
    expect(sessions.status).toBe(200);
    // It is an agent's: it reports nothing for its harness, and attaches nothing.
    const events = { type: 'status.changed', status: 'idle' };
    const reported = await server.ask(`${session.path}/events`, { body: events, key: token });
    expect(reported.status).toBe(409);
    const attached = await server.ask('/v1/sessions/attach', {
      body: {
        handle: session.handle,
        identity: { name: 'Agent', kind: 'agent' },
        capabilities: agentCapabilities,
      },
      key: token,
    });
    expect(attached.status).toBe(409);
    const stored = JSON.stringify([
      await tenant().sessions.read(session.id),
      await tenant().sessions.readEvents(session.id, { after: 0, limit: 100 }),
      server.logged,
    ]);
    expect(stored).not.toContain(token);
  });

  it('removes what contains the token from what its agent emits and saves', async () => {
    const session = await created();
    const { token } = session.agent().process.mcp;
    await session.agent().emit({ type: 'log', level: 'info', message: `token=${token}` });
    await session.agent().context.saveState({ token });
    const stored = JSON.stringify([
      await tenant().sessions.read(session.id),
      await tenant().sessions.readEvents(session.id, { after: 0, limit: 100 }),
    ]);
    expect(stored).toContain('token=');
    expect(stored).not.toContain(token);
  });

  it('has the keys of the tenant for model providers', async () => {
    const apiKey = `sk-${uuidv7()}`;
    const put = await server.ask('/v1/credentials/openai', { method: 'PUT', body: { apiKey } });
    expect(put.status).toBeLessThan(300);
    const { process: given } = (await created()).agent();
    expect(await given.credential('openai')).toEqual({ apiKey });
    expect(await given.credential('anthropic')).toBeUndefined();
  });

  it('has a home folder of its own, which is removed when it is released, dropped or has failed', async () => {
    const released = await created();
    const { home } = released.agent().process;
    expect(statSync(home).mode & 0o777).toBe(0o700);
    expect(home.startsWith(join(dataDir, 'agents'))).toBe(true);
    writeFileSync(join(home, 'notes'), 'x');
    await released.agent().is('idle');
    expect((await server.ask(`${released.path}/release`, { method: 'POST' })).status).toBe(202);
    await gone(home);
    const dropped = await created();
    expect((await server.ask(dropped.path, { method: 'DELETE' })).status).toBe(204);
    await gone(dropped.agent().process.home);
    expect(dropped.agent().context.signal.aborted).toBe(true);
    const failed = await created();
    const reason = 'There is no such program';
    await failed.agent().emit({ type: 'error', error: reason });
    await failed.agent().emit({ type: 'status.changed', status: 'failed', reason });
    await gone(failed.agent().process.home);
    expect((await server.ask(failed.path)).body['status']).toBe('failed');
  });

  it('leaves nothing behind if its harness fails, or the handle is taken', async () => {
    const homes = () => readdirSync(join(dataDir, 'agents', server.tenantId));
    const taken = await created();
    const before = homes();
    agents.onCreate = async () => {
      throw new Error('There is no such program');
    };
    const { status, body } = await post();
    agents.onCreate = async () => undefined;
    expect([status, body['code']]).toEqual([502, 'harness_failed']);
    expect((await post({ handle: taken.handle })).status).toBe(409);
    expect(homes()).toEqual(before);
  });

  it('is attached after a restart, with its home, a new token, and the old one dead', async () => {
    const session = await created({ workspace: 'shop' });
    const before = session.agent();
    await before.is('idle');
    await before.context.saveState({ thread: 7 });
    writeFileSync(join(before.process.home, 'notes'), 'x');
    // One that ended while no server ran.
    const left = await created();
    await left.agent().is('idle');
    await server.relay.stop();
    const { version } = (await tenant().sessions.read(left.id)) ?? { version: 0 };
    await tenant().sessions.change({
      changes: [
        {
          sessionId: left.id,
          at: Date.now(),
          ifVersion: version,
          events: [],
          progress: { releasedAt: Date.now() },
        },
      ],
    });
    server = await boot();
    const after = await until(() => {
      const agent = session.agent();
      return agent !== before && agent;
    }, 'the new agent');
    expect(after.state).toEqual({ thread: 7 });
    expect(after.process.home).toBe(before.process.home);
    expect(existsSync(join(after.process.home, 'notes'))).toBe(true);
    expect(after.process).toMatchObject({ workspace: join(workspace, 'shop') });
    expect(after.process.mcp).toMatchObject({ url: `${server.url}/mcp` });
    await until(
      async () => (await withToken(after.process.mcp.token, session.path)).status === 200,
      'the new token',
    );
    expect((await withToken(before.process.mcp.token, session.path)).status).toBe(401);
    expect(existsSync(left.agent().process.home)).toBe(false);
    // It has kept its stream, and so gets messages.
    const sent = await server.ask('/v1/messages', {
      body: { to: `@${session.handle}`, text: 'hello' },
    });
    expect(sent.status).toBe(201);
    await until(() => after.received.includes('hello'), 'the message');
  });

  it('is offline when its key is revoked, and stays so after a restart', async () => {
    const { apiKey, keyId } = await addKey(store, {});
    const session = await created({}, apiKey);
    const agent = session.agent();
    await agent.is('idle');
    const { token } = agent.process.mcp;
    expect((await withToken(token, session.path)).status).toBe(200);
    expect((await server.ask(`/v1/keys/${keyId}`, { method: 'DELETE' })).status).toBe(204);
    await sessionIs(session.id, 'offline');
    await until(() => agent.context.signal.aborted, 'the end of its process');
    expect((await withToken(token, session.path)).status).toBe(401);
    await server.relay.stop();
    const other = `h-${uuidv7()}`;
    server = await boot();
    await created({ handle: other });
    expect(session.agent()).toBe(agent);
    expect((await server.ask(session.path)).body['status']).toBe('offline');
    expect(existsSync(agent.process.home)).toBe(true);
    expect((await server.ask(`${session.path}/release`, { method: 'POST' })).status).toBe(202);
  });

  it('forks with the folder, the rules and the scopes of whoever forks it', async () => {
    const permissions = { allowlist: [{ tool: 'bash', params: { command: 'ls' } }] };
    const session = await created({ workspace: 'shop', permissions });
    await session.agent().is('idle');
    const { apiKey, keyId } = await addKey(store, { owner: 'grace' });
    const handle = `h-${uuidv7()}`;
    const fork = await server.ask(`${session.path}/fork`, { body: { handle }, key: apiKey });
    expect([fork.status, fork.body]).toMatchObject([
      201,
      { parentSessionId: session.id, workspace: 'shop', owner: 'grace', status: 'starting' },
    ]);
    expect(agents.of(handle).input.from).toEqual({ branch: 1 });
    const stored = await tenant().sessions.read(String(fork.body['id']));
    expect(stored).toMatchObject({ permissions, keyId });
  });

  it('is refused above the limit of agents on a node, until another one has ended', async () => {
    await server.relay.stop();
    server = await boot({ RELAY_NODE_ID: 'small', RELAY_MAX_AGENTS: '1' });
    const first = await created();
    await first.agent().is('idle');
    const second = await post();
    expect([second.status, second.body['code']]).toEqual([429, 'too_many_open']);
    expect(second.body['error']).toContain('RELAY_MAX_AGENTS');
    await server.ask(`${first.path}/release`, { method: 'POST' });
    await until(async () => (await post()).status === 201, 'a free place');
    await server.relay.stop();
    server = await boot();
  });
});
