import { getEventListeners } from 'node:events';
import { Agent, type ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createChatCompletionsModel } from '../../src/chat-completions/model.ts';
import {
  asking,
  doneFrame,
  eventsOf,
  finishFrame,
  type ScriptedProvider,
  startScriptedProvider,
  textFrame,
  textIn,
  textStream,
} from '../support/index.ts';

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

const createModel = () => createChatCompletionsModel({ baseUrl: provider.baseUrl, agent });

const begin = (response: ServerResponse) =>
  response.writeHead(200, { 'content-type': 'text/event-stream' });

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
