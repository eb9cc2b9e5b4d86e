/** 003: the API needs no SDK, and the SDK adds nothing to the API. */
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Route, routes } from '@relay/protocol';
import { createClient, type RelayClient } from '@relay/sdk';
import { LocalServer } from '../support/server.ts';
import { verifies } from './verifies.ts';

const secret = 'internal-secret-0123456789';
const server = new LocalServer({ RELAY_INTERNAL_SECRET: secret });
beforeAll(() => server.start());
afterAll(() => server.dispose());

interface Answer {
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

interface Raw {
  readonly method?: string;
  readonly body?: unknown;
  readonly authorization?: string;
  /** EventBuffer of what has come so far, while it comes. */
  readonly onData?: (text: string) => void;
}

/** A request as text on a socket: what every language can write, and nothing else. */
function raw(
  path: string,
  { method = 'GET', body, authorization, onData }: Raw = {},
): Promise<Answer> {
  const { hostname, port } = new URL(server.url);
  const text = body === undefined ? '' : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname);
    let received = '';
    socket.setEncoding('utf8');
    socket.on('data', (chunk: string) => {
      received += chunk;
      onData?.(received);
      // The last chunk of an answer without a length is an empty one.
      if (received.endsWith('\r\n0\r\n\r\n')) socket.end();
    });
    socket.on('error', reject);
    socket.on('close', () => {
      const [head = '', ...rest] = received.split('\r\n\r\n');
      const status = Number(/^HTTP\/1\.1 (\d+)/.exec(head)?.[1]);
      resolve({ status, head, body: rest.join('\r\n\r\n') });
    });
    socket.write(
      [
        `${method} ${path} HTTP/1.1`,
        `Host: ${hostname}:${port}`,
        `Authorization: ${authorization ?? `Bearer ${server.apiKey}`}`,
        ...(body === undefined
          ? []
          : ['Content-Type: application/json', `Content-Length: ${Buffer.byteLength(text)}`]),
        'Connection: close',
        '',
        text,
      ].join('\r\n'),
    );
  });
}

describe('without the SDK', () => {
  test('a run with a function of the caller’s, by text on a socket', async () => {
    verifies('003:api:any-language');
    let runId = '';
    let posted: Promise<Answer[]> | undefined;
    const answer = async (callId: string) => {
      const path = `/v1/runs/${runId}/tool-results/${callId}`;
      const claim = await raw(`${path}/claim`, { method: 'POST' });
      const result = await raw(path, { method: 'POST', body: { output: { name: 'Ada' } } });
      const polled = await raw(`/internal/runs/${runId}/tool-result/${callId}?waitMs=0`, {
        authorization: `Internal ${secret}`,
      });
      return [claim, result, polled];
    };
    const run = await raw('/v1/runs', {
      method: 'POST',
      body: {
        model: 'demo',
        input: 'use get_user {"id":"u_001"}',
        tools: [{ name: 'get_user', kind: 'function', inputSchema: { type: 'object' } }],
      },
      onData(text) {
        runId = /^x-run-id: (\S+)/im.exec(text)?.[1] ?? '';
        const callId = /"type":"tool_call","id":"([^"]+)"/.exec(text)?.[1];
        if (callId !== undefined) posted ??= answer(callId);
      },
    });
    expect(run.status).toBe(200);
    expect(run.body).toContain('"output":{"name":"Ada"}');
    expect(run.body).toContain('"type":"done","status":"completed"');
    const [claim, result, polled] = (await posted) ?? [];
    expect(claim?.status).toBe(200);
    expect(result).toMatchObject({
      status: 200,
      body: expect.stringContaining('{"ok":true}') as string,
    });
    // By then the run may be over, which the long poll says too.
    expect([200, 410]).toContain(polled?.status);

    expect((await raw(`/v1/runs/${runId}`)).body).toContain('"status":"completed"');
    expect((await raw(`/v1/runs/${runId}/events`)).body).toContain('"type":"run.ended"');
    expect((await raw(`/v1/runs/${runId}/stream?after=0`)).body).toContain('"type":"done"');
  });

  test('a credential that is uploaded, listed and revoked', async () => {
    const body = { apiKey: 'sk-test-1234', label: 'prod' };
    expect((await raw('/v1/credentials/openai', { method: 'PUT', body })).status).toBe(200);
    expect((await raw('/v1/credentials')).body).toContain('"last4":"1234"');
    expect((await raw('/v1/credentials/openai', { method: 'DELETE' })).status).toBe(204);
  });

  const plain = (Object.values(routes) as Route[]).filter(
    ({ method, path, responseType }) =>
      method === 'GET' && responseType !== 'sse' && !path.includes(':'),
  );
  const required: Readonly<Record<string, string>> = { '/v1/ids': '?kind=run&match=0000' };
  test.each(plain.map(({ path }) => path))('GET %s', async (path) => {
    expect((await raw(`${path}${required[path] ?? ''}`)).status).toBe(200);
  });
});

describe('the SDK', () => {
  const lines: string[] = [];
  let client: RelayClient;
  beforeAll(() => {
    client = createClient({
      baseUrl: server.url,
      apiKey: server.apiKey,
      fetch(url, init) {
        lines.push(`${init.method} ${new URL(url).pathname}`);
        return fetch(url, init);
      },
    });
  });

  /** What a call asked for, with what it gave. */
  async function counted<Value>(call: () => Promise<Value>) {
    const before = lines.length;
    const value = await call();
    return { value, asked: lines.slice(before) };
  }

  test('makes one call of the API of each of its own', async () => {
    verifies('003:sdk:thin-wrapper');
    const body = { model: 'demo', input: 'say 3' };
    const created = await counted(() => client.runs.create(body));
    expect(created.asked).toEqual(['POST /v1/runs']);
    const run = created.value;
    const memory = { namespace: 'sdk', text: 'Thin' };
    // The stream is that of the answer: reading it asks for nothing more.
    expect((await counted(() => run.result())).asked).toEqual([]);
    const calls: [string, () => Promise<unknown>][] = [
      ['GET /health', () => client.health()],
      ['GET /models', () => client.models()],
      [`GET /v1/runs/${run.id}`, () => client.runs.get(run.id)],
      ['GET /v1/runs', () => client.runs.list({ limit: 1 }).page()],
      [`GET /v1/runs/${run.id}/events`, () => client.runs.events(run.id).page()],
      [`GET /v1/runs/${run.id}/stream`, () => client.runs.stream(run.id).result()],
      [`POST /v1/runs/${run.id}/cancel`, () => client.runs.cancel(run.id)],
      ['PUT /v1/credentials/openai', () => client.credentials.put('openai', { apiKey: 'sk-1' })],
      ['GET /v1/credentials', () => client.credentials.list().page()],
      ['DELETE /v1/credentials/openai', () => client.credentials.delete('openai')],
      ['POST /v1/memories', () => client.memories.add(memory)],
      ['GET /v1/memories', () => client.memories.list({ namespace: 'sdk' }).page()],
      [`DELETE /v1/memories/${run.id}`, () => client.memories.delete(run.id)],
      ['DELETE /v1/memories', () => client.memories.clear('sdk')],
      ['GET /v1/approvals', () => client.approvals.list().page()],
      ['GET /v1/keys', () => client.keys.list().page()],
      ['GET /v1/tenant', () => client.tenant.get()],
      ['POST /chat', async () => (await client.chat(chatBody)).text()],
    ];
    for (const [line, call] of calls) expect((await counted(call)).asked).toEqual([line]);
  });

  const chatBody = { model: 'demo', messages: [{ role: 'user' as const, content: 'say 2' }] };

  test('gives the answers of the API as they are', async () => {
    const [{ id } = { id: '' }] = (await client.runs.list().page()).items;
    const direct = JSON.parse((await (await server.request(`/v1/runs/${id}`)).text()) || '{}');
    expect(await client.runs.get(id)).toEqual(direct);
  });
});
