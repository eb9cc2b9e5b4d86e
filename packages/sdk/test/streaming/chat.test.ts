import { describe, expect, test } from 'vitest';
import { createClient } from '../../src/client.ts';
import { collect, FakeServer, FakeStream, json, options, refusal } from '../support/fake-server.ts';

const ids = { runId: 'run-1', agentId: 'agent-1' };
const start = { type: 'harness_start', ...ids };
const text = (id: string, content: string) => ({ type: 'text', id, content, ...ids });
const end = { type: 'harness_end', reason: 'completed', ...ids };

function chatting(...frames: readonly object[]) {
  const stream = new FakeStream({ 'x-run-id': 'run-1' });
  stream.raw('data: {"type":"connected","sessionId":"session-1"}\n\n');
  for (const [index, frame] of frames.entries()) stream.frame(index + 1, frame);
  const server = new FakeServer(({ path }) =>
    path === '/chat' ? stream.response : json(200, { success: true }),
  );
  const client = createClient({ ...options, fetch: server.fetch });
  const body = { model: 'demo', messages: [{ role: 'user' as const, content: 'Hi' }] };
  return { server, stream, body, open: () => client.chat(body) };
}

describe('Chat', () => {
  test('has its session id and run id at once, and yields the events', async () => {
    const { server, body, open } = chatting(start, text('t', 'Hi'), end);
    const chat = await open();
    expect(chat).toMatchObject({ sessionId: 'session-1', runId: 'run-1' });
    expect(await collect(chat)).toEqual([start, text('t', 'Hi'), end]);
    expect(server.requests).toHaveLength(1);
    expect(server.requests[0]).toMatchObject({ method: 'POST', path: '/chat', body });
  });

  test('answers an approval with its session id', async () => {
    const { server, open } = chatting(start, end);
    await (await open()).answer('relay-1', { approved: false, reason: 'not now' });
    expect(server.requests.at(-1)).toMatchObject({
      method: 'POST',
      path: '/chat/relay/relay-1',
      body: { sessionId: 'session-1', response: { approved: false, reason: 'not now' } },
    });
  });

  test('returns the text of the root agent without discarded parts', async () => {
    const { open } = chatting(
      text('a', 'Let me'),
      text('void', 'Hm'),
      { type: 'text_discard', id: 'void', ...ids },
      { ...text('sub', 'I am another'), parentId: 'agent-1' },
      { ...end, parentId: 'agent-1' },
      text('a', ' see.'),
      text('b', 'Done.'),
      end,
    );
    expect(await (await open()).text()).toBe('Let me see.\nDone.');
  });

  test('closes the connection when its loop is left', async () => {
    const { stream, open } = chatting(start, text('t', 'Hi'));
    for await (const _ of await open()) break;
    expect(stream.closed).toBe(true);
  });

  test.each([['ends'], ['breaks']])(
    'throws if the connection %s before the run ends',
    async (how) => {
      const { stream, open } = chatting(start);
      const chat = await open();
      const reading = collect(chat);
      if (how === 'ends') stream.end();
      else stream.break();
      await expect(reading).rejects.toMatchObject({ code: 'network_error' });
    },
  );

  test('never retries its request', async () => {
    const server = FakeServer.respondingWith(() => refusal(503, 'shutting_down'));
    const { chat } = createClient({ ...options, fetch: server.fetch });
    const messages = [{ role: 'user' as const, content: 'Hi' }];
    await expect(chat({ messages })).rejects.toMatchObject({ code: 'shutting_down' });
    expect(server.requests).toHaveLength(1);
  });

  test('rejects a stream that does not start with connected', async () => {
    const server = FakeServer.respondingWith(() => new FakeStream().frame(1, start).response);
    const { chat } = createClient({ ...options, fetch: server.fetch });
    await expect(chat({ messages: [] })).rejects.toThrow(/did not start/);
  });
});
