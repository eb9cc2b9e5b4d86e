/** Memories over HTTP: add, list, search, delete and clear, and runs that use them. */
import { createScriptedModel, finish, text } from '@relay/core/testing';
import { createModelRegistry } from '@relay/models';
import { afterEach, describe, expect, it } from 'vitest';
import { addKey, bootServer, type TestServer, until } from '../../support/server.ts';
import { eventsOf, finishedRun, startRun } from '../../support/requests.ts';

let server: TestServer;
afterEach(() => server.stop());

interface Shown {
  readonly id: string;
  readonly text: string;
  readonly [field: string]: unknown;
}

async function add(body: object, key?: string): Promise<Shown> {
  const options = key === undefined ? { body } : { body, key };
  const response = await server.request('/v1/memories', options);
  expect(response.status).toBe(201);
  return (await response.json()) as Shown;
}

async function list(query: string): Promise<{ memories: Shown[]; nextCursor: string | null }> {
  const response = await server.request(`/v1/memories?${query}`);
  expect(response.status).toBe(200);
  return (await response.json()) as { memories: Shown[]; nextCursor: string | null };
}

async function refusal(path: string, options: object = {}) {
  const response = await server.request(path, options);
  const { code, details } = (await response.json()) as {
    code: string;
    details?: { path: string }[];
  };
  return [response.status, code, ...(details ?? []).map((each) => each.path)];
}

describe('memories', () => {
  it('are added, shown as they are, and listed newest first, page by page', async () => {
    server = await bootServer();
    const made = [];
    for (const name of ['one', 'two', 'three']) {
      made.push(await add({ namespace: 'user:42', text: `Note ${name}` }));
    }
    expect(made[0]).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      namespace: 'user:42',
      text: 'Note one',
      source: 'api',
      createdAt: expect.stringMatching(/^\d{4}-.*Z$/),
    });
    const newestFirst = made.toReversed();
    expect(await list('namespace=user:42')).toEqual({ memories: newestFirst, nextCursor: null });
    const first = await list('namespace=user%3A42&limit=2');
    expect(first.memories).toEqual(newestFirst.slice(0, 2));
    const second = await list(`namespace=user:42&limit=2&cursor=${first.nextCursor}`);
    expect(second).toEqual({ memories: newestFirst.slice(2), nextCursor: null });
  });

  it('of all namespaces are listed where none is named', async () => {
    server = await bootServer();
    await add({ namespace: 'a', text: 'In a' });
    await add({ namespace: 'b', text: 'In b' });
    const namespaces = (await list('')).memories.map(({ namespace }) => namespace);
    expect(namespaces).toEqual(['b', 'a']);
  });

  it('are searched by words, best first, with a score', async () => {
    server = await bootServer();
    const tea = await add({ namespace: 'n', text: 'Ada likes green tea' });
    const milk = await add({ namespace: 'n', text: 'The tea is out, and so is the milk' });
    await add({ namespace: 'n', text: 'It rains in Oslo' });
    await add({ namespace: 'other', text: 'Green tea elsewhere' });
    const { memories, nextCursor } = await list('namespace=n&q=green+tea');
    expect(nextCursor).toBeNull();
    expect(memories.map(({ id }) => id)).toEqual([tea.id, milk.id]);
    expect(memories[0]).toEqual({ ...tea, score: expect.any(Number), foundBy: 'words' });
    expect((await list('namespace=n&q=green+tea&limit=1')).memories).toHaveLength(1);
    expect((await list('namespace=n&q=%22%27%3B--')).memories).toEqual([]);
  });

  it('expire after their time', async () => {
    server = await bootServer();
    const short = await add({ namespace: 'n', text: 'Short-lived', ttlSeconds: 1 });
    const { createdAt, expiresAt } = short as { createdAt?: string; expiresAt?: string };
    expect(Date.parse(expiresAt ?? '') - Date.parse(createdAt ?? '')).toBe(1_000);
    expect((await list('namespace=n')).memories).toHaveLength(1);
    await until(async () => (await list('namespace=n')).memories.length === 0, 'the end of it');
    expect((await list('namespace=n&q=short')).memories).toEqual([]);
  });

  it('are deleted one by one, and deleting again is fine', async () => {
    server = await bootServer();
    const [deleted, kept] = [
      await add({ namespace: 'n', text: 'Gone' }),
      await add({ namespace: 'n', text: 'Kept' }),
    ];
    for (let n = 0; n < 2; n += 1) {
      const response = await server.request(`/v1/memories/${deleted.id}`, { method: 'DELETE' });
      expect([response.status, await response.text()]).toEqual([204, '']);
    }
    expect((await list('namespace=n')).memories).toEqual([kept]);
  });

  it('are cleared by namespace, however many there are', async () => {
    server = await bootServer();
    const other = await add({ namespace: 'other', text: 'Stays' });
    const texts = Array.from({ length: 230 }, (_, n) => `Note ${n}`);
    await Promise.all(texts.map((note) => add({ namespace: 'n', text: note })));
    for (let n = 0; n < 2; n += 1) {
      const cleared = await server.request('/v1/memories?namespace=n', { method: 'DELETE' });
      expect(cleared.status).toBe(204);
    }
    expect((await list('')).memories).toEqual([other]);
  });

  it('of another tenant are neither seen nor touched', async () => {
    server = await bootServer();
    const { apiKey: key } = await addKey(server.store, { tenant: 'stranger' });
    const mine = await add({ namespace: 'n', text: 'Mine is tea' });
    const theirs = await add({ namespace: 'n', text: 'Theirs is tea' }, key);
    for (const query of ['namespace=n', '', 'namespace=n&q=tea']) {
      const seen = await server.json(`/v1/memories?${query}`, { key });
      expect((seen['memories'] as Shown[]).map(({ id }) => id)).toEqual([theirs.id]);
    }
    await server.request(`/v1/memories/${mine.id}`, { method: 'DELETE', key });
    await server.request('/v1/memories?namespace=n', { method: 'DELETE', key });
    expect((await list('namespace=n')).memories).toEqual([mine]);
  });

  it('refuse malformed requests with the path of the field', async () => {
    server = await bootServer();
    const bad = [400, 'invalid_request'];
    const remove = { method: 'DELETE' };
    expect(await refusal('/v1/memories', remove)).toEqual([...bad, 'namespace']);
    expect(await refusal('/v1/memories?namespace=', remove)).toEqual([...bad, 'namespace']);
    expect(await refusal('/v1/memories?namespace=n&all=1', remove)).toEqual([...bad, 'all']);
    expect(await refusal('/v1/memories?q=tea')).toEqual([...bad, 'namespace']);
    expect(await refusal('/v1/memories?namespace=n&q=tea&cursor=x')).toEqual([...bad, 'cursor']);
    expect(await refusal('/v1/memories?namespace=n&cursor=x')).toEqual([...bad, 'cursor']);
    expect(await refusal('/v1/memories?limit=0')).toEqual([...bad, 'limit']);
    expect(await refusal('/v1/memories?limit=201')).toEqual([...bad, 'limit']);
    expect(await refusal(`/v1/memories?namespace=${'x'.repeat(129)}`)).toEqual([
      ...bad,
      'namespace',
    ]);
    const bodies: [object, ...string[]][] = [
      [{}, 'namespace', 'text'],
      [{ namespace: 'n' }, 'text'],
      [{ namespace: '', text: 'x' }, 'namespace'],
      [{ namespace: 'x'.repeat(129), text: 'x' }, 'namespace'],
      [{ namespace: 'n', text: 'x'.repeat(8_001) }, 'text'],
      [{ namespace: 'n', text: 1 }, 'text'],
      [{ namespace: 'n', text: 'x', ttlSeconds: 0 }, 'ttlSeconds'],
      [{ namespace: 'n', text: 'x', ttlSeconds: 1.5 }, 'ttlSeconds'],
      [{ namespace: 'n', text: 'x', ttl: 1 }, 'ttl'],
    ];
    for (const [body, ...paths] of bodies) {
      expect(await refusal('/v1/memories', { body })).toEqual([...bad, ...paths]);
    }
    for (const memory of [false, 'n', {}, { namespace: '' }, { namespace: 'n', ttl: 1 }]) {
      const body = { model: 'demo', input: 'Hi', memory };
      expect((await refusal('/v1/runs', { body })).slice(0, 2)).toEqual(bad);
    }
    expect((await list('')).memories).toEqual([]);
  });

  it('store any text and any namespace', async () => {
    server = await bootServer();
    for (const odd of ['user:42/é 茶', 'a\u0000b', '\ud800', '"; DROP TABLE memories; --']) {
      const made = await add({ namespace: odd, text: odd });
      expect(made).toMatchObject({ namespace: odd, text: odd });
      if (!odd.isWellFormed()) continue;
      const { memories } = await list(`namespace=${encodeURIComponent(odd)}`);
      expect(memories).toEqual([made]);
    }
  });
});

describe('a run with memory', () => {
  const recalledIn = async (runId: string) =>
    (await eventsOf(server, runId)).events.flatMap(({ type, memories }) =>
      type === 'memory.recalled' ? (memories as Shown[]) : [],
    );

  it('recalls memories of earlier runs, in its journal but not in its stream', async () => {
    server = await bootServer();
    const memory = { namespace: 'user:42' };
    const first = await finishedRun(server, { input: 'My cat is called Tom', memory });
    const { memories } = await list('namespace=user:42');
    expect(memories).toMatchObject([{ source: 'run', runId: first.runId, namespace: 'user:42' }]);
    expect(memories[0]?.text).toMatch(/^Asked: My cat is called Tom\n\nAnswered: ./);
    const second = await finishedRun(server, { input: 'What is my cat called?', memory });
    const recalled = await recalledIn(second.runId);
    expect(recalled.map(({ id }) => id)).toEqual([memories[0]?.id]);
    const types = new Set(second.frames.map(({ data }) => data['type']));
    expect([...types].filter((type) => type.includes('memory'))).toEqual([]);
    expect((await list('namespace=user:42')).memories).toHaveLength(2);
  });

  it('uses the namespace default for memory: true', async () => {
    server = await bootServer();
    await finishedRun(server, { input: 'Hello', memory: true });
    expect((await list('namespace=default')).memories).toHaveLength(1);
  });

  it('passes the memories to its model, marked as such', async () => {
    const model = createScriptedModel([[text('Tom.'), finish()]]);
    const models = createModelRegistry([{ id: 'scripted', provider: 'test', model }]);
    server = await bootServer({ models });
    await add({ namespace: 'n', text: 'The cat is called Tom' });
    const body = { model: 'scripted', input: 'Which cat?', memory: { namespace: 'n' }, tools: [] };
    await finishedRun(server, body);
    expect(model.requests[0]?.messages).toEqual([
      { role: 'system', content: expect.stringMatching(/^Notes recalled.*Tom/s) },
      { role: 'user', content: 'Which cat?' },
    ]);
  });

  it('has the tool memory if it is requested, and only with memory', async () => {
    server = await bootServer();
    const tools = [{ name: 'memory', kind: 'builtin' }];
    const input = 'use memory {"action":"remember","text":"The gate code is 4711"}';
    const { runId, frames } = await finishedRun(server, {
      input,
      tools,
      memory: { namespace: 'n' },
    });
    expect(frames.filter(({ data }) => data['type'] === 'approval_requested')).toEqual([]);
    const { memories } = await list('namespace=n&q=gate+code');
    expect(memories).toMatchObject(
      expect.arrayContaining([
        expect.objectContaining({ source: 'tool', runId, text: 'The gate code is 4711' }),
      ]),
    );
    const refused = await server.request('/v1/runs', { body: { model: 'demo', input, tools } });
    expect(refused.status).toBe(400);
    expect(await refused.json()).toEqual({
      error: 'tools[0].name: The tool memory requires memory',
      code: 'invalid_request',
      details: [{ path: 'tools[0].name', message: 'The tool memory requires memory' }],
    });
  });

  it('takes memory from its agent, and the request can override the namespace', async () => {
    const agents = [{ name: 'butler', model: 'demo', memory: { namespace: 'house' } }];
    server = await bootServer({ file: { agents } });
    await finishedRun(server, { agent: 'butler', input: 'Hello', tools: [] });
    const other = { agent: 'butler', input: 'Hello', tools: [], memory: { namespace: 'garden' } };
    await finishedRun(server, other);
    const namespaces = (await list('')).memories.map(({ namespace }) => namespace);
    expect(namespaces).toEqual(['garden', 'house']);
  });

  it('stores no memory when it is canceled', async () => {
    server = await bootServer();
    const { runId, reader } = await startRun(server, { input: 'notify me', memory: true });
    await reader.until('approval_requested');
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    await reader.rest();
    expect((await list('')).memories).toEqual([]);
  });
});
