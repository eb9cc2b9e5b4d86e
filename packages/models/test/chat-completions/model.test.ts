import { Agent, type ServerResponse } from 'node:http';
import type { Message } from '@relay/protocol';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createChatCompletionsModel } from '../../src/chat-completions/model.ts';
import { answerPacer } from '../../src/pacer.ts';
import {
  asking,
  batchesOf,
  deltaFrame,
  doneFrame,
  eventsOf,
  finishFrame,
  type Script,
  type ScriptedProvider,
  startScriptedProvider,
  textFrame,
  textIn,
  textStream,
  usageFrame,
} from '../support/index.ts';

let provider: ScriptedProvider;
let agent: Agent;

beforeEach(async () => {
  provider = await startScriptedProvider(streaming(textStream(['Hello', ' there'])));
  agent = new Agent({ keepAlive: true });
});

afterEach(async () => {
  agent.destroy();
  await provider.close();
});

function streaming(stream: string | Uint8Array): Script {
  return (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(stream);
  };
}

function createModel(more: { apiKey?: string; model?: string; baseUrl?: string } = {}) {
  return createChatCompletionsModel({ baseUrl: provider.baseUrl, agent, ...more });
}

const text = (content: string) => ({ type: 'text', text: content });
const finish = (reason: string, inputTokens: number, outputTokens: number) => ({
  type: 'finish',
  reason,
  usage: { inputTokens, outputTokens },
  model: 'scripted',
});

describe('a model behind the Chat Completions API', () => {
  it('streams text, then finish with usage', async () => {
    expect(await eventsOf(createModel(), asking('Hi'))).toEqual([
      text('Hello'),
      text(' there'),
      finish('stop', 7, 2),
    ]);
  });

  it('that does not know how to keep to a shape is asked for it in words alone', async () => {
    provider.script((response, { body }) => {
      if (body['response_format'] === undefined) {
        return streaming(textStream(['{}']))(response, {} as never);
      }
      response.writeHead(400, { 'content-type': 'application/json' });
      const message = 'This response_format type is unavailable now';
      return response.end(JSON.stringify({ error: { message } }));
    });
    const request = asking('Hi', { outputSchema: { type: 'object' } });
    expect(textIn(await eventsOf(createModel(), request))).toBe('{}');
    expect(provider.requests).toHaveLength(2);
    expect(JSON.stringify(provider.requests[1]?.body['messages'])).toContain('JSON Schema');
    provider.script((response) => response.writeHead(400).end('No such model'));
    await expect(eventsOf(createModel(), request)).rejects.toThrow('No such model');
    expect(provider.requests).toHaveLength(3);
  });

  it('that does not know thoughts, nor shapes, is asked again without them', async () => {
    provider.script((response, { body }) => {
      const written = JSON.stringify(body);
      const refused = ['response_format', 'reasoning_content'].find((each) =>
        written.includes(each),
      );
      if (refused === undefined) return streaming(textStream(['{}']))(response, {} as never);
      response.writeHead(400, { 'content-type': 'application/json' });
      return response.end(JSON.stringify({ error: { message: `Unknown field ${refused}` } }));
    });
    const parts = [{ type: 'reasoning' as const, text: 'Hm.' }];
    const messages: Message[] = [
      { role: 'user', content: 'Hi' },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c', type: 'function', function: { name: 'add', arguments: '{}' } }],
        providerData: { provider: 'chat-completions', model: 'scripted', parts },
      },
      { role: 'tool', tool_call_id: 'c', content: '4' },
    ];
    const request = asking('', { messages, outputSchema: { type: 'object' } });
    expect(textIn(await eventsOf(createModel(), request))).toBe('{}');
    expect(provider.requests).toHaveLength(3);
  });

  it('that misses reasoning which does not exist is not asked again', async () => {
    const error = { message: 'Missing reasoning_content in messages[1]' };
    provider.script((response) => response.writeHead(400).end(JSON.stringify({ error })));
    await expect(eventsOf(createModel(), asking('Hi'))).rejects.toThrow('Missing');
    expect(provider.requests).toHaveLength(1);
  });

  it('is asked by POST with the key, the messages and the tools', async () => {
    const tool = { name: 'add', description: 'Adds', inputSchema: { type: 'object' } };
    await eventsOf(createModel({ apiKey: 'sk-1' }), asking('Hi', { tools: [tool] }));
    const [request] = provider.requests;
    expect(request?.path).toBe('/v1/chat/completions');
    expect(request?.headers).toMatchObject({
      authorization: 'Bearer sk-1',
      'content-type': 'application/json',
      accept: 'text/event-stream',
    });
    expect(request?.body).toEqual({
      model: 'scripted',
      messages: [{ role: 'user', content: 'Hi' }],
      stream: true,
      stream_options: { include_usage: true },
      tools: [
        {
          type: 'function',
          function: { name: 'add', description: 'Adds', parameters: { type: 'object' } },
        },
      ],
    });
  });

  it('needs no key, and may have another name at its server', async () => {
    await eventsOf(createModel({ model: 'llama3' }), asking('Hi'));
    expect(provider.requests[0]?.headers.authorization).toBeUndefined();
    expect(provider.requests[0]?.body['model']).toBe('llama3');
  });

  it('keeps the path and the query of its base URL', async () => {
    const baseUrl = `${provider.baseUrl}/deployments/x/?api-version=2`;
    await eventsOf(createModel({ baseUrl }), asking('Hi'));
    expect(provider.requests[0]?.path).toBe('/v1/deployments/x/chat/completions?api-version=2');
  });

  it('sends text of every script, and its length in bytes', async () => {
    await eventsOf(createModel(), asking('Größe 🙂 文'));
    expect(provider.requests[0]?.body['messages']).toEqual([
      { role: 'user', content: 'Größe 🙂 文' },
    ]);
  });

  it('calls a tool', async () => {
    const pieces = [
      { index: 0, id: 'call_1', type: 'function', function: { name: 'add', arguments: '' } },
      { index: 0, function: { arguments: '{"a":1,' } },
      { index: 0, function: { arguments: '"b":2}' } },
    ];
    const frames = pieces.map((piece) => deltaFrame({ tool_calls: [piece] })).join('');
    const stream = textFrame('Sure.') + frames + finishFrame('tool_calls') + usageFrame(9, 5);
    provider.script(streaming(stream + doneFrame));
    expect(await eventsOf(createModel(), asking('1+2'))).toEqual([
      text('Sure.'),
      { type: 'tool-call', id: 'call_1', name: 'add', arguments: '{"a":1,"b":2}' },
      finish('tool_calls', 9, 5),
    ]);
  });

  it('calls several tools at once, in the order of their beginning', async () => {
    const begin = (index: number) => ({
      index,
      id: `call_${index}`,
      function: { name: `tool_${index}`, arguments: '' },
    });
    const more = (index: number, piece: string) => ({ index, function: { arguments: piece } });
    const frames = [
      [begin(0)],
      [begin(1), more(0, '{"n"')],
      [more(1, '{}'), begin(2)],
      [more(0, ':0}'), more(2, '[')],
    ].map((tool_calls) => deltaFrame({ tool_calls }));
    provider.script(streaming(frames.join('') + finishFrame('tool_calls') + doneFrame));
    const events = await eventsOf(createModel(), asking('all'));
    expect(events.slice(0, -1)).toEqual([
      { type: 'tool-call', id: 'call_0', name: 'tool_0', arguments: '{"n":0}' },
      { type: 'tool-call', id: 'call_1', name: 'tool_1', arguments: '{}' },
      { type: 'tool-call', id: 'call_2', name: 'tool_2', arguments: '[' },
    ]);
  });

  it('yields one batch for what came over the network at once', async () => {
    const words = Array.from({ length: 50 }, (_, n) => ` ${n}`);
    provider.script(streaming(textStream(words)));
    const batches = await batchesOf(createModel(), asking('count'));
    expect(batches.flat()).toHaveLength(51);
    expect(batches.length).toBeLessThanOrEqual(3);
  });

  it('shows each piece as it comes, not when all is there', async () => {
    let next = Promise.withResolvers<void>();
    provider.script(async (response) => {
      for (const word of ['a', 'b', 'c']) {
        response.write(textFrame(word));
        await next.promise;
        next = Promise.withResolvers();
      }
      response.end(finishFrame() + doneFrame);
    });
    const seen: unknown[] = [];
    for await (const batch of createModel().stream(asking('go'), new AbortController().signal)) {
      seen.push(...batch);
      next.resolve();
    }
    expect(seen).toEqual([text('a'), text('b'), text('c'), finish('stop', 0, 0)]);
  });

  it('is held back by a reader who is slow, and loses nothing', async () => {
    const word = 'x'.repeat(4096);
    let written = 0;
    provider.script(async (response) => {
      for (; written < 4_000; written += 1) {
        if (!response.write(textFrame(word))) {
          await new Promise((resolve) => {
            response.once('drain', resolve);
          });
        }
      }
      response.end(finishFrame() + doneFrame);
    });
    let received = 0;
    let writtenMeanwhile = 0;
    for await (const batch of createModel().stream(asking('go'), new AbortController().signal)) {
      if (received === 0) {
        await new Promise((resolve) => {
          setTimeout(resolve, 200);
        });
        writtenMeanwhile = written;
      }
      received += textIn(batch).length;
    }
    expect(writtenMeanwhile).toBeLessThan(4_000);
    expect(received).toBe(4_000 * 4096);
  });
});

describe('a stream over the network', () => {
  const recorded = Buffer.from(
    deltaFrame({ role: 'assistant', content: '' }) +
      ['Grüße', ' 🙂', ' "quoted"\n', ' the', ' end'].map(textFrame).join('') +
      deltaFrame({
        tool_calls: [{ index: 0, id: 'c', function: { name: 'é', arguments: '"ü"' } }],
      }) +
      finishFrame('tool_calls') +
      usageFrame(3, 5) +
      doneFrame,
  );

  it('means the same wherever it is cut in two', async () => {
    const model = createModel();
    provider.script(streaming(recorded));
    const whole = await eventsOf(model, asking('go'));
    expect(textIn(whole)).toBe('Grüße 🙂 "quoted"\n the end');
    let at = 0;
    provider.script((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(recorded.subarray(0, at));
      setImmediate(() => response.end(recorded.subarray(at)));
    });
    for (at = 1; at < recorded.length; at += 1) {
      expect(await eventsOf(model, asking('go')), `cut at ${at}`).toEqual(whole);
    }
  });

  it('means the same byte by byte', async () => {
    const model = createModel();
    provider.script(streaming(recorded));
    const whole = await eventsOf(model, asking('go'));
    provider.script(async (response) => {
      for (const byte of recorded) {
        response.write(Buffer.of(byte));
        await new Promise(setImmediate);
      }
      response.end();
    });
    expect(await eventsOf(model, asking('go'))).toEqual(whole);
  });
});

describe('the connection', () => {
  it('is kept for the next call', async () => {
    const model = createModel();
    for (let n = 0; n < 5; n += 1) await eventsOf(model, asking('Hi'));
    expect(provider.connections.made).toBe(1);
  });

  it('is kept although the provider ends its answer a little after [DONE]', async () => {
    provider.script((response) => {
      response.write(textStream(['a']));
      setTimeout(() => response.end(), 30);
    });
    const model = createModel();
    await eventsOf(model, asking('Hi'));
    await expect.poll(() => Object.keys(agent.freeSockets)).toHaveLength(1);
    await eventsOf(model, asking('Hi'));
    expect(provider.connections.made).toBe(1);
  });

  it('does not delay the end of an answer until the provider hangs up', async () => {
    provider.script((response) => {
      response.write(textStream(['a']));
    });
    expect(textIn(await eventsOf(createModel(), asking('Hi')))).toBe('a');
    await expect.poll(() => provider.connections.open, { timeout: 5_000 }).toBe(0);
  });

  it('is replaced if the idle one was closed meanwhile', async () => {
    const model = createModel();
    await eventsOf(model, asking('Hi'));
    // The server closes without our side having seen it: the next request runs into it.
    provider.closeIdleConnections();
    expect(textIn(await eventsOf(model, asking('Hi')))).toBe('Hello there');
    expect(provider.connections.made).toBe(2);
  });

  it('is as many as there are calls at once', async () => {
    const model = createModel();
    const answers = await Promise.all(
      Array.from({ length: 16 }, () => eventsOf(model, asking('Hi'))),
    );
    expect(new Set(answers.map(textIn))).toEqual(new Set(['Hello there']));
  });
});

describe('a model that cannot be', () => {
  it.each(['ftp://host/v1', 'not a url', ''])('has the base URL %j', (baseUrl) => {
    expect(() => createChatCompletionsModel({ baseUrl })).toThrow(TypeError);
  });

  it.each(['', 'sk-1\r\nX-Evil: 1', 'sk 1', 'schlüssel'])('has the key %j', (apiKey) => {
    const create = () => createChatCompletionsModel({ baseUrl: 'http://127.0.0.1/v1', apiKey });
    expect(create).toThrow('The API key of a provider is empty or contains a character');
  });
});

describe('an answer that is read together with others', () => {
  /** An open answer whose first text was read, and what waits for its turn. */
  async function readFirst() {
    const starts: (() => void)[] = [];
    vi.spyOn(answerPacer, 'add').mockImplementation((start) => void starts.push(start));
    const opened = Promise.withResolvers<ServerResponse>();
    provider.script((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(deltaFrame({ role: 'assistant', content: '' }));
      opened.resolve(response);
    });
    const answer = createModel().stream(asking('Hi'), new AbortController().signal);
    const batches = answer[Symbol.asyncIterator]();
    const first = batches.next();
    const response = await opened.promise;
    response.write(textFrame('a'));
    expect((await first).value).toEqual([text('a')]);
    return { starts, response, batches };
  }

  afterEach(() => void vi.restoreAllMocks());

  it('is read at once until its first text, and then in its turn, as a whole', async () => {
    const { starts, response, batches } = await readFirst();
    expect(starts).toEqual([]);
    const next = batches.next();
    response.write(textFrame('b'));
    await expect.poll(() => starts.length).toBe(1);
    response.write(textFrame('c'));
    await expect.poll(() => starts.length).toBe(2);
    for (const start of starts) start();
    expect((await next).value).toEqual([text('b'), text('c')]);
    await batches.return?.();
  });

  it('ignores a turn for what was read in the meantime', async () => {
    const { starts, response, batches } = await readFirst();
    const next = batches.next();
    response.write(textFrame('b'));
    await expect.poll(() => starts.length).toBe(1);
    starts[0]?.();
    expect((await next).value).toEqual([text('b')]);
    const last = batches.next();
    starts[0]?.();
    response.end(textFrame('c') + finishFrame() + doneFrame);
    expect((await last).value).toEqual([text('c'), expect.objectContaining({ type: 'finish' })]);
  });

  it('does not wait for its turn when it has ended', async () => {
    const { response, batches } = await readFirst();
    const next = batches.next();
    response.write(textFrame('b'));
    response.end(finishFrame() + doneFrame);
    expect((await next).value).toEqual([text('b'), expect.objectContaining({ type: 'finish' })]);
  });

  it('does not wait for its turn when much has arrived', async () => {
    const { response, batches } = await readFirst();
    const next = batches.next();
    const long = 'x'.repeat(80_000);
    response.write(textFrame(long) + textFrame(long));
    expect((await next).value).toEqual([text(long)]);
    await batches.return?.();
  });
});
