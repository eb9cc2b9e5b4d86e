/** `/v1/credentials`: providers' keys are used and never returned. */
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  finishFrame,
  type ScriptedProvider,
  startScriptedProvider,
  textStream,
} from '@relay/models/testing';
import type { StoredEvent } from '@relay/protocol';
import { createMemoryStore } from '@relay/store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { addKey, bootServer, type TestServer, until } from '../../support/server.ts';
import { eventsOf, finishedRun, startRun } from '../../support/requests.ts';

const canary = 'sk-canary-4f9aQ2xZ7LmN0pRsTuVw';
const local = { RELAY_PRIVATE_NETWORKS: '127.0.0.0/8' };

let server: TestServer;
let provider: ScriptedProvider;
beforeEach(async () => {
  provider = await startScriptedProvider((response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(textStream(['Hello', ' there']));
  });
});
afterEach(async () => {
  await server.stop();
  await provider.close();
});

function put(name: string, body: object, more: object = {}): Promise<Response> {
  return server.request(`/v1/credentials/${name}`, { method: 'PUT', body, ...more });
}

describe('a private network of one tenant', () => {
  it('is closed to the others, and can be limited to a port', async () => {
    const { port } = new URL(provider.baseUrl);
    const networks = `acme=127.0.0.0/8:${port}, early=127.0.0.0/8:1`;
    server = await bootServer({ env: { RELAY_PRIVATE_NETWORKS: networks } });
    const body = { apiKey: canary, baseUrl: provider.baseUrl };
    const statusFor = async (key?: string) => (await put('openai', body, { key })).status;
    expect(await statusFor()).toBe(400);
    const early = await addKey(server.store, { tenant: 'early' });
    expect(await statusFor(early.apiKey)).toBe(400);
    // The tenant is created after the start.
    const acme = await addKey(server.store, { tenant: 'acme' });
    await until(async () => (await statusFor(acme.apiKey)) === 200 || undefined, 'the network');
    const input = { model: 'gpt-4o-mini', input: 'Hi' };
    const { reader } = await startRun(server, input, { key: acme.apiKey });
    expect((await reader.rest()).at(-1)?.data).toMatchObject({ status: 'completed' });
    expect(await statusFor()).toBe(400);
  });
});

describe('credentials', () => {
  it('are used for the provider’s models, and never returned', async () => {
    server = await bootServer({ env: local });
    const uploaded = await put('openai', {
      apiKey: canary,
      label: 'prod',
      baseUrl: provider.baseUrl,
    });
    expect(uploaded.status).toBe(200);
    const shown = (await uploaded.json()) as Record<string, unknown>;
    expect(shown).toEqual({
      provider: 'openai',
      label: 'prod',
      baseUrl: provider.baseUrl,
      last4: canary.slice(-4),
      updatedAt: expect.any(String),
    });
    expect(await server.json('/v1/credentials')).toEqual({
      credentials: [shown],
      nextCursor: null,
    });
    const run = await finishedRun(server, { model: 'gpt-4o-mini', input: 'Hi' });
    expect(run.frames.at(-1)?.data).toMatchObject({ status: 'completed', output: 'Hello there' });
    expect(provider.requests[0]?.headers.authorization).toBe(`Bearer ${canary}`);
    expect(provider.requests[0]?.body).toMatchObject({ model: 'gpt-4o-mini' });
  });

  it('are rotated and revoked with effect from the next call', async () => {
    server = await bootServer({ env: local });
    const { baseUrl } = provider;
    await put('openai', { apiKey: 'sk-the-first-key-1111', baseUrl });
    await finishedRun(server, { model: 'gpt-4o', input: 'Hi' });
    await put('openai', { apiKey: 'sk-the-second-key-2222', baseUrl });
    await finishedRun(server, { model: 'gpt-4o', input: 'Hi' });
    expect(provider.requests.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer sk-the-first-key-1111',
      'Bearer sk-the-second-key-2222',
    ]);
    for (const _ of [1, 2]) {
      const revoked = await server.request('/v1/credentials/openai', { method: 'DELETE' });
      expect(revoked.status).toBe(204);
    }
    const refused = await server.request('/v1/runs', { body: { model: 'gpt-4o', input: 'Hi' } });
    expect(refused.status).toBe(400);
    expect(await refused.json()).toEqual({
      error:
        'There is no credential for the provider openai. Store its key with ' +
        '"npx relay credentials set openai", or in development set OPENAI_API_KEY',
      code: 'credential_missing',
    });
    expect(await server.json('/v1/credentials')).toMatchObject({ credentials: [] });
  });

  it('belong to one tenant', async () => {
    server = await bootServer({ env: local });
    await put('openai', { apiKey: canary, baseUrl: provider.baseUrl });
    const { apiKey: key } = await addKey(server.store, { tenant: 'stranger' });
    expect(await server.json('/v1/credentials', { key })).toMatchObject({ credentials: [] });
    const refused = await server.request('/v1/runs', {
      key,
      body: { model: 'gpt-4o', input: 'Hi' },
    });
    expect(await refused.json()).toMatchObject({ code: 'credential_missing' });
    await server.request('/v1/credentials/openai', { key, method: 'DELETE' });
    await finishedRun(server, { model: 'gpt-4o', input: 'Hi' });
  });

  it('of an unknown provider require a URL, and are used as name:model', async () => {
    server = await bootServer({ env: local });
    const nowhere = await put('zhipu', { apiKey: canary });
    expect(nowhere.status).toBe(400);
    expect(await nowhere.json()).toMatchObject({ details: [{ path: 'baseUrl' }] });
    expect((await put('zhipu', { apiKey: canary, baseUrl: provider.baseUrl })).status).toBe(200);
    const run = await finishedRun(server, { model: 'zhipu:glm-4.7', input: 'Hi' });
    expect(run.frames.at(-1)?.data).toMatchObject({ status: 'completed' });
    expect(provider.requests[0]?.body).toMatchObject({ model: 'glm-4.7' });
  });
});

describe('a credential', () => {
  it.each([
    [{}, 'apiKey'],
    [{ apiKey: '' }, 'apiKey'],
    [{ apiKey: 'with space' }, 'apiKey'],
    [{ apiKey: 'line\nbreak' }, 'apiKey'],
    [{ apiKey: 7 }, 'apiKey'],
    [{ apiKey: canary, label: '' }, 'label'],
    [{ apiKey: canary, baseUrl: 'nowhere' }, 'baseUrl'],
    [{ apiKey: canary, more: 1 }, 'more'],
  ])('that is malformed is refused, with the field: %j', async (body, path) => {
    server = await bootServer();
    const response = await put('openai', body);
    expect(response.status).toBe(400);
    const text = await response.text();
    expect(JSON.parse(text)).toMatchObject({ details: [{ path }] });
    expect(text).not.toContain(canary);
  });

  it.each(['OpenAI', 'a'.repeat(33), 'a_b', 'a.b'])(
    'for the malformed provider name %s is refused with a message',
    async (name) => {
      server = await bootServer();
      const response = await put(name, { apiKey: canary });
      expect(response.status).toBe(400);
      const message = 'Must be 1 to 32 lowercase letters, digits or hyphens';
      expect(await response.json()).toEqual({
        error: `provider: ${message}`,
        code: 'invalid_request',
        details: [{ path: 'provider', message }],
      });
      const none = await server.request(`/v1/credentials/${name}`, { method: 'DELETE' });
      expect(none.status).toBe(404);
    },
  );

  it('for a provider name with a path is answered with 404', async () => {
    server = await bootServer();
    expect((await put('%2e%2e', { apiKey: canary })).status).toBe(404);
  });

  it.each([
    'http://127.0.0.1:9/v1',
    'https://127.0.0.1/v1',
    'https://[::1]/v1',
    'https://169.254.169.254/',
    'https://2130706433/',
    'https://[::ffff:10.0.0.1]/',
    'http://93.184.215.14/v1',
    'https://user:pw@example.com/',
    'ftp://example.com/',
  ])('cannot have a private base URL: %s', async (baseUrl) => {
    server = await bootServer();
    const response = await put('openai', { apiKey: canary, baseUrl });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      code: 'base_url_refused',
      details: [{ path: 'baseUrl' }],
    });
  });

  it('cannot have a base URL whose name resolves to a private address', async () => {
    server = await bootServer();
    const { port } = new URL(provider.baseUrl);
    await put('openai', { apiKey: canary, baseUrl: `https://localhost:${port}/v1` });
    const response = await server.request('/v1/runs', { body: { model: 'gpt-4o', input: 'Hi' } });
    expect(response.status).toBe(502);
    expect(await response.text()).toMatch(/resolves to an address that is not allowed/);
    expect(provider.connections.made).toBe(0);
  });

  it('appears in no log, event, error or file, even if its provider repeats it', async () => {
    server = await bootServer({ kind: 'sqlite', env: local });
    await put('openai', { apiKey: canary, baseUrl: provider.baseUrl });
    provider.script((response, { headers }) => {
      response.writeHead(401, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ error: { message: `Bad key: ${headers.authorization}` } }));
    });
    const refused = await server.request('/v1/runs', { body: { model: 'gpt-4o', input: 'Hi' } });
    expect(refused.status).toBe(502);
    expect(await refused.text()).not.toContain(canary);
    provider.script((response, { headers }) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(`data: ${JSON.stringify({ error: { message: headers.authorization } })}\n\n`);
      response.end(finishFrame());
    });
    const broken = await server.request('/v1/runs', { body: { model: 'gpt-4o', input: 'Hi' } });
    const runId = broken.headers.get('x-run-id') ?? '';
    expect(await broken.text()).not.toContain(canary);
    const { events } = await eventsOf(server, runId);
    expect(JSON.stringify(events as unknown as StoredEvent[])).not.toContain(canary);
    expect(server.logged.join('\n')).not.toContain(canary);
    for (const name of readdirSync(server.config.dataDir)) {
      expect(readFileSync(join(server.config.dataDir, name)).includes(canary), name).toBe(false);
    }
  });
});

describe('the master key', () => {
  const [first, second, third] = [1, 2, 3].map(() => randomBytes(32).toString('base64')) as [
    string,
    string,
    string,
  ];

  it('can be rotated without failing runs, and the old one can be removed', async () => {
    const store = createMemoryStore();
    const boot = (env: Record<string, string>) => bootServer({ store, env: { ...local, ...env } });
    const works = async () => {
      const run = await finishedRun(server, { model: 'gpt-4o', input: 'Hi' });
      expect(run.frames.at(-1)?.data).toMatchObject({ status: 'completed' });
    };
    server = await boot({ RELAY_MASTER_KEY: first });
    await put('openai', { apiKey: canary, baseUrl: provider.baseUrl });
    await works();
    await server.stop();
    server = await boot({ RELAY_MASTER_KEY: second, RELAY_MASTER_KEY_PREVIOUS: first });
    await works();
    await server.stop();
    server = await boot({ RELAY_MASTER_KEY: second });
    await works();
    await expect(boot({ RELAY_MASTER_KEY: third })).rejects.toThrow(
      /^The master key does not match the one that encrypted the stored credentials/,
    );
    await expect(boot({ RELAY_MASTER_KEY: first })).rejects.toThrow(/does not match the one/);
    await expect(boot({ RELAY_MASTER_KEY: 'short' })).rejects.toThrow(/must be 32 bytes/);
  });
});
