/**
 * Every route has an SDK method, or is listed here with the reason why not. Each method is called
 * against a real server, whose responses must match the route table.
 */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Route, type RouteName, routes } from '@relay/protocol';
import {
  type AgentSessionCapabilities,
  createClient,
  type Fetch,
  type Invocation,
  type RelayClient,
  type Session,
  defineTool,
} from '@relay/sdk';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TestServer } from '../support/server.ts';
import { builtin } from './environment.ts';

/** Routes without an SDK method, and why. */
const excluded = {
  welcome: 'for people who open the base URL',
  openApi: 'read by generators of other clients',
  docs: 'a page for people',
  metrics: 'for Prometheus, and not JSON',
  approveTool: 'approvals.decide does the same by approval id',
  resumeChat: 'runs.stream does the same',
  awaitToolResult: 'between nodes, with the internal secret',
  showDecisionLink: 'a page for people with the link',
  decideByLink: 'the form of that page',
  serveMcp: 'for MCP clients',
} as const satisfies Partial<Record<RouteName, string>>;

type Covered = Exclude<RouteName, keyof typeof excluded>;

const server = new TestServer({ RELAY_PRIVATE_NETWORKS: '127.0.0.0/8' });
const sent: RouteName[] = [];
let client: RelayClient;
let hook: Server;
let hookUrl: string;

const table = Object.entries(routes) as [RouteName, Route][];

function routeOf(method: string, path: string): [RouteName, Route] {
  const fits = (pattern: string) =>
    new RegExp(`^${pattern.replaceAll(/:\w+/g, '[^/]+')}$`).test(path);
  const found = table
    .filter(([, route]) => route.method === method && fits(route.path))
    // A path without parameters takes precedence.
    .toSorted(([, a], [, b]) => a.path.split(':').length - b.path.split(':').length);
  if (found[0] === undefined) throw new Error(`No route is ${method} ${path}`);
  return found[0];
}

/** Records each request, and checks its response against the route table. */
const checkedFetch: Fetch = async (url, init) => {
  const [name, route] = routeOf(init.method ?? 'GET', new URL(url).pathname);
  sent.push(name);
  const response = await fetch(url, init);
  if (route.output !== undefined && response.ok) {
    const answer: unknown = await response.clone().json();
    expect(route.output.safeParse(answer).error, name).toBeUndefined();
  }
  const status = route.status ?? (route.responseType === 'none' ? 204 : 200);
  if (response.ok) expect(response.status, name).toBe(status);
  return response;
};

beforeAll(async () => {
  await server.start();
  client = createClient({ baseUrl: server.url, apiKey: server.apiKey, fetch: checkedFetch });
  hook = createServer((_, answer) => void answer.end());
  await new Promise<void>((resolve) => hook.listen(0, '127.0.0.1', resolve));
  hookUrl = `http://127.0.0.1:${(hook.address() as AddressInfo).port}/hook`;
});
afterAll(async () => {
  hook.closeAllConnections();
  hook.close();
  await server.dispose();
});

async function ended(input = 'say 2', more: { workflowId?: string } = {}): Promise<string> {
  const run = await client.runs.create({ model: 'demo', input, ...more });
  await run.result();
  return run.id;
}

/** A run that waits for a person, and what it waits for. */
async function asking(): Promise<{ runId: string; id: string }> {
  const input = 'notify somebody';
  const run = await client.runs.create({ model: 'demo', input, tools: [builtin('send_note')] });
  for await (const event of run)
    if (event.type === 'approval_requested') return { runId: run.id, id: event.id };
  throw new Error('No approval was requested');
}

async function lookUp(): Promise<void> {
  const schema = { type: 'object' };
  const mine = defineTool({ name: 'mine', schema, execute: () => 'found' });
  const run = await client.runs.create({ model: 'demo', input: 'use mine {}', tools: [mine] });
  expect(await run.text()).toContain('found');
}

const capabilities: AgentSessionCapabilities = {
  messaging: { receive: true, send: true },
  delivery: { modes: ['on-idle', 'manual'], queue: true },
  events: { emits: ['status.changed'] },
  lifecycle: { release: true, pause: true, resume: true },
};
const identity = { name: 'Builder', kind: 'program' as const };

let handles = 0;
const newHandle = () => `session-${(handles += 1)}`;

const agent = () => ({ harness: 'native', handle: newHandle(), model: 'demo' });

async function attached(): Promise<Session> {
  const body = { handle: newHandle(), identity, capabilities };
  return (await client.sessions.attach(body)).session;
}

/** A program that has handled a message, and was released. */
async function served(): Promise<void> {
  const session = await client.sessions.serve({
    handle: newHandle(),
    onMessage: () => undefined,
    onRelease: () => undefined,
  });
  const { id } = await client.messages.send({ to: `@${session.handle}`, text: 'Hi' });
  await client.messages.deliveries(id, { wait: 'consumed' });
  await client.sessions.release(session.id);
  expect(await session.closed).toEqual({ reason: 'released' });
}

/** An action of this test's server, which a program or a URL carries out. */
async function registered(): Promise<string> {
  const name = `action_${(handles += 1)}`;
  const description = 'Adds nothing';
  const inputSchema = { type: 'object' };
  const handler = { url: hookUrl };
  const made = await client.actions.register({ name, description, inputSchema, handler });
  expect(made.secret).not.toBe('');
  return name;
}

async function invoked(): Promise<Invocation> {
  const session = await client.sessions.serve({
    handle: newHandle(),
    onMessage: () => undefined,
    actions: {
      [`add_${handles}`]: {
        description: 'Adds two numbers',
        inputSchema: { type: 'object' },
        run: ({ a, b }: { a: number; b: number }) => a + b,
      },
    },
  });
  const invocation = await client.actions.invoke(`add_${handles}`, { a: 1, b: 2 });
  expect(invocation).toMatchObject({ status: 'completed', output: 3 });
  await session.close();
  return invocation;
}

/** A message that waits for a flush, and its recipient. */
async function held() {
  const session = await attached();
  const to = `@${session.identity.handle}`;
  return { session, message: await client.messages.send({ to, text: 'Hi', mode: 'manual' }) };
}

const rule = { tool: 'send_note', params: { to: 'nobody*' } };
const greeting = [{ role: 'user' as const, content: 'say 2' }];
const notification = [{ role: 'user' as const, content: 'notify me' }];

const calls: Record<Covered, () => Promise<unknown>> = {
  createSession: async () => {
    const { identity, harness } = await client.sessions.create({ harness: 'human', handle: 'ada' });
    expect([identity.handle, harness]).toEqual(['ada', 'human']);
  },
  attachSession: async () => expect((await attached()).harness).toBe('remote'),
  listSessions: async () => {
    const { id } = await attached();
    expect((await client.sessions.list({ harness: 'remote' }).page()).items[0]?.id).toBe(id);
  },
  getSession: async () => {
    const { id } = await attached();
    expect((await client.sessions.get(id)).capabilities).toEqual(capabilities);
  },
  listSessionEvents: async () => {
    const { id, lastSeq } = await attached();
    const seqs: number[] = [];
    for await (const { seq } of client.sessions.events(id, { limit: 1 })) seqs.push(seq);
    expect(seqs).toEqual(Array.from({ length: lastSeq }, (_, index) => index + 1));
  },
  followSession: async () => {
    const { session, message } = await held();
    const event = await client.sessions.stream(session).waitFor({ type: 'delivery.accepted' });
    expect(event.messageId).toBe(message.id);
  },
  updateSession: async () => {
    const { id } = await attached();
    const labels = { team: 'a' };
    expect((await client.sessions.update(id, { labels })).labels).toEqual(labels);
  },
  deleteSession: async () => {
    const { id } = await attached();
    await client.sessions.drop(id);
    await expect(client.sessions.get(id)).rejects.toMatchObject({ code: 'not_found' });
  },
  releaseSession: async () =>
    expect((await client.sessions.release((await attached()).id)).status).toBe('releasing'),
  pauseSession: async () => client.sessions.pause((await attached()).id),
  resumeSession: async () => client.sessions.resume((await attached()).id),
  cancelSession: async () => client.sessions.cancel((await attached()).id),
  snapshotSession: async () => {
    const { id } = await client.sessions.create(agent());
    expect(await client.sessions.snapshot(id)).toMatchObject({ sessionId: id });
  },
  forkSession: async () => {
    const { id } = await client.sessions.create(agent());
    const forked = await client.sessions.fork(id, { handle: newHandle() });
    expect(forked.parentSessionId).toBe(id);
  },
  flushSession: async () => client.sessions.flush((await held()).session.id),
  inputSession: async () => {
    const input = client.sessions.input((await held()).session.id, { text: 'ls' });
    await expect(input).rejects.toMatchObject({ code: 'capability_missing' });
  },
  registerAction: registered,
  listActions: async () => {
    const name = await registered();
    const names: string[] = [];
    for await (const action of client.actions.list({ limit: 1 })) names.push(action.name);
    expect(names).toContain(name);
  },
  removeAction: async () => {
    const name = await registered();
    await client.actions.remove(name);
    await expect(client.actions.invoke(name)).rejects.toMatchObject({ code: 'not_found' });
  },
  invokeAction: invoked,
  getInvocation: async () => {
    const invocation = await invoked();
    expect(await client.invocations.get(invocation.id)).toEqual(invocation);
  },
  postInvocationResult: invoked,
  reportSessionEvents: served,
  followDeliveries: served,
  postReceipt: served,
  answerCommand: served,
  sendMessage: async () =>
    expect((await held()).message.deliveries).toMatchObject([{ status: 'accepted' }]),
  getMessage: async () => {
    const { message } = await held();
    expect(await client.messages.get(message.id)).toEqual(message);
  },
  listMessages: async () => {
    const { session, message } = await held();
    const { items } = await client.messages.list({ with: session.identity.handle }).page();
    expect(items).toEqual([message]);
  },
  editMessage: async () => {
    const { message } = await held();
    expect((await client.messages.edit(message.id, { text: 'Ho' })).text).toBe('Ho');
  },
  withdrawMessage: async () => {
    const { message } = await held();
    await client.messages.withdraw(message.id);
    const [delivery] = await client.messages.deliveries(message.id, { wait: 'consumed' });
    expect(delivery).toMatchObject({ status: 'failed', error: { code: 'withdrawn' } });
  },
  listMessageDeliveries: async () => {
    const { message } = await held();
    const query = { wait: 'delivered', waitMs: 1 } as const;
    expect(await client.messages.deliveries(message.id, query)).toMatchObject([
      { status: 'accepted', mode: 'manual' },
    ]);
  },
  listDeliveries: async () => {
    const { session, message } = await held();
    const { items } = await client.deliveries.list({ sessionId: session.id }).page();
    expect(items.map(({ messageId }) => messageId)).toEqual([message.id]);
  },
  redeliver: async () => {
    const { message } = await held();
    await client.messages.withdraw(message.id);
    const id = message.deliveries[0]?.id ?? '';
    await expect(client.deliveries.redeliver(id)).rejects.toMatchObject({ status: 409 });
  },
  putChannel: async () =>
    expect((await client.channels.put('release', { topic: 'v2' })).topic).toBe('v2'),
  listChannels: async () => {
    await client.channels.put('all');
    const { items } = await client.channels.list().page();
    expect(items.map(({ name }) => name)).toContain('all');
  },
  getChannel: async () => {
    await client.channels.put('one');
    expect(await client.channels.get('one')).toMatchObject({ name: 'one', members: [] });
  },
  putChannelMember: async () => {
    const { identity } = await attached();
    await client.channels.put('team');
    await client.channels.addMember('team', identity.handle);
    expect((await client.channels.get('team')).members).toEqual([identity.handle]);
  },
  deleteChannelMember: async () => {
    const { identity } = await attached();
    await client.channels.put('past');
    await client.channels.addMember('past', identity.handle);
    await client.channels.removeMember('past', identity.handle);
    expect((await client.channels.get('past')).members).toEqual([]);
  },
  health: () => client.health(),
  listModels: () => client.models(),
  listAgents: async () =>
    expect((await client.agents.list().page()).items[0]).toMatchObject({ isDefault: true }),
  listTools: () => client.tools(),
  startChat: async () =>
    expect(await (await client.chat({ model: 'demo', messages: greeting })).text()).not.toBe(''),
  answerChatRelay: async () => {
    const chat = await client.chat({ model: 'demo', messages: notification });
    const types: string[] = [];
    for await (const event of chat) {
      types.push(event.type);
      if (event.type === 'relay') await chat.answer(event.id, { approved: true });
    }
    expect(types).toContain('tool_result');
  },
  startApiChat: async () =>
    (await client.runs.sendMessage({ message: 'say 3', model: 'demo' })).text(),
  startRun: () => ended(),
  listRuns: async () => expect((await client.runs.list({ limit: 1 }).page()).items).toHaveLength(1),
  getRun: async () => client.runs.get(await ended()),
  findIds: async () => {
    const id = await ended();
    const found = await client.findIds({ kind: 'run', match: id.slice(-8) });
    expect(found).toEqual({ ids: [id], more: false });
  },
  listConversations: async () => {
    const { conversationId } = await client.runs.get(await ended('say 3'));
    const [latest] = (await client.conversations.list({ q: 'SAY 3' }).page()).items;
    expect(latest).toMatchObject({ id: conversationId, title: 'say 3', runs: 1 });
  },
  getConversation: async () => {
    const { id, conversationId } = await client.runs.get(await ended());
    expect(await client.conversations.get(conversationId)).toMatchObject({ lastRunId: id });
  },
  listRunEvents: async () => {
    const { run, items } = await client.runs.events(await ended()).page();
    expect(items.at(-1)).toMatchObject({ type: 'run.ended', seq: run.lastSeq });
  },
  followRunEvents: async () => {
    const { id, lastSeq } = await client.runs.get(await ended());
    const seqs: number[] = [];
    for await (const { seq } of client.runs.followEvents(id, { after: 2 })) seqs.push(seq);
    expect(seqs).toEqual(Array.from({ length: lastSeq - 2 }, (_, index) => index + 3));
  },
  followRun: async () => expect(await client.runs.stream(await ended()).text()).toBe('1 2'),
  followFeed: async () => {
    for await (const { kind } of client.feed()) {
      expect(kind).toBe('connected');
      return;
    }
  },
  cancelRun: async () => {
    const { runId } = await asking();
    await client.runs.cancel(runId);
    const status = async () => (await client.runs.get(runId)).status;
    await expect.poll(status, { timeout: 10_000 }).toBe('canceled');
  },
  messageRun: async () => {
    const { runId } = await asking();
    const sent = await client.runs.message(runId, { text: 'And be brief' });
    expect(sent).toMatchObject({ runId, text: 'And be brief', mode: 'next-message' });
    await client.runs.cancel(runId);
  },
  cancelRuns: async () => {
    await client.runs.create({ model: 'demo', input: 'slow 60000', labels: { of: 'cancelRuns' } });
    const { canceled } = await client.runs.cancelAll({ labels: { of: 'cancelRuns' } });
    expect(canceled).toBe(1);
  },
  resumeRun: async () => client.runs.resume((await asking()).runId),
  forkRun: async () => {
    const id = await ended();
    expect((await client.runs.fork(id, { input: 'say 3' })).forkedFrom?.runId).toBe(id);
  },
  getWorkflow: async () => {
    const id = await ended('say 1', { workflowId: 'nightly' });
    const workflow = await client.workflows.get('nightly');
    expect(workflow.runs.map((run) => run.id)).toEqual([id]);
  },
  postToolResult: lookUp,
  claimToolCall: lookUp,
  listApprovals: async () => {
    const { id } = await asking();
    const { items } = await client.approvals.list({ status: 'pending' }).page();
    expect(items.map((each) => each.id)).toContain(id);
  },
  getApproval: async () => client.approvals.get((await asking()).id),
  decideApproval: async () => {
    const { id } = await asking();
    expect(await client.approvals.deny(id, 'no')).toMatchObject({ status: 'denied', reason: 'no' });
  },
  createGrant: () => client.grants.create({ ...rule, scope: 'tenant' }),
  listGrants: async () => {
    const { id } = await client.grants.create({ ...rule, scope: 'tenant' });
    expect((await client.grants.list({ tool: 'send_note' }).page()).items[0]?.id).toBe(id);
  },
  revokeGrant: async () =>
    client.grants.revoke((await client.grants.create({ ...rule, scope: 'tenant' })).id),
  previewGrant: async () => {
    await asking();
    expect((await client.grants.preview({ tool: 'send_note' })).matched).toBeGreaterThan(0);
  },
  explainPermission: async () => {
    const params = { to: 'a', text: 'b' };
    expect((await client.permissions.explain({ tool: 'send_note', params })).decision).toBe('ask');
  },
  createKey: async () =>
    expect((await client.keys.create({ name: 'ci', scopes: ['runs'] })).apiKey).toMatch(/^relay_/),
  listKeys: async () => expect((await client.keys.list().page()).items.length).toBeGreaterThan(0),
  exportAudit: async () => {
    const types: string[] = [];
    for await (const { type } of client.audit.export({ limit: 2 })) types.push(type);
    expect(types).toEqual(['entry', 'entry', 'head']);
  },
  rotateKey: async () => {
    const { id } = await client.keys.create({ name: 'old', role: 'viewer' });
    expect((await client.keys.rotate(id)).apiKey).toMatch(/^relay_/);
  },
  getCurrentKey: async () => expect((await client.keys.current()).scopes).toContain('admin'),
  revokeKey: async () =>
    client.keys.revoke((await client.keys.create({ name: 'old', scopes: ['runs'] })).id),
  putCredential: () => client.credentials.put('openai', { apiKey: 'sk-test' }),
  listCredentials: async () => {
    await client.credentials.put('google', { apiKey: 'sk-test' });
    const { items } = await client.credentials.list().page();
    expect(items.map(({ provider }) => provider)).toContain('google');
  },
  deleteCredential: () => client.credentials.delete('openai'),
  addMemory: () => client.memories.add({ namespace: 'n', text: 'Tea, not coffee' }),
  listMemories: async () => {
    const { id } = await client.memories.add({ namespace: 'tea', text: 'Likes green tea' });
    const { items } = await client.memories.list({ namespace: 'tea', q: 'tea' }).page();
    expect(items.map((each) => each.id)).toEqual([id]);
  },
  deleteMemory: async () =>
    client.memories.delete((await client.memories.add({ namespace: 'n', text: 'No' })).id),
  clearMemories: () => client.memories.clear('n'),
  getStats: async () => {
    await ended();
    const { totals, buckets } = await client.stats.get();
    expect(totals.runs.completed).toBeGreaterThan(0);
    expect(buckets.length).toBeGreaterThanOrEqual(24);
  },
  getTenant: async () => expect((await client.tenant.get()).name).toBe('default'),
  updateTenant: async () => {
    const budgets = { tenant: { period: 'day' as const, tokens: 1_000_000 } };
    expect((await client.tenant.update({ budgets })).budgets).toEqual(budgets);
  },
  listAudit: async () => {
    const { id: keyId } = await client.keys.create({ name: 'audited', scopes: ['runs'] });
    const { items } = await client.audit.list({ action: 'key.created', limit: 1 }).page();
    expect(items[0]?.what).toMatchObject({ keyId });
  },
  auditHead: async () => {
    await ended();
    expect((await client.audit.head()).seq).toBeGreaterThan(0);
  },
  verifyAudit: async () => {
    await ended();
    const head = await client.audit.head();
    await ended();
    expect(await client.audit.verify()).toMatchObject({ ok: true });
    expect(await client.audit.verify(head)).toMatchObject({ ok: true });
    const other = {
      ...head,
      hash: head.hash.replace(/^./, (first) => (first === '0' ? '1' : '0')),
    };
    expect(await client.audit.verify(other)).toMatchObject({ ok: false });
  },
  getPolicy: async () => expect((await client.policy.get({ agent: 'none' })).version).toBe(0),
  putPolicy: async () => {
    const { version } = await client.policy.get();
    const made = await client.policy.put({ version, deny: [rule] });
    expect(made).toMatchObject({ version: version + 1, deny: [rule], allow: [], ask: [] });
    const params = { to: 'nobody at all', text: 'hi' };
    const { decision } = await client.permissions.explain({ tool: 'send_note', params });
    expect(decision).toBe('deny');
  },
  listPolicyVersions: async () => {
    const first = await client.policy.put({ agent: 'clerk', version: 0, ask: [rule] });
    await client.policy.put({ agent: 'clerk', version: first.version });
    const versions: number[] = [];
    for await (const each of client.policy.versions({ agent: 'clerk', limit: 1 })) {
      versions.push(each.version);
    }
    expect(versions).toEqual([2, 1]);
  },
  previewPolicy: async () => {
    const { runId } = await asking();
    const { changes } = await client.policy.preview({ deny: [{ tool: 'send_note' }] });
    const change = changes.find((each) => each.runId === runId);
    expect(change).toMatchObject({ was: 'ask', now: 'deny' });
  },
  createWebhook: async () => {
    const made = await client.webhooks.create({ url: hookUrl, events: ['run.ended'] });
    expect(made.secret).not.toBe('');
  },
  listWebhooks: async () => {
    const { id } = await client.webhooks.create({ url: hookUrl, events: ['approval.requested'] });
    expect((await client.webhooks.list({ limit: 1 }).page()).items[0]?.id).toBe(id);
  },
  deleteWebhook: async () => {
    const { id } = await client.webhooks.create({ url: hookUrl, events: ['approval.requested'] });
    await client.webhooks.delete(id);
    await client.webhooks.delete(id);
  },
  loginToConsole: async () => {
    const { url } = await client.console.link();
    const link = new URL(url).hash.slice(1);
    expect(await client.console.login({ link })).toMatchObject({ kind: 'console' });
  },
  ready: async () => client.ready(),
  logoutOfConsole: async () => client.console.logout(),
  createConsoleLink: async () => {
    expect(new URL((await client.console.link()).url).pathname).toBe('/console/login');
  },
  listWebhookDeliveries: async () => {
    const { id } = await client.webhooks.create({ url: hookUrl, events: ['run.ended'] });
    await ended();
    const deliveryStatus = async () =>
      (await client.webhooks.deliveries(id).page()).items[0]?.status;
    await expect.poll(deliveryStatus, { timeout: 10_000 }).toBe('delivered');
  },
  redeliverWebhook: async () => {
    const { id } = await client.webhooks.create({ url: hookUrl, events: ['run.ended'] });
    await ended();
    const [delivery] = (await client.webhooks.deliveries(id).page()).items;
    const again = await client.webhooks.redeliver(id, delivery?.id ?? '');
    expect(again).toMatchObject({ id: delivery?.id, status: 'pending', attempts: 0 });
  },
};

describe('SDK client', () => {
  test.each(table)('calls %s', async (name) => {
    if (name in excluded) return;
    const call = calls[name as Covered] as (() => Promise<unknown>) | undefined;
    expect(call, `The SDK has no method for ${name}: add one, or exclude the route`).toBeDefined();
    const before = sent.length;
    await call?.();
    expect(sent.slice(before)).toContain(name);
  });

  test('calls no excluded route, and lists only known routes', () => {
    expect(sent.filter((name) => name in excluded)).toEqual([]);
    const known = new Set<string>(table.map(([name]) => name));
    const listed = [...Object.keys(excluded), ...Object.keys(calls)];
    expect(listed.filter((name) => !known.has(name))).toEqual([]);
  });
});
