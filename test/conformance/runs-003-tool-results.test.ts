/** 003 over HTTP: custom tools, whose results callers post, and the poll of the runtime. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { routes } from '@relay/protocol';
import { type Frame, FrameReader } from '../support/frames.ts';
import type { ServerFixture } from '../support/server.ts';
import { calls, says, type Scripted, startScripted } from './scripted.ts';
import { verifies } from './verifies.ts';

const secret = 'internal-secret-0123456789';
let scripted: Scripted;
let server: ServerFixture;
beforeAll(async () => {
  scripted = await startScripted({ RELAY_INTERNAL_SECRET: secret });
  server = scripted.server;
});
afterAll(() => scripted.dispose());

const getUser = {
  name: 'get_user',
  kind: 'function',
  description: 'Looks a user up',
  inputSchema: { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] },
};

interface Fired {
  readonly runId: string;
  readonly callId: string;
  readonly call: Frame;
  readonly reader: FrameReader;
}

/** A run whose model calls the caller's own tool. */
async function fire(): Promise<Fired> {
  const call = { id: 'call_abc', name: 'get_user', input: { id: 'u_001' } };
  scripted.play(calls(call), says('It is Ada.'));
  const response = await server.request('/v1/runs', {
    body: { model: 'gpt-4o-mini', input: 'Who is u_001?', tools: [getUser] },
  });
  const reader = new FrameReader(response);
  const frame = await reader.until('tool_call');
  const runId = response.headers.get('x-run-id') ?? '';
  return { runId, callId: String(frame.data['id']), call: frame, reader };
}

const resultPath = ({ runId, callId }: Pick<Fired, 'runId' | 'callId'>) =>
  `/v1/runs/${runId}/tool-results/${callId}`;

function poll({ runId, callId }: Pick<Fired, 'runId' | 'callId'>, headers: Record<string, string>) {
  const path = `/internal/runs/${runId}/tool-result/${callId}`;
  return server.request(path, { keyless: true, headers });
}

describe('POST /v1/runs/:id/tool-results/:toolUseId', () => {
  test('gives a custom tool its output, and the run goes on with it', async () => {
    verifies(
      '003:endpoint:tool-results',
      '003:runs:x-run-id-posts-results',
      '003:tool-results:custom-tool-fires',
      '003:tool-results:direct',
      '003:tool-results:tool-use-id',
      '003:tool-results:body-output',
      '003:tool-results:run-continues',
    );
    const fired = await fire();
    expect(fired.call.data).toMatchObject({ name: 'get_user', input: { id: 'u_001' } });
    const body = { output: { ok: true, user: { id: 'u_001' } } };
    const posted = await server.request(resultPath(fired), { body });
    expect(posted.status).toBe(200);
    const result = await fired.reader.until('tool_result');
    expect(result.data).toMatchObject({ id: fired.callId, output: body.output });
    const done = await fired.reader.until('done');
    expect(done.data).toMatchObject({ status: 'completed', output: 'It is Ada.' });
    const [, second] = scripted.asked();
    const message = second?.messages.at(-1);
    expect(message).toMatchObject({ role: 'tool', tool_call_id: 'call_abc' });
    expect(String(message?.['content'])).toContain('"user":{"id":"u_001"}');
  });

  test.each<[unknown]>([
    [null],
    [false],
    [0],
    [-1.5e300],
    [''],
    ['text with \u0000, \ud800 and é'],
    [[]],
    [[1, { two: [2] }]],
    [{}],
  ])('takes any JSON value as the output: %j', async (output) => {
    verifies('003:tool-results:body-output');
    const fired = await fire();
    expect((await server.request(resultPath(fired), { body: { output } })).status).toBe(200);
    const result = await fired.reader.until('tool_result');
    expect(result.data).toEqual({ type: 'tool_result', id: fired.callId, output });
    expect((await fired.reader.until('done')).data).toMatchObject({ status: 'completed' });
  });

  test('needs the key of the tenant that owns the run', async () => {
    verifies('003:tool-results:auth');
    const fired = await fire();
    const body = { output: 1 };
    const path = resultPath(fired);
    expect((await server.request(path, { body, keyless: true })).status).toBe(401);
    const foreign = await server.bootstrap('foreign');
    const post = (key: string) =>
      server.request(path, { body, keyless: true, headers: { authorization: `Bearer ${key}` } });
    expect((await post(`relay_live_${'0'.repeat(72)}`)).status).toBe(401);
    // For another tenant the run does not exist.
    const refused = await post(foreign);
    expect(refused.status).toBe(404);
    expect(await refused.json()).toMatchObject({ code: 'not_found' });
    const open = (await (await server.request(`/v1/runs/${fired.runId}`)).json()) as object;
    expect(open).toMatchObject({ status: 'waiting' });
    const postWith = async (scope: string) => {
      const made = await server.request('/v1/keys', { body: { name: 'mine', scopes: [scope] } });
      return post(((await made.json()) as { apiKey: string }).apiKey);
    };
    expect((await postWith('runs')).status).toBe(403);
    expect((await postWith('worker')).status).toBe(200);
    await fired.reader.until('done');
  });
});

describe('GET /internal/runs/:id/tool-result/:toolUseId', () => {
  const internal = { authorization: `Internal ${secret}` };

  test('answers as soon as the output has been posted, with that output', async () => {
    verifies(
      '003:endpoint:internal-tool-result',
      '003:internal:long-poll-waits',
      '003:internal:long-poll-output',
      '003:internal:secret-required',
    );
    const fired = await fire();
    let answered = false;
    const polled = poll(fired, internal).then((response) => {
      answered = true;
      return response;
    });
    await server.request(`/v1/runs/${fired.runId}`);
    expect(answered).toBe(false);
    await server.request(resultPath(fired), { body: { output: [1, { two: 2 }] } });
    const response = await polled;
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({ output: [1, { two: 2 }] });
    await fired.reader.until('done');
  });

  test('refuses a missing or wrong secret, and every key of a tenant', async () => {
    verifies('003:internal:wrong-secret', '003:internal:no-tenant-key');
    const fired = await fire();
    const wrong = { authorization: 'Internal not-the-secret-at-all' };
    const key = { authorization: `Bearer ${server.apiKey}` };
    for (const headers of [{}, wrong, key]) {
      expect((await poll(fired, headers as Record<string, string>)).status).toBe(401);
    }
    await server.request(resultPath(fired), { body: { output: 1 } });
    await fired.reader.until('done');
  });

  test('is the only route below /internal/', async () => {
    verifies('003:internal:single-route');
    const below = Object.values(routes).filter(({ path }) => path.startsWith('/internal/'));
    expect(below.map(({ method, path }) => `${method} ${path}`)).toEqual([
      'GET /internal/runs/:id/tool-result/:toolUseId',
    ]);
    for (const path of ['/internal', '/internal/runs', '/internal/keys', '/internal/tenants']) {
      const headers = { authorization: `Internal ${secret}` };
      const response = await server.request(path, { keyless: true, headers });
      expect(response.status, path).toBe(404);
    }
  });
});
