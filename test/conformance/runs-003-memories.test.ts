/** The memories of `003`: its curl lines, and runs that use them, against started servers. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { allFrames, type Frame } from '../support/frames.ts';
import { LocalServer } from '../support/server.ts';
import { otherOrg } from './runtime-client.ts';
import { calls, says, type Scripted, startScripted } from './scripted.ts';
import { verifies } from './verifies.ts';

const server = new LocalServer();
let scripted: Scripted<LocalServer>;
beforeAll(async () => {
  await server.start();
  scripted = await startScripted();
});
afterAll(async () => {
  await server.dispose();
  await scripted.dispose();
});

interface Memory {
  readonly id: string;
  readonly namespace: string;
  readonly text: string;
  readonly runId?: string;
}

/** A command of the seed, in a shell, as a reader would type it. */
async function shell(command: string, on = server): Promise<string> {
  const env = { ...process.env, RELAY_URL: on.url, RELAY_API_KEY: on.apiKey };
  const { stdout } = await promisify(execFile)('bash', ['-c', command], { env });
  return stdout;
}

async function list(query: string, on = server, apiKey = on.apiKey): Promise<Memory[]> {
  const headers = { authorization: `Bearer ${apiKey}` };
  const response = await on.request(`/v1/memories?${query}`, { keyless: true, headers });
  expect(response.status).toBe(200);
  return ((await response.json()) as { memories: Memory[] }).memories;
}

async function add(namespace: string, text: string): Promise<Memory> {
  const response = await server.request('/v1/memories', { body: { namespace, text } });
  expect(response.status).toBe(201);
  return (await response.json()) as Memory;
}

async function run(body: object): Promise<{ runId: string; frames: Frame[] }> {
  const request = { body: { model: 'gpt-4o-mini', ...body } };
  const response = await scripted.server.request('/v1/runs', request);
  expect(response.status).toBe(200);
  return { runId: response.headers.get('x-run-id') ?? '', frames: await allFrames(response) };
}

describe('the curl lines about memories', () => {
  let mine: Memory[];
  let others: Memory;
  beforeEach(async () => {
    for (const namespace of ['user:42', 'user:43']) {
      const path = `/v1/memories?namespace=${namespace}`;
      await server.request(path, { method: 'DELETE' });
    }
    mine = [await add('user:42', 'First'), await add('user:42', 'Second')];
    others = await add('user:43', 'Of another');
  });

  test('list the memories of a namespace, written as it is', async () => {
    verifies('003:endpoint:memories-list');
    verifies('003:memories:list-namespace');
    verifies('003:memories:namespace-with-colon');
    const out = await shell(`curl -sS -H "authorization: Bearer $RELAY_API_KEY" \\
      "$RELAY_URL/v1/memories?namespace=user:42&limit=50"`);
    expect(JSON.parse(out)).toEqual({ memories: mine.toReversed(), nextCursor: null });
    expect(await list('namespace=user:43')).toEqual([others]);
  });

  test('list no more than limit says, and all of them page by page', async () => {
    verifies('003:memories:list-limit');
    const response = await server.request('/v1/memories?namespace=user:42&limit=1');
    const first = (await response.json()) as { memories: Memory[]; nextCursor: string };
    expect(first.memories).toEqual([mine[1]]);
    const rest = `namespace=user:42&limit=1&cursor=${first.nextCursor}`;
    expect(await list(rest)).toEqual([mine[0]]);
  });

  test('delete one, and leave the others', async () => {
    verifies('003:endpoint:memories-delete');
    verifies('003:memories:delete-one');
    const out = await shell(`curl -sS -w '%{http_code}' -X DELETE \\
      -H "authorization: Bearer $RELAY_API_KEY" "$RELAY_URL/v1/memories/${mine[0]?.id}"`);
    expect(out).toBe('204');
    expect(await list('namespace=user:42')).toEqual([mine[1]]);
    expect(await list('namespace=user:43')).toEqual([others]);
  });

  test('clear a namespace, and no other', async () => {
    verifies('003:endpoint:memories-clear');
    verifies('003:memories:clear-namespace');
    const out = await shell(`curl -sS -w '%{http_code}' -X DELETE \\
      -H "authorization: Bearer $RELAY_API_KEY" "$RELAY_URL/v1/memories?namespace=user:42"`);
    expect(out).toBe('204');
    expect(await list('namespace=user:42')).toEqual([]);
    expect(await list('namespace=user:43')).toEqual([others]);
    // A missing filter does not delete everything.
    const all = await server.request('/v1/memories', { method: 'DELETE' });
    expect(all.status).toBe(400);
    expect(await list('namespace=user:43')).toEqual([others]);
  });

  test('show and delete nothing of another tenant', async () => {
    verifies('003:memories:per-tenant');
    const stranger = await otherOrg(server);
    expect(await list('namespace=user:42', server, stranger)).toEqual([]);
    const headers = { authorization: `Bearer ${stranger}` };
    for (const path of [`/v1/memories/${mine[0]?.id}`, '/v1/memories?namespace=user:42']) {
      await server.request(path, { method: 'DELETE', keyless: true, headers });
    }
    expect(await list('namespace=user:42')).toEqual(mine.toReversed());
  });
});

describe('a run with memory', () => {
  test('is started by the request of the example', async () => {
    verifies('003:runs:example');
    scripted.play(
      calls({ id: 'call_1', name: 'calculator', input: { a: 23, b: 47, op: '*' } }),
      says('23', ' *', ' 47 is 1081.'),
    );
    const out = await shell(
      `curl -sS -N -X POST $RELAY_URL/v1/runs \\
        -H "authorization: Bearer $RELAY_API_KEY" \\
        -H "content-type: application/json" \\
        -d '{
          "model": "gpt-4o-mini",
          "system": "You are a helpful assistant.",
          "input": "What is 23 * 47?",
          "tools": [{ "name": "calculator", "kind": "builtin" }],
          "memory": { "namespace": "demo-user" }
        }'`,
      scripted.server,
    );
    const frames = out
      .split('\n')
      .filter((line) => line.startsWith('data: '))
      .map((line) => JSON.parse(line.slice('data: '.length)) as { type: string });
    expect(frames).toMatchObject([
      { type: 'run', agent: 'assistant' },
      { type: 'tool_call', name: 'calculator', input: { a: 23, b: 47, op: '*' } },
      { type: 'tool_result', output: 1081 },
      { type: 'token', text: '23' },
      { type: 'token', text: ' *' },
      { type: 'token', text: ' 47 is 1081.' },
      { type: 'done', output: '23 * 47 is 1081.' },
    ]);
    const memories = await list('namespace=demo-user', scripted.server);
    expect(memories.map(({ text }) => text)).toEqual([
      'Asked: What is 23 * 47?\n\nAnswered: 23 * 47 is 1081.',
    ]);
  });

  test('leaves a memory in its namespace, without asking the model for it', async () => {
    verifies('003:runs:memory-stored');
    scripted.play(says('Noted: green.'));
    const memory = { namespace: 'user:stored' };
    const { runId } = await run({ input: 'My favourite colour is green.', memory });
    expect(scripted.asked()).toHaveLength(1);
    expect(await list('namespace=user:stored', scripted.server)).toMatchObject([
      {
        namespace: 'user:stored',
        text: 'Asked: My favourite colour is green.\n\nAnswered: Noted: green.',
        runId,
      },
    ]);
  });

  test('uses the memories of its namespace and of no other', async () => {
    verifies('003:runs:memory-namespace');
    const memory = { namespace: 'user:ada' };
    scripted.play(says('I will remember.'));
    await run({ input: 'My dog is called Pixel.', memory });
    scripted.play(says('I will remember.'));
    await run({ input: 'My dog is called Rex.', memory: { namespace: 'user:bob' } });

    scripted.play(says('Pixel.'));
    const { runId } = await run({ input: 'What is my dog called?', memory });
    const [asked] = scripted.asked();
    expect(JSON.stringify(asked?.messages)).toContain('Pixel');
    expect(JSON.stringify(asked?.messages)).not.toContain('Rex');
    const events = await scripted.server.request(`/v1/runs/${runId}/events`);
    const { events: journal } = (await events.json()) as { events: { type: string }[] };
    expect(journal.filter(({ type }) => type === 'memory.recalled')).toMatchObject([
      { namespace: 'user:ada', memories: [{ text: expect.stringContaining('Pixel') }] },
    ]);
  });

  test('is one that asks for it: system, tools and memory may be left out', async () => {
    verifies('003:runs:optional-fields');
    const before = await list('', scripted.server);
    scripted.play(says('Hello.'));
    const { frames } = await run({ input: 'My dog is called Pixel.' });
    expect(frames.at(-1)?.data).toMatchObject({ type: 'done', output: 'Hello.' });
    expect(scripted.asked()[0]?.messages).toEqual([
      { role: 'user', content: 'My dog is called Pixel.' },
    ]);
    expect(await list('', scripted.server)).toEqual(before);
  });
});
