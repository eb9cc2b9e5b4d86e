/** Chat without a key: only local callers, and no page of another origin. */
import { request as httpRequest } from 'node:http';
import { defineTool } from '@relay/tools';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { addKey, bootServer, type TestServer, type RequestOptions } from '../support/server.ts';
import type { RelayConfig } from '../../src/config/config-file.ts';
import { startChat } from '../support/requests.ts';

const missing = '01963a5c-7891-7abc-8ef0-123456789abc';

describe('chat without a key', () => {
  it('can answer only in chats that were started without a key', async () => {
    const server = await bootServer();
    const { apiKey: key } = await addKey(server.store, { scopes: ['runs'] });
    const keyed = await startChat(server, 'notify mine', { key });
    const { data } = await keyed.reader.until('relay');
    const approve = (sessionId: string, approvalId: unknown, options: RequestOptions) =>
      server.request(`/chat/relay/${String(approvalId)}`, {
        ...options,
        body: { sessionId, response: { approved: true, always: true } },
      });
    const refused = await approve(keyed.sessionId, data['id'], { key: null });
    expect([refused.status, await refused.json()]).toMatchObject([
      404,
      { error: 'Session not found' },
    ]);
    expect(server.notes()).toEqual([]);
    await keyed.reader.disconnect();
    const keyless = await startChat(server, 'notify ours', { key: null });
    const relay = await keyless.reader.until('relay');
    const approved = await approve(keyless.sessionId, relay.data['id'], { key: null });
    expect(approved.status).toBe(200);
    await keyless.reader.rest();
    await server.stop();
  });

  const body = { model: 'demo', messages: [{ role: 'user', content: 'say 1' }] };

  /** A request with a given Host. */
  function send(server: TestServer, headers: Record<string, string>): Promise<number | undefined> {
    return new Promise((resolve, reject) => {
      const sending = httpRequest(`${server.url}/chat`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
      });
      sending.on('response', (response) => {
        response.resume().on('end', () => resolve(response.statusCode));
      });
      sending.on('error', reject);
      sending.end(JSON.stringify(body));
    });
  }

  it('works on this machine for the curl examples of the seed', async () => {
    const server = await bootServer();
    expect(await send(server, {})).toBe(200);
    expect(await send(server, { host: 'localhost:4000' })).toBe(200);
    expect((await server.request('/models', { key: null })).status).toBe(200);
    await server.stop();
  });

  it.each<[string, Record<string, string>]>([
    ['a foreign Host', { host: 'relay.example' }],
    ['a foreign Origin', { origin: 'https://evil.example' }],
    ['the Origin null', { origin: 'null' }],
    ['Forwarded', { forwarded: 'for=1.2.3.4' }],
    ['X-Forwarded-For', { 'x-forwarded-for': '127.0.0.1' }],
    ['Via', { via: '1.1 proxy' }],
    ['a wrong key', { authorization: 'Bearer relay_live_x' }],
  ])('is refused because of %s, without CORS headers', async (_what, headers) => {
    const server = await bootServer();
    expect([401, 403]).toContain(await send(server, headers));
    const { host: _host, ...rest } = headers;
    const answer = await server.request('/models', { key: null, headers: rest });
    expect([...answer.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual(
      [],
    );
    await server.stop();
  });

  const refusalOf = async (server: TestServer, over: Readonly<Record<string, unknown>>) => {
    const response = await server.request('/chat', { body: { ...body, ...over }, key: null });
    const { code } = (await response.json()) as { code: string };
    return [response.status, code];
  };
  const extra = defineTool({
    name: 'deploy',
    description: 'Deploys.',
    schema: z.strictObject({}),
    allowedByDefault: true,
    execute: async () => ({ context: 'deployed' }),
  });
  const file: RelayConfig = {
    tools: [extra],
    agents: [
      { name: 'assistant', model: 'demo', tools: ['deploy'], handoffs: ['ops'], memory: true },
      { name: 'ops', instructions: 'Deploy.', tools: ['deploy'] },
    ],
  };
  const allow = { allowlist: [{ tool: 'send_note' }] };

  it('offers the model demo and the tools calculator and send_note, nothing else', async () => {
    const server = await bootServer({ file, env: { RELAY_DEFAULT_MODEL: 'openai:gpt-5' } });
    const models = await server.json('/models', { key: null });
    expect(models).toEqual({ models: [{ id: 'demo', provider: 'demo' }] });
    expect(await refusalOf(server, { model: 'openai:gpt-5' })).toEqual([403, 'key_required']);
    expect(await refusalOf(server, { model: undefined })).toEqual([400, 'invalid_request']);
    for (const name of ['deploy', 'agent', 'memory', 'no-such-tool']) {
      expect(await refusalOf(server, { tools: [name] })).toEqual([403, 'key_required']);
    }
    const { reader, runId } = await startChat(server, 'use deploy {}', { key: null });
    await reader.rest();
    const { events } = (await server.json(`/v1/runs/${runId}/events`)) as {
      events: Record<string, unknown>[];
    };
    expect(events[0]).toMatchObject({ tools: ['calculator', 'send_note'] });
    for (const field of ['handoffs', 'memory']) expect(events[0]).not.toHaveProperty(field);
    expect(events.map(({ type }) => type)).not.toContain('tool.started');
    await server.stop();
  });

  it.each(['', 'on'])('cannot bring rules that allow, with RELAY_LOCAL_CHAT=%j', async (chat) => {
    const server = await bootServer({ env: { RELAY_LOCAL_CHAT: chat } });
    const once = { allowOnce: allow.allowlist };
    for (const permissions of [allow, once]) {
      expect(await refusalOf(server, { permissions })).toEqual([403, 'approve_scope_required']);
    }
    const permissions = { denylist: allow.allowlist, allowlist: [] };
    const narrowed = await server.request('/chat', { body: { ...body, permissions }, key: null });
    expect(narrowed.status).toBe(200);
    await narrowed.text();
    await server.stop();
  });

  it('has all models and tools with RELAY_LOCAL_CHAT=on', async () => {
    const server = await bootServer({ file, env: { RELAY_LOCAL_CHAT: 'on' } });
    const { reader } = await startChat(server, 'use deploy {}', { key: null });
    const frames = await reader.rest();
    expect(frames.find(({ event }) => event === 'tool_result')?.data).toMatchObject({
      name: 'deploy',
    });
    await server.stop();
  });

  it.each([
    { RELAY_PUBLIC_URL: 'https://relay.example' },
    { RELAY_ALLOWED_HOSTS: 'relay.example' },
  ])('is refused with %j, even with RELAY_LOCAL_CHAT=on', async (env) => {
    const server = await bootServer({ env: { RELAY_LOCAL_CHAT: 'on', ...env } });
    expect(await send(server, {})).toBe(401);
    await server.stop();
  });

  it('is refused with RELAY_LOCAL_CHAT=off, where a key still works', async () => {
    const server = await bootServer({ env: { RELAY_LOCAL_CHAT: 'off' } });
    for (const path of ['/chat', `/chat/relay/${missing}`]) {
      const response = await server.request(path, { body, key: null });
      expect(response.status).toBe(401);
    }
    expect((await server.request('/models', { key: null })).status).toBe(401);
    expect((await server.request('/models')).status).toBe(200);
    await server.stop();
  });

  it('is refused if the server is not bound to loopback', async () => {
    const server = await bootServer({ env: { RELAY_HOST: '0.0.0.0' } });
    expect(await send(server, {})).toBe(401);
    await server.stop();
  });
});

describe('a key from a page of another origin', () => {
  it.each([
    ['a foreign Origin', { origin: 'https://evil.example' }],
    ['the Origin null', { origin: 'null' }],
  ])('is refused with 403 for %s', async (_what, headers) => {
    const server = await bootServer();
    const response = await server.request('/models', { headers });
    await server.stop();
    expect(response.status).toBe(403);
  });
});
