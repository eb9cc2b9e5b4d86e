import { readFileSync } from 'node:fs';
import { createScriptedModel, finish, text } from '@relay/core/testing';
import { createModelRegistry } from '@relay/models';
import { RelayError, type Route, routes } from '@relay/protocol';
import { createMemoryStore } from '@relay/store';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type BootOptions, bootServer, type TestServer, until } from '../support/server.ts';
import { finishedRun, startRun, statusOf, untilStatus } from '../support/requests.ts';

async function boot(options: BootOptions = {}): Promise<TestServer> {
  const server = await bootServer(options);
  onTestFinished(() => server.stop());
  return server;
}

interface Listed {
  readonly models: readonly { id: string; provider: string }[];
}

describe('a server', () => {
  it('reports health, readiness and its version without a key', async () => {
    const server = await boot();
    const manifest = JSON.parse(
      readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
    ) as { version: string };
    for (const headers of [{}, { authorization: 'Bearer nonsense' }, { host: 'relay.example' }]) {
      const options = { method: 'GET' as const, headers };
      const health = await server.relay.app.inject({ ...options, url: '/health' });
      expect(health.statusCode).toBe(200);
      expect(health.json()).toEqual({ status: 'ok', version: manifest.version });
      const ready = await server.relay.app.inject({ ...options, url: '/ready' });
      expect(ready.statusCode).toBe(200);
      expect(ready.json()).toEqual({ status: 'ready' });
    }
  });

  it.each([
    ['a page', '/docs', 200],
    ['JSON', '/health', 200],
    ['an error', '/nowhere', 404],
    ['the page of a decision link that is not valid', '/decisions/x', 404],
    ['a stream', '/v1/feed', 200],
  ])('sends %s with headers against framing, sniffing and downgrades', async (_, path, status) => {
    const server = await boot();
    const response = await server.request(path, { headers: { accept: 'text/html, */*' } });
    await response.body?.cancel();
    expect(response.status).toBe(status);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-security-policy': expect.stringMatching(
        /^default-src 'none'.*frame-ancestors 'none'/,
      ) as string,
      'strict-transport-security': 'max-age=31536000',
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
    });
  });

  it('links to its documentation at /', async () => {
    const server = await boot();
    const welcome = await server.request('/', { key: null });
    expect(welcome.status).toBe(200);
    const { name, docs, openapi, health } = (await welcome.json()) as Record<string, string>;
    expect(name).toBe('Relay');
    for (const path of [docs, openapi, health]) {
      expect((await server.request(path ?? '', { key: null })).status).toBe(200);
    }
  });

  it('answers HEAD for health checks', async () => {
    const server = await boot();
    for (const path of ['/health', '/ready']) {
      const response = await server.request(path, { method: 'HEAD' });
      expect([response.status, await response.text()]).toEqual([200, '']);
    }
  });

  it('lists the demo model', async () => {
    const server = await boot();
    expect(await server.json('/models')).toEqual({ models: [{ id: 'demo', provider: 'demo' }] });
  });

  it('lists the default agent and those of the configuration, without their instructions', async () => {
    const [billing, triage] = [
      { name: 'billing', description: 'Answers questions', tools: ['calculator'], model: 'demo' },
      { name: 'triage', handoffs: ['billing'] },
    ];
    const agents = [{ ...billing, instructions: 'Be brief' }, triage];
    const server = await bootServer({ file: { agents } });
    expect(await server.json('/v1/agents')).toEqual({
      agents: [
        { name: 'assistant', isDefault: true },
        { ...billing, isDefault: false },
        { ...triage, isDefault: false },
      ],
      nextCursor: null,
    });
    await server.stop();
  });

  it('lists an assistant of the configuration as the default agent', async () => {
    const agents = [{ name: 'triage' }, { name: 'assistant', description: 'Knows the way' }];
    const server = await bootServer({ file: { agents } });
    const listed = await server.json('/v1/agents');
    expect(listed['agents']).toEqual([
      { name: 'assistant', description: 'Knows the way', isDefault: true },
      { name: 'triage', isDefault: false },
    ]);
    await server.stop();
  });

  it('lists the models of providers for which the tenant has a credential', async () => {
    const server = await boot();
    const path = '/v1/credentials/anthropic';
    await server.request(path, { method: 'PUT', body: { apiKey: 'sk-0123456789abcdef' } });
    const { models } = (await server.json('/models')) as unknown as Listed;
    expect(models[0]).toEqual({ id: 'demo', provider: 'demo' });
    expect(models.length).toBeGreaterThan(5);
    for (const { id, provider } of models.slice(1)) {
      expect([id, provider]).toEqual([expect.stringMatching(/^claude-/), 'anthropic']);
    }
    await server.request(path, { method: 'DELETE' });
    expect(await server.json('/models')).toEqual({ models: [{ id: 'demo', provider: 'demo' }] });
  });

  it('answers health while it streams', async () => {
    const server = await boot();
    const { reader } = await startRun(server, { input: 'say 20000' });
    let ended = false;
    const reading = reader.rest().finally(() => (ended = true));
    expect((await server.request('/health')).status).toBe(200);
    expect(ended).toBe(false);
    await reading;
  });
});

describe('the default model', () => {
  it('is listed, and used by requests without a model', async () => {
    const server = await boot({ env: { RELAY_DEFAULT_MODEL: 'demo' } });
    expect(await server.json('/models')).toMatchObject({ defaultModel: 'demo' });
    const response = await server.request('/v1/runs', { body: { input: 'say 1' } });
    expect(response.status).toBe(200);
    await response.text();
    const chat = await server.request('/chat', {
      body: { messages: [{ role: 'user', content: 'say 1' }] },
    });
    expect(chat.status).toBe(200);
    await chat.text();
  });
});

describe('readiness', () => {
  it('fails when the store does not answer, while health succeeds', async () => {
    const store = createMemoryStore();
    const server = await boot({ store });
    store.ping = () => Promise.reject(new RelayError('storage_failed', 'The store did not answer'));
    const ready = await server.request('/ready');
    expect(ready.status).toBe(503);
    expect(await ready.json()).toMatchObject({ code: 'storage_failed' });
    expect((await server.request('/health')).status).toBe(200);
  });

  it('fails as soon as the server begins to stop', async () => {
    const held = Promise.withResolvers<void>();
    const began = Promise.withResolvers<void>();
    const model = {
      async *stream() {
        yield [text('a')];
        began.resolve();
        await held.promise;
        yield [finish()];
      },
    };
    const models = createModelRegistry([{ id: 'held', provider: 'test', model }]);
    const server = await bootServer({ models });
    const { reader } = await startRun(server, { model: 'held', input: 'x' });
    await began.promise;
    const stopping = server.stop();
    const ready = await server.relay.app.inject({ method: 'GET', url: '/ready' });
    held.resolve();
    await reader.rest().catch(() => undefined);
    await stopping;
    expect(ready.statusCode).toBe(503);
    expect(ready.json()).toMatchObject({ code: 'shutting_down' });
  });
});

describe('an in-process server', () => {
  it('uses the models it is given', async () => {
    const model = createScriptedModel([[text('from a script'), finish()]]);
    const models = createModelRegistry([{ id: 'scripted', provider: 'test', model }]);
    const server = await boot({ models });
    expect(await server.json('/models')).toEqual({
      models: [{ id: 'scripted', provider: 'test' }],
    });
    const { frames } = await finishedRun(server, { model: 'scripted', input: 'x' });
    expect(frames.at(-1)?.data['output']).toBe('from a script');
  });
});

describe('more runs than the concurrency limit', () => {
  /** A server whose only concurrency slot is used, and a queued run. */
  async function queued() {
    const server = await boot({ env: { RELAY_MAX_ACTIVE_RUNS: '1' } });
    const busy = await startRun(server, { input: 'slow 60000' });
    await busy.reader.until('token');
    const asked = server.request('/v1/runs', { body: { model: 'demo', input: 'say 1' } });
    const runId = await until(async () => {
      const due = await server.store.dueRuns(Date.now(), 10);
      return due.find((ref) => ref.runId !== busy.runId)?.runId;
    }, 'a queued run');
    const cancel = (id: string) => server.request(`/v1/runs/${id}/cancel`, { method: 'POST' });
    return { server, busy, asked, runId, cancel };
  }

  it('wait in the queue, and run when a slot is free', async () => {
    const { server, busy, asked, runId, cancel } = await queued();
    expect(await statusOf(server, runId)).toBe('queued');
    await cancel(busy.runId);
    await untilStatus(server, runId, 'completed');
    expect(await (await asked).text()).toContain('"type":"done","status":"completed"');
  });

  it('can be canceled while they are queued', async () => {
    const { server, busy, asked, runId, cancel } = await queued();
    expect((await cancel(runId)).status).toBe(202);
    const ended = await untilStatus(server, runId, 'canceled').catch(() => 'still queued');
    await cancel(busy.runId);
    await (await asked).text();
    expect(ended).toBe('canceled');
  });
});

describe('the route table', () => {
  it('is served completely', async () => {
    const server = await boot({ env: { RELAY_INTERNAL_SECRET: 'a-secret-of-16-or-more' } });
    for (const { method, path, auth } of Object.values(routes) as Route[]) {
      const url = path.replaceAll(/:\w+/g, '01963a5c-7891-7abc-8ef0-123456789abc');
      expect(server.relay.app.hasRoute({ method, url: path }), path).toBe(true);
      const response = await server.request(url, { method, key: 'nonsense' });
      // An invalid decision link is answered with 404.
      // Signing in is no matter of the key.
      const other = auth === 'sign-in' ? [204, 400] : [200, 401];
      const expected = auth === 'link' ? [404] : other;
      expect(expected, `${method} ${path}`).toContain(response.status);
    }
  });
});
