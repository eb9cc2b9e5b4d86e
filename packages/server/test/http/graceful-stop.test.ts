/** Open responses when the server stops. */
import { get, type IncomingMessage, request as httpRequest } from 'node:http';
import { createMemoryStore } from '@relay/store';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { FrameReader } from '../../../../test/support/frames.ts';
import { until } from '../../../../test/support/kernel.ts';
import { bootServer, type TestServer } from '../support/server.ts';
import { eventsOf, untilStatus } from '../support/requests.ts';

interface Received {
  readonly response: IncomingMessage;
  text: string;
  readonly ended: Promise<boolean>;
}

/** A raw response: `ended` says whether it was complete. */
function send(server: TestServer, path: string, body?: object): Promise<Received> {
  const headers = {
    authorization: `Bearer ${server.apiKey}`,
    ...(body === undefined ? {} : { 'content-type': 'application/json' }),
  };
  return new Promise((resolve, reject) => {
    const take = (response: IncomingMessage) => {
      const received: Received = {
        response,
        text: '',
        ended: new Promise((over) => {
          response.once('close', () => over(response.complete));
          response.once('error', () => undefined);
        }),
      };
      response.on('data', (chunk: Buffer) => (received.text += chunk.toString()));
      resolve(received);
    };
    const url = `${server.url}${path}`;
    if (body === undefined) get(url, { headers }, take).once('error', reject);
    else {
      httpRequest(url, { method: 'POST', headers }, take)
        .once('error', reject)
        .end(JSON.stringify(body));
    }
  });
}

const slow = 'slow 600000';
const messages = [{ role: 'user', content: slow }];

describe('a server that stops', () => {
  it.each<[string, string, object]>([
    ['POST /v1/runs', '/v1/runs', { model: 'demo', input: slow }],
    ['POST /api/chat', '/api/chat', { model: 'demo', message: slow }],
    ['POST /chat', '/chat', { model: 'demo', messages }],
  ])('ends the open stream of %s as a complete response', async (_surface, path, body) => {
    const server = await bootServer();
    const stream = await send(server, path, body);
    await until(async () => /token|text/.test(stream.text), 'the first text');
    await server.stop();
    expect(await stream.ended).toBe(true);
    // Only whole frames, and no end that the run has not had.
    expect(stream.text.endsWith('\n\n')).toBe(true);
    expect(stream.text).not.toMatch(/"type":"(done|harness_end)"/);
  });

  it('ends streams that only wait as complete responses too', async () => {
    const server = await bootServer();
    const started = await send(server, '/api/chat', { model: 'demo', message: 'notify me' });
    const runId = String(started.response.headers['x-run-id']);
    await untilStatus(server, runId, 'waiting');
    const follower = await send(server, `/v1/runs/${runId}/stream`);
    const feed = await send(server, '/v1/feed');
    await until(async () => feed.text !== '' && follower.text.includes('approval'), 'both');
    await server.stop();
    expect(await Promise.all([started, follower, feed].map(({ ended }) => ended))).toEqual([
      true,
      true,
      true,
    ]);
  });

  it('answers a request that waits for a run with what there is', async () => {
    const secret = 'a-secret-of-16-or-more';
    const server = await bootServer({ env: { RELAY_INTERNAL_SECRET: secret } });
    const stream = await send(server, '/api/chat', { model: 'demo', message: slow });
    const runId = String(stream.response.headers['x-run-id']);
    await until(async () => stream.text.includes('text_delta'), 'the first text');
    const headers = { authorization: `Internal ${secret}` };
    const openStreams = async () =>
      /relay_open_streams (\d+)/.exec(
        await (await server.request('/metrics', { headers })).text(),
      )?.[1];
    const before = Number(await openStreams());
    const resuming = send(server, '/api/chat/resume', { runId });
    await until(async () => Number(await openStreams()) > before, 'the request');
    await server.stop();
    const resumed = await resuming;
    expect(await resumed.ended).toBe(true);
    expect(resumed.response.statusCode).toBe(200);
    expect(JSON.parse(resumed.text)).toMatchObject({ ok: true, runId, status: 'running' });
  });

  it('stores the end of a chat session before it closes the store', async () => {
    const server = await bootServer();
    const began = Promise.withResolvers<void>();
    const slow = Promise.withResolvers<void>();
    let isStored = false;
    const { tenant } = server.store;
    vi.spyOn(server.store, 'tenant').mockImplementation((id) => {
      const own = tenant.call(server.store, id);
      const close = own.closeConnection.bind(own);
      return Object.assign(own, {
        async closeConnection(connectionId: string) {
          began.resolve();
          await slow.promise;
          await close(connectionId);
          isStored = true;
        },
      });
    });
    const chat = await send(server, '/chat', {
      model: 'demo',
      messages: [{ role: 'user', content: 'say 1' }],
    });
    await chat.ended;
    await began.promise;
    const stopped = server.stop().then(() => isStored);
    await new Promise((resolve) => setImmediate(resolve));
    slow.resolve();
    expect(await stopped).toBe(true);
    expect(server.logged).toEqual([]);
  });

  it('leaves nothing out that a client reads on with Last-Event-ID', async () => {
    const store = createMemoryStore();
    const first = await bootServer({ store });
    const stream = await send(first, '/api/chat', { model: 'demo', message: 'slow 1500' });
    const runId = String(stream.response.headers['x-run-id']);
    await until(async () => stream.text.includes('text_delta'), 'the first text');
    await first.stop();
    expect(await stream.ended).toBe(true);
    const last =
      stream.text
        .match(/^id: (\d+)$/gm)
        ?.at(-1)
        ?.slice('id: '.length) ?? '';
    const second = await bootServer({ store });
    onTestFinished(() => second.stop());
    const response = await second.request(`/v1/runs/${runId}/stream?dialect=runtime`, {
      headers: { 'last-event-id': last },
    });
    const rest = await new FrameReader(response).rest();
    expect(rest.at(-1)?.data).toMatchObject({ type: 'done', runId, status: 'succeeded' });
    const { events } = await eventsOf(second, runId, `?after=${last}`);
    expect(Number(rest[0]?.id)).toBeGreaterThan(Number(last));
    expect(events.at(-1)?.seq).toBe(Number(rest.at(-1)?.id));
  });
});
