/**
 * Every operation against a session that lacks its capability: a structured error, never silence. A new
 * operation is one more row of the table.
 */
import { type AgentSessionCapabilities, deliveryModes, type SessionEvent } from '@relay/protocol';
import { createMemoryStore } from '@relay/store';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifies } from '../../../../../test/conformance/verifies.ts';
import { FrameReader } from '../../support/frames.ts';
import { addKey, bootServer, type TestServer } from '../../support/server.ts';
import { attached, type AttachedSession } from '../../support/sessions.ts';

type Json = Record<string, unknown>;

/** Declares everything. */
const all = {
  messaging: { receive: true, send: true, attachments: ['text', 'image'] },
  delivery: { modes: [...deliveryModes], queue: true },
  events: { emits: ['status.changed', 'log'] },
  actions: { invoke: true, expose: true },
  lifecycle: { release: true, pause: true, resume: true, fork: true, snapshot: true },
} as const satisfies AgentSessionCapabilities;

const store = createMemoryStore();
let server: TestServer;
/** Of a session that declares everything. */
const action = `act-${uuidv7()}`;

const ask: TestServer['ask'] = (path, options) => server.ask(path, options);

function expose({ id, token: key }: AttachedSession, name: string) {
  const inputSchema = { type: 'object' };
  const body = { name, description: 'Acts', inputSchema, handler: { sessionId: id } };
  return ask('/v1/actions', { body, key });
}

beforeAll(async () => {
  server = await bootServer({ store, file: { rateLimit: { failuresPerMinute: 100_000 } } });
  expect((await expose(await attached(server, { capabilities: all }), action)).status).toBe(201);
});

afterAll(async () => {
  await server.stop();
  await store.close();
});

const send = ({ handle }: AttachedSession, more: Json) =>
  ask('/v1/messages', { body: { to: `@${handle}`, text: 'hello', ...more } });

const report = ({ path, token: key }: AttachedSession, body: Json) =>
  ask(`${path}/events`, { body, key });

const command = (name: string, body?: Json) => (session: AttachedSession) =>
  ask(`${session.path}/${name}`, { method: 'POST', ...(body === undefined ? {} : { body }) });

interface Operation {
  readonly name: string;
  /** What the session declares instead of everything. */
  readonly without: Partial<AgentSessionCapabilities>;
  readonly ask: (session: AttachedSession) => Promise<{ status: number; body: Json }>;
  readonly details: { readonly path: string; readonly asked: unknown; readonly offered: unknown };
  readonly error?: { readonly status: number; readonly code: string };
  /** A message that is stored as failed. */
  readonly isMessage?: true;
  /** With the capability the request waits for the program. */
  readonly waits?: true;
}

const modes = deliveryModes.map((mode): Operation => {
  const offered = deliveryModes.filter((each) => each !== mode);
  return {
    name: `a message with the mode ${mode}`,
    without: { delivery: { modes: offered, queue: true } },
    ask: (session) => send(session, { mode }),
    details: { path: 'delivery.modes', asked: mode, offered },
    isMessage: true,
  };
});

const contents = {
  text: { type: 'text', text: 'a file' },
  image: { type: 'image', url: 'https://images.example/a.png' },
} as const;

const attachments = (['text', 'image'] as const).map((asked): Operation => {
  const offered = (['text', 'image'] as const).filter((each) => each !== asked);
  return {
    name: `a message with an attachment of the type ${asked}`,
    without: { messaging: { receive: true, send: true, attachments: offered } },
    ask: (session) => send(session, { attachments: [contents[asked]] }),
    details: { path: 'messaging.attachments', asked, offered },
    isMessage: true,
  };
});

const undeclared: readonly SessionEvent[] = [
  { type: 'status.changed', status: 'active' },
  { type: 'tool.called', tool: 'bash' },
  { type: 'tool.completed', tool: 'bash' },
  { type: 'tool.failed', tool: 'bash', error: 'no' },
  { type: 'tool.output', tool: 'bash', output: 'x' },
  { type: 'file.changed', path: 'a', operation: 'create' },
  { type: 'command.started', command: 'ls' },
  { type: 'command.completed', command: 'ls' },
  { type: 'command.failed', command: 'ls', error: 'no' },
  { type: 'terminal.output', text: 'x' },
  { type: 'terminal.screen', text: 'x' },
  { type: 'usage.updated', tokens: 1 },
  { type: 'log', level: 'info', message: 'x' },
  { type: 'error', error: 'x' },
];

const events = undeclared.map((event): Operation => {
  const declared = { ...all.events, emits: [...all.events.emits, event.type] };
  const offered = declared.emits.filter((type) => type !== event.type);
  return {
    name: `a report of ${event.type}`,
    without: { events: { emits: offered } },
    ask: (session) => report(session, event),
    details: { path: 'events.emits', asked: event.type, offered },
    error: { status: 422, code: 'event_undeclared' },
  };
});

const lifecycle = (['release', 'pause', 'resume', 'fork', 'snapshot'] as const).map(
  (name): Operation => ({
    name,
    without: { lifecycle: { ...all.lifecycle, [name]: false } },
    ask: command(name, name === 'fork' ? { handle: `f-${uuidv7()}` } : undefined),
    details: { path: `lifecycle.${name}`, asked: true, offered: false },
    ...(name === 'fork' || name === 'snapshot' ? { waits: true } : {}),
  }),
);

const table: readonly Operation[] = [
  ...modes,
  ...attachments,
  {
    name: 'a message that a busy session without a queue cannot take now',
    without: { delivery: { modes: ['on-idle'] } },
    ask: async (session) => {
      const stream = await server.request(`${session.path}/deliveries/stream`, {
        key: session.token,
      });
      const reader = new FrameReader(stream);
      await report(session, { type: 'status.changed', status: 'active' });
      const answer = await send(session, {});
      await reader.disconnect();
      return answer;
    },
    details: { path: 'delivery.queue', asked: true, offered: false },
    isMessage: true,
  },
  {
    name: 'sending',
    without: { messaging: { receive: true } },
    ask: ({ handle, token: key }) =>
      ask('/v1/messages', { body: { to: `@${handle}`, text: 'to myself' }, key }),
    details: { path: 'messaging.send', asked: true, offered: false },
  },
  ...lifecycle,
  {
    name: 'flush',
    without: { delivery: { modes: ['on-idle', 'immediate'], queue: true } },
    ask: command('flush'),
    details: { path: 'delivery.modes', asked: 'manual', offered: ['on-idle', 'immediate'] },
  },
  ...events,
  {
    name: 'exposing an action',
    without: { actions: { invoke: true } },
    ask: (session) => expose(session, `act-${uuidv7()}`),
    details: { path: 'actions.expose', asked: true, offered: false },
  },
  {
    name: 'invoking an action',
    without: { actions: { expose: true } },
    ask: ({ token: key }) => ask(`/v1/actions/${action}/invoke`, { body: { input: {} }, key }),
    details: { path: 'actions.invoke', asked: true, offered: false },
    waits: true,
  },
];

describe('a session that lacks a capability', () => {
  it.each(table.map((row) => [row.name, row] as const))(
    'refuses %s, and says which one it is',
    async (_name, row) => {
      verifies(
        '004:negotiation:content-type',
        '004:negotiation:delivery-mode',
        '004:negotiation:release',
        '004:negotiation:pause',
        '004:negotiation:resume',
        '004:negotiation:fork',
        '004:negotiation:snapshot',
        '004:negotiation:no-queue-busy',
        '004:negotiation:structured-error',
        '004:negotiation:no-silent-loss',
      );
      const session = await attached(server, { capabilities: { ...all, ...row.without } });
      const { status, body } = await row.ask(session);
      const expected = row.error ?? { status: 409, code: 'capability_missing' };
      expect({ status, code: body['code'] }).toEqual(expected);
      expect(body['details']).toMatchObject(row.details);
      expect(body['error']).toContain(`@${session.handle}`);
      const { sessions, messages } = store.tenant(server.tenantId);
      const log = await sessions.readEvents(session.id, { after: 0, limit: 100 });
      const failed = log.filter(({ type }) => type === 'delivery.failed');
      if (row.isMessage !== true) {
        expect(failed).toEqual([]);
        return;
      }
      const { messageId } = body['details'] as { messageId: string };
      expect(failed).toMatchObject([{ messageId, reason: 'capability_missing' }]);
      expect(await messages.deliveriesOf(messageId)).toMatchObject([
        { sessionId: session.id, status: 'failed' },
      ]);
    },
  );

  const controls = table.filter(({ waits }) => waits !== true);

  it.each(controls.map((row) => [row.name, row] as const))(
    'is the only reason to refuse %s',
    async (_name, { ask: perform, without }) => {
      const emits = [...all.events.emits, ...undeclared.map(({ type }) => type)];
      const session = await attached(server, {
        capabilities: { ...all, ...(without.events === undefined ? {} : { events: { emits } }) },
      });
      expect((await perform(session)).status).toBeLessThan(300);
    },
  );

  it('does not keep others in the channel from getting the message', async () => {
    const channel = `c-${uuidv7()}`;
    const able = await attached(server, { capabilities: all });
    const unable = await attached(server, {
      capabilities: { ...all, messaging: { receive: true } },
    });
    await ask(`/v1/channels/${channel}`, { method: 'PUT', body: {} });
    for (const { handle } of [able, unable]) {
      await ask(`/v1/channels/${channel}/members/${handle}`, { method: 'PUT' });
    }
    const body = { to: `#${channel}`, text: 'look', attachments: [contents.text] };
    const sent = await ask('/v1/messages', { body });
    expect(sent.status).toBe(201);
    const deliveries = sent.body['deliveries'] as Json[];
    expect(deliveries.find(({ sessionId }) => sessionId === able.id)).toMatchObject({
      status: 'accepted',
    });
    expect(deliveries.find(({ sessionId }) => sessionId === unable.id)).toMatchObject({
      status: 'failed',
      error: { code: 'capability_missing', details: { path: 'messaging.attachments' } },
    });
  });
});

describe('the minimum of capabilities', () => {
  it('is accepted, and such a session receives messages', async () => {
    verifies('004:shape:minimum');
    const session = await attached(server, {
      capabilities: {
        messaging: { receive: true },
        delivery: { modes: ['immediate'] },
        events: { emits: ['status.changed'] },
        actions: undefined,
        lifecycle: { release: false },
      },
    });
    const key = session.token;
    const stream = await server.request(`${session.path}/deliveries/stream`, { key });
    const reader = new FrameReader(stream);
    expect((await send(session, {})).status).toBe(201);
    expect((await reader.next())?.data).toMatchObject({ type: 'delivery', mode: 'immediate' });
    await reader.disconnect();
  });
});

describe('fork and snapshot of a program', () => {
  const answerNext = async (session: AttachedSession, reader: FrameReader, answer: Json) => {
    const frame = (await reader.until('command')).data;
    const path = `${session.path}/commands/${String(frame['commandId'])}`;
    await ask(path, { body: answer, key: session.token });
    return frame;
  };

  async function serving() {
    const session = await attached(server, { capabilities: all });
    const { path, token: key } = session;
    const reader = new FrameReader(await server.request(`${path}/deliveries/stream`, { key }));
    return { session, reader };
  }

  it('are carried out by the program, and its answer is the snapshot', async () => {
    const { session, reader } = await serving();
    const asked = command('snapshot')(session);
    const frame = await answerNext(session, reader, { ok: true, result: { page: 7 } });
    expect(frame).toMatchObject({ command: 'snapshot', args: {} });
    const { status, body } = await asked;
    expect(status).toBe(201);
    expect(Object.keys(body).toSorted()).toEqual(['id', 'seq', 'sessionId']);
    const { sessions } = store.tenant(server.tenantId);
    expect(await sessions.readSnapshot(String(body['id']))).toMatchObject({
      sessionId: session.id,
      content: { harness: 'remote', result: { page: 7 } },
    });
    // It is nothing that a native session could continue from.
    const create = { harness: 'native', handle: 'x', model: 'demo', fromSnapshot: body['id'] };
    expect(await ask('/v1/sessions', { body: create })).toMatchObject({
      status: 400,
      body: { code: 'invalid_request' },
    });
    await reader.disconnect();
  });

  it('give a session that is starting until a program attaches under its handle', async () => {
    const { session, reader } = await serving();
    const handle = `f-${uuidv7()}`;
    const asked = command('fork', { handle })(session);
    const frame = await answerNext(session, reader, { ok: true });
    expect(frame).toMatchObject({ command: 'fork', args: { handle } });
    const { status, body } = await asked;
    expect({ status, body }).toMatchObject({
      status: 201,
      body: { status: 'starting', parentSessionId: session.id, identity: { handle } },
    });
    const identity = { name: 'Copy', kind: 'program' };
    const attach = await ask('/v1/sessions/attach', {
      body: { handle, identity, capabilities: all },
    });
    expect(attach).toMatchObject({
      status: 201,
      body: { session: { id: body['id'], status: 'idle', parentSessionId: session.id } },
    });
    await reader.disconnect();
  });

  it('belong to who forks, until the program of the parent attaches with its own key', async () => {
    const { session, reader } = await serving();
    const [forker, stranger] = await Promise.all(
      ['grace', 'eve'].map((owner) => addKey(store, { owner, scopes: ['runs', 'read'] })),
    );
    const handle = `f-${uuidv7()}`;
    const asked = ask(`${session.path}/fork`, { body: { handle }, key: forker?.apiKey ?? '' });
    await answerNext(session, reader, { ok: true });
    expect(await asked).toMatchObject({ status: 201, body: { owner: 'grace' } });
    const body = { handle, identity: { name: 'Copy', kind: 'program' }, capabilities: all };
    const attach = (key: string) => ask('/v1/sessions/attach', { body, key });
    expect(await attach(stranger?.apiKey ?? '')).toMatchObject({
      status: 409,
      body: { code: 'handle_taken' },
    });
    expect(await attach(server.apiKey)).toMatchObject({
      status: 201,
      body: { session: { parentSessionId: session.id } },
    });
    expect((await attach(forker?.apiKey ?? '')).status).toBe(409);
    await reader.disconnect();
  });

  it('are refused if the handle was taken while the program carried them out', async () => {
    const { session, reader } = await serving();
    const handle = `f-${uuidv7()}`;
    const asked = command('fork', { handle })(session);
    const frame = (await reader.until('command')).data;
    const other = await attached(server, { handle });
    const path = `${session.path}/commands/${String(frame['commandId'])}`;
    for (let n = 0; n < 2; n += 1) {
      expect((await ask(path, { body: { ok: true }, key: session.token })).status).toBe(200);
    }
    expect(await asked).toMatchObject({ status: 409, body: { code: 'handle_taken' } });
    const { sessions } = store.tenant(server.tenantId);
    expect(await sessions.readByHandle(handle)).toMatchObject({ id: other.id });
    await reader.disconnect();
  });

  it('fail with what the program says', async () => {
    const { session, reader } = await serving();
    const asked = command('snapshot')(session);
    await answerNext(session, reader, { ok: false, error: 'disk full' });
    expect(await asked).toMatchObject({ status: 502, body: { code: 'command_failed' } });
    const taken = await command('fork', { handle: session.handle })(session);
    expect(taken).toMatchObject({ status: 409, body: { code: 'handle_taken' } });
    await report(session, { type: 'status.changed', status: 'active' });
    const { body } = await ask(session.path);
    const inside = await command('fork', { handle: 'y', seq: body['lastSeq'] })(session);
    expect(inside).toMatchObject({ status: 409, body: { code: 'not_a_boundary' } });
    await reader.disconnect();
  });
});
