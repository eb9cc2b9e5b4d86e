/** Authentication, scopes and tenant isolation of every route. */
import {
  type Route,
  type RouteName,
  routes,
  scopes as allScopes,
  scopesOfRole,
} from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeApiKey } from '../../../src/secrets/keys.ts';
import { addKey, bootServer, type TestServer, type RequestOptions } from '../../support/server.ts';
import { type Chat, startChat, startRun, statusOf } from '../../support/requests.ts';
import { sendMessage } from '../../support/sessions.ts';

const table = Object.entries(routes) as [RouteName, Route][];
/** All routes except public ones, decision links, and signing in to the console. */
const closed = table.filter(([, { auth }]) => !['public', 'link', 'sign-in'].includes(auth ?? ''));
const missing = '01963a5c-7891-7abc-8ef0-123456789abc';

const capabilities = {
  messaging: { receive: true },
  delivery: { modes: ['immediate'], queue: true },
  events: { emits: ['status.changed'] },
  actions: { expose: true },
  lifecycle: { release: true, pause: true, resume: true },
};

/** The ids in bodies. */
type ChatIds = Pick<Chat, 'sessionId' | 'runId'>;

/** A valid body of each route, so that only the caller can be refused. */
const bodies: Partial<Record<RouteName, (of: ChatIds) => unknown>> = {
  startApiChat: () => ({ message: 'say 1', model: 'demo' }),
  approveTool: ({ runId }) => ({ runId, toolCallId: 'call_1', action: 'approve' }),
  resumeChat: ({ runId }) => ({ runId }),
  loginToConsole: () => ({ link: 'of a stranger' }),
  createKey: () => ({ name: 'made', scopes: ['runs'] }),
  rotateKey: () => ({}),
  updateTenant: () => ({}),
  cancelRuns: () => ({ agent: 'nobody' }),
  putCredential: () => ({ apiKey: 'sk-0123456789abcdef' }),
  startChat: () => ({ model: 'demo', messages: [{ role: 'user', content: 'say 1' }] }),
  startRun: () => ({ model: 'demo', input: 'say 1' }),
  answerChatRelay: ({ sessionId }) => ({ sessionId, response: { approved: true } }),
  decideApproval: () => ({ approved: true }),
  postToolResult: () => ({ output: 1 }),
  claimToolCall: () => ({}),
  addMemory: () => ({ namespace: 'matrix', text: 'from a stranger' }),
  forkRun: () => ({ input: 'say 1' }),
  messageRun: () => ({ text: 'from a stranger' }),
  createGrant: () => ({ tool: 'send_note', params: { to: 'nobody' }, scope: 'tenant' }),
  previewGrant: () => ({ tool: 'send_note' }),
  createWebhook: () => ({ url: 'https://hooks.example/x', events: ['run.ended'] }),
  putPolicy: () => ({ version: 0 }),
  previewPolicy: () => ({}),
  sendMessage: () => ({ to: '@whose', text: 'from a stranger' }),
  editMessage: () => ({ text: 'from a stranger' }),
  putChannel: () => ({ topic: 'of a stranger' }),
  explainPermission: () => ({ tool: 'send_note', params: {} }),
  createSession: () => ({ harness: 'human', handle: `made-${uuidv7()}` }),
  attachSession: () => ({
    handle: `made-${uuidv7()}`,
    identity: { name: 'Made', kind: 'program' },
    capabilities,
  }),
  updateSession: () => ({}),
  inputSession: () => ({ text: 'ls' }),
  forkSession: () => ({ handle: `made-${uuidv7()}` }),
  reportSessionEvents: () => ({ type: 'status.changed', status: 'active' }),
  postReceipt: () => ({ status: 'consumed' }),
  answerCommand: () => ({ ok: true }),
  serveMcp: () => ({ jsonrpc: '2.0', id: 1, method: 'ping' }),
  registerAction: () => ({
    name: `made-${uuidv7()}`,
    description: 'Of a stranger',
    inputSchema: { type: 'object' },
    handler: { url: 'https://actions.example/x' },
  }),
  invokeAction: () => ({ input: {} }),
  postInvocationResult: () => ({ output: 'from a stranger' }),
};

function requestFor(name: RouteName, chat: ChatIds): RequestOptions {
  const route: Route = routes[name];
  if (route.body === undefined) return { method: route.method };
  const body = bodies[name]?.(chat);
  if (body === undefined) throw new Error(`There is no body for ${name}: add one`);
  return { method: route.method, body };
}

const unknownIds: Ids = {
  run: missing,
  relay: missing,
  key: missing,
  memory: missing,
  grant: missing,
  workflow: 'none',
  webhook: missing,
  session: missing,
  message: missing,
  delivery: missing,
  channel: 'none',
  handle: 'none',
  invocation: missing,
  conversation: missing,
};

async function whole(response: Response) {
  const headers = Object.fromEntries(response.headers);
  delete headers['date'];
  // Unique per request.
  delete headers['x-request-id'];
  return { status: response.status, headers, body: await response.text() };
}

interface Ids {
  readonly run: string;
  readonly relay: string;
  readonly key: string;
  readonly memory: string;
  readonly grant: string;
  readonly workflow: string;
  readonly webhook: string;
  readonly session: string;
  readonly message: string;
  readonly delivery: string;
  readonly channel: string;
  readonly handle: string;
  readonly invocation: string;
  readonly conversation: string;
}

describe('API keys', () => {
  let server: TestServer;
  let chat: Chat;
  let ids: Ids;
  /** An ended run. */
  let over: string;

  beforeAll(async () => {
    server = await bootServer({
      env: { RELAY_INTERNAL_SECRET: 'a-secret-of-16-or-more' },
      // This test fails more often than the default limit allows.
      file: { rateLimit: { failuresPerMinute: 100_000 } },
    });
    chat = await startChat(server, 'notify whose is it');
    const relay = await chat.reader.until('relay');
    const { keyId } = await addKey(server.store, { scopes: ['runs'] });
    const memory = await server.json('/v1/memories', {
      body: { namespace: 'matrix', text: 'Whose is it?' },
    });
    const flow = await startRun(server, { input: 'say 1', workflowId: 'whose' });
    await flow.reader.rest();
    over = flow.runId;
    const { id: grant } = await server.json('/v1/grants', {
      body: { tool: 'nothing', scope: 'run', scopeId: chat.runId },
    });
    const { id: webhook } = await server.json('/v1/webhooks', {
      body: { url: 'https://hooks.example/x', events: ['approval.expired'] },
    });
    const { session } = await server.json('/v1/sessions/attach', {
      body: { handle: 'whose', identity: { name: 'Whose', kind: 'program' }, capabilities },
    });
    const { id: sessionId } = session as { id: string };
    const action = { name: 'whose', description: 'Whose?', inputSchema: { type: 'object' } };
    await server.json('/v1/actions', { body: { ...action, handler: { sessionId } } });
    const invocation = await server.json('/v1/actions/whose/invoke?waitMs=0', { body: {} });
    await server.json('/v1/channels/whose', { method: 'PUT' });
    const sent = await sendMessage(server, { to: '@whose', text: 'Whose is it?' });
    ids = {
      run: chat.runId,
      relay: String(relay.data['id']),
      key: keyId,
      memory: String(memory['id']),
      grant: String(grant),
      workflow: 'whose',
      webhook: String(webhook),
      session: sessionId,
      message: sent.id,
      delivery: sent.deliveries[0]?.id ?? '',
      channel: 'whose',
      handle: 'whose',
      invocation: String(invocation['id']),
      conversation: String((await server.json(`/v1/runs/${chat.runId}`))['conversationId']),
    };
  });

  afterAll(async () => {
    await chat.reader.disconnect();
    await server.stop();
  });

  /** The path of a route with ids of this tenant, or with unknown ids. */
  function pathWith(path: string, of: Ids): string {
    return path.replaceAll(/:(\w+)/g, (_, name: string) => {
      if (name === 'relayId' || (name === 'id' && path.startsWith('/v1/approvals')))
        return of.relay;
      if (name === 'id' && /^\/(v1|internal)\/runs/.test(path)) return of.run;
      if (name === 'id' && path.startsWith('/v1/conversations')) return of.conversation;
      if (name === 'id' && path.startsWith('/v1/keys')) return of.key;
      if (name === 'id' && path.startsWith('/v1/memories')) return of.memory;
      if (name === 'id' && path.startsWith('/v1/grants')) return of.grant;
      if (name === 'id' && path.startsWith('/v1/workflows')) return of.workflow;
      if (name === 'id' && path.startsWith('/v1/webhooks')) return of.webhook;
      if (name === 'id' && path.startsWith('/v1/sessions')) return of.session;
      if (name === 'deliveryId' || name === 'commandId') return of.relay;
      if (name === 'id' && path.startsWith('/v1/messages')) return of.message;
      if (name === 'id' && path.startsWith('/v1/deliveries')) return of.delivery;
      if (name === 'id' && path.startsWith('/v1/invocations')) return of.invocation;
      // Of a channel and of an action.
      if (name === 'name') return of.channel;
      if (name === 'handle') return of.handle;
      if (name === 'provider') return 'openai';
      // A link is valid only for its holder, whatever key is sent.
      if (name === 'token') return `${of.relay}.${of.webhook}.x`;
      if (name === 'toolUseId') return 'call_1';
      throw new Error(`What is :${name} in ${path}? Say it here, so that it is tested`);
    });
  }

  const unauthorized = {
    status: 401,
    headers: { 'www-authenticate': expect.stringContaining('Bearer') },
    body: '{"error":"A valid API key is required","code":"unauthorized"}',
  };

  const unauthorizedInJsonRpc = JSON.stringify({
    jsonrpc: '2.0',
    error: { code: 401, message: 'A valid API key is required', data: { code: 'unauthorized' } },
  });

  it.each(closed)('%s refuses a request without a valid key', async (name, route) => {
    const path = pathWith(route.path, ids);
    // A client on this machine may chat without a key; one behind a proxy may not.
    const from: Record<string, string> =
      route.auth === 'local-or-key' ? { 'x-forwarded-for': '203.0.113.9' } : {};
    const options = { ...requestFor(name, chat), headers: from };
    const wrong = route.auth === 'internal' ? server.apiKey : makeApiKey();
    for (const key of [null, wrong]) {
      expect(await whole(await server.request(path, { ...options, key }))).toMatchObject({
        ...unauthorized,
        ...(route.errorFormat === 'json-rpc' ? { body: unauthorizedInJsonRpc } : {}),
      });
    }
  });

  it('refuses every kind of invalid credentials in the same way', async () => {
    const revoked = await addKey(server.store, { revokedAt: 1 });
    const expired = await addKey(server.store, { expiresAt: 1 });
    const invalid: Record<string, string>[] = [
      {},
      { authorization: '' },
      { authorization: 'Bearer' },
      { authorization: 'Bearer x' },
      { authorization: server.apiKey },
      { authorization: `Basic ${server.apiKey}` },
      { authorization: `Bearer ${makeApiKey()}` },
      { authorization: `Bearer ${revoked.apiKey}` },
      { authorization: `Bearer ${expired.apiKey}` },
      { authorization: 'Internal a-secret-of-16-or-less' },
      { 'x-api-key': server.apiKey },
    ];
    const answers = [
      await whole(await server.request(`/v1/runs?api_key=${server.apiKey}`, { key: null })),
    ];
    for (const headers of invalid) {
      answers.push(await whole(await server.request('/v1/runs', { key: null, headers })));
    }
    expect(answers[0]).toMatchObject(unauthorized);
    for (const answer of answers) expect(answer).toEqual(answers[0]);
  });

  it('reveals nothing about the body without a valid key', async () => {
    const json = { 'content-type': 'application/json' };
    const sent: [string, Record<string, string>][] = [
      ['{', json],
      ['{}', json],
      ['x', { 'content-type': 'text/plain' }],
      ['a'.repeat(1024 * 1024 + 1), json],
    ];
    for (const [body, headers] of sent) {
      const response = await server.request('/v1/runs', { body, headers, key: null });
      expect(response.status).toBe(401);
      expect(await response.json()).toMatchObject({ code: 'unauthorized' });
    }
  });

  /** The roles, each scope alone, and all scopes but one. */
  const scopeSets: readonly (readonly [string, readonly string[]])[] = [
    ...Object.entries(scopesOfRole),
    ...allScopes.map((scope) => [`only ${scope}`, [scope]] as const),
    ...allScopes.map(
      (scope) => [`all but ${scope}`, allScopes.filter((each) => each !== scope)] as const,
    ),
  ];
  const keyed = closed.filter(([, { auth }]) => auth !== 'internal');
  const matrix = keyed.flatMap(([name, route]) =>
    scopeSets.map(([holder, scopes]) => ({ name, route, holder, scopes })),
  );

  it.each(matrix)('$name with a key of $holder', async ({ name, route, scopes }) => {
    // In a tenant of its own, and with ids that do not exist there.
    const { apiKey: key } = await addKey(server.store, { tenant: 'matrix', scopes });
    const path = pathWith(route.path, unknownIds);
    const options = { ...requestFor(name, { sessionId: missing, runId: missing }), key };
    const headers = { origin: server.url };
    const response = await server.request(path, { ...options, headers });
    const reads = scopes.some((scope) => ['read', 'runs', 'approve', 'admin'].includes(scope));
    const held: readonly string[] = reads ? ['read', ...scopes] : scopes;
    const isHeld = (scope: string) => held.includes(scope);
    const allowed =
      route.anyScope === true ? route.scopes.some(isHeld) : route.scopes.every(isHeld);
    const body = route.responseType === 'sse' ? '' : await response.text();
    if (response.status === 200 && route.responseType === 'sse') await response.body?.cancel();
    const refused = response.status === 403 && (body === '' || body.includes('"scope_required"'));
    expect(refused).toBe(!allowed);
  });

  /** Routes with an id in their path or body. */
  const about = table.filter(
    ([name, { path, auth }]) =>
      (path.includes(':') &&
        !path.includes(':provider') &&
        auth !== 'internal' &&
        // It creates the channel of its own tenant.
        name !== 'putChannel') ||
      name === 'sendMessage' ||
      name === 'approveTool' ||
      name === 'resumeChat',
  );

  it.each(about)(
    '%s answers for the ids of another tenant like unknown ids',
    async (name, route) => {
      const stranger = await addKey(server.store, { tenant: 'stranger' });
      const ask = (of: Ids, sessionId: string) =>
        server.request(pathWith(route.path, of), {
          ...requestFor(name, { sessionId, runId: of.run }),
          key: stranger.apiKey,
        });
      const theirs = await whole(await ask(ids, chat.sessionId));
      const unknownAnswer = await whole(await ask(unknownIds, missing));
      // Deleting is idempotent, also for unknown ids.
      const isDeleted = name === 'deleteMemory' || name === 'deleteWebhook';
      expect(theirs.status).toBe(isDeleted ? 204 : 404);
      expect(theirs).toEqual(unknownAnswer);
      expect(await statusOf(server, chat.runId)).toBe('waiting');
      const { memories } = await server.json('/v1/memories?namespace=matrix');
      expect(memories).toMatchObject([{ id: ids.memory }]);
      const { webhooks } = await server.json('/v1/webhooks');
      expect(webhooks).toMatchObject([{ id: ids.webhook }]);
      const { sessions } = await server.json('/v1/sessions?harness=remote');
      expect(sessions).toMatchObject([{ id: ids.session }]);
      const { messages } = await server.json('/v1/messages');
      expect(messages).toMatchObject([{ id: ids.message, text: 'Whose is it?' }]);
      const { actions } = await server.json('/v1/actions');
      expect(actions).toMatchObject([{ name: 'whose' }]);
      const invocation = await server.json(`/v1/invocations/${ids.invocation}`);
      expect(invocation).toMatchObject({ status: 'running' });
    },
  );

  it('ignores queries and Last-Event-ID for ids of another tenant', async () => {
    const { apiKey: key } = await addKey(server.store, { tenant: 'stranger' });
    for (const tail of ['/events?after=1', '/events?after=999999', '/stream?after=999999']) {
      const theirs = await whole(await server.request(`/v1/runs/${chat.runId}${tail}`, { key }));
      const unknownAnswer = await whole(
        await server.request(`/v1/runs/${missing}${tail}`, { key }),
      );
      expect(theirs.status).toBe(404);
      expect(theirs).toEqual(unknownAnswer);
    }
    const headers = { 'last-event-id': '999999' };
    const theirs = await server.request(`/v1/runs/${chat.runId}/stream`, { key, headers });
    expect(theirs.status).toBe(404);
  });

  it('lets two tenants use one conversation id without seeing each other', async () => {
    const conversationId = uuidv7();
    const { apiKey: key } = await addKey(server.store, { tenant: 'stranger' });
    const mine = await startChat(server, 'notify shared', { body: { conversationId } });
    const relay = await mine.reader.until('relay');
    const answered = await server.request(`/chat/relay/${String(relay.data['id'])}`, {
      body: { sessionId: mine.sessionId, response: { approved: true, always: true } },
    });
    expect(answered.status).toBe(200);
    await mine.reader.rest();
    const theirs = await startRun(server, { input: 'notify shared', conversationId }, { key });
    await theirs.reader.until('approval_requested');
    await server.request(`/v1/runs/${theirs.runId}/cancel`, { method: 'POST', key });
    await theirs.reader.rest();
  });

  it('let a key with only the scope approve read, and start nothing', async () => {
    const { apiKey: key } = await addKey(server.store, { scopes: ['approve'] });
    expect((await server.request('/v1/approvals', { key })).status).toBe(200);
    expect((await server.request(`/v1/approvals/${ids.relay}`, { key })).status).toBe(200);
    expect((await server.request('/v1/runs', { key })).status).toBe(200);
    const body = { model: 'demo', input: 'say 1' };
    expect((await server.request('/v1/runs', { key, body })).status).toBe(403);
  });

  describe('without the scope approve', () => {
    const rule = { tool: 'send_note', params: { to: '*' } };
    const taking = (more: object) =>
      table.filter(([name, { body }]) => {
        const given = bodies[name]?.({ sessionId: missing, runId: missing });
        // It takes any JSON, and passes on only the arguments of tools.
        if (name === 'serveMcp') return false;
        return body?.safeParse({ ...(given as object), ...more }).success === true;
      });

    it('no route accepts allow rules', async () => {
      const { apiKey: key } = await addKey(server.store, { scopes: ['runs'] });
      const permissions = { allowlist: [rule] };
      const found = taking({ permissions });
      expect(found.map(([name]) => name).toSorted()).toEqual(
        [
          'startChat',
          'startApiChat',
          'startRun',
          'forkRun',
          'explainPermission',
          'createSession',
        ].toSorted(),
      );
      for (const [name, { path, method }] of found) {
        // It is only a preview.
        if (name === 'explainPermission') continue;
        const body = { ...(bodies[name]?.(chat) as object), permissions };
        const of = name === 'forkRun' ? { ...ids, run: over } : ids;
        const response = await server.request(pathWith(path, of), { method, key, body });
        expect([name, response.status]).toEqual([name, 403]);
        expect(await response.json()).toMatchObject({ code: 'approve_scope_required' });
      }
    });

    it('no route accepts always', () => {
      const words = [{ always: true }, { response: { approved: true, always: true } }];
      const found = words.flatMap((more) => taking(more));
      expect(found.map(([name]) => name).toSorted()).toEqual(
        ['answerChatRelay', 'approveTool', 'decideApproval'].toSorted(),
      );
      for (const [, { scopes }] of found) expect(scopes).toEqual(['approve']);
    });

    it.each([
      ['/chat', { model: 'demo', messages: [{ role: 'user', content: 'say 1' }] }],
      ['/v1/runs', { model: 'demo', input: 'say 1' }],
    ])('%s accepts deny rules and refuses allow rules', async (path, body) => {
      const { apiKey: key } = await addKey(server.store, { scopes: ['runs'] });
      for (const list of ['allowlist', 'allowOnce']) {
        const options = { key, body: { ...body, permissions: { [list]: [rule] } } };
        const response = await server.request(path, options);
        expect(response.status).toBe(403);
        expect(response.headers.has('x-run-id')).toBe(false);
        expect(await response.json()).toMatchObject({ code: 'approve_scope_required' });
      }
      const permissions = { denylist: [rule], deny: [{ toolCallId: 'call_9' }], allowlist: [] };
      const narrowed = await server.request(path, { key, body: { ...body, permissions } });
      expect(narrowed.status).toBe(200);
      await narrowed.text();
    });
  });
});
