/** A repeated request returns its run, whatever has changed since. */
import { startScriptedProvider, textStream } from '@relay/models/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { bootServer, type TestServer } from '../../support/server.ts';
import { untilStatus } from '../../support/requests.ts';

let server: TestServer;
afterEach(() => server.stop());

function start(body: object, key = 'once'): Promise<Response> {
  return server.request('/v1/runs', { body, headers: { 'idempotency-key': key } });
}

function set(body: object): Promise<Response> {
  return server.request('/v1/tenant', { method: 'PUT', body });
}

describe('a repeated request', () => {
  const body = { model: 'demo', input: 'say 20' };

  it('is answered although the budget is used up, or the tenant paused', async () => {
    server = await bootServer();
    await set({ budgets: { tenant: { tokens: 28 } } });
    const first = await start(body);
    const frames = await first.text();
    expect((await start(body, 'another')).status).toBe(429);
    const again = await start(body);
    expect(again.status).toBe(200);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(again.headers.get('x-run-id')).toBe(first.headers.get('x-run-id'));
    expect(await again.text()).toBe(frames);
    await set({ paused: true });
    const paused = await start(body);
    expect(await paused.text()).toBe(frames);
    expect((await start({ ...body, input: 'say 2' })).status).toBe(422);
  });

  it('is answered while its own run uses the only concurrency slot', async () => {
    server = await bootServer();
    await set({ budgets: { tenant: { concurrentRuns: 1 } } });
    const slow = { model: 'demo', input: 'slow 500' };
    const first = await start(slow);
    const runId = first.headers.get('x-run-id') ?? '';
    await first.body?.cancel();
    await untilStatus(server, runId, 'running');
    const again = await start(slow);
    expect(again.headers.get('x-run-id')).toBe(runId);
    expect(await again.text()).toContain('"status":"completed"');
  });

  it('is answered although the credential was deleted', async () => {
    const provider = await startScriptedProvider((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(textStream(['Hello']));
    });
    server = await bootServer({ env: { RELAY_PRIVATE_NETWORKS: '127.0.0.0/8' } });
    const { baseUrl } = provider;
    await server.request('/v1/credentials/openai', {
      method: 'PUT',
      body: { apiKey: 'sk-0123456789abcdef', baseUrl },
    });
    const asked = { model: 'gpt-4o', input: 'Hi' };
    const frames = await (await start(asked)).text();
    await server.request('/v1/credentials/openai', { method: 'DELETE' });
    expect((await start(asked, 'another')).status).toBe(400);
    expect(await (await start(asked)).text()).toBe(frames);
    await provider.close();
  });
});

describe('the rest of a budget', () => {
  it('limits the run', async () => {
    server = await bootServer();
    await set({ budgets: { tenant: { tokens: 30 } } });
    const calls = Array.from({ length: 3 }, () => 'use agent {"prompt":"say 20"}').join('\n');
    const response = await start({
      model: 'demo',
      input: calls,
      tools: [{ name: 'agent', kind: 'builtin' }],
    });
    const frames = await response.text();
    expect(frames).toContain('"code":"budget_exceeded"');
    expect(frames).toContain('"status":"failed"');
  });

  it('in dollars requires a price of the model', async () => {
    server = await bootServer({
      file: { prices: { 'gpt-4o': { inputPerMillion: 1, outputPerMillion: 1 } } },
    });
    await set({ budgets: { tenant: { costUsd: 1 } } });
    const free = await start({ model: 'demo', input: 'say 1' });
    expect(free.status).toBe(400);
    expect(await free.json()).toMatchObject({
      error: expect.stringMatching(
        /^A budget in US dollars holds for the run, but the model demo has no price: set one/,
      ),
    });
    const models = server.relay.control.engine.models(server.tenantId);
    const price = { inputPerMillion: 1, outputPerMillion: 1 };
    expect(models.price?.('openai:gpt-4o')).toEqual(price);
    expect(models.price?.('gpt-4o')).toEqual(price);
    expect(models.price?.('other:gpt-4o')).toBeUndefined();
  });
});

describe('a provider’s model', () => {
  it('can be the default, an agent’s, or the one that summarizes', async () => {
    server = await bootServer({
      env: { RELAY_DEFAULT_MODEL: 'gpt-4o-mini' },
      file: {
        agents: [{ name: 'writer', model: 'zhipu:glm-4.7' }],
        compaction: { model: 'gpt-4o-mini' },
      },
    });
    const response = await server.request('/v1/runs', { body: { input: 'Hi' } });
    expect(await response.json()).toMatchObject({ code: 'credential_missing' });
    const written = await server.request('/v1/runs', { body: { agent: 'writer', input: 'Hi' } });
    expect(await written.json()).toMatchObject({
      error:
        'There is no credential for the provider zhipu. Store its key with ' +
        '"npx relay credentials set zhipu"',
    });
  });
});
