/** Programs in terminals as sessions of a server, on both databases. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SystemStore } from '@relay/core';
import { pty } from '@relay/harnesses';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { AgentProcesses } from '../../src/sessions/agent-processes.ts';
import { HarnessHost } from '../../src/sessions/harness-host.ts';
import { addKey, bootServer, type TestServer, until } from '../support/server.ts';
import { stores } from '../support/stores.ts';

type Json = Record<string, unknown>;
type Event = { readonly seq: number; readonly type: string } & Json;

const harnesses = [pty({ name: 'shell', command: ['bash', '--norc', '--noprofile'] })];

describe.each(Object.entries(stores))('sessions with a terminal on %s', (_name, open) => {
  let store: SystemStore;
  let server: TestServer;
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'relay-terminals-')));

  const boot = () =>
    bootServer({
      store,
      file: { harnesses },
      env: {
        RELAY_NODE_ID: 'one',
        RELAY_DATA_DIR: join(folder, 'one'),
        RELAY_WORKSPACE: join(folder, 'workspace'),
        RELAY_SANDBOX: 'off',
      },
    });

  beforeAll(async () => {
    for (const name of ['workspace', 'one']) mkdirSync(join(folder, name));
    store = await open();
    server = await boot();
  });

  afterAll(async () => {
    await server.stop();
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const ask: TestServer['ask'] = (path, options) => server.ask(path, options);

  async function created() {
    const handle = `h-${uuidv7()}`;
    const { status, body } = await ask('/v1/sessions', { body: { harness: 'shell', handle } });
    expect([status, body]).toEqual([201, expect.objectContaining({ status: 'starting' })]);
    const id = String(body['id']);
    return { id, handle, path: `/v1/sessions/${id}` };
  }

  async function eventsOf(path: string): Promise<Event[]> {
    const { body } = await ask(`${path}/events`);
    return body['events'] as Event[];
  }

  async function outputOf(path: string): Promise<string> {
    const events = await eventsOf(path);
    return events.map(({ type, text }) => (type === 'terminal.output' ? text : '')).join('');
  }

  const shows = (path: string, text: string) =>
    until(async () => (await outputOf(path)).includes(text), `the output ${text}`);

  const hasStatus = (path: string, status: string) =>
    until(async () => (await ask(path)).body['status'] === status, `the status ${status}`);

  const type = (path: string, text: string) => ask(`${path}/input`, { body: { text } });

  async function send(handle: string, text: string, key = server.apiKey) {
    const { status, body } = await ask('/v1/messages', { body: { to: `@${handle}`, text }, key });
    expect([status, body]).toEqual([201, expect.anything()]);
    const [delivery] = body['deliveries'] as { id: string }[];
    return `/v1/messages/${String(body['id'])}/deliveries#${delivery?.id}`;
  }

  async function deliveryAt(path: string): Promise<Json> {
    const { body } = await ask(path);
    const [delivery] = body['deliveries'] as Json[];
    return delivery ?? {};
  }

  const isDelivery = (path: string, status: string) =>
    until(async () => (await deliveryAt(path))['status'] === status, `a delivery ${status}`);

  async function approvalOf({ id }: { id: string }): Promise<Json> {
    return until(async () => {
      const { body } = await ask(`/v1/approvals?status=pending&sessionId=${id}`);
      return (body['approvals'] as Json[])[0];
    }, 'an approval');
  }

  async function attached(handle: string): Promise<string> {
    const { body } = await ask('/v1/sessions/attach', {
      body: {
        handle,
        identity: { name: 'Builder', kind: 'agent' },
        capabilities: {
          messaging: { receive: true, send: true },
          delivery: { modes: ['on-idle'], queue: true },
          events: { emits: ['status.changed', 'terminal.output'] },
          lifecycle: { release: false },
        },
      },
    });
    return String(body['token']);
  }

  it('type what they are given, show it, and are audited without it', async () => {
    const { id, path, handle } = await created();
    await hasStatus(path, 'idle');
    expect((await type(path, 'echo pass""word\r')).status).toBe(204);
    await shows(path, 'password');
    const resized = await ask(`${path}/input`, { body: { resize: { cols: 77, rows: 20 } } });
    expect(resized.status).toBe(204);
    // The screen, as it is after the resize, is stored before the answer.
    expect(await outputOf(path)).toContain('\x1bc');
    const screen = await until(
      async () => (await eventsOf(path)).findLast((event) => event['cols'] === 77),
      'the screen',
    );
    expect(screen).toMatchObject({ type: 'terminal.screen', rows: 20, fidelity: 'inferred' });
    const entries = await until(async () => {
      const { body } = await ask('/v1/audit?action=session.typed');
      const found = (body['entries'] as Json[]).filter(
        ({ what }) => (what as Json)['sessionId'] === id,
      );
      return found.length > 0 && found;
    }, 'the audit entry');
    expect(entries).toMatchObject([{ what: { sessionId: id, handle, characters: 16 } }]);
    expect(JSON.stringify(entries)).not.toContain('word');
  });

  it.each<[string, object]>([
    ['without columns', { resize: { cols: 0, rows: 20 } }],
    ['with a million rows', { resize: { cols: 80, rows: 1_000_000 } }],
    ['with half a column', { resize: { cols: 80.5, rows: 20 } }],
    ['without rows', { resize: { cols: 80 } }],
    ['without text', { text: '' }],
    ['with too much text', { text: 'x'.repeat(100_000) }],
    ['with both', { text: 'x', resize: { cols: 80, rows: 20 } }],
    ['with neither', {}],
  ])('refuse input %s', async (_what, body) => {
    const { status } = await ask(`/v1/sessions/${uuidv7()}/input`, { body });
    expect(status).toBe(400);
  });

  it('require the scopes runs and approve, and never take a session token', async () => {
    const { path, handle } = await created();
    const token = await attached(`a-${uuidv7()}`);
    for (const scopes of [['runs'], ['approve', 'read'], ['read']] as const) {
      const { apiKey: key } = await addKey(store, { scopes: [...scopes] });
      const input = await ask(`${path}/input`, { body: { text: 'x' }, key });
      expect([input.status, input.body['code']]).toEqual([403, 'scope_required']);
      const body = { harness: 'shell', handle: `${handle}-2` };
      expect((await ask('/v1/sessions', { body, key })).status).toBe(403);
    }
    const input = await ask(`${path}/input`, { body: { text: 'x' }, key: token });
    expect([input.status, input.body['code']]).toEqual([403, 'scope_required']);
    const { apiKey: other } = await addKey(store, { tenant: 'other' });
    expect((await ask(`${path}/input`, { body: { text: 'x' }, key: other })).status).toBe(404);
  });

  it('type a message of a key that may type, and deliver it, but never consume it', async () => {
    const { path, handle } = await created();
    const delivery = await send(handle, 'echo $((6*7))x');
    await isDelivery(delivery, 'delivered');
    await shows(path, '42x');
    const types = (await eventsOf(path)).map(({ type: each }) => each);
    expect(types).toContain('delivery.delivered');
    expect(types).not.toContain('message.received');
  });

  it('ask for permission to type a message of a session, or of a key that may not', async () => {
    const { id, path, handle } = await created();
    const { apiKey: weak } = await addKey(store, { scopes: ['runs', 'read'] });
    for (const key of [await attached(`b-${uuidv7()}`), weak]) {
      const delivery = await send(handle, 'echo $((6*7))x', key);
      const approval = await approvalOf({ id });
      expect(approval).toMatchObject({
        kind: 'permission',
        tool: 'shell.type',
        params: { text: 'echo $((6*7))x' },
      });
      expect(await outputOf(path)).not.toContain('6*7');
      const { status } = await ask(`/v1/approvals/${String(approval['id'])}`, {
        body: { approved: false, reason: 'Not now' },
      });
      expect(status).toBe(200);
      await isDelivery(delivery, 'failed');
    }
    const delivery = await send(handle, 'echo $((6*7))x', weak);
    const approval = await approvalOf({ id });
    await ask(`/v1/approvals/${String(approval['id'])}`, { body: { approved: true } });
    await isDelivery(delivery, 'delivered');
    await shows(path, '42x');
  });

  it('are released when their program exits, and fail what waits for them', async () => {
    const { path } = await created();
    await hasStatus(path, 'idle');
    await type(path, 'exit 5\r');
    await hasStatus(path, 'released');
    const events = await eventsOf(path);
    expect(events.find((event) => event.type === 'command.failed')).toMatchObject({ exitCode: 5 });
    expect(events.at(-1)).toMatchObject({
      type: 'session.released',
      reason: 'The program exited with code 5',
    });
    const { status, body } = await type(path, 'x');
    expect([status, body['code']]).toEqual([409, 'session_conflict']);
  });

  it('are interrupted by a cancel', async () => {
    const { path } = await created();
    await hasStatus(path, 'idle');
    // What it prints shows that it is in the foreground, where an interrupt reaches it.
    await type(path, `sh -c 'echo $((6*7))y; exec sleep 1000'\r`);
    await shows(path, '42y');
    expect((await ask(`${path}/cancel`, { method: 'POST' })).status).toBe(202);
    await type(path, 'echo $((6*7))x\r');
    await shows(path, '42x');
  });

  it('keep the last MB of a flood, while the server answers others', async () => {
    const { path } = await created();
    await hasStatus(path, 'idle');
    await type(path, 'yes\r');
    await until(async () => {
      const { body } = await ask(`${path}/events?limit=20`);
      const first = (body['events'] as Event[]).find((event) => event.type === 'terminal.output');
      return first !== undefined && !String(first['text']).includes('bash-');
    }, 'the first output to be deleted');
    expect(JSON.stringify(await eventsOf(path)).length).toBeLessThan(3_000_000);
    expect((await ask('/v1/sessions')).status).toBe(200);
    const { status } = await ask(`${path}/release`, { method: 'POST' });
    expect(status).toBe(202);
    await hasStatus(path, 'released');
  });

  it('are typed into through another node, and no text stays in the store', async () => {
    const { control, programHub } = server.relay;
    const { engine } = control;
    const processes = new AgentProcesses({
      store,
      config: server.config,
      vault: { read: async () => undefined, secretOf: () => '' },
      workspaces: { folderOf: () => undefined, hiddenFrom: () => [] },
      defaultTenantId: server.tenantId,
      sandbox: undefined,
      log: { ...engine.log, addSecret: () => undefined },
    });
    const streams = { addSession: () => () => undefined };
    const node = 'two';
    const host = new HarnessHost({ engine, hub: programHub, streams, processes, node }, harnesses);
    const [, harness] = host.harnesses[0] ?? [];
    const { id, path } = await created();
    await hasStatus(path, 'idle');
    const { sessions } = store.tenant(server.tenantId);
    const session = await sessions.read(id);
    if (session === undefined || harness === undefined) throw new Error('There is no session');
    const commandIds: string[] = [];
    const next = engine.ids.next.bind(engine.ids);
    vi.spyOn(engine.ids, 'next').mockImplementation(() => {
      commandIds.push(next());
      return commandIds.at(-1) ?? '';
    });

    await harness.input(session, { text: 'echo $((6*7))x\r' }, []);

    vi.restoreAllMocks();
    await shows(path, '42x');
    const commands = await Promise.all(commandIds.map((each) => sessions.readCommand(id, each)));
    expect(commands.filter((command) => command !== undefined)).toMatchObject([
      { command: 'input', args: {}, answer: { ok: true } },
    ]);
    expect(JSON.stringify(commands)).not.toContain('6*7');
    await ask(`${path}/release`, { method: 'POST' });
    await hasStatus(path, 'released');
    await expect(harness.input(session, { text: 'x' }, [])).rejects.toMatchObject({
      code: 'session_conflict',
    });
  });

  it('are offline after a restart, which says why, and can be released', async () => {
    const { path } = await created();
    await hasStatus(path, 'idle');
    await server.stop();
    server = await boot();
    await hasStatus(path, 'offline');
    const lost = (await eventsOf(path)).findLast((event) => event['status'] === 'offline');
    expect(lost?.['reason']).toBe('The harness shell cannot attach to it after a restart');
    const { status, body } = await type(path, 'x');
    expect([status, body['code']]).toEqual([409, 'session_conflict']);
    await ask(`${path}/release`, { method: 'POST' });
    await hasStatus(path, 'released');
  });
});

describe('a session without a terminal', () => {
  it.each(['human', 'native', 'remote'])('of the harness %s refuses input', async (harness) => {
    const server = await bootServer({ env: { RELAY_DEFAULT_MODEL: 'demo' } });
    const handle = 'other';
    const capabilities = {
      messaging: { receive: true },
      delivery: { modes: ['on-idle'] },
      events: { emits: ['terminal.output'] },
      lifecycle: { release: false },
    };
    const identity = { name: 'Other', kind: 'program' };
    const { body: made } =
      harness === 'remote'
        ? await server.ask('/v1/sessions/attach', { body: { handle, identity, capabilities } })
        : await server.ask('/v1/sessions', { body: { harness, handle } });
    const { id } = (harness === 'remote' ? made['session'] : made) as { id: string };
    const { status, body } = await server.ask(`/v1/sessions/${id}/input`, { body: { text: 'x' } });
    expect([status, body]).toEqual([
      409,
      expect.objectContaining({
        code: 'capability_missing',
        details: expect.objectContaining({ path: 'events.emits', asked: 'terminal.output' }),
      }),
    ]);
    await server.stop();
  });
});
