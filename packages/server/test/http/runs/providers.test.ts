/** Runs on providers' APIs, from the stored credential to the frames of the stream. */
import { LLMock } from '@copilotkit/aimock';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ids } from '../../../src/compose.ts';
import { type BootOptions, bootServer, type TestServer } from '../../support/server.ts';
import { eventsOf, finishedRun, startChat } from '../../support/requests.ts';

const apiKey = 'sk-canary-4f9aQ2xZ7LmN0pRsTuVw';
/** The model, its provider, and its mock; with a `baseUrl`, it uses Chat Completions. */
const providers = [
  { provider: 'openai', model: 'gpt-5', speaks: '/v1/responses' },
  { provider: 'anthropic', model: 'claude-sonnet-4-5', speaks: '/v1/messages' },
  { provider: 'google', model: 'gemini-2.5-flash', speaks: ':streamGenerateContent' },
  { provider: 'openai', model: 'gpt-4o', speaks: '/v1/chat/completions', baseUrl: '/v1' },
  { provider: 'ollama', model: 'ollama:qwen3', speaks: '/v1/chat/completions', baseUrl: '/v1' },
] as const;

let mock: LLMock;
let server: TestServer;
beforeAll(async () => {
  mock = await LLMock.create({ port: 0 });
});
afterAll(() => mock.stop());
beforeEach(() => {
  mock.clearFixtures();
  mock.clearRequests();
});
afterEach(() => server.stop());

async function boot(file: BootOptions['file'] = {}): Promise<void> {
  const endpoints = {
    openai: `${mock.url}/v1`,
    anthropic: `${mock.url}/v1`,
    google: `${mock.url}/v1beta`,
  };
  server = await bootServer({
    env: { RELAY_PRIVATE_NETWORKS: '127.0.0.0/8' },
    file: { ...file, providers: { endpoints, ...file.providers } },
  });
}

async function put(provider: string, path?: string): Promise<void> {
  const body = { apiKey, ...(path === undefined ? {} : { baseUrl: `${mock.url}${path}` }) };
  const response = await server.request(`/v1/credentials/${provider}`, { method: 'PUT', body });
  expect(response.status).toBe(200);
}

describe.each(providers)('$model of $provider by $speaks', (given) => {
  const { model, provider, speaks } = given;
  const start = async (file: BootOptions['file'] = {}) => {
    await boot(file);
    await put(provider, 'baseUrl' in given ? given.baseUrl : undefined);
  };

  it('answers, calls a tool, reads its result and answers again', async () => {
    mock.on({ hasToolResult: true }, { content: 'It is 1081.', finishReason: 'stop' });
    mock.onMessage('23*47', {
      reasoning: 'I should calculate.',
      reasoningSignature: 'sig-1',
      toolCalls: [
        { name: 'calculator', arguments: '{"a":23,"b":47,"op":"*"}', id: 'call_1' },
        { name: 'calculator', arguments: '{"a":1,"b":0,"op":"/"}', id: 'call_2' },
      ],
    });
    await start();
    const { runId, frames } = await finishedRun(server, { model, input: 'What is 23*47?' });
    expect(frames.at(-1)?.data).toMatchObject({ status: 'completed', output: 'It is 1081.' });
    const results = frames.filter(({ data }) => data['type'] === 'tool_result');
    expect(results.map(({ data }) => data['toolUseId'] ?? data['id'])).toContain('call_1');
    expect(mock.getRequests().every(({ path }) => path.includes(speaks))).toBe(true);
    expect(mock.getRequests()).toHaveLength(2);
    const { events } = await eventsOf(server, runId);
    const reasoning = events.filter(({ type }) => type === 'reasoning.appended');
    expect(reasoning.map((event) => event['text']).join('')).toBe('I should calculate.');
    expect(JSON.stringify(events)).not.toContain(apiKey);
  });

  // The mock of the Responses API does not write why a response is incomplete.
  if (speaks !== '/v1/responses') {
    it('says on every surface that its answer was cut', async () => {
      mock.onMessage('Tell', { content: 'Once upon', finishReason: 'length' });
      await start();
      const { runId, frames } = await finishedRun(server, { model, input: 'Tell' });
      const cut = { finishReason: 'length' };
      expect(frames.at(-1)?.data).toMatchObject({ type: 'done', output: 'Once upon', ...cut });
      expect(await (await server.request(`/v1/runs/${runId}`)).json()).toMatchObject(cut);
      for (const [dialect, type] of [
        ['chat', 'harness_end'],
        ['runtime', 'done'],
      ]) {
        const stream = await server.request(`/v1/runs/${runId}/stream?dialect=${dialect}`);
        const [last] = (await stream.text()).match(/^data: .*$/gm)?.slice(-1) ?? [];
        expect(JSON.parse(last?.slice(6) ?? '{}')).toMatchObject({ type, ...cut });
      }
    });
  }

  it('is answered with a 502 without the key if it refuses the key', async () => {
    const message = `Incorrect API key provided: ${apiKey}`;
    mock.onMessage('Hi', { error: { message, type: 'authentication_error' }, status: 401 });
    await start();
    const response = await server.request('/v1/runs', { body: { model, input: 'Hi' } });
    expect(response.status).toBe(502);
    const body = await response.text();
    expect(body).toContain('The provider answered 401: Incorrect API key provided: [redacted]');
    expect(body).not.toContain(apiKey);
  });

  const outputSchema = {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  };

  it('gets one correction if its answer does not match the output schema', async () => {
    mock.onMessage(/Reply with only the JSON value/, {
      content: '{"city":"Rome"}',
      finishReason: 'stop',
    });
    mock.onMessage('Where?', { content: 'I would rather not say.', finishReason: 'stop' });
    await start();
    const { frames } = await finishedRun(server, {
      model,
      input: 'Where?',
      tools: [],
      outputSchema,
    });
    expect(frames.at(-1)?.data).toMatchObject({ status: 'completed' });
    expect(JSON.parse(String(frames.at(-1)?.data['output']))).toEqual({ city: 'Rome' });
    expect(mock.getRequests()).toHaveLength(2);
  });

  it.each([
    ['refuses', 'I will not say.'],
    ['breaks its JSON off', '{"city":"Ro'],
  ])('that %s where a shape was asked for fails the run, and says so', async (_, content) => {
    mock.onMessage(/./, { content, finishReason: 'stop' });
    await start();
    const { runId } = await finishedRun(server, {
      model,
      input: 'Where?',
      tools: [],
      outputSchema,
    });
    expect(await server.json(`/v1/runs/${runId}`)).toMatchObject({
      status: 'failed',
      error: { code: 'output_invalid', retryable: false },
    });
  });

  it('is retried when it is busy', async () => {
    mock.onMessage('Hi', { content: 'Hello', finishReason: 'stop' });
    mock.nextRequestError(429, { message: 'Slow down' });
    await start();
    const { frames } = await finishedRun(server, { model, input: 'Hi' });
    expect(frames.at(-1)?.data).toMatchObject({ status: 'completed', output: 'Hello' });
    expect(mock.getRequests().map(({ response }) => response.status)).toContain(429);
  });

  it('is disconnected and retried when it stalls', async () => {
    const stalled = Promise.withResolvers<void>();
    let asked = 0;
    mock.onMessage('Hi', async () => {
      asked += 1;
      if (asked === 1) await stalled.promise;
      return { content: 'Hello', finishReason: 'stop' };
    });
    await start({ providers: { timeouts: { firstByteMs: 300, idleMs: 300 } } });
    const { frames } = await finishedRun(server, { model, input: 'Hi' });
    expect(frames.at(-1)?.data).toMatchObject({ status: 'completed', output: 'Hello' });
    expect(asked).toBe(2);
    stalled.resolve();
  });
});

it('reasoning between tool calls is sent back to the provider until the turn is answered', async () => {
  mock.onMessage('again', { content: 'IdleFrames 1081.', finishReason: 'stop' });
  mock.on({ hasToolResult: true }, { content: 'It is 1081.', finishReason: 'stop' });
  mock.onMessage('23*47', {
    reasoning: 'I should calculate.',
    toolCalls: [{ name: 'calculator', arguments: '{"a":23,"b":47,"op":"*"}', id: 'call_1' }],
  });
  await boot();
  await put('deepseek', '/v1');
  const conversationId = ids.next();
  const model = 'deepseek:deepseek-chat';
  await finishedRun(server, { model, input: 'What is 23*47?', conversationId });
  await finishedRun(server, { model, input: 'And again?', conversationId });
  const thoughts = mock.getRequests().map(({ body }) => {
    const { messages } = body as { messages: { reasoning_content?: string }[] };
    return messages.flatMap(({ reasoning_content: thought }) => thought ?? []);
  });
  expect(thoughts).toEqual([[], ['I should calculate.'], []]);
});

describe('an answer with an output schema', () => {
  const outputSchema = {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  };
  const asked = { model: 'gpt-5', input: 'Where?', outputSchema };

  it('is JSON that matches the schema', async () => {
    mock.onMessage('Where?', { content: '{"city":"Rome"}', finishReason: 'stop' });
    await boot();
    await put('openai');
    const { frames } = await finishedRun(server, asked);
    expect(JSON.parse(String(frames.at(-1)?.data['output']))).toEqual({ city: 'Rome' });
  });

  it('is requested once more, and then the run fails with the reason', async () => {
    mock.onMessage(/./, { content: '{"town":"Rome"}', finishReason: 'stop' });
    await boot();
    await put('openai');
    const { runId, frames } = await finishedRun(server, asked);
    const error = {
      code: 'output_invalid',
      message: 'The answer does not match the output schema: city: Required; town: Unknown field',
      retryable: false,
    };
    expect(frames.at(-1)?.data).toMatchObject({ status: 'failed', output: '' });
    expect(await server.json(`/v1/runs/${runId}`)).toMatchObject({ status: 'failed', error });
    expect(mock.getRequests()).toHaveLength(2);
  });

  it.each([
    [{ type: 'objekt' }, 'type: Must be one of object'],
    [{ $ref: 'https://example.com/schema.json' }, '$ref: Must be a local reference'],
    ['a text', 'Must be an object'],
  ])('cannot be asked for by %j', async (schema, message) => {
    await boot();
    await put('openai');
    const body = { ...asked, outputSchema: schema };
    const response = await server.request('/v1/runs', { body });
    expect(response.status).toBe(400);
    const { details } = (await response.json()) as { details: { path: string; message: string }[] };
    expect(details).toMatchObject([{ path: 'outputSchema' }]);
    expect(details[0]?.message).toContain(message);
  });

  it('can be an agent’s own', async () => {
    mock.onMessage('Where?', { content: '{"city":"Rome"}', finishReason: 'stop' });
    await boot({ agents: [{ name: 'finder', model: 'gpt-5', outputSchema, reasoning: 'low' }] });
    await put('openai');
    const { runId } = await finishedRun(server, {
      agent: 'finder',
      model: 'gpt-5',
      input: 'Where?',
    });
    const { events } = await eventsOf(server, runId);
    expect(events[0]).toMatchObject({ type: 'run.created', outputSchema, reasoning: 'low' });
  });
});

describe('images and files', () => {
  const png = Buffer.alloc(2 * 1024 * 1024, 7).toString('base64');

  it('travel with a message, also beyond the size of other bodies', async () => {
    mock.onMessage('What is this?', { content: 'A cat.', finishReason: 'stop' });
    await boot();
    await put('openai');
    const content = [
      { type: 'text', text: 'What is this?' },
      { type: 'image', mediaType: 'image/png', data: png },
      { type: 'file', mediaType: 'application/pdf', data: 'aGk=', filename: 'a.pdf' },
    ];
    const { frames } = await finishedRun(server, {
      model: 'gpt-5',
      input: [{ role: 'user', content }],
    });
    expect(frames.at(-1)?.data).toMatchObject({ status: 'completed', output: 'A cat.' });
    const chat = await startChat(server, '', {
      body: { model: 'gpt-5', messages: [{ role: 'user', content }] },
    });
    expect((await chat.reader.rest()).at(-1)?.data).toMatchObject({ reason: 'completed' });
  });

  it.each([
    [{ type: 'image', data: 'aGk=' }, 'mediaType'],
    [{ type: 'image', url: 'http://example.com/a.png' }, 'url'],
    [{ type: 'image', url: 'file:///etc/passwd' }, 'url'],
    [{ type: 'file', mediaType: 'application/pdf', data: 'not base64!' }, 'data'],
    [{ type: 'file', filename: 'a.pdf' }, 'data'],
  ])('that are malformed are refused, with the field: %j', async (part, path) => {
    await boot();
    const body = { model: 'demo', input: [{ role: 'user', content: [part] }] };
    const response = await server.request('/v1/runs', { body });
    expect(response.status).toBe(400);
    expect(JSON.stringify(await response.json())).toContain(path);
  });
});

it('a file by URL is a 400 with the remedy if the provider uses Chat Completions', async () => {
  await boot();
  await put('ollama', '/v1');
  const content = [{ type: 'file', url: 'https://example.com/a.pdf' }];
  const body = { model: 'ollama:qwen3', input: [{ role: 'user', content }] };
  const response = await server.request('/v1/runs', { body });
  expect(response.status).toBe(400);
  expect(await response.json()).toMatchObject({
    code: 'invalid_request',
    error: expect.stringContaining('set `data` and `mediaType` of the file instead of its `url`'),
  });
  expect(mock.getRequests()).toEqual([]);
});

describe('the cost of a run', () => {
  const usage = { input_tokens: 1_000_000, output_tokens: 100_000 };

  async function costOf(file: BootOptions['file']): Promise<unknown> {
    mock.onMessage('Hi', { content: 'Hello', finishReason: 'stop', usage });
    await boot(file);
    await put('anthropic');
    const { runId } = await finishedRun(server, { model: 'claude-sonnet-4-5', input: 'Hi' });
    return (await server.json(`/v1/runs/${runId}`))['costUsd'];
  }

  it('uses list prices where the operator has configured none', async () => {
    expect(await costOf({})).toBeCloseTo(4.5);
  });

  it('follows from the operator’s prices where there are any', async () => {
    const price = { inputPerMillion: 1, outputPerMillion: 10 };
    expect(await costOf({ prices: { 'claude-sonnet-4-5': price } })).toBeCloseTo(2);
  });
});
