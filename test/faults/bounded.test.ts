/**
 * A real server under runs of mixed size, up to the longest answer. Whatever their size, memory, lists
 * and streams stay bounded, `/health` answers, and every run completes.
 *
 * More runs: `RELAY_SOAK_RUNS=500 npx vitest run --project faults test/faults/bounded.test.ts`.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { allFrames } from '../support/frames.ts';
import { TestServer } from '../support/server.ts';

const runs = Number(process.env['RELAY_SOAK_RUNS'] ?? 60);
const atOnce = 40;
const answerLimit = 4 * 1024 * 1024;
/** Of the process, with Node itself. Without bounds, 60 of these runs take several gigabytes. */
const maxMemoryBytes = 900 * 1024 * 1024;
const chunk = 'x'.repeat(16 * 1024);

/** Most runs are small, some are long, and one in thirty is as long as an answer may be. */
function sizeOf(n: number): number {
  if (n % 30 === 7) return answerLimit - 1024;
  if (n % 5 === 3) return 300 * 1024;
  return 1024;
}

const provider = createServer((request, response) => void answer(request, response));
const server = new TestServer({ RELAY_PRIVATE_NETWORKS: '127.0.0.0/8' });

/** Streams as many characters as the last message says. */
async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { messages } = JSON.parse(await text(request)) as { messages: { content: string }[] };
  let left = Number(messages.at(-1)?.content);
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const send = async (choice: object) => {
    const data = JSON.stringify({ id: 'answer', choices: [{ index: 0, ...choice }] });
    if (!response.write(`data: ${data}\n\n`)) await once(response, 'drain');
  };
  for (; left > 0 && !response.destroyed; left -= chunk.length) {
    await send({ delta: { content: chunk.slice(0, left) }, finish_reason: null });
  }
  await send({ delta: {}, finish_reason: 'stop' });
  response.end('data: [DONE]\n\n');
}

beforeAll(async () => {
  provider.listen(0, '127.0.0.1');
  await once(provider, 'listening');
  await server.start();
  const { port } = provider.address() as AddressInfo;
  const body = { apiKey: 'sk-0123456789abcdef', baseUrl: `http://127.0.0.1:${port}/v1` };
  const stored = await server.request('/v1/credentials/openai', { method: 'PUT', body });
  expect(stored.status).toBe(200);
});

afterAll(async () => {
  await server.dispose();
  provider.close();
});

/** Reads a stream with a pause after every piece, and returns the last frame. */
async function lastFrameReadSlowly(response: Response): Promise<string> {
  let end = '';
  const decoder = new TextDecoder();
  for await (const bytes of response.body ?? []) {
    end = (end + decoder.decode(bytes, { stream: true })).slice(-2 * 256 * 1024);
    await pause(20);
  }
  return end.trimEnd().split('\n\n').at(-1) ?? '';
}

/** Streams that nobody reads, of runs that are long enough to fill every buffer on the way. */
const stalled: Response[] = [];

/**
 * A run, followed to its end; every other time by a second reader too. The longest runs also have a slow
 * reader, and one that does not read.
 */
async function runOf(n: number): Promise<void> {
  const size = sizeOf(n);
  const body = { model: 'gpt-4o', input: String(size) };
  const response = await server.request('/v1/runs', { body });
  const runId = response.headers.get('x-run-id') ?? '';
  const second = n % 2 === 0 ? server.request(`/v1/runs/${runId}/stream`) : undefined;
  let slow: Promise<string> | undefined;
  if (size > 1024 * 1024) {
    stalled.push(await server.request(`/v1/runs/${runId}/stream`));
    slow = lastFrameReadSlowly(await server.request(`/v1/runs/${runId}/stream`));
  }
  const frames = await allFrames(response);
  const done = frames.at(-1)?.data as { type: string; status: string; output: string };
  expect(done).toMatchObject({ type: 'done', status: 'completed' });
  expect(done.output.length).toBe(Math.min(size, 256 * 1024));
  expect('outputTruncated' in done).toBe(size > 256 * 1024);
  if (second !== undefined) expect((await allFrames(await second)).length).toBe(frames.length);
  if (slow !== undefined) expect(await slow).toContain('"type":"done"');
}

test(
  'memory, lists and streams stay bounded under runs of mixed size',
  { timeout: 20 * 60_000 },
  async () => {
    let slowestHealthMs = 0;
    let largestList = 0;
    const over = new AbortController();
    const watch = (async () => {
      while (!over.signal.aborted) {
        const before = performance.now();
        expect((await server.request('/health')).status).toBe(200);
        slowestHealthMs = Math.max(slowestHealthMs, performance.now() - before);
        const list = await (await server.request('/v1/runs?limit=200')).text();
        largestList = Math.max(largestList, list.length);
        await pause(100);
      }
    })();
    let next = 0;
    await Promise.all(
      Array.from({ length: Math.min(atOnce, runs) }, async () => {
        while (next < runs) await runOf(next++);
      }),
    );
    over.abort();
    await watch;
    for (const response of stalled) await response.body?.cancel();
    const peak = server.peakMemoryBytes;
    const megabytes = (bytes: number) => `${Math.round(bytes / 1024 / 1024)} MB`;
    console.log(
      `${runs} runs: peak ${megabytes(peak)}, largest list ${largestList} bytes, slowest /health ${Math.round(slowestHealthMs)} ms`,
    );
    expect(largestList).toBeLessThan(2 * 1024 * 1024);
    expect(peak).toBeLessThan(maxMemoryBytes);
  },
);
