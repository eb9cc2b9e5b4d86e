/** The credentials of `003`, as its curl lines use them, against a started server. */
import { type Route, routes } from '@relay/protocol';
import { startScriptedProvider, type ScriptedProvider, textStream } from '@relay/models/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { allFrames } from '../support/frames.ts';
import { TestServer } from '../support/server.ts';
import { verifies } from './verifies.ts';

const server = new TestServer({ RELAY_PRIVATE_NETWORKS: '127.0.0.0/8' });
beforeAll(() => server.start());
afterAll(() => server.dispose());

let provider: ScriptedProvider;
beforeEach(async () => {
  provider = await startScriptedProvider((response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(textStream(['1', '081']));
  });
});
afterEach(async () => {
  await server.request('/v1/credentials/openai', { method: 'DELETE' });
  await provider.close();
});

const apiKey = 'sk-0123456789abcdefghij';

function upload(body: object = { apiKey, label: 'prod', baseUrl: provider.baseUrl }) {
  return server.request('/v1/credentials/openai', { method: 'PUT', body });
}

function start(model = 'gpt-4o-mini'): Promise<Response> {
  return server.request('/v1/runs', { body: { model, input: 'What is 23 * 47?' } });
}

async function list(): Promise<{ text: string; credentials: Record<string, unknown>[] }> {
  const text = await (await server.request('/v1/credentials')).text();
  const { credentials } = JSON.parse(text) as { credentials: Record<string, unknown>[] };
  return { text, credentials };
}

describe('credentials', () => {
  test('are uploaded, used at their URL, and listed without the key', async () => {
    verifies('003:endpoint:credentials-put');
    verifies('003:endpoint:credentials-list');
    verifies('003:credentials:upload');
    verifies('003:credentials:base-url-used');
    verifies('003:credentials:label-listed');
    verifies('003:credentials:api-key-never-listed');
    const uploaded = await upload();
    expect(uploaded.status).toBe(200);
    expect(await uploaded.text()).not.toContain(apiKey);
    const { text, credentials } = await list();
    expect(text).not.toContain(apiKey);
    expect(text).not.toContain('apiKey');
    expect(credentials).toMatchObject([{ provider: 'openai', label: 'prod' }]);
    const frames = await allFrames(await start());
    expect(frames.at(-1)?.data).toMatchObject({ type: 'done', output: '1081' });
    expect(provider.requests.map(({ path, headers }) => [path, headers.authorization])).toEqual([
      ['/v1/chat/completions', `Bearer ${apiKey}`],
    ]);
  });

  test('are in no response of the API, whatever is read', async () => {
    verifies('003:credentials:no-secret-returned');
    await upload();
    const started = await start();
    const runId = started.headers.get('x-run-id') ?? '';
    await allFrames(started);
    const refused = await upload({ apiKey, baseUrl: 'http://10.0.0.1/' });
    const readable = Object.values<Route>(routes).filter(
      ({ method, auth, path }) => method === 'GET' && auth !== 'internal' && path !== '/v1/feed',
    );
    const texts = new Map([['PUT', await refused.text()]]);
    for (const { path } of readable) {
      const id = path.startsWith('/v1/runs/') ? runId : 'openai';
      const response = await server.request(path.replaceAll(/:\w+/g, id));
      texts.set(path, await response.text());
    }
    // They were really read.
    expect(texts.get('/v1/credentials')).toContain('prod');
    expect(texts.get('/v1/runs/:id/events')).toContain('run.ended');
    expect(texts.get('/v1/audit')).toContain('credential');
    const encoded = Buffer.from(apiKey).toString('base64').replace(/=+$/, '');
    for (const [path, text] of texts) {
      for (const secret of [apiKey, encoded, Buffer.from(apiKey).toString('hex')]) {
        expect(text.includes(secret), path).toBe(false);
      }
    }
    expect(server.output).not.toContain(apiKey);
  });

  test('are rotated by the same call', async () => {
    verifies('003:credentials:rotate');
    await upload();
    await upload({ apiKey: 'sk-rotated-0123456789', baseUrl: provider.baseUrl });
    await allFrames(await start());
    expect(provider.requests[0]?.headers.authorization).toBe('Bearer sk-rotated-0123456789');
    expect((await list()).credentials).toHaveLength(1);
  });

  test('need no URL for a provider that Relay knows', async () => {
    verifies('003:credentials:base-url-optional');
    expect((await upload({ apiKey })).status).toBe(200);
    expect((await list()).credentials[0]).not.toHaveProperty('baseUrl');
  });

  test('are revoked, after which the provider cannot be used', async () => {
    verifies('003:endpoint:credentials-delete');
    verifies('003:credentials:revoke');
    verifies('003:credentials:revoked-unusable');
    verifies('003:runs-error:no-credential');
    await upload();
    const revoked = await server.request('/v1/credentials/openai', { method: 'DELETE' });
    expect(revoked.status).toBe(204);
    expect((await list()).credentials).toEqual([]);
    const refused = await start();
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({ code: 'credential_missing' });
    expect(provider.requests).toEqual([]);
  });

  test('belong to one tenant', async () => {
    verifies('003:credentials:per-tenant');
    await upload();
    const theirs = await server.bootstrap('acme');
    const headers = { authorization: `Bearer ${theirs}` };
    const listed = await server.request('/v1/credentials', { headers, keyless: true });
    expect(await listed.json()).toEqual({ credentials: [], nextCursor: null });
    const refused = await server.request('/v1/runs', {
      headers,
      keyless: true,
      body: { model: 'gpt-4o-mini', input: 'Hi' },
    });
    expect(await refused.json()).toMatchObject({ code: 'credential_missing' });
  });

  test('survive a kill, sealed with a key of the data folder', async () => {
    await upload();
    await server.kill();
    await server.start();
    const frames = await allFrames(await start());
    expect(frames.at(-1)?.data).toMatchObject({ type: 'done', status: 'completed' });
  });

  test('of a provider that cannot be reached make a run fail with 502', async () => {
    verifies('003:runs-error:provider-unreachable');
    await provider.close();
    await upload();
    const response = await start();
    expect(response.status).toBe(502);
    const runId = response.headers.get('x-run-id') ?? '';
    const run = (await (await server.request(`/v1/runs/${runId}`)).json()) as { status: string };
    expect(run.status).toBe('failed');
  }, 20_000);
});
