/**
 * Many who only wait, and some who do not read. `RELAY_STREAMS` and `RELAY_STALLED` set how many:
 * the full size is 10000 and 500.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { readSse } from '@relay/protocol';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { TestServer } from '../support/server.ts';

const idle = Number(process.env['RELAY_STREAMS'] ?? 1_000);
const stalled = Number(process.env['RELAY_STALLED'] ?? 50);
const maxBytesAStream = 18 * 1024;
const maxBytesAReader = 256 * 1024;
const words = 60_000;
const reconnectTimeoutMs = 240_000 + 20 * (idle + stalled);

const secret = 'a-secret-of-16-or-more';
const server = new TestServer(
  {
    RELAY_LOG_LEVEL: 'warn',
    RELAY_INTERNAL_SECRET: secret,
    RELAY_MAX_STREAMS_PER_KEY: '20000',
    RELAY_MAX_STREAMS_PER_TENANT: '20000',
  },
  'test/support/servers/measured.ts',
);
const sockets: Socket[] = [];

beforeAll(() => server.start());
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  await server.dispose();
});

/** Opens a stream and resolves when its first bytes are there. */
async function open(path: string): Promise<Socket> {
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname);
  sockets.push(socket);
  socket.on('error', () => undefined);
  const head = [`GET ${path} HTTP/1.1`, `host: ${hostname}`];
  socket.write(`${[...head, `authorization: Bearer ${server.apiKey}`].join('\r\n')}\r\n\r\n`);
  const [chunk] = (await once(socket, 'data')) as [Buffer];
  expect(chunk.toString()).toMatch(/^HTTP\/1\.1 200/);
  return socket;
}

async function openMany(count: number, path: string): Promise<Socket[]> {
  const opened: Socket[] = [];
  let left = count;
  const lane = async () => {
    while (left-- > 0) opened.push((await open(path)).pause());
  };
  await Promise.all(Array.from({ length: 20 }, lane));
  return opened;
}

async function start(input: string): Promise<{ runId: string; response: Response }> {
  const tools = [{ name: 'send_note', kind: 'builtin' }];
  const response = await server.request('/v1/runs', { body: { model: 'demo', input, tools } });
  return { runId: response.headers.get('x-run-id') ?? '', response };
}

async function openStreams(): Promise<number> {
  const headers = { authorization: `Internal ${secret}` };
  const text = await (await server.request('/metrics', { keyless: true, headers })).text();
  return Number(/^relay_open_streams (\d+)$/m.exec(text)?.[1]);
}

interface Holding {
  readonly bytes: number;
  readonly rss: number;
}

/** What the server holds after a collection. */
async function held(): Promise<Holding> {
  const seen = server.output.length;
  server.signal('SIGUSR2');
  for (;;) {
    const found = /^holds (.*)\n/m.exec(server.output.slice(seen))?.[1];
    if (found !== undefined) return JSON.parse(found) as Holding;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

function costOf(what: string, count: number, [before, after]: readonly [Holding, Holding]) {
  const each = (after.bytes - before.bytes) / count;
  const resident = (after.rss - before.rss) / count;
  const kb = (bytes: number) => `${(bytes / 1024).toFixed(1)} KB`;
  console.info(`${count} ${what}: ${kb(each)} each (${kb(resident)} of resident memory)`);
  return each;
}

/** One slow answer may be this machine's fault, ten are the server's. */
async function expectHealth(): Promise<void> {
  let fastest = Infinity;
  for (let n = 0; n < 10 && fastest > 100; n += 1) {
    const since = performance.now();
    expect((await server.request('/health', { keyless: true })).status).toBe(200);
    fastest = Math.min(fastest, performance.now() - since);
  }
  expect(fastest).toBeLessThanOrEqual(100);
}

const idleCosts = `${idle} streams on which nothing happens cost at most 18 KB each`;
it(
  idleCosts,
  async () => {
    const { runId } = await start('notify me');
    await openMany(Math.ceil(idle / 4), '/v1/feed');
    const before = await held();
    await openMany(idle, `/v1/runs/${runId}/stream`);
    const each = costOf('idle streams', idle, [before, await held()]);
    expect(await openStreams()).toBeGreaterThanOrEqual(idle);
    await expectHealth();
    expect(each).toBeLessThanOrEqual(maxBytesAStream);
  },
  reconnectTimeoutMs,
);

const cutOff = `${stalled} readers that do not read hold little, are cut off, and lose nothing`;
it(
  cutOff,
  async () => {
    const { runId, response } = await start(`say ${words}`);
    await response.text();
    const path = `/v1/runs/${runId}/stream?dialect=chat`;
    const others = await openStreams();
    const before = await held();
    const readers = await openMany(stalled, path);
    const each = costOf('stalled readers', stalled, [before, await held()]);
    expect(each).toBeLessThanOrEqual(maxBytesAReader);
    await expectHealth();
    // They are given a minute to read on.
    const deadline = Date.now() + 120_000;
    while ((await openStreams()) > others) {
      expect(Date.now(), 'they should have been cut off').toBeLessThan(deadline);
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    // Reading twelve megabytes again takes a while; some stand for all.
    for (const reader of readers.slice(0, 5)) {
      const read = idsIn(await whatIsLeft(reader));
      expect(read.length).toBeGreaterThan(0);
      await expectRest(path, read.at(-1) ?? 0);
    }
  },
  reconnectTimeoutMs,
);

/** Reads on, now that it is too late: what the kernels held is there, and then the end. */
async function whatIsLeft(socket: Socket): Promise<string> {
  let text = '';
  socket.on('data', (chunk) => (text += chunk.toString()));
  const closed = once(socket, 'close');
  socket.resume();
  await closed;
  return text;
}

/** Of frames that came in full. */
function idsIn(text: string): number[] {
  return [...text.matchAll(/^id: (\d+)\nevent: .*\ndata: .*\n\n/gm)].map(([, id]) => Number(id));
}

async function expectRest(path: string, after: number): Promise<void> {
  const response = await server.request(path, { headers: { 'last-event-id': String(after) } });
  if (response.body === null) throw new Error('The response has no body');
  const ids: number[] = [];
  let end = '';
  for await (const { id, data } of readSse(response.body)) {
    ids.push(Number(id));
    end = data;
  }
  expect(ids[0]).toBe(after + 1);
  expect(ids.length).toBeGreaterThan(1_000);
  expect(ids).toEqual(ids.toSorted((a, b) => a - b));
  expect(end).toContain('"type":"harness_end"');
}
