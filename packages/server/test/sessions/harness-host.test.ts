/** Sessions whose harness runs in the process of the server, on both databases. */
import type {
  HarnessContext,
  HarnessInput,
  HarnessMessage,
  HarnessSession,
  Receipt,
  SystemStore,
} from '@relay/core';
import { defineHarness } from '@relay/harnesses';
import type { AgentSessionCapabilities, AgentSessionEvent } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifies } from '../../../../test/conformance/verifies.ts';
import { AgentProcesses } from '../../src/sessions/agent-processes.ts';
import { HarnessHost, nodeNameOf } from '../../src/sessions/harness-host.ts';
import type { HostOptions } from '../../src/sessions/hosted-session.ts';
import { maxQueuedEvents } from '../../src/sessions/event-pump.ts';
import { addKey, bootServer, type TestServer, until } from '../support/server.ts';
import { stores } from '../support/stores.ts';

type Json = Record<string, unknown>;
type Answer = Receipt | { readonly status: 'held' };

const capabilities: AgentSessionCapabilities = {
  messaging: { receive: true },
  delivery: { modes: ['on-idle', 'immediate', 'next-message', 'manual'], queue: true },
  events: { emits: ['status.changed', 'log', 'transcript.chunk', 'usage.updated'] },
  lifecycle: { release: true, pause: true, resume: true },
};

/** One session of the scripted harness, as the test sees it. */
class Agent {
  readonly input: HarnessInput;
  readonly context: HarnessContext;
  readonly received: HarnessMessage[] = [];
  readonly called: string[] = [];
  emit: (event: AgentSessionEvent) => Promise<void> = () => Promise.reject(new Error('Too early'));
  isSubscribed = false;
  answer: (message: HarnessMessage) => Answer | Promise<Answer> = () => ({ status: 'consumed' });
  command: (name: string) => Promise<void> = () => Promise.resolve();
  attachedWith: unknown;

  constructor(input: HarnessInput, context: HarnessContext) {
    this.input = input;
    this.context = context;
  }

  session(over: Partial<HarnessSession> = {}): HarnessSession {
    const method = (name: string) => async () => {
      this.called.push(name);
      await this.command(name);
    };
    return {
      identity: { handle: this.input.handle, name: 'Echo', kind: 'agent' },
      capabilities,
      receiveMessage: async (message) => {
        this.received.push(message);
        return this.answer(message);
      },
      onEvent: (listener) => {
        this.emit = listener;
        this.isSubscribed = true;
        return () => {
          this.isSubscribed = false;
        };
      },
      release: method('release'),
      pause: method('pause'),
      resume: method('resume'),
      cancel: method('cancel'),
      ...over,
    };
  }
}

const agents = new Map<string, Agent>();
let make: (agent: Agent) => HarnessSession | Promise<HarnessSession> = (agent) => agent.session();
let attach: (agent: Agent) => HarnessSession | Promise<HarnessSession> = (agent) => agent.session();

async function create(input: HarnessInput, context: HarnessContext): Promise<HarnessSession> {
  const agent = new Agent(input, context);
  agents.set(input.handle, agent);
  return make(agent);
}

const harnesses = [
  defineHarness({
    name: 'echo',
    safeStates: ['idle', 'blocked'],
    create,
    attach: async (session, context) => {
      const agent = new Agent(session, context);
      agent.attachedWith = session.state;
      agents.set(session.handle, agent);
      return attach(agent);
    },
  }),
  defineHarness({ name: 'mortal', create }),
  defineHarness({ name: 'blind', observesConsumption: false, create }),
];

describe.each(Object.entries(stores))('the harness host on %s', (_name, open) => {
  let store: SystemStore;
  let server: TestServer;

  const boot = () => bootServer({ store, file: { harnesses }, env: { RELAY_NODE_ID: 'one' } });

  beforeAll(async () => {
    store = await open();
    server = await boot();
  });

  afterAll(async () => {
    await server.stop();
    await store.close();
  });

  /** For a host beside that of the server. */
  function hosting(node: string): HostOptions {
    const { control, programHub } = server.relay;
    const { engine } = control;
    return {
      engine,
      hub: programHub,
      streams: { addSession: () => () => undefined },
      processes: new AgentProcesses({
        store,
        config: server.config,
        vault: { read: async () => undefined, secretOf: () => '' },
        workspaces: { folderOf: () => undefined, hiddenFrom: () => [] },
        defaultTenantId: server.tenantId,
        sandbox: undefined,
        log: { ...engine.log, addSecret: () => undefined },
      }),
      node,
    };
  }

  const ask: TestServer['ask'] = (path, options) => server.ask(path, options);

  function post(handle: string, harness = 'echo', more: Json = {}) {
    return ask('/v1/sessions', { body: { harness, handle, ...more } });
  }

  async function created(harness = 'echo', more: Json = {}) {
    const handle = `h-${uuidv7()}`;
    const { status, body } = await post(handle, harness, more);
    expect([status, body]).toEqual([201, expect.anything()]);
    const id = String(body['id']);
    return { id, handle, path: `/v1/sessions/${id}`, agent: () => agentOf(handle) };
  }

  function agentOf(handle: string): Agent {
    const agent = agents.get(handle);
    if (agent === undefined) throw new Error(`There is no agent ${handle}`);
    return agent;
  }

  async function send(handle: string, text = 'hello', mode?: string) {
    const { status, body } = await ask('/v1/messages', {
      body: { to: `@${handle}`, text, ...(mode === undefined ? {} : { mode }) },
    });
    expect([status, body]).toEqual([201, expect.anything()]);
    const [delivery] = body['deliveries'] as { id: string }[];
    return { id: String(body['id']), deliveryId: delivery?.id ?? '' };
  }

  const tenant = () => store.tenant(server.tenantId);

  function deliveryIs(id: string, status: string) {
    return until(async () => {
      const delivery = await tenant().messages.readDelivery(id);
      return delivery?.status === status && delivery;
    }, `the delivery to be ${status}`);
  }

  function sessionIs(id: string, status: string) {
    return until(async () => {
      const session = await tenant().sessions.read(id);
      return session?.status === status && session;
    }, `the session to be ${status}`);
  }

  const eventsOf = (id: string) => tenant().sessions.readEvents(id, { after: 0, limit: 10_000 });

  it('creates a session by its harness, which says what the session can do', async () => {
    verifies(
      '004:capabilities:on-session',
      '004:capabilities:told-on-create',
      '004:capabilities:differ-per-session',
    );
    const handle = `h-${uuidv7()}`;
    const own = { ...capabilities, delivery: { modes: ['immediate' as const] } };
    make = (agent) => agent.session({ capabilities: own });
    const more = { labels: { team: 'a' }, agent: 'coder', model: 'large' };
    const { status, body } = await post(handle, 'echo', more);
    make = (agent) => agent.session();
    expect(status).toBe(201);
    expect(body).toMatchObject({
      identity: { handle, name: 'Echo', kind: 'agent' },
      harness: 'echo',
      status: 'idle',
      capabilities: own,
      ...more,
    });
    const { id: sessionId } = body as { id: string };
    expect(agentOf(handle).input).toEqual({ sessionId, handle, ...more });
    expect((await eventsOf(sessionId)).map(({ type }) => type)).toEqual([
      'status.changed',
      'session.started',
      'status.changed',
    ]);
    const other = await created();
    expect((await ask(other.path)).body['capabilities']).toEqual(capabilities);
  });

  function openApproval(sessionId: string) {
    return until(async () => {
      const filter = { sessionId, status: 'pending' } as const;
      return (await tenant().listApprovals(filter, { limit: 1 })).items[0];
    }, 'the approval');
  }

  it('asks a person for permission, and passes on what was decided', async () => {
    const { id, agent } = await created();
    const ls = { tool: 'bash', input: { command: 'ls' } };
    const allowed = agent().context.requestPermission(ls);
    const { id: first } = await openApproval(id);
    await ask(`/v1/approvals/${first}`, { body: { approved: true } });
    expect(await allowed).toEqual({ allowed: true, input: ls.input });
    const denied = agent().context.requestPermission(ls);
    const { id: second } = await openApproval(id);
    await ask(`/v1/approvals/${second}`, { body: { approved: false, reason: 'Not today' } });
    expect(await denied).toEqual({ allowed: false, reason: 'Not today', by: 'person' });
  });

  it('closes a request for permission with its signal, and with its session', async () => {
    const { id, path, agent } = await created();
    const request = { tool: 'bash', input: { command: 'ls' } };
    const aborting = new AbortController();
    const aborted = agent().context.requestPermission({ ...request, signal: aborting.signal });
    const { id: first } = await openApproval(id);
    aborting.abort();
    expect(await aborted).toMatchObject({ by: 'closed', reason: 'The request was aborted' });
    expect(await tenant().readApproval(first)).toMatchObject({ status: 'closed' });
    const released = agent().context.requestPermission(request);
    const { id: second } = await openApproval(id);
    expect((await ask(`${path}/release`, { method: 'POST' })).status).toBe(202);
    expect(await released).toMatchObject({ allowed: false });
    expect(await tenant().readApproval(second)).toMatchObject({ status: 'closed' });
  });

  it('lets a session hold a message, and report later what it concludes', async () => {
    const { id, handle, agent } = await created();
    agent().answer = () => ({ status: 'held' });
    const { deliveryId } = await send(handle);
    await until(() => agent().received.length > 0, 'the message');
    expect(await deliveryIs(deliveryId, 'accepted')).toMatchObject({ attempts: 1 });
    const inferred = { fidelity: 'inferred' } as const;
    await agent().context.receipt(deliveryId, { status: 'delivered', ...inferred });
    await agent().context.receipt(deliveryId, { status: 'consumed', ...inferred });
    await deliveryIs(deliveryId, 'consumed');
    const marked = (await eventsOf(id)).filter(({ fidelity }) => fidelity === 'inferred');
    expect(marked.map(({ type }) => type)).toEqual(['delivery.delivered', 'message.received']);
    expect(agent().received).toHaveLength(1);
  });

  it('sends the answer of a turn to whoever addressed the session, and ends exchanges of agents', async () => {
    const own = { ...capabilities, messaging: { receive: true, send: true } as const };
    make = (agent) => agent.session({ capabilities: own });
    const [asking, answering] = [await created(), await created()];
    make = (agent) => agent.session();
    const received = (who: typeof asking, count: number) =>
      until(
        () => who.agent().received.length >= count && who.agent().received.at(-1),
        'the message',
      );
    const { id: fromKey } = await send(answering.handle, 'how are you?');
    await received(answering, 1);
    await answering.agent().context.reply({ text: 'fine', messageIds: [fromKey] });
    const { body } = await ask(`/v1/messages?thread=${fromKey}`);
    expect(body['messages']).toMatchObject([
      { text: 'fine', replyTo: fromKey, from: { id: answering.id } },
      { id: fromKey },
    ]);
    const to = `@${answering.handle}`;
    const { id: asked } = await asking.agent().context.send({ to, text: 'ready?' });
    await received(answering, 2);
    await answering.agent().context.reply({ text: 'yes', messageIds: [asked] });
    const reply = await received(asking, 1);
    expect(reply).toMatchObject({ text: 'yes', replyTo: asked });
    await asking.agent().context.reply({ text: 'thanks', messageIds: [reply.id] });
    await asking.agent().context.reply({ text: ' ', messageIds: [fromKey] });
    const thread = await ask(`/v1/messages?thread=${asked}`);
    expect(thread.body['messages']).toMatchObject([{ text: 'yes' }, { text: 'ready?' }]);
  });

  it('sends messages as the session, if the session declares it', async () => {
    const mute = await created();
    const to = `@${mute.handle}`;
    await expect(mute.agent().context.send({ to, text: 'x' })).rejects.toMatchObject({
      code: 'capability_missing',
    });
    const own = { ...capabilities, messaging: { receive: true, send: true } as const };
    make = (agent) => agent.session({ capabilities: own });
    const talking = await created();
    make = (agent) => agent.session();
    const { id } = await talking.agent().context.send({ to, text: 'hi' });
    const [message] = await until(
      () => mute.agent().received.length > 0 && mute.agent().received,
      'the message',
    );
    expect(message).toMatchObject({
      id,
      text: 'hi',
      from: { type: 'session', id: talking.id, name: talking.handle },
    });
  });

  it('counts what a session reports in the budgets, and starts no turn without one', async () => {
    const put = async (budgets: Json) => {
      const { status } = await ask('/v1/tenant', { method: 'PUT', body: { budgets } });
      expect(status).toBe(200);
    };
    const used = async () => {
      const { day } = (await ask('/v1/tenant')).body['usage'] as { day: Record<string, number> };
      return { tokens: day['inputTokens'] ?? 0, costUsd: day['costUsd'] ?? 0 };
    };
    const before = await used();
    const { id, handle, agent } = await created();
    const report = (tokens: number, costUsd: number) =>
      agent().emit({ type: 'usage.updated', tokens, costUsd });
    await report(60, 0.5);
    await report(100, 0.5);
    await agent().emit({ type: 'usage.updated', costUsd: 0.75 });
    // Another process counts from 0.
    await report(20, 0.25);
    await until(async () => (await used()).tokens >= before.tokens + 120, 'the usage');
    expect(await used()).toEqual({ tokens: before.tokens + 120, costUsd: before.costUsd + 1 });
    expect((await ask(`/v1/sessions/${id}`)).body['usage']).toEqual({ tokens: 20, costUsd: 0.25 });

    await put({ tenant: { tokens: before.tokens + 120 } });
    const first = await send(handle, 'one');
    const reason = 'budget_exceeded';
    expect(await deliveryIs(first.deliveryId, 'deferred')).toMatchObject({ reason, attempts: 0 });
    const second = await send(handle, 'two');
    expect(await deliveryIs(second.deliveryId, 'deferred')).toMatchObject({ reason, attempts: 0 });
    expect(agent().received).toEqual([]);
    const errors = (await eventsOf(id)).filter(({ type }) => type === 'error');
    expect(errors).toMatchObject([{ code: reason }, { code: reason }]);

    await put({ tenant: { tokens: before.tokens + 130 } });
    await deliveryIs(first.deliveryId, 'consumed');
    await deliveryIs(second.deliveryId, 'consumed');
    expect(agent().received.map(({ text }) => text)).toEqual(['one', 'two']);

    await agent().emit({ type: 'status.changed', status: 'active' });
    await sessionIs(id, 'active');
    await put({ tenant: { tokens: before.tokens + 120 } });
    const steering = await send(handle, 'three', 'immediate');
    await deliveryIs(steering.deliveryId, 'consumed');
    await put({});
  });

  it('ends a delivery as delivered where consumption cannot be observed', async () => {
    const { handle, agent } = await created('blind');
    agent().answer = () => ({ status: 'delivered' });
    const { deliveryId } = await send(handle);
    const delivered = await deliveryIs(deliveryId, 'delivered');
    expect(delivered.finalAt).not.toBeNull();
    await agent().context.receipt(deliveryId, { status: 'delivered' });
    await expect(agent().context.receipt(deliveryId, { status: 'consumed' })).rejects.toMatchObject(
      { code: 'receipt_conflict' },
    );
  });

  it('forks a session, and starts one from a snapshot, with what the harness has returned', async () => {
    const own = { ...capabilities, lifecycle: { release: true, fork: true, snapshot: true } };
    const asked: unknown[] = [];
    make = (agent) => {
      const { pause: _, resume: __, ...session } = agent.session({ capabilities: own });
      const fork = async (at: unknown) => {
        asked.push(at);
        return { branch: 1 };
      };
      return { ...session, fork, snapshot: async () => ({ page: 2 }) };
    };
    const { id, path } = await created();
    const forked = `h-${uuidv7()}`;
    const fork = await ask(`${path}/fork`, { body: { handle: forked } });
    expect(fork).toMatchObject({ status: 201, body: { parentSessionId: id, status: 'idle' } });
    expect(agentOf(forked).input.from).toEqual({ branch: 1 });
    expect(asked).toEqual([{}]);
    expect((await eventsOf(id)).at(-1)).toMatchObject({ type: 'session.forked' });
    const snapshot = await ask(`${path}/snapshot`, { method: 'POST' });
    expect(snapshot.status).toBe(201);
    const fromSnapshot = String(snapshot.body['id']);
    const continued = await created('echo', { fromSnapshot });
    make = (agent) => agent.session();
    expect(continued.agent().input.from).toEqual({ page: 2 });
    const wrong = await post(`h-${uuidv7()}`, 'mortal', { fromSnapshot });
    expect(wrong).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
  });

  it('hands a message over, and stores its receipt', async () => {
    const session = await created();
    const { deliveryId, id } = await send(session.handle, 'hello');
    await deliveryIs(deliveryId, 'consumed');
    expect(session.agent().received).toMatchObject([
      { id, deliveryId, text: 'hello', mode: 'on-idle', redelivered: false },
    ]);
    const types = (await eventsOf(session.id)).slice(3).map(({ type }) => type);
    expect(types).toEqual(['delivery.accepted', 'delivery.delivered', 'message.received']);
  });

  it('takes a session with the minimum capabilities, which receives messages', async () => {
    verifies('004:shape:minimum');
    make = (agent) => {
      const { identity, receiveMessage, onEvent } = agent.session();
      const minimum: AgentSessionCapabilities = {
        messaging: { receive: true },
        delivery: { modes: ['immediate'] },
        events: { emits: ['status.changed'] },
        lifecycle: { release: false },
      };
      return { identity, receiveMessage, onEvent, capabilities: minimum };
    };
    const session = await created();
    make = (agent) => agent.session();
    await deliveryIs((await send(session.handle)).deliveryId, 'consumed');
    const { status, body } = await ask(`${session.path}/release`, { method: 'POST' });
    expect([status, body['code']]).toEqual([409, 'capability_missing']);
  });

  it('stores receipts that come later', async () => {
    const session = await created();
    const agent = session.agent();
    agent.answer = () => ({ status: 'delivered' });
    const { deliveryId } = await send(session.handle);
    await deliveryIs(deliveryId, 'delivered');
    await agent.context.receipt(deliveryId, { status: 'consumed' });
    await deliveryIs(deliveryId, 'consumed');
    const late = agent.context.receipt(deliveryId, { status: 'failed', reason: 'too late' });
    await expect(late).rejects.toMatchObject({ code: 'receipt_conflict' });
    const other = await created();
    const foreign = other.agent().context.receipt(deliveryId, { status: 'consumed' });
    await expect(foreign).rejects.toMatchObject({ code: 'not_found' });
  });

  it('hands messages over in order and one at a time, and waits for a safe state', async () => {
    verifies('004:status:on-idle-safe-states', '004:delivery:on-idle-boundary');
    const session = await created();
    const agent = session.agent();
    let most = 0;
    let now = 0;
    agent.answer = async () => {
      most = Math.max(most, (now += 1));
      await agent.emit({ type: 'log', level: 'info', message: 'working' });
      now -= 1;
      return { status: 'consumed' };
    };
    const texts = Array.from({ length: 12 }, (_, n) => `m${n}`);
    const sent = [];
    for (const text of texts) sent.push(await send(session.handle, text));
    for (const { deliveryId } of sent) await deliveryIs(deliveryId, 'consumed');
    expect(agent.received.map(({ text }) => text)).toEqual(texts);
    expect(most).toBe(1);

    await agent.emit({ type: 'status.changed', status: 'active' });
    await sessionIs(session.id, 'active');
    const waits = await send(session.handle, 'waits');
    const enters = await send(session.handle, 'enters', 'next-message');
    await deliveryIs(enters.deliveryId, 'consumed');
    expect((await tenant().messages.readDelivery(waits.deliveryId))?.status).toBe('accepted');
    // Of the safe states of this harness.
    await agent.emit({ type: 'status.changed', status: 'blocked' });
    await deliveryIs(waits.deliveryId, 'consumed');
    expect(agent.received.slice(12).map(({ text }) => text)).toEqual(['enters', 'waits']);
  });

  it('makes the status current before it hands over the next message', async () => {
    const session = await created();
    const agent = session.agent();
    agent.answer = () => {
      void agent.emit({ type: 'status.changed', status: 'active' });
      return { status: 'consumed' };
    };
    await ask(`${session.path}/pause`, { method: 'POST' });
    await sessionIs(session.id, 'paused');
    const first = await send(session.handle, 'first');
    const second = await send(session.handle, 'second');
    await ask(`${session.path}/resume`, { method: 'POST' });
    await deliveryIs(first.deliveryId, 'consumed');
    await sessionIs(session.id, 'active');
    expect(agent.received.map(({ text }) => text)).toEqual(['first']);
    await agent.emit({ type: 'status.changed', status: 'idle' });
    await deliveryIs(second.deliveryId, 'consumed');
  });

  it('hands a deferred message over again at its time', async () => {
    const session = await created();
    const agent = session.agent();
    agent.answer = ({ redelivered }) =>
      redelivered
        ? { status: 'consumed' }
        : { status: 'deferred', availableAt: new Date(Date.now() + 50), reason: 'busy' };
    await deliveryIs((await send(session.handle)).deliveryId, 'consumed');
    expect(agent.received).toHaveLength(2);
  });

  it('fails the delivery if the harness throws or returns no receipt', async () => {
    const session = await created();
    const agent = session.agent();
    agent.answer = () => {
      throw new Error('No space left');
    };
    const thrown = await deliveryIs((await send(session.handle)).deliveryId, 'failed');
    expect(thrown).toMatchObject({ reason: 'The harness failed: No space left', retryable: true });
    agent.answer = () => ({ status: 'done' }) as unknown as Receipt;
    const invalid = await deliveryIs((await send(session.handle)).deliveryId, 'failed');
    expect(invalid.reason).toMatch(/^The harness failed: receipt\.status: /);
    agent.answer = () => undefined as unknown as Receipt;
    const none = await deliveryIs((await send(session.handle)).deliveryId, 'failed');
    expect(none.reason).toMatch(/^The harness failed: receipt/);
    agent.answer = () => ({ status: 'consumed' });
    await deliveryIs((await send(session.handle)).deliveryId, 'consumed');
  });

  it('fails the delivery if the harness hangs, and continues with the next one', async () => {
    const host = new HarnessHost({ ...hosting('two'), timeoutMs: 30 }, harnesses);
    const handle = `h-${uuidv7()}`;
    const { tenantId } = server;
    const by = { type: 'key', id: uuidv7(), name: 'Ada' } as const;
    const body = { harness: 'echo', handle };
    const create = new Map(host.harnesses).get('echo')?.create;
    await create?.({ tenantId, by, body });
    const agent = agentOf(handle);
    agent.answer = () => new Promise<Receipt>(() => undefined);
    const hung = await deliveryIs((await send(handle)).deliveryId, 'failed');
    expect(hung.reason).toBe('The harness failed: It did not answer within 30 ms');
    agent.answer = () => ({ status: 'consumed' });
    await deliveryIs((await send(handle)).deliveryId, 'consumed');
    make = () => new Promise<HarnessSession>(() => undefined);
    const hangs = { harness: 'echo', handle: `h-${uuidv7()}` };
    const creation = create?.({ tenantId, by, body: hangs });
    await expect(creation).rejects.toMatchObject({ code: 'harness_failed' });
    make = (agent) => agent.session();
    expect(host.size).toBe(1);
    await host.stop();
    expect(host.size).toBe(0);
  });

  it('stores what the session emits, in order, and refuses what it does not declare', async () => {
    verifies('004:events:explicit', '004:events:normalized');
    const session = await created();
    const agent = session.agent();
    const chunk = {
      id: 'c1',
      at: new Date(0),
      role: 'agent',
      content: 'Hi',
      sequence: 1,
    } as const;
    void agent.emit({ type: 'status.changed', status: 'active' });
    void agent.emit({ type: 'transcript.chunk', chunk });
    void agent.emit({ type: 'file.changed', path: '/a', operation: 'update' });
    void agent.emit({ type: 'usage.updated', tokens: 7 });
    void agent.emit({ type: 'status.changed', status: 'starting' });
    void agent.emit({ type: 'made.up' } as unknown as AgentSessionEvent);
    await agent.emit({ type: 'log', level: 'info', message: 'done' });
    const events = (await eventsOf(session.id)).slice(3);
    expect(events).toMatchObject([
      { type: 'status.changed', status: 'active', previousStatus: 'idle' },
      { type: 'transcript.chunk', chunk: { ...chunk, at: '1970-01-01T00:00:00.000Z' } },
      { type: 'error', code: 'event_undeclared' },
      { type: 'usage.updated', tokens: 7 },
      { type: 'error', code: 'invalid_request' },
      { type: 'log', message: 'done' },
    ]);
    expect((await ask(session.path)).body['usage']).toEqual({ tokens: 7 });
  });

  it('keeps keys out of what the session emits, fails with and saves', async () => {
    const session = await created();
    const agent = session.agent();
    const key = server.config.masterKey ?? '';
    expect(key).not.toBe('');
    agent.answer = () => {
      throw new Error(`Denied: ${key}`);
    };
    await agent.emit({ type: 'log', level: 'info', message: `key ${key}` });
    await agent.context.saveState({ key });
    await deliveryIs((await send(session.handle)).deliveryId, 'failed');
    const record = await tenant().sessions.read(session.id);
    const stored = JSON.stringify([await eventsOf(session.id), record]);
    expect(stored).toContain('Denied: ');
    expect(stored).not.toContain(key);
  });

  it('drops what a session emits too fast, and says so', async () => {
    const session = await created();
    const agent = session.agent();
    const flood = maxQueuedEvents * 2;
    const all = Array.from({ length: flood }, (_, n) =>
      agent.emit({ type: 'log', level: 'info', message: `m${n}` }),
    );
    await Promise.all(all);
    const dropped = await until(async () => {
      const events = await eventsOf(session.id);
      return events.find((event) => event.type === 'error' && event.code === 'events_dropped');
    }, 'the error');
    const logs = (await eventsOf(session.id)).filter(({ type }) => type === 'log');
    expect(logs).toHaveLength(maxQueuedEvents);
    expect(dropped).toMatchObject({
      error: expect.stringMatching(`^${flood - logs.length} events`),
    });
    for (let n = 0; n < 20; n += 1) {
      await agent.emit({ type: 'log', level: 'info', message: 'slow' });
    }
    expect((await eventsOf(session.id)).filter(({ type }) => type === 'error')).toHaveLength(1);
  });

  it('calls the methods for the commands, and releases the session', async () => {
    verifies('004:lifecycle:release');
    const session = await created();
    const agent = session.agent();
    for (const [name, status] of [
      ['pause', 'paused'],
      ['resume', 'idle'],
    ] as const) {
      expect((await ask(`${session.path}/${name}`, { method: 'POST' })).status).toBe(202);
      await sessionIs(session.id, status);
    }
    await agent.emit({ type: 'status.changed', status: 'active' });
    await ask(`${session.path}/cancel`, { method: 'POST' });
    await sessionIs(session.id, 'idle');
    const waiting = await send(session.handle, 'later', 'manual');
    expect((await ask(`${session.path}/release`, { method: 'POST' })).status).toBe(202);
    await sessionIs(session.id, 'released');
    expect(agent.called).toEqual(['pause', 'resume', 'cancel', 'release']);
    await until(() => agent.context.signal.aborted && !agent.isSubscribed, 'the end');
    expect((await deliveryIs(waiting.deliveryId, 'failed')).reason).toBe('released');
    await agent.emit({ type: 'log', level: 'info', message: 'after the end' });
    expect((await eventsOf(session.id)).at(-1)?.type).toBe('session.released');
  });

  it('reports a command that the harness fails', async () => {
    const session = await created();
    session.agent().command = () => Promise.reject(new Error('Not now'));
    await ask(`${session.path}/pause`, { method: 'POST' });
    const error = await until(
      async () => (await eventsOf(session.id)).find(({ type }) => type === 'error'),
      'the error',
    );
    expect(error).toMatchObject({
      error: 'The command pause failed: Not now',
      code: 'command_failed',
    });
    expect((await ask(session.path)).body['status']).toBe('idle');
  });

  it('refuses a session that is not as it declares, with the path, and disposes of it', async () => {
    const handle = `h-${uuidv7()}`;
    make = (agent) => agent.session({ snapshot: () => Promise.resolve({}) });
    const { status, body } = await post(handle);
    expect([status, body['code']]).toEqual([409, 'capability_missing']);
    expect(body['details']).toEqual({ path: 'lifecycle.snapshot', asked: false, offered: true });
    expect(agentOf(handle).called).toEqual(['release']);
    expect(agentOf(handle).context.signal.aborted).toBe(true);
    make = () => Promise.reject(new Error('No licence'));
    const failed = await post(handle);
    expect(failed.status).toBe(502);
    expect(failed.body).toMatchObject({
      code: 'harness_failed',
      error: 'The harness echo failed: No licence',
    });
    make = (agent) => agent.session();
    expect(await tenant().sessions.readByHandle(handle)).toBeUndefined();
  });

  it('refuses a handle in use without asking the harness, and fields that it takes not', async () => {
    const { handle } = await created();
    const agent = agentOf(handle);
    expect((await post(handle)).body['code']).toBe('handle_taken');
    expect(agentOf(handle)).toBe(agent);
    const { status, body } = await post(`h-${uuidv7()}`, 'echo', { workspace: 'a' });
    expect([status, body['code']]).toEqual([400, 'invalid_request']);
    const unknown = await post(`h-${uuidv7()}`, 'other');
    expect(unknown.body['error']).toContain('echo');
  });

  it('lets no client stream or report in its place, nor another tenant see it', async () => {
    const session = await created();
    const { deliveryId } = await send(session.handle, 'hello', 'manual');
    const event = { type: 'log', level: 'info', message: 'forged' };
    for (const [path, body] of [
      ['deliveries/stream', undefined],
      ['events', event],
      [`deliveries/${deliveryId}/receipt`, { status: 'consumed' }],
    ] as const) {
      const { status, body: answer } = await ask(`${session.path}/${path}`, { body });
      expect([path, status, answer['code']]).toEqual([path, 409, 'session_conflict']);
    }
    const { apiKey: key } = await addKey(store, { tenant: `t-${uuidv7()}` });
    expect((await ask(session.path, { key })).status).toBe(404);
    expect((await ask(`${session.path}/release`, { method: 'POST', key })).status).toBe(404);
  });

  it('ends what it does for a session that is dropped or has failed', async () => {
    const [dropped, failed] = [await created(), await created()];
    await ask(dropped.path, { method: 'DELETE' });
    await until(() => dropped.agent().context.signal.aborted, 'the end of the dropped one');
    await failed.agent().emit({ type: 'status.changed', status: 'failed', reason: 'crashed' });
    await until(() => failed.agent().context.signal.aborted, 'the end of the failed one');
    await ask(`${failed.path}/release`, { method: 'POST' });
    await sessionIs(failed.id, 'released');
  });

  it('attaches to its sessions after a restart, with what they saved', async () => {
    verifies('004:capabilities:told-on-attach', '004:status:offline');
    const session = await created('echo', { labels: { team: 'a' } });
    const [mortal, broken, busy] = [await created('mortal'), await created(), await created()];
    const before = session.agent();
    await before.context.saveState({ thread: 7 });
    before.answer = () => ({ status: 'delivered' });
    const handed = await send(session.handle, 'handed over');
    await deliveryIs(handed.deliveryId, 'delivered');
    await ask(`${busy.path}/pause`, { method: 'POST' });
    await sessionIs(busy.id, 'paused');
    attach = (agent) => {
      if (agent.input.handle === broken.handle) throw new Error('Gone');
      const own = { ...capabilities, actions: { invoke: true } };
      return agent.session({ capabilities: own });
    };
    await server.stop();
    expect(before.context.signal.aborted).toBe(true);
    server = await boot();
    const again = await until(() => {
      const agent = session.agent();
      return agent !== before && agent.isSubscribed && agent;
    }, 'the session to be attached');
    expect(again.input).toMatchObject({ sessionId: session.id, labels: { team: 'a' } });
    expect(again.attachedWith).toEqual({ thread: 7 });
    await deliveryIs(handed.deliveryId, 'consumed');
    expect(again.received).toMatchObject([{ text: 'handed over', redelivered: true }]);
    expect((await ask(session.path)).body).toMatchObject({
      status: 'idle',
      capabilities: { actions: { invoke: true } },
    });
    await sessionIs(mortal.id, 'offline');
    await sessionIs(broken.id, 'offline');
    await sessionIs(busy.id, 'paused');
    const errors = (await eventsOf(broken.id)).filter(({ type }) => type === 'error');
    expect(errors).toMatchObject([
      { error: 'The harness echo failed: Gone', code: 'harness_failed' },
    ]);
    // It tries again.
    attach = (agent) => agent.session();
    await sessionIs(broken.id, 'idle');
    await ask(`${mortal.path}/release`, { method: 'POST' });
    await sessionIs(mortal.id, 'released');
  });

  it('releases a session whose harness the server no longer has', async () => {
    const session = await created();
    await server.stop();
    server = await bootServer({ store, env: { RELAY_NODE_ID: 'one' } });
    const record = await tenant().sessions.read(session.id);
    // As if its stream had been closed long ago.
    const at = Date.now() - 60_000;
    await tenant().sessions.change({
      changes: [
        {
          sessionId: session.id,
          at,
          ifVersion: record?.version ?? 0,
          events: [],
          isSeen: true,
          progress: { dueAt: at },
        },
      ],
    });
    await sessionIs(session.id, 'offline');
    expect((await ask(`${session.path}/release`, { method: 'POST' })).status).toBe(202);
    await sessionIs(session.id, 'released');
    await server.stop();
    server = await boot();
  });

  it('leaves the sessions of another node alone', async () => {
    const session = await created();
    const agent = session.agent();
    const host = new HarnessHost(hosting('three'), harnesses);
    await host.start();
    expect(host.size).toBe(0);
    // A second node with the same name waits for the first.
    const twin = new HarnessHost(hosting('one'), harnesses);
    await twin.start();
    await deliveryIs((await send(session.handle)).deliveryId, 'consumed');
    expect(agentOf(session.handle)).toBe(agent);
    await Promise.all([host.stop(), twin.stop()]);
  });
});

it('the name of a node is kept in its data folder, unless it is given', async () => {
  const server = await bootServer();
  const { dataDir } = server.config;
  const name = nodeNameOf({ nodeId: undefined, dataDir });
  expect(name).toMatch(/^[0-9a-f-]{36}$/);
  expect(nodeNameOf({ nodeId: undefined, dataDir })).toBe(name);
  expect(nodeNameOf({ nodeId: 'mine', dataDir })).toBe('mine');
  await server.stop();
});
