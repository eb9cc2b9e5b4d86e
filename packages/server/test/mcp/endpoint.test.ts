/** `/mcp` with the current client and with one of 2025, against a real server. */
import { readFileSync } from 'node:fs';
import { connect as connectSocket } from 'node:net';
import { uuidv7 } from 'uuidv7';
import { ActionFailed } from '../../src/index.ts';
import type { SystemStore } from '@relay/core';
import { createMemoryStore } from '@relay/store';
import { verifies } from '../../../../test/conformance/verifies.ts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FrameReader } from '../support/frames.ts';
import {
  addKey,
  bootServer,
  type RequestOptions,
  type TestServer,
  until,
} from '../support/server.ts';
import { currentCall, mcpClients, postMcp, textOf, type ToolResult } from '../support/mcp.ts';
import {
  attached,
  type AttachedSession,
  leave,
  sendMessage,
  type ShownMessage,
} from '../support/sessions.ts';
import { stores } from '../support/stores.ts';

const capabilities = {
  messaging: { receive: true, send: true, attachments: ['text', 'image'] },
  delivery: { modes: ['on-idle', 'immediate'], queue: true },
  events: { emits: ['status.changed'] },
  lifecycle: { release: true },
};

let server: TestServer;
/** The inputs of an action. */
const shouted: unknown[] = [];

/** Each suite has a server of its own. */
function useServer(open = async () => createMemoryStore()): void {
  let store: SystemStore;
  beforeAll(async () => {
    store = await open();
    server = await boot(store);
  });
  afterAll(async () => {
    await server.stop();
    await store.close();
    expect(server.logged).toEqual([]);
  });
}

async function boot(store: SystemStore): Promise<TestServer> {
  const inputSchema = {
    type: 'object',
    properties: { text: { type: 'string', 'x-mcp-header': 'Text' } },
    required: ['text'],
  };
  const shout = (input: Record<string, unknown>) => {
    shouted.push(input['text']);
    return { text: String(input['text']).toUpperCase() };
  };
  const fail = () => {
    throw new ActionFailed('Out of order', { retryable: true });
  };
  return bootServer({
    store,
    file: {
      rateLimit: { failuresPerMinute: 100_000 },
      actions: [
        {
          name: 'shout',
          description: 'Says it louder',
          inputSchema,
          idempotent: true,
          handler: shout,
        },
        { name: 'fail', description: 'Fails', inputSchema: { type: 'object' }, handler: fail },
      ],
    },
  });
}

const attach = (more: object = {}, options: RequestOptions = {}) =>
  attached(
    server,
    {
      identity: { name: 'Builder', kind: 'agent' },
      capabilities: { ...capabilities, actions: undefined, ...more },
    },
    options,
  );

async function deliveryOf({ id }: { readonly id: unknown }): Promise<Record<string, unknown>> {
  const { deliveries } = await server.json(`/v1/messages/${String(id)}/deliveries`);
  return (deliveries as Record<string, unknown>[])[0] ?? {};
}

const consumed = async (message: { readonly id: unknown }) =>
  (await deliveryOf(message))['status'] === 'consumed';

async function isRead(sessionId: string): Promise<boolean> {
  const session = await server.store.tenant(server.tenantId).sessions.read(sessionId);
  return session?.stream != null;
}

const post = (body: unknown, options?: RequestOptions) => postMcp(server, body, options);

const checkMessages = (args: object = {}) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'check_messages', arguments: args },
});

/** Its program was not seen for a minute. */
async function offline(): Promise<AttachedSession> {
  const session = await attach();
  await leave(server, session, 60_000);
  const isOffline = async () => (await server.json(session.path))['status'] === 'offline';
  await until(isOffline, 'the session to be offline');
  return session;
}

describe.each(Object.entries(stores))('/mcp on %s', (_store, open) => {
  useServer(open);

  describe.each(Object.entries(mcpClients))('with %s', (_name, connectTo) => {
    const connect = (key: string) => connectTo(server, key);

    const ofMessages = ['send_message', 'check_messages', 'list_messages', 'list_sessions'];
    const ofRuns = ['run_start', 'run_get', 'run_message', 'run_cancel', 'approvals_list'];
    const ofActions = ['list_actions', 'get_invocation', 'action_fail', 'action_shout'];

    it('offers the tools that the session or the key may use', async () => {
      const session = await connect((await attach()).token);
      expect(await session.tools()).toEqual(ofMessages);
      const invoking = await connect((await attach({ actions: { invoke: true } })).token);
      expect(await invoking.tools()).toEqual([...ofMessages, ...ofActions]);
      const key = await connect(server.apiKey);
      const withoutInbox = ofMessages.filter((name) => name !== 'check_messages');
      const [list, get, ...actions] = ofActions;
      expect(await key.tools()).toEqual([...withoutInbox, list, get, ...ofRuns, ...actions]);
      const viewer = await connect((await addKey(server.store, { scopes: ['read'] })).apiKey);
      const reading = ['list_messages', 'list_sessions', 'run_get', 'approvals_list'];
      expect(await viewer.tools()).toEqual(reading);
      await Promise.all([session, invoking, key, viewer].map((each) => each.close()));
    });

    it('offers each action that a session may invoke as a tool, and returns its result', async () => {
      verifies('004:actions:invoke-by-mcp');
      const client = await connect((await attach({ actions: { invoke: true } })).token);
      const listed = await client.call('list_actions');
      expect(textOf(listed)).toBe('fail: Fails\nshout: Says it louder');
      const meta = { 'relay/idempotencyKey': uuidv7() };
      const before = shouted.length;
      const first = await client.call('action_shout', { text: 'hi' }, { meta });
      expect(first).toMatchObject({
        content: [{ type: 'text', text: '{"text":"HI"}' }],
        structuredContent: { status: 'completed', output: { text: 'HI' } },
      });
      expect(await client.call('action_shout', { text: 'hi' }, { meta })).toMatchObject({
        structuredContent: first.structuredContent ?? {},
      });
      expect(shouted.slice(before)).toEqual(['hi']);
      const { id } = first.structuredContent ?? {};
      expect((await client.call('get_invocation', { id })).structuredContent).toEqual(
        first.structuredContent,
      );
      await client.close();
    });

    it('returns the failures of actions as errors of the tool', async () => {
      const client = await connect((await attach({ actions: { invoke: true } })).token);
      const cases: [string, object, object][] = [
        ['action_fail', {}, { status: 'failed', error: { message: 'Out of order' } }],
        ['action_shout', {}, { code: 'invalid_request', details: [{ path: 'input.text' }] }],
        ['action_nothing', {}, { code: 'not_found' }],
        ['action_', {}, { code: 'not_found' }],
        ['get_invocation', { id: uuidv7() }, { code: 'not_found' }],
      ];
      for (const [name, args, body] of cases) {
        const result = await client.call(name, args);
        expect(result, name).toMatchObject({ isError: true, structuredContent: body });
      }
      await client.close();
    });

    it('neither offers nor invokes an action for a session that lacks the right', async () => {
      const [silent, other] = [await attach(), await attach({ actions: { invoke: true } })];
      const exposing = await attach({ actions: { expose: true } });
      const name = `a-${uuidv7()}`;
      const body = {
        name,
        description: 'For nobody',
        inputSchema: { type: 'object' },
        handler: { sessionId: exposing.id },
        availableTo: [{ handle: 'nobody' }],
      };
      const registered = await server.request('/v1/actions', { key: exposing.token, body });
      expect(registered.status).toBe(201);
      const [asSilent, asOther] = [await connect(silent.token), await connect(other.token)];
      const asKey = await connect(server.apiKey);
      expect(await asOther.tools()).not.toContain(`action_${name}`);
      expect(await asKey.tools()).not.toContain(`action_${name}`);
      expect(await asSilent.call('action_shout', { text: 'x' })).toMatchObject({
        isError: true,
        structuredContent: { code: 'capability_missing', details: { path: 'actions.invoke' } },
      });
      for (const client of [asOther, asKey]) {
        expect(await client.call(`action_${name}`)).toMatchObject({
          isError: true,
          structuredContent: { code: 'action_denied' },
        });
      }
      await Promise.all([asSilent, asOther, asKey].map((each) => each.close()));
      await server.request(`/v1/actions/${name}`, { method: 'DELETE' });
    });

    it('returns what the program of another session answers', async () => {
      const [exposing, calling] = [
        await attach({ actions: { expose: true } }),
        await attach({ actions: { invoke: true } }),
      ];
      const name = `a-${uuidv7()}`;
      const inputSchema = { type: 'object', properties: { n: { type: 'number' } } };
      const handler = { sessionId: exposing.id };
      const body = { name, description: 'Doubles', inputSchema, handler };
      await server.json('/v1/actions', { key: exposing.token, body });
      const stream = await server.request(`/v1/sessions/${exposing.id}/deliveries/stream`, {
        key: exposing.token,
      });
      const frames = new FrameReader(stream);
      const client = await connect(calling.token);
      const called = client.call(`action_${name}`, { n: 21 });
      const { data }: { data: Record<string, unknown> } = (await frames.next()) ?? { data: {} };
      expect(data).toMatchObject({ type: 'invocation', action: name, input: { n: 21 } });
      const result = `/v1/invocations/${String(data['invocationId'])}/result`;
      await server.request(result, { key: exposing.token, body: { output: 42 } });
      expect(await called).toMatchObject({
        content: [{ type: 'text', text: '42' }],
        structuredContent: { status: 'completed', output: 42 },
      });
      await frames.disconnect();
      await client.close();
      await server.request(`/v1/actions/${name}`, { method: 'DELETE' });
    });

    it('carries a message to another session, whose receipt is concluded, and back', async () => {
      const [ada, bob] = [await attach(), await attach()];
      const [asAda, asBob] = [await connect(ada.token), await connect(bob.token)];
      const sent = await asAda.call('send_message', { to: `@${bob.handle}`, text: 'Ready?' });
      const { id } = sent.structuredContent ?? {};
      expect(sent).toMatchObject({
        content: [{ type: 'text', text: `Sent ${String(id)}: @${bob.handle} accepted` }],
        structuredContent: { id, deliveries: [{ handle: bob.handle, status: 'accepted' }] },
      });
      const got = await asBob.call('check_messages');
      expect(got.structuredContent).toEqual({
        messages: [
          {
            id,
            from: `@${ada.handle}`,
            to: `@${bob.handle}`,
            at: expect.any(String),
            text: 'Ready?',
          },
        ],
      });
      expect(textOf(got)).toContain(`@${ada.handle}`);
      expect(textOf(got)).toContain('Ready?');
      // The next call does not wait for the receipt, but repeats nothing either.
      expect((await asBob.call('check_messages')).structuredContent).toEqual({ messages: [] });
      expect(await deliveryOf({ id })).toMatchObject({
        status: 'consumed',
        attempts: 1,
        fidelity: 'inferred',
      });
      const reply = await asBob.call('send_message', { replyTo: id, text: 'Yes' });
      const back = await asAda.call('check_messages');
      expect(back.structuredContent).toMatchObject({
        messages: [{ id: reply.structuredContent?.['id'], replyTo: id, text: 'Yes' }],
      });
      const listed = await asAda.call('list_messages', { with: `@${bob.handle}`, limit: 1 });
      expect(listed.structuredContent).toMatchObject({
        messages: [{ text: 'Yes' }],
        nextCursor: expect.any(String),
      });
      await Promise.all([asAda.close(), asBob.close()]);
    });

    it('waits for a message that comes later', async () => {
      const { id, token, handle } = await attach();
      const client = await connect(token);
      const checked = client.call('check_messages', { waitMs: 30_000 });
      await until(() => isRead(id), 'the stream to be open');
      const message = await sendMessage(server, { to: `@${handle}`, text: 'late' });
      expect((await checked).structuredContent).toMatchObject({ messages: [{ id: message.id }] });
      await until(() => consumed(message), 'the receipt');
      await client.close();
    });

    it('lists the sessions that can be written to, and not those that are released', async () => {
      const [open, released] = [await attach(), await attach({ lifecycle: { release: false } })];
      await server.request(`/v1/sessions/${released.id}`, { method: 'DELETE' });
      const client = await connect(open.token);
      const { structuredContent } = await client.call('list_sessions', { limit: 200 });
      const { sessions } = structuredContent as { sessions: { handle: string }[] };
      expect(sessions.find(({ handle }) => handle === open.handle)).toEqual({
        handle: open.handle,
        name: 'Builder',
        kind: 'agent',
        status: 'idle',
      });
      await client.close();
    });

    it('shows names and descriptions without characters that mislead, and one line for each', async () => {
      const name = 'Ada\u202egnp.exe';
      const ada = await attached(server, { identity: { name, kind: 'agent' } });
      const action = `a-${uuidv7()}`;
      const description = 'First line\nother: second\u200b line';
      const body = { name: action, description, inputSchema: { type: 'object' } };
      const handler = { sessionId: ada.id };
      await server.json('/v1/actions', { body: { ...body, handler }, key: ada.token });
      const client = await connect(ada.token);
      const [sessions, actions] = [
        await client.call('list_sessions', { limit: 200 }),
        await client.call('list_actions'),
      ];
      const linesOf = ({ content }: ToolResult) => (content[0]?.text ?? '').split('\n');
      expect(linesOf(sessions)).toContain(`@${ada.handle} idle (agent) Ada\\u{202e}gnp.exe`);
      expect(linesOf(actions)).toContain(`${action}: First line other: second\\u{200b} line`);
      expect(JSON.stringify([sessions, actions])).not.toMatch(/[\u202e\u200b]/);
      await client.close();
      // Its action ends with it.
      await server.request(ada.path, { method: 'DELETE' });
    });

    it('names path, asked and offered of a capability that is missing', async () => {
      const [ada, bob] = [await attach(), await attach({ messaging: { receive: true } })];
      const [asAda, asBob] = [await connect(ada.token), await connect(bob.token)];
      const refused = await asAda.call('send_message', {
        to: `@${bob.handle}`,
        text: 'x',
        mode: 'manual',
      });
      expect(refused.isError).toBe(true);
      expect(textOf(refused)).toContain(
        '(delivery.modes: asked manual, offered on-idle,immediate)',
      );
      expect(refused.structuredContent).toMatchObject({
        code: 'capability_missing',
        details: { path: 'delivery.modes', asked: 'manual', offered: ['on-idle', 'immediate'] },
      });
      const silent = await asBob.call('send_message', { to: `@${ada.handle}`, text: 'x' });
      expect(silent.structuredContent).toMatchObject({
        code: 'capability_missing',
        details: { path: 'messaging.send', asked: true, offered: false },
      });
      await Promise.all([asAda.close(), asBob.close()]);
    });

    it('sends a message once if the call is repeated with its idempotency key', async () => {
      const { token, handle } = await attach();
      const client = await connect(token);
      const meta = { 'relay/idempotencyKey': uuidv7() };
      const send = (text: string) =>
        client.call('send_message', { to: `@${handle}`, text }, { meta });
      const [first, second] = [await send('once'), await send('once')];
      expect(second.structuredContent?.['id']).toBe(first.structuredContent?.['id']);
      expect((await send('other')).structuredContent).toMatchObject({
        code: 'idempotency_mismatch',
      });
      const got = await client.call('check_messages');
      expect(got.structuredContent).toMatchObject({ messages: [{ text: 'once' }] });
      await client.close();
    });

    it('refuses tools that the caller lacks the scope for, and says why', async () => {
      const { apiKey } = await addKey(server.store, { scopes: ['read'] });
      const client = await connect(apiKey);
      const refused = await client.call('send_message', { to: '@x', text: 'x' });
      expect(refused).toMatchObject({
        isError: true,
        structuredContent: { code: 'scope_required', error: 'This key lacks the scope runs' },
      });
      const keyed = await connect(server.apiKey);
      expect(await keyed.call('check_messages')).toMatchObject({
        isError: true,
        structuredContent: { code: 'invalid_request' },
      });
      await Promise.all([client.close(), keyed.close()]);
    });

    it('answers wrong arguments and unknown names with errors that a model can act on', async () => {
      const { token } = await attach();
      const client = await connect(token);
      const wrong: [string, object, object][] = [
        [
          'send_message',
          { to: 'nobody', text: 'x' },
          { code: 'invalid_request', details: [{ path: 'to' }] },
        ],
        ['send_message', { to: '@nobody', text: 'x', from: 'ada' }, { code: 'invalid_request' }],
        ['send_message', { to: '@nobody', text: 'x' }, { code: 'not_found' }],
        [
          'check_messages',
          { waitMs: 60_000 },
          { code: 'invalid_request', details: [{ path: 'waitMs' }] },
        ],
        ['list_messages', { limit: 0 }, { code: 'invalid_request', details: [{ path: 'limit' }] }],
        [
          'list_sessions',
          { cursor: 'x' },
          { code: 'invalid_request', details: [{ path: 'cursor' }] },
        ],
      ];
      for (const [name, args, body] of wrong) {
        expect(await client.call(name, args)).toMatchObject({
          isError: true,
          structuredContent: body,
        });
      }
      await expect(client.call('constructor')).rejects.toMatchObject({ code: -32_602 });
      await client.close();
    });

    it('refuses a token that is unknown, replaced or released', async () => {
      const { id, token } = await attach();
      const client = await connect(token);
      await server.request(`/v1/sessions/${id}`, { method: 'DELETE' });
      await expect(client.call('list_sessions')).rejects.toThrow();
      await expect(connect(token)).rejects.toThrow();
      await expect(connect('relay_sess_x')).rejects.toThrow();
      await client.close();
    });

    it('shows nothing of another tenant', async () => {
      const { handle } = await attach();
      const { apiKey } = await addKey(server.store, { tenant: 'stranger' });
      await sendMessage(server, { to: `@${handle}`, text: 'secret' });
      const client = await connect(apiKey);
      expect((await client.call('list_messages')).structuredContent).toEqual({ messages: [] });
      expect((await client.call('list_sessions')).structuredContent).toEqual({ sessions: [] });
      const refused = await client.call('send_message', { to: `@${handle}`, text: 'x' });
      expect(refused.structuredContent).toMatchObject({ code: 'not_found' });
      await client.close();
    });
  });

  describe('the guide', () => {
    const guide = readFileSync(
      new URL('../../../../docs/guides/mcp-server.md', import.meta.url),
      'utf8',
    );
    const bodies = [...guide.matchAll(/-d '(\{[^']*\})'/g)].map(
      ([, body = '']) => JSON.parse(body) as unknown,
    );
    const documented = (title: string) => {
      const section = guide.split(/^## /m).find((each) => each.startsWith(title)) ?? '';
      return [...section.matchAll(/^\| `(\w+)` \| /gm)].map(([, name]) => name);
    };
    const toolsOf = async (key: unknown) => {
      const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
      const { body } = await post(list, { key: String(key) });
      const { tools } = (body as { result: { tools: { name: string }[] } }).result;
      return tools.map(({ name }) => name).filter((name) => !name.startsWith('action_'));
    };

    it('makes a key that has the tools for runs, and attaches a session that has the others', async () => {
      expect(bodies).toHaveLength(2);
      const { apiKey } = await server.json('/v1/keys', { body: bodies[0] });
      const { token } = await server.json('/v1/sessions/attach', { body: bodies[1] });
      expect(await toolsOf(apiKey)).toEqual(expect.arrayContaining(documented('Tools for runs')));
      expect(await toolsOf(token)).toEqual(documented('Receive messages'));
    });

    it('has configurations and results that are JSON', () => {
      const blocks = [...guide.matchAll(/^```json\n(.*?)^```/gms)].map(([, json = '']) => json);
      expect(blocks).toHaveLength(7);
      for (const block of blocks) expect(() => JSON.parse(block) as unknown).not.toThrow();
    });
  });

  it('any tool that a session calls shows that it is there', async () => {
    const { id, token } = await offline();
    const params = { name: 'list_messages', arguments: {} };
    await post({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }, { key: token });
    expect(await server.json(`/v1/sessions/${id}`)).toMatchObject({ status: 'idle' });
  });

  describe('check_messages', () => {
    const revision = '2026-07-28';
    const envelope = {
      'io.modelcontextprotocol/protocolVersion': revision,
      'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    };
    const mcpHeaders = `mcp-protocol-version: ${revision}\r\nmcp-method: tools/call\r\nmcp-name: check_messages\r\n`;

    it.each([
      ['the current revision', { _meta: envelope }, mcpHeaders],
      ['a revision of 2025', {}, ''],
    ])(
      'returns messages again, marked, if the result was not sent, in %s',
      async (_, meta, more) => {
        const { id, token, handle } = await attach();
        // Together larger than what the buffers between server and client take.
        const text = 'x'.repeat(900_000);
        const sent: ShownMessage[] = [];
        for (let n = 0; n < 10; n += 1)
          sent.push(await sendMessage(server, { to: `@${handle}`, text }));
        const { port } = new URL(server.url);
        const socket = connectSocket(Number(port), '127.0.0.1');
        socket.pause();
        const message = checkMessages();
        const body = JSON.stringify({ ...message, params: { ...message.params, ...meta } });
        socket.write(
          `POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${token}\r\n` +
            `content-type: application/json\r\naccept: application/json, text/event-stream\r\n${more}` +
            `content-length: ${body.length}\r\n\r\n${body}`,
        );
        const isTried = async () => (await deliveryOf(sent[9] ?? { id: '' }))['attempts'] === 1;
        await until(isTried, 'the result');
        // The first reader has gone when the session has no stream.
        await until(async () => !(await isRead(id)), 'the end of the first reader');
        socket.destroy();
        const again = await post(checkMessages(), { key: token });
        const messages = sent.map((each) => ({ id: each.id, redelivered: true }));
        expect(again.body).toMatchObject({ result: { structuredContent: { messages } } });
        await until(() => consumed(sent[9] ?? { id: '' }), 'the receipts');
        const { queue } = await server.json(`/v1/sessions/${id}`);
        expect(queue).toEqual({ length: 0 });
      },
    );

    it('returns attachments as content', async () => {
      const { token, handle } = await attach();
      const attachments = [
        { type: 'text', text: 'a log' },
        { type: 'image', mediaType: 'image/gif', data: 'R0lGODlhAQABAAAAACw=' },
        { type: 'image', url: 'https://example.com/a.png' },
      ];
      await sendMessage(server, { to: `@${handle}`, text: 'see', attachments });
      const { body } = await post(checkMessages(), { key: token });
      const { result } = body as { result: ToolResult };
      expect(result.content.slice(1)).toEqual([
        { type: 'text', text: 'a log' },
        { type: 'image', mimeType: 'image/gif', data: 'R0lGODlhAQABAAAAACw=' },
        { type: 'text', text: 'Image: https://example.com/a.png' },
      ]);
    });

    it('makes a session that was offline reachable again', async () => {
      const { id, token, handle } = await offline();
      const message = await sendMessage(server, { to: `@${handle}`, text: 'still there?' });
      const { body } = await post(checkMessages(), { key: token });
      expect(body).toMatchObject({
        result: { structuredContent: { messages: [{ id: message.id }] } },
      });
      expect(await server.json(`/v1/sessions/${id}`)).toMatchObject({ status: 'idle' });
    });

    it('leaves the messages to a program that follows the stream of its deliveries', async () => {
      const { id, token, handle } = await attach();
      const connection = new AbortController();
      const { signal } = connection;
      await server.request(`/v1/sessions/${id}/deliveries/stream`, { key: token, signal });
      const message = await sendMessage(server, { to: `@${handle}`, text: 'for the program' });
      const { body } = await post(checkMessages({ waitMs: 30_000 }), { key: token });
      expect(body).toMatchObject({ result: { structuredContent: { messages: [] } } });
      expect(await consumed(message)).toBe(false);
      connection.abort();
    });

    it('stops waiting when its token is replaced', async () => {
      const { id, token, handle } = await attach();
      const waiting = post(checkMessages({ waitMs: 30_000 }), { key: token });
      const closed = expect(waiting).rejects.toThrow('fetch failed');
      await until(() => isRead(id), 'the stream to be open');
      const identity = { name: 'Builder', kind: 'agent' };
      const body = { handle, identity, capabilities };
      const attached = await server.request('/v1/sessions/attach', { key: token, body });
      expect(attached.status).toBe(201);
      await closed;
    });
  });
});

describe('/mcp answers in the format of JSON-RPC', () => {
  useServer();

  const list = { jsonrpc: '2.0', id: 7, method: 'tools/list' };

  it.each([
    ['what is not JSON', '{', 400, -32_700],
    ['an empty body', '', 400, -32_700],
    ['a duplicate key', '{"id": 1, "id": 2}', 400, -32_600],
    ['a prototype', '{"__proto__": {}}', 400, -32_700],
    ['a number that would be changed', '{"id": 12345678901234567890}', 400, -32_600],
    ['deep nesting', '['.repeat(65) + ']'.repeat(65), 400, -32_600],
    ['a batch', JSON.stringify([list, list]), 400, -32_600],
    ['null', 'null', 400, -32_600],
    ['an object that is no message', '{}', 400, -32_600],
    ['another version of JSON-RPC', JSON.stringify({ ...list, jsonrpc: '1.0' }), 400, -32_600],
    ['an id that is an object', JSON.stringify({ ...list, id: {} }), 400, -32_600],
    ['a body over 1 MB', JSON.stringify({ ...list, x: 'x'.repeat(1024 * 1024) }), 413, 413],
  ])('%s', async (_what, body, status, code) => {
    const answer = await post(body, { headers: { 'content-type': 'application/json' } });
    expect([answer.status, answer.body]).toMatchObject([
      status,
      { jsonrpc: '2.0', error: { code, message: expect.any(String) } },
    ]);
  });

  it.each([
    ['another content type', { 'content-type': 'text/plain' }, 415, 415],
    ['a foreign origin', { origin: 'https://evil.example' }, 403, 403],
    ['an opaque origin', { origin: 'null' }, 403, 403],
    ['an unknown revision', { 'mcp-protocol-version': '2031-01-01' }, 400, -32_602],
    ['a client that accepts no stream', { accept: 'text/html' }, 406, -32_000],
  ])('%s', async (_what, headers, status, code) => {
    const answer = await post(list, { headers });
    expect([answer.status, answer.body]).toMatchObject([
      status,
      { jsonrpc: '2.0', error: { code, message: expect.any(String) } },
    ]);
  });

  it('other methods of HTTP', async () => {
    for (const method of ['GET', 'DELETE']) {
      const response = await server.request('/mcp', { method });
      expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST']);
      expect(await response.json()).toMatchObject({ jsonrpc: '2.0', error: { code: 405 } });
    }
  });

  it('a missing or invalid key, with WWW-Authenticate', async () => {
    for (const key of [null, 'relay_sess_x', 'x']) {
      const { status, headers, body } = await post(list, { key });
      expect([status, headers.get('www-authenticate')]).toEqual([401, 'Bearer realm="relay"']);
      expect(body).toEqual({
        jsonrpc: '2.0',
        error: {
          code: 401,
          message: 'A valid API key is required',
          data: { code: 'unauthorized' },
        },
      });
    }
  });

  it('the list of tools in few characters, because every model reads it', async () => {
    const { token } = await attach();
    const { body } = await post(list, { key: token });
    const { tools } = (body as { result: { tools: unknown[] } }).result;
    expect(tools).toHaveLength(4);
    expect(JSON.stringify(tools).length).toBeLessThan(1_700);
  });

  it('the list of tools for runs in few characters, too', async () => {
    const { body } = await post(list);
    const { tools } = (body as { result: { tools: { name: string }[] } }).result;
    const ofRuns = tools.filter(({ name }) => /^run_|^approvals_/.test(name));
    expect(ofRuns).toHaveLength(5);
    expect(JSON.stringify(ofRuns).length).toBeLessThan(1_500);
  });

  it('a cursor that is none', async () => {
    const { body } = await post({ ...list, params: { cursor: '/' } });
    expect(body).toMatchObject({
      id: 7,
      error: { code: -32_602, message: expect.stringContaining('cursor') },
    });
  });

  it('unknown methods of the protocol', async () => {
    const { body } = await post({ ...list, method: 'resources/list' });
    expect(body).toMatchObject({ id: 7, error: { code: -32_601 } });
  });
});

it('a subscription to changes ends when the server stops', async () => {
  const stopping = await bootServer();
  const { body, headers } = currentCall('', {});
  const method = 'subscriptions/listen';
  const { _meta: meta } = body.params;
  const response = await stopping.request('/mcp', {
    headers: {
      accept: 'application/json, text/event-stream',
      ...headers,
      'mcp-method': method,
    },
    body: {
      ...body,
      method,
      params: { _meta: meta, notifications: { toolsListChanged: true } },
    },
  });
  const text = response.text();
  await stopping.stop();
  expect(await text).toContain('acknowledged');
});
