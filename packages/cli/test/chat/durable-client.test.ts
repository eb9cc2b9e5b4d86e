import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createClient, type RelayClient, type RunStreamEvent } from '@relay/sdk';
import { expect, test } from 'vitest';
import { DurableChatClient } from '../../src/chat/durable-client.ts';

type Sent = Parameters<RelayClient['runs']['sendMessage']>[0];

/** A server that answers nothing but messages, and loses the connection before the first frame of some runs. */
function chatOf(streams: readonly (readonly RunStreamEvent[])[]) {
  const sent: Sent[] = [];
  const runs = {
    sendMessage: async (body: Sent) => {
      sent.push(body);
      const events = streams[sent.length - 1] ?? [];
      return {
        id: `run-${sent.length}`,
        [Symbol.asyncIterator]: async function* () {
          yield* events;
        },
      };
    },
    get: async (id: string) => ({ id, conversationId: `conversation of ${id}` }),
  };
  const client = { runs } as unknown as RelayClient;
  const chat = new DurableChatClient({ client, model: 'demo', agent: 'a', note: () => {} });
  const say = async (message: string) => {
    for await (const _ of await chat.send(message, new AbortController()));
  };
  return { chat, say, sent, runs };
}

const run = { type: 'run', id: 'run-1', conversationId: 'c-1', agent: 'a', seq: 1 } as const;

test('a message needs no other request than its stream, which names the conversation', async () => {
  const { chat, say, sent, runs } = chatOf([[run]]);
  runs.get = async () => Promise.reject(new Error('The server is down'));
  await say('one');
  await say('two');
  expect(sent.map(({ conversationId }) => conversationId)).toEqual([undefined, 'c-1']);
  expect(chat.conversationId).toBe('c-1');
});

test('a message goes to the same conversation after a stream that ended before it named it', async () => {
  const { chat, say, sent } = chatOf([[]]);
  await say('one');
  await say('two');
  chat.startNew();
  await say('three');
  expect(sent.map(({ conversationId }) => conversationId)).toEqual([
    undefined,
    'conversation of run-1',
    undefined,
  ]);
});

test('a conversation that is continued has whole answers, and says how much of it is not shown', async () => {
  const { chat, runs } = chatOf([]);
  const items = [
    { id: 'run-2', outputTruncated: true },
    { id: 'run-1', output: 'Short' },
  ];
  const list = () => ({ page: async () => ({ items, total: 7 }) });
  const get = async (id: string) => ({ id, output: 'A long answer' });
  Object.assign(runs, { list, get });
  const { runs: shown, earlier } = await chat.resume('c-1', 2);
  expect(shown.map(({ output }) => output)).toEqual(['Short', 'A long answer']);
  expect(earlier).toBe(5);
});

test('an agent without a model uses the default of the server, or else demo', async () => {
  const { sent, runs } = chatOf([[run]]);
  const agents = [{ name: 'plain' }, { name: 'own', model: 'gpt' }];
  const client = {
    runs,
    agents: { list: () => ({ page: async () => ({ items: agents }) }) },
    models: async () => ({ models: [] }),
  } as unknown as RelayClient;
  for (const { name: agent } of agents) {
    const chat = new DurableChatClient({ client, model: undefined, agent, note: () => {} });
    await chat.send('hi', new AbortController());
  }
  expect(sent.map(({ model }) => model)).toEqual(['demo', undefined]);
});

test.each([
  ['ECONNREFUSED', '(your message is withdrawn)'],
  ['ECONNRESET', 'the server may have received it: see "relay runs list"'],
])('a message waits for the server until it is withdrawn: %s', async (reason, said) => {
  const { runs } = chatOf([]);
  const keys: unknown[] = [];
  const [left, withdrawal] = [new AbortController(), new AbortController()];
  const error = Object.assign(new Error('No'), {
    name: 'RelayApiError',
    code: 'network_error',
    failedRequest: { url: 'http://127.0.0.1:1', reason },
  });
  const sendMessage = async (_: Sent, options: { readonly idempotencyKey?: string }) => {
    keys.push(options.idempotencyKey);
    if (keys.length === 2) withdrawal.abort();
    throw error;
  };
  const notes: string[] = [];
  const chat = new DurableChatClient({
    client: { runs: { ...runs, sendMessage } } as unknown as RelayClient,
    model: 'demo',
    agent: 'a',
    note: (line) => void notes.push(line),
  });
  await expect(chat.send('hi', left, withdrawal.signal)).rejects.toThrow(said);
  expect(notes).toEqual(['(no connection; your message is sent when the server accepts it)']);
  expect(keys).toEqual([keys[0], keys[0]]);
  await expect(chat.send('hi', left)).rejects.toBe(error);
  const timeout = new Error('Too late');
  setTimeout(() => left.abort(timeout), 10);
  await expect(chat.send('hi', left, new AbortController().signal)).rejects.toBe(timeout);
});

test('a message may have arrived if its server was killed when it had received it', async () => {
  const server = createServer((request) => {
    request.resume().once('end', () => {
      server.close();
      request.socket.destroy();
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const withdrawal = new AbortController();
  const chat = new DurableChatClient({
    client: createClient({ baseUrl, maxRetries: 1, unreachableTimeoutMs: 0 }),
    model: 'demo',
    agent: 'a',
    note: () => void setTimeout(() => withdrawal.abort(), 100),
  });
  const sending = chat.send('pay', new AbortController(), withdrawal.signal);
  await expect(sending).rejects.toThrow('the server may have received it');
});
