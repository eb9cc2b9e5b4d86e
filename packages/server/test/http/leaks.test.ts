/** Thousands of clients connect and disconnect without leaks. `RELAY_LEAK` sets how many. */
import { ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { queryObjects } from 'node:v8';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SseStream } from '../../src/streaming/sse-stream.ts';
import { FeedReader } from '../../src/streaming/feed.ts';
import { answered, openRaw, times } from '../support/raw-reader.ts';
import { bootServer, type TestServer, until } from '../support/server.ts';
import { startRun, untilStatus } from '../support/requests.ts';
import { EventBuffer } from '../../src/streaming/subscribe.ts';

const count = Number(process.env['RELAY_LEAK'] ?? 2_000);
const Timer = timerKind();
/** The classes of a client, and how many instances may remain for other reasons. */
const kinds = [
  [SseStream, 0],
  [EventBuffer, 0],
  [FeedReader, 0],
  [ServerResponse, 2],
  [Socket, 20],
  [Timer, 60],
] as const;

function timerKind(): new () => object {
  const timer = setTimeout(() => undefined, 0);
  clearTimeout(timer);
  return timer.constructor as new () => object;
}

/** The classes with too many instances on the heap after a garbage collection. */
function leaked(): string[] {
  return kinds.flatMap(([kind, most]) => {
    const found = queryObjects(kind, { format: 'count' });
    return found > most ? [`${found} of ${kind.name}`] : [];
  });
}

const secret = 'a-secret-of-16-or-more';
let server: TestServer;
let waiting: string;

beforeAll(async () => {
  server = await bootServer({ env: { RELAY_INTERNAL_SECRET: secret } });
  const { runId, reader } = await startRun(server, { input: 'notify me' });
  waiting = runId;
  await untilStatus(server, runId, 'waiting');
  await reader.disconnect();
});
afterAll(() => server.stop());

const chat = { model: 'demo', messages: [{ role: 'user', content: 'notify me' }] };

const streams: Record<string, { path: () => string; body?: unknown }> = {
  'a run’s stream': { path: () => `/v1/runs/${waiting}/stream` },
  'the feed': { path: () => '/v1/feed' },
  'a chat': { path: () => '/chat', body: chat },
};

async function comeAndGo({ path, body }: { path: () => string; body?: unknown }): Promise<void> {
  const headers = { authorization: `Bearer ${server.apiKey}` };
  const socket = openRaw({ url: server.url, path: path(), headers, body });
  const answer = await answered(socket);
  socket.destroy();
  if (!answer.startsWith('HTTP/1.1 200')) throw new Error(answer);
}

/** The test's own requests keep a few connections for the next ones. */
const keptAlive = 4;
const connections = () =>
  new Promise<number>((resolve) => {
    server.relay.app.server.getConnections((_error, open) => resolve(open));
  });

async function everybodyGone(): Promise<void> {
  await until(
    async () => (await connections()) <= keptAlive,
    'the last reader’s connection to close',
  );
  await until(() => server.relay.hub.size === 0, 'the last listener to leave');
  await until(() => server.relay.control.supervisor.activeRuns === 0, 'the last run to stop');
  await until(() => server.relay.feed.size === 0, 'the last page to leave');
  const headers = { authorization: `Internal ${secret}` };
  const figures = await (await server.request('/metrics', { headers })).text();
  expect(figures).toMatch(/^relay_open_streams 0$/m);
}

describe(`${count} clients of each kind that disconnect`, () => {
  it.each(Object.entries(streams))(
    'leak no %s',
    async (_what, stream) => {
      await times(count, 20, () => comeAndGo(stream));
      await everybodyGone();
      let left: string[] = [];
      const look = () => (left = leaked()).length === 0;
      await until(look, 'nothing to be left').catch(() => expect(left).toEqual([]));
    },
    30_000 + count * 20,
  );
});
