/** 003 over HTTP: what POST /v1/runs refuses, and /health. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { LocalServer } from '../support/server.ts';
import { refuses, type Scripted, startScripted } from './scripted.ts';
import { verifies } from './verifies.ts';

const server = new LocalServer();
let scripted: Scripted;
beforeAll(async () => {
  await server.start();
  scripted = await startScripted();
});
afterAll(async () => {
  await server.dispose();
  await scripted.dispose();
});

async function start(body: unknown) {
  const response = await server.request('/v1/runs', { body });
  return {
    status: response.status,
    runId: response.headers.get('x-run-id'),
    body: (await response.json()) as unknown,
  };
}

describe('POST /v1/runs', () => {
  test('is 400 without a model, where the server has no default one', async () => {
    verifies('003:runs-error:missing-model');
    expect(await start({ input: 'say 1' })).toMatchObject({
      status: 400,
      runId: null,
      body: { error: 'model is required: the server has no default' },
    });
  });

  test('is 400 without an input', async () => {
    verifies('003:runs-error:missing-input');
    for (const body of [{ model: 'demo' }, { model: 'demo', input: null }, {}]) {
      expect(await start(body)).toMatchObject({
        status: 400,
        runId: null,
        body: { error: 'input is required' },
      });
    }
    expect(await start({ model: 'demo', input: '' })).toMatchObject({ status: 400, runId: null });
  });

  test.each(['no-such-family-1', 'llamma-3', 'demo2'])(
    'is 400 for a model of an unknown family: %s',
    async (model) => {
      verifies('003:runs-error:unknown-model-family');
      expect(await start({ model, input: 'say 1' })).toMatchObject({
        status: 400,
        runId: null,
        body: { error: expect.stringContaining(model) },
      });
    },
  );

  test.each([400, 401, 404, 500, 503])(
    'is 502 if the provider answers with %i, and the run is kept as failed',
    async (status) => {
      verifies('003:runs-error:provider-error');
      const refused = Array.from({ length: 10 }, () => refuses(status));
      scripted.play(...refused);
      const response = await scripted.server.request('/v1/runs', {
        body: { model: 'gpt-4o-mini', input: 'Hello' },
      });
      expect(response.status).toBe(502);
      expect(await response.json()).toMatchObject({ error: expect.any(String) });
      const runId = response.headers.get('x-run-id') ?? '';
      const run = await scripted.server.request(`/v1/runs/${runId}`);
      expect(await run.json()).toMatchObject({ id: runId, status: 'failed' });
    },
  );
});

describe('GET /health', () => {
  test('reports that the server is alive, without a key', async () => {
    verifies('003:endpoint:health');
    for (const headers of [{}, { authorization: 'Bearer nonsense' }]) {
      const response = await server.request('/health', { keyless: true, headers });
      expect(response.status).toBe(200);
      expect(await response.json()).toEqual({ status: 'ok', version: expect.any(String) });
    }
  });
});
