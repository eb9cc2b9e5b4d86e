/** Semantic search of memories, with an embeddings provider over HTTP. */
import { modelChangeDelayMs } from '@relay/core';
import { type FakeEmbeddings, startFakeEmbeddings } from '@relay/models/testing';
import { createMemoryStore } from '@relay/store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  addKey,
  type BootOptions,
  bootServer,
  type TestServer,
  until,
} from '../../support/server.ts';
import { eventsOf, finishedRun } from '../../support/requests.ts';

const providerKey = 'sk-canary-4f9aQ2xZ7LmN0pRsTuVw';
const model = 'openai:text-embedding-3-small';

let fake: FakeEmbeddings;
let server: TestServer;
beforeEach(async () => {
  fake = await startFakeEmbeddings();
});
afterEach(async () => {
  await server.stop();
  await fake.stop();
});

async function boot(options: BootOptions & { embeddings?: string | undefined } = {}) {
  const { embeddings = model, file = {}, ...rest } = options;
  const endpoints = { openai: fake.url, google: fake.beta };
  server = await bootServer({
    ...rest,
    env: {
      RELAY_PRIVATE_NETWORKS: '127.0.0.0/8',
      ...(embeddings === '' ? {} : { RELAY_EMBEDDINGS: embeddings }),
    },
    file: { ...file, providers: { endpoints, ...file.providers } },
  });
}

async function trust(provider = 'openai', options: { key?: string; baseUrl?: string } = {}) {
  const { key, baseUrl } = options;
  const response = await server.request(`/v1/credentials/${provider}`, {
    method: 'PUT',
    body: { apiKey: providerKey, ...(baseUrl === undefined ? {} : { baseUrl }) },
    ...(key === undefined ? {} : { key }),
  });
  expect(response.status).toBe(200);
}

async function add(
  text: string,
  options: { namespace?: string; key?: string } = {},
): Promise<string> {
  const { namespace = 'n', ...rest } = options;
  const response = await server.request('/v1/memories', { body: { namespace, text }, ...rest });
  expect(response.status).toBe(201);
  return ((await response.json()) as { id: string }).id;
}

interface Found {
  readonly id: string;
  readonly score: number;
  readonly similarity?: number;
  readonly foundBy: string;
}

async function search(q: string, options: { namespace?: string; key?: string } = {}) {
  const { namespace = 'n', ...rest } = options;
  const path = `/v1/memories?${new URLSearchParams({ namespace, q })}`;
  return (await server.json(path, rest))['memories'] as Found[];
}

const meant = () => fake.requests.flatMap(({ texts }) => texts);

function untilFound(q: string, id: string): Promise<Found> {
  return until(async () => (await search(q)).find((found) => found.id === id), `${id} by ${q}`);
}

async function recalledBy(input: string) {
  const { runId } = await finishedRun(server, { input, tools: [], memory: { namespace: 'n' } });
  const { events } = await eventsOf(server, runId);
  const recalled = events.find(({ type }) => type === 'memory.recalled');
  return recalled as unknown as {
    memories: (Found & { text: string })[];
    meaning?: { model: string; failed?: string };
  };
}

describe('embeddings', () => {
  it('find memories without a common word, and report how', async () => {
    await boot();
    await trust();
    const id = await add('The dog is called Pixel');
    await add('The car is red');
    const found = await untilFound('which pet', id);
    expect(found).toMatchObject({ score: 0, foundBy: 'meaning' });
    expect(found.similarity).toBeGreaterThan(0.9);
    expect(await search('which pet')).toHaveLength(1);
    const [both] = await search('a dog, a pet');
    expect(both).toMatchObject({ id, foundBy: 'both' });
    expect(both?.score).toBeGreaterThan(0);
    expect(
      fake.requests.every(({ key, path }) => key === providerKey && path === '/v1/embeddings'),
    ).toBe(true);
  });

  it('are used by a run, and the journal records how each memory was found', async () => {
    await boot();
    await trust();
    const id = await add('The dog is called Pixel');
    await untilFound('pet', id);
    const recalled = await recalledBy('Tell me about my pet');
    expect(recalled.memories).toMatchObject([{ id, foundBy: 'meaning', score: 0 }]);
    expect(recalled.meaning).toEqual({ model });
    // The memory of the run gets a vector, too.
    await until(() => meant().some((text) => text.startsWith('Asked: Tell me')), 'its vector');
  });

  it('send nothing unless the operator has configured them', async () => {
    await boot({ embeddings: '' });
    await trust();
    const id = await add('The dog is called Pixel');
    expect(await search('pet')).toEqual([]);
    expect(await search('dog')).toMatchObject([{ id, foundBy: 'words' }]);
    expect(await recalledBy('What about the dog?')).not.toHaveProperty('meaning');
    expect(fake.requests).toEqual([]);
  });

  it('send nothing of a tenant without a credential', async () => {
    await boot();
    const { apiKey: key } = await addKey(server.store, { tenant: 'stranger' });
    const theirs = await add('Their dog', { key });
    const elsewhere = await add('A dog elsewhere', { namespace: 'other' });
    await trust();
    const id = await add('My dog');
    await untilFound('pet', id);
    expect((await search('pet')).map((found) => found.id)).toEqual([id]);
    const others = await search('pet', { namespace: 'other' });
    expect(others.map((found) => found.id)).toEqual([elsewhere]);
    expect(await search('pet', { key })).toEqual([]);
    expect(meant()).not.toContain('Their dog');
    await trust('openai', { key });
    await until(async () => (await search('pet', { key })).length === 1, 'their vector');
    expect((await search('pet', { key }))[0]?.id).toBe(theirs);
  });

  it('that fail fall back to words, and the journal records why, without the key', async () => {
    await boot();
    await trust();
    const id = await add('The dog is called Pixel');
    await untilFound('pet', id);
    fake.misbehave({ status: 401, message: `Wrong key ${providerKey}` });
    const recalled = await recalledBy('What is the dog called?');
    expect(recalled.memories).toMatchObject([{ id, foundBy: 'words' }]);
    expect(recalled.meaning).toEqual({
      model,
      failed: 'The provider answered 401: Wrong key [redacted]',
    });
  });

  it('that are slow fall back to words', async () => {
    const embeddings = { model: 'openai:e', floor: 0.3, questionTimeoutMs: 50 };
    await boot({ embeddings: '', file: { embeddings } });
    await trust();
    const id = await add('The dog is called Pixel');
    await until(() => meant().length === 1, 'its vector');
    await until(async () => (await search('pet')).length === 1, 'the first find');
    fake.misbehave({ silentMs: 60_000 });
    const recalled = await recalledBy('What is the dog called?');
    expect(recalled.memories).toMatchObject([{ id, foundBy: 'words' }]);
    expect(recalled.meaning?.failed).toBe('The provider took longer than 0.05 s');
  });

  it('are deleted with their memories', async () => {
    await boot();
    await trust();
    const [one, two] = [await add('My dog'), await add('Another dog')];
    await untilFound('pet', one);
    await untilFound('pet', two);
    await server.request(`/v1/memories/${one}`, { method: 'DELETE' });
    expect((await search('pet')).map(({ id }) => id)).toEqual([two]);
    await server.request('/v1/memories?namespace=n', { method: 'DELETE' });
    expect(await search('pet')).toEqual([]);
  });
});

it('embeddings are created by Google and by any server with a base URL', async () => {
  await boot({ embeddings: 'google:gemini-embedding-001' });
  await trust('google');
  await untilFound('pet', await add('My dog'));
  expect(fake.requests[0]).toMatchObject({
    key: providerKey,
    path: '/v1beta/models/gemini-embedding-001:batchEmbedContents',
  });
  await server.stop();
  await boot({ embeddings: 'ollama:nomic-embed-text' });
  await trust('ollama', { baseUrl: fake.url });
  await untilFound('pet', await add('My dog'));
  expect(fake.requests.at(-1)).toMatchObject({ path: '/v1/embeddings' });
});

it('a provider inside the network is not connected to, unless its network is open', async () => {
  server = await bootServer({
    env: { RELAY_EMBEDDINGS: model },
    file: { providers: { endpoints: { openai: fake.url } } },
  });
  await trust();
  const id = await add('My dog');
  await until(() => server.logged.some((line) => line.includes('is not allowed')), 'the refusal');
  expect(await search('dog')).toMatchObject([{ id, foundBy: 'words' }]);
  expect(fake.requests).toEqual([]);
});

it('a memory stored before embeddings were enabled gets its vector after the restart', async () => {
  const store = createMemoryStore();
  await boot({ store, embeddings: '' });
  await trust();
  const id = await add('The dog is called Pixel');
  await server.stop();
  expect(fake.requests).toEqual([]);
  await boot({ store });
  await untilFound('pet', id);
  expect(meant()).toContain('The dog is called Pixel');
});

it('a change of the embedding model creates all vectors again, and never compares old ones', async () => {
  const store = createMemoryStore();
  await boot({ store });
  await trust();
  const id = await add('My dog');
  await untilFound('pet', id);
  await server.stop();
  // Backdated, because recent vectors are not replaced for some minutes.
  const tenant = await store.findTenant('default');
  const vector = new Float32Array(96).fill(1);
  const at = Date.now() - modelChangeDelayMs;
  await store.tenant(tenant?.id ?? '').vectors.put({ memoryId: id, model, vector, at });
  await boot({ store, embeddings: 'openai:text-embedding-3-large' });
  await untilFound('pet', id);
  const models = fake.requests.map(({ body }) => body['model']);
  expect(new Set(models)).toEqual(new Set(['text-embedding-3-small', 'text-embedding-3-large']));
});

it('a malformed configuration fails the start with one line', async () => {
  await boot();
  await expect(bootServer({ env: { RELAY_EMBEDDINGS: 'small' } })).rejects.toThrow(
    'RELAY_EMBEDDINGS must be like openai:text-embedding-3-small, not "small"',
  );
});
