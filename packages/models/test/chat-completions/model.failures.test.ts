import { Agent, type ServerResponse } from 'node:http';
import { createServer, type AddressInfo } from 'node:net';
import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ProviderFailure } from '@relay/core';
import { createChatCompletionsModel } from '../../src/chat-completions/model.ts';
import {
  asking,
  doneFrame,
  eventsOf,
  finishFrame,
  frame,
  type Script,
  type ScriptedProvider,
  startScriptedProvider,
  textFrame,
  textIn,
  textStream,
} from '../support/index.ts';

const apiKey = 'sk-test-9fQ4mZ7xL2pR8vW1';

let provider: ScriptedProvider;
let agent: Agent;

beforeEach(async () => {
  provider = await startScriptedProvider(() => undefined);
  agent = new Agent({ keepAlive: true });
});

afterEach(async () => {
  agent.destroy();
  await provider.close();
});

function createModel(more: { silenceMs?: number; baseUrl?: string } = {}) {
  const { silenceMs = 10_000, baseUrl = provider.baseUrl } = more;
  const timeouts = { firstByteMs: silenceMs, idleMs: silenceMs };
  return createChatCompletionsModel({ baseUrl, agent, apiKey, timeouts });
}

/** How a call fails. */
async function failure(script: Script, silenceMs = 10_000): Promise<ProviderFailure> {
  provider.script(script);
  try {
    await eventsOf(createModel({ silenceMs }), asking('Hi'));
  } catch (error) {
    expect(error).toBeInstanceOf(ProviderFailure);
    return error as ProviderFailure;
  }
  throw new Error('The call did not fail');
}

function answering(status: number, body: string, headers: Record<string, string> = {}): Script {
  return (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(body);
  };
}

const begin = (response: ServerResponse) =>
  response.writeHead(200, { 'content-type': 'text/event-stream' });

describe('a request that the API cannot carry', () => {
  it('because of a file by URL is refused before it is sent', async () => {
    const content = [{ type: 'file', url: 'https://example.com/a.pdf' } as const];
    const asked = eventsOf(createModel(), asking('', { messages: [{ role: 'user', content }] }));
    await expect(asked).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('set `data` and `mediaType`'),
    });
    expect(provider.requests).toEqual([]);
  });

  it('because of its reasoning names the level and the provider’s words', async () => {
    const message = "Unsupported value: 'reasoning_effort' does not support 'max'. Use 'low'.";
    provider.script(answering(400, JSON.stringify({ error: { message } })));
    await expect(eventsOf(createModel(), asking('Hi', { reasoning: 'max' }))).rejects.toThrow(
      `The model scripted does not take reasoning "max": ${message}`,
    );
  });

  it('because it does not know the field of reasoning is sent again without the level none', async () => {
    const message = 'Unrecognized request argument supplied: reasoning_effort';
    provider.script((response, request) =>
      'reasoning_effort' in request.body
        ? answering(400, JSON.stringify({ error: { message } }))(response, request)
        : begin(response).end(textStream(['Hi'])),
    );
    const events = await eventsOf(createModel(), asking('Hi', { reasoning: 'none' }));
    expect(textIn(events)).toBe('Hi');
    await expect(eventsOf(createModel(), asking('Hi', { reasoning: 'low' }))).rejects.toThrow(
      `The model scripted does not take reasoning "low": ${message}`,
    );
  });
});

describe('the limit of an answer', () => {
  const limited = (model: string) => asking('Hi', { model, maxOutputTokens: 50 });

  it.each([
    ['gpt-4o', 'max_tokens'],
    ['qwen3', 'max_tokens'],
    ['o3', 'max_completion_tokens'],
    ['gpt-5.2', 'max_completion_tokens'],
    ['openai/gpt-6-sol', 'max_completion_tokens'],
  ])('goes to %s as %s', async (model, field) => {
    provider.script((response) => begin(response).end(textStream(['Hi'])));
    await eventsOf(createModel(), limited(model));
    expect(provider.requests).toHaveLength(1);
    expect(provider.requests[0]?.body).toMatchObject({ [field]: 50 });
  });

  it.each([
    [
      'my-deployment',
      'max_tokens',
      "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    ],
    ['gpt-5.2', 'max_completion_tokens', 'Extra inputs are not permitted: max_completion_tokens'],
  ])('of %s goes in the other field if %s is refused', async (model, refused, message) => {
    provider.script((response, request) =>
      refused in request.body
        ? answering(400, JSON.stringify({ error: { message } }))(response, request)
        : begin(response).end(textStream(['Hi'])),
    );
    expect(textIn(await eventsOf(createModel(), limited(model)))).toBe('Hi');
    expect(provider.requests).toHaveLength(2);
  });

  it('is not sent back and forth between the two fields', async () => {
    const message = 'Unsupported: max_tokens, max_completion_tokens';
    provider.script(answering(400, JSON.stringify({ error: { message } })));
    await expect(eventsOf(createModel(), limited('x'))).rejects.toThrow(message);
    expect(provider.requests).toHaveLength(2);
  });
});

describe('a provider that refuses a request', () => {
  it('is quoted, and the request is not retried', async () => {
    const body = JSON.stringify({ error: { message: 'The model x does not exist' } });
    expect(await failure(answering(404, body))).toMatchObject({
      message: 'The provider answered 404: The model x does not exist',
      retryable: false,
      retryAfterMs: undefined,
    });
  });

  it('may set Retry-After', async () => {
    expect(await failure(answering(429, 'Slow down', { 'retry-after': '7' }))).toMatchObject({
      message: 'The provider answered 429: Slow down',
      retryable: true,
      retryAfterMs: 7_000,
    });
  });

  it('may send an endless body, which is truncated', async () => {
    const { message, retryable } = await failure((response) => {
      response.writeHead(500);
      const flood = () => {
        while (!response.destroyed && response.write('no '.repeat(1_000)));
        if (!response.destroyed) response.once('drain', flood);
      };
      flood();
    });
    expect(message.length).toBeLessThan(600);
    expect(retryable).toBe(true);
    await expect.poll(() => provider.connections.open).toBe(0);
  });

  it('may break off or stall in the error body', async () => {
    const broken = await failure((response) => {
      response.writeHead(503);
      response.write('Busy');
      setTimeout(() => response.destroy(), 20);
    });
    expect(broken).toMatchObject({ message: 'The provider answered 503: Busy', retryable: true });
    const silent = await failure((response) => {
      response.writeHead(503);
      response.write('Busy');
    }, 400);
    expect(silent).toMatchObject({ message: 'The provider answered 503: Busy', retryable: true });
  });

  it('cannot redirect the request', async () => {
    const { message, retryable } = await failure((response) => {
      response.writeHead(307, { location: `${provider.baseUrl}/elsewhere` });
      response.end();
    });
    expect([message, retryable]).toEqual(['The provider answered 307', false]);
    expect(provider.requests).toHaveLength(1);
  });

  it('may answer with 200 and plain JSON', async () => {
    expect(await failure(answering(200, '{"error":{"message":"Bad key"}}'))).toMatchObject({
      message: 'The provider answered without a stream: Bad key',
      retryable: false,
    });
  });
});

describe('a stream that breaks', () => {
  it('with an error inside is a failure with its words', async () => {
    const error = { message: 'Overloaded', type: 'server_error' };
    const script: Script = (response) => begin(response).end(textFrame('a') + frame({ error }));
    expect(await failure(script)).toMatchObject({
      message: 'The provider aborted its answer: Overloaded',
      retryable: true,
    });
  });

  const unfinished = {
    message: 'The provider’s answer ended before it was finished',
    retryable: true,
  };

  it.each([
    ['after some text', textFrame('a')],
    ['in the middle of a frame', textFrame('a').slice(0, 30)],
    ['in the middle of a character', Buffer.from(textFrame('ü')).subarray(0, -20)],
    ['before anything', ''],
    ['with [DONE] but without a finish reason', textFrame('a') + doneFrame],
  ])('may be tried again: %s', async (_, stream) => {
    expect(await failure((response) => begin(response).end(stream))).toMatchObject(unfinished);
  });

  it('may be tried again: the connection is cut', async () => {
    const script: Script = (response) => {
      begin(response).write(textFrame('a'));
      setTimeout(() => response.destroy(), 20);
    };
    expect(await failure(script)).toMatchObject(unfinished);
  });

  it('after its answer was complete has not failed', async () => {
    provider.script((response) => {
      begin(response).write(textFrame('a') + finishFrame());
      setTimeout(() => response.destroy(), 20);
    });
    const events = await eventsOf(createModel(), asking('Hi'));
    expect(events.map(({ type }) => type)).toEqual(['text', 'finish']);
  });
});

describe('a provider that stalls', () => {
  const silent = { message: 'The provider sent nothing for 0.08 s', retryable: true };

  it('before its answer is given up', async () => {
    expect(await failure(() => undefined, 80)).toMatchObject(silent);
    await expect.poll(() => provider.connections.open).toBe(0);
  });

  it('after its headers, or in the middle, is given up', async () => {
    expect(await failure((response) => begin(response).flushHeaders(), 80)).toMatchObject(silent);
    expect(await failure((response) => begin(response).write(textFrame('a')), 80)).toMatchObject(
      silent,
    );
    await expect.poll(() => provider.connections.open).toBe(0);
  });

  it('after its answer was complete has not failed', async () => {
    provider.script((response) => begin(response).write(textFrame('a') + finishFrame()));
    const events = await eventsOf(createModel({ silenceMs: 400 }), asking('Hi'));
    expect(events.map(({ type }) => type)).toEqual(['text', 'finish']);
  });

  it('is not given up while it sends anything at all', async () => {
    provider.script(async (response) => {
      begin(response);
      for (let n = 0; n < 8; n += 1) {
        response.write(n % 2 === 0 ? ': still here\n\n' : textFrame('a'));
        await new Promise((resolve) => {
          setTimeout(resolve, 150);
        });
      }
      response.end(finishFrame() + doneFrame);
    });
    expect(textIn(await eventsOf(createModel({ silenceMs: 800 }), asking('Hi')))).toBe('aaaa');
  });

  it('is not blamed for a reader who takes his time', async () => {
    provider.script((response) => {
      begin(response).write(textFrame('a'));
      setTimeout(() => response.end(finishFrame() + doneFrame), 600);
    });
    const model = createModel({ silenceMs: 400 });
    const seen: string[] = [];
    for await (const batch of model.stream(asking('Hi'), new AbortController().signal)) {
      await new Promise((resolve) => {
        setTimeout(resolve, 800);
      });
      seen.push(...batch.map(({ type }) => type));
    }
    expect(seen).toEqual(['text', 'finish']);
  });
});

describe('a connection that cannot be made', () => {
  it('may be tried again, and says where', async () => {
    const { baseUrl } = provider;
    await provider.close();
    const call = eventsOf(createModel({ baseUrl }), asking('Hi'));
    await expect(call).rejects.toMatchObject({
      message: `No connection to the provider at ${new URL(baseUrl).host}: ECONNREFUSED`,
      retryable: true,
    });
  });

  it('is one that is reset before the answer, or answers in another language', async () => {
    const rude = createServer((socket) => {
      socket.once('data', (data) => {
        if (data.includes('/reset/')) socket.resetAndDestroy();
        else socket.end('220 smtp.example ready\r\n');
      });
    });
    await new Promise<void>((resolve) => {
      rude.listen(0, '127.0.0.1', resolve);
    });
    const { port } = rude.address() as AddressInfo;
    for (const path of ['reset', 'smtp']) {
      const baseUrl = `http://127.0.0.1:${port}/${path}/`;
      const call = eventsOf(createModel({ baseUrl }), asking('Hi'));
      await expect(call).rejects.toMatchObject({ name: 'ProviderFailure', retryable: true });
    }
    rude.close();
  });

  it('is one that the agent refuses, in the agent’s own words', async () => {
    const refusing = new Agent();
    refusing.createConnection = () => {
      throw new ProviderFailure('The address 10.0.0.1 is private', { retryable: false });
    };
    const model = createChatCompletionsModel({ baseUrl: provider.baseUrl, agent: refusing });
    await expect(eventsOf(model, asking('Hi'))).rejects.toMatchObject({
      message: 'The address 10.0.0.1 is private',
      retryable: false,
    });
  });
});

describe('the API key', () => {
  it.each<[string, Script]>([
    ['a refusal', answering(401, JSON.stringify({ error: { message: `Wrong key: ${apiKey}` } }))],
    ['a plain refusal', answering(401, `key=${apiKey}`)],
    ['a refusal with 200', answering(200, JSON.stringify({ error: `Wrong key: ${apiKey}` }))],
    ['a body full of it', answering(400, apiKey.repeat(2_000))],
    ['an error in the stream', (response) => begin(response).end(frame({ error: apiKey }))],
    ['data that is not JSON', (response) => begin(response).end(`data: ${apiKey}\n\n`)],
    [
      'an echo of our headers',
      (response, { headers }) => {
        response.writeHead(400);
        response.end(JSON.stringify(headers));
      },
    ],
  ])('is never in an error: %s', async (_, script) => {
    const { message } = await failure(script);
    for (let at = 0; at + 8 <= apiKey.length; at += 1) {
      expect(message).not.toContain(apiKey.slice(at, at + 8));
    }
  });
});

describe('an aborted call', () => {
  const stopped = { message: 'The model call was aborted', retryable: false };

  it('is not sent if it was aborted before', async () => {
    const call = eventsOf(createModel(), asking('Hi'), AbortSignal.abort());
    await expect(call).rejects.toMatchObject(stopped);
    expect(provider.connections.made).toBe(0);
  });

  it.each([
    ['waiting for the answer', () => undefined],
    ['waiting for the first token', (response: ServerResponse) => begin(response).flushHeaders()],
    ['in the middle', (response: ServerResponse) => begin(response).write(textFrame('a'))],
  ])('closes its socket: %s', async (_, script) => {
    const { promise: arrived, resolve } = Promise.withResolvers<void>();
    provider.script((response) => {
      script(response);
      setTimeout(() => resolve(), 20);
    });
    const controller = new AbortController();
    const call = eventsOf(createModel(), asking('Hi'), controller.signal);
    void arrived.then(() => controller.abort());
    await expect(call).rejects.toMatchObject(stopped);
    await expect.poll(() => provider.connections.open).toBe(0);
  });

  it('emits nothing more, not even buffered text', async () => {
    provider.script((response) => {
      begin(response).write(textFrame('a'));
      setTimeout(() => response.end(textFrame('b') + finishFrame() + doneFrame), 20);
    });
    const controller = new AbortController();
    const seen: string[] = [];
    const read = async () => {
      for await (const batch of createModel().stream(asking('Hi'), controller.signal)) {
        seen.push(textIn(batch));
        await new Promise((resolve) => {
          setTimeout(resolve, 100);
        });
        controller.abort();
      }
    };
    await expect(read()).rejects.toMatchObject(stopped);
    expect(seen).toEqual(['a']);
  });

  it('ends when its consumer stops', async () => {
    provider.script((response) => begin(response).write(textFrame('a')));
    for await (const batch of createModel().stream(asking('Hi'), new AbortController().signal)) {
      expect(textIn(batch)).toBe('a');
      break;
    }
    await expect.poll(() => provider.connections.open).toBe(0);
  });

  it('removes its listeners, like a finished call', async () => {
    provider.script((response) => begin(response).end(textStream(['a'])));
    const { signal } = new AbortController();
    await eventsOf(createModel(), asking('Hi'), signal);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });
});
