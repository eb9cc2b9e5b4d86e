/** Embedders over real HTTP: OpenAI's way and Google's. */
import { LLMock } from '@copilotkit/aimock';
import { type Embedder, ProviderFailure } from '@relay/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  createGoogleEmbedder,
  createOpenAiEmbedder,
  type EmbedderOptions,
} from '../src/embedder.ts';
import { createOutboundGuard } from '../src/http/guard.ts';
import { type FakeEmbeddings, startFakeEmbeddings } from './support/index.ts';

const apiKey = 'sk-test-9fQ4mZ7xL2pR8vW1';
const memory = { purpose: 'memory' } as const;
const question = { purpose: 'question' } as const;

let fake: FakeEmbeddings;
beforeEach(async () => {
  fake = await startFakeEmbeddings();
});
afterEach(() => fake.stop());

const ways = [
  { name: 'openai', create: createOpenAiEmbedder, base: () => fake.url },
  { name: 'google', create: createGoogleEmbedder, base: () => fake.beta },
];

describe.each(ways)('an embedder of $name', ({ create, base }) => {
  const open = (over: Partial<EmbedderOptions> = {}): Embedder =>
    create({
      apiKey,
      baseUrl: base(),
      model: 'small',
      name: 'test:small',
      floor: 0.3,
      questionMs: 5_000,
      ...over,
    });
  const failure = async (call: Promise<unknown>): Promise<ProviderFailure> => {
    const error = await call.then(
      () => new Error('It did not fail'),
      (cause: unknown) => cause,
    );
    expect(error).toBeInstanceOf(ProviderFailure);
    return error as ProviderFailure;
  };

  it('returns one vector per text, in order', async () => {
    const texts = ['the dog', 'the car', 'a pet'];
    const vectors = await open().embed(texts, memory);
    expect(vectors.map((vector) => vector.indexOf(Math.max(...vector)))).toEqual([0, 1, 0]);
    expect(vectors[0]).toBeInstanceOf(Float32Array);
    expect(fake.requests).toMatchObject([{ key: apiKey, texts }]);
    expect(await open().embed([], memory)).toEqual([]);
    expect(fake.requests).toHaveLength(1);
  });

  it('supports shorter vectors', async () => {
    await open({ dimensions: 256 }).embed(['x'], question);
    expect(JSON.stringify(fake.requests[0]?.body)).toMatch(/imension\w*":256/);
  });

  it('retries retryable failures a few times', async () => {
    fake.misbehave({ status: 503 }, { status: 429, retryAfter: 0 });
    expect(await open().embed(['dog'], memory)).toHaveLength(1);
    expect(fake.requests).toHaveLength(3);
    fake.misbehave(...Array.from({ length: 9 }, () => ({ status: 500 })));
    expect(await failure(open().embed(['dog'], memory))).toMatchObject({ retryable: true });
    expect(fake.requests).toHaveLength(6);
  });

  it('does not wait for a long Retry-After', async () => {
    fake.misbehave({ status: 429, retryAfter: 3_600 });
    const failed = await failure(open().embed(['dog'], memory));
    expect(failed).toMatchObject({ retryable: true, retryAfterMs: 3_600_000 });
    expect(fake.requests).toHaveLength(1);
  });

  it('reports a refusal without the key and does not retry', async () => {
    fake.misbehave({ status: 401, message: `Wrong key ${apiKey}` });
    const failed = await failure(open().embed(['dog'], memory));
    expect(failed.message).toBe('The provider answered 401: Wrong key [redacted]');
    expect(failed.retryable).toBe(false);
    expect(fake.requests).toHaveLength(1);
  });

  it('times out a query', async () => {
    fake.misbehave({ silentMs: 60_000 });
    const failed = await failure(open({ questionMs: 100 }).embed(['dog'], question));
    expect(failed.message).toBe('The provider took longer than 0.1 s');
  });

  it('times out an idle provider, and can be aborted', async () => {
    fake.misbehave({ silentMs: 60_000 }, { silentMs: 60_000 }, { silentMs: 60_000 });
    const timeouts = { firstByteMs: 50, idleMs: 50 };
    const failed = await failure(open({ timeouts }).embed(['dog'], memory));
    expect(failed.message).toBe('The provider sent nothing for 0.05 s');
    fake.misbehave({ silentMs: 60_000 });
    const stop = new AbortController();
    const waiting = open().embed(['dog'], { ...memory, signal: stop.signal });
    await expect.poll(() => fake.requests.length).toBe(4);
    stop.abort();
    expect((await failure(waiting)).retryable).toBe(false);
  });

  it.each([
    ['no JSON', '{"data":[{"embed'],
    ['nothing', 'null'],
    ['a list', '[]'],
    ['no vectors', '{}'],
    ['too few', '{"data":[],"embeddings":[]}'],
    ['an empty one', '{"data":[{"embedding":[]}],"embeddings":[{"values":[]}]}'],
    ['text', '{"data":[{"embedding":["1"]}],"embeddings":[{"values":["1"]}]}'],
    ['zeros', '{"data":[{"embedding":[0,0]}],"embeddings":[{"values":[0,0]}]}'],
    ['infinity', '{"data":[{"embedding":[1e99]}],"embeddings":[{"values":[1e99]}]}'],
    ['null', '{"data":[null],"embeddings":[null]}'],
    ['a wrong index', '{"data":[{"index":7,"embedding":[1]}],"embeddings":[{}]}'],
    [
      'too much',
      `{"data":[{"embedding":[${'1,'.repeat(8_192)}1]}],"embeddings":[{"values":[${'1,'.repeat(8_192)}1]}]}`,
    ],
  ])('refuses an answer with %s', async (_, raw) => {
    fake.misbehave({ raw }, { raw }, { raw });
    expect((await failure(open().embed(['dog'], memory))).message).toMatch(/^The provider sent/);
  });

  it('refuses vectors of different lengths', async () => {
    const raw =
      '{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}],' +
      '"embeddings":[{"values":[1]},{"values":[1,2]}]}';
    fake.misbehave({ raw });
    expect((await failure(open().embed(['a', 'b'], memory))).retryable).toBe(false);
  });

  it('reads no more of a response than it can contain', async () => {
    // A tenant may control the provider: parsing must not block other tenants.
    const many = `[${'0,'.repeat(150_000)}0]`;
    fake.misbehave({ raw: `{"data":${many},"embeddings":${many}}` });
    const before = process.cpuUsage().user;
    expect((await failure(open().embed(['dog'], memory))).retryable).toBe(false);
    expect(process.cpuUsage().user - before).toBeLessThan(1_000_000);
    fake.misbehave({ raw: `{"more":"${'x'.repeat(400_000)}"}` });
    expect((await failure(open().embed(['dog'], memory))).message).toMatch(/too long$/);
  });

  it('connects only where the guard allows it', async () => {
    const guard = createOutboundGuard();
    const url = new URL(base().replace('127.0.0.1', 'localhost'));
    const closed = open({ baseUrl: url.href, agent: guard.agentFor(url) });
    expect((await failure(closed.embed(['dog'], memory))).message).toContain('not allowed');
    expect(fake.requests).toEqual([]);
    guard.close();
  });

  it('refuses a key that is invalid in a header', () => {
    expect(() => open({ apiKey: 'two\nlines' })).toThrow(TypeError);
  });
});

it.each([
  ['[0, 2, 2]', [0, 2, 2]],
  ['[0, 1, 1e9]', [0, 1, 1e9]],
])('refuses OpenAI vectors with the indexes %s', async (_, indexes) => {
  const data = indexes.map((index) => ({ index, embedding: [1, 2] }));
  const raw = JSON.stringify({ data });
  fake.misbehave({ raw });
  const options = { apiKey, baseUrl: fake.url, model: 'm', name: 'n', floor: 0 };
  const embedder = createOpenAiEmbedder({ ...options, questionMs: 5_000 });
  await expect(embedder.embed(['a', 'b', 'c'], memory)).rejects.toThrow(
    'invalid embeddings response',
  );
});

it('sends the task type to Google', async () => {
  const options = { apiKey, baseUrl: fake.beta, model: 'gemini-embedding-001', name: 'n' };
  const embedder = createGoogleEmbedder({ ...options, floor: 0, questionMs: 5_000 });
  await embedder.embed(['x'], question);
  await embedder.embed(['x'], memory);
  expect(fake.requests.map(({ path }) => path)).toEqual(
    Array(2).fill('/v1beta/models/gemini-embedding-001:batchEmbedContents'),
  );
  const tasks = fake.requests.map(({ body }) => JSON.stringify(body));
  expect(tasks[0]).toContain('RETRIEVAL_QUERY');
  expect(tasks[1]).toContain('RETRIEVAL_DOCUMENT');
});

it('works with an independent mock server', async () => {
  const mock = await LLMock.create({ port: 0 });
  try {
    mock.onEmbedding('dog', { embedding: [0.1, 0.2, 0.3] });
    const options = { apiKey, baseUrl: `${mock.url}/v1`, model: 'text-embedding-3-small' };
    const embedder = createOpenAiEmbedder({ ...options, name: 'n', floor: 0, questionMs: 5_000 });
    expect(await embedder.embed(['dog'], memory)).toEqual([Float32Array.of(0.1, 0.2, 0.3)]);
  } finally {
    await mock.stop();
  }
});
