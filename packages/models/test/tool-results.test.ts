/** The results of tools in the request bodies that the providers document. */
import type { Message } from '@relay/protocol';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  createAnthropicModel,
  createChatCompletionsModel,
  createGoogleModel,
  createResponsesModel,
} from '../src/index.ts';
import { asking, eventsOf, type ScriptedProvider, startScriptedProvider } from './support/index.ts';

const apiKey = 'sk-test-9fQ4mZ7xL2pR8vW1';
const create = {
  openai: createResponsesModel,
  anthropic: createAnthropicModel,
  google: createGoogleModel,
  chat: createChatCompletionsModel,
};
const models = {
  openai: 'gpt-5.4',
  anthropic: 'claude-sonnet-4-6',
  google: 'gemini-3-flash-preview',
  chat: 'local',
};
type Name = keyof typeof create;

let provider: ScriptedProvider;
beforeEach(async () => {
  provider = await startScriptedProvider((response) => response.writeHead(400).end());
});
afterEach(() => provider.close());

type Result = Pick<Extract<Message, { role: 'tool' }>, 'content' | 'isError'>;

/** The body of a request with the result of one call. */
async function sentWith(name: Name, result: Result, model: string = models[name]) {
  const messages: Message[] = [
    { role: 'user', content: 'Look' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'look', arguments: '{}' } }],
    },
    { role: 'tool', tool_call_id: 'call_1', ...result },
  ];
  const asked = create[name]({ apiKey, baseUrl: provider.baseUrl });
  await eventsOf(asked, asking('', { model, messages })).catch(() => undefined);
  return provider.requests.at(-1)?.body ?? {};
}

type Parts = readonly Record<string, unknown>[];
const anthropicResult = (body: Record<string, unknown>) =>
  (body['messages'] as { content: Parts }[])[2]?.content[0];
const googleParts = (body: Record<string, unknown>) =>
  (body['contents'] as { parts: Parts }[])[2]?.parts;
const openaiResult = (body: Record<string, unknown>) => (body['input'] as Parts)[2];
const chatResult = (body: Record<string, unknown>) => (body['messages'] as Parts)[2];

describe('a tool error', () => {
  const denied = { content: '{"status":"denied","reason":"No"}', isError: true };
  const failed = { content: 'It broke', isError: true };

  it('is marked with is_error for Anthropic', async () => {
    expect(anthropicResult(await sentWith('anthropic', denied))).toMatchObject({
      type: 'tool_result',
      tool_use_id: 'call_1',
      is_error: true,
      content: denied.content,
    });
    expect(anthropicResult(await sentWith('anthropic', failed))).toMatchObject({
      is_error: true,
      content: 'It broke',
    });
  });

  it('is under the key error for Google', async () => {
    expect(googleParts(await sentWith('google', denied))).toMatchObject([
      { functionResponse: { response: { error: { status: 'denied', reason: 'No' } } } },
    ]);
    expect(googleParts(await sentWith('google', failed))).toMatchObject([
      { functionResponse: { response: { error: 'It broke' } } },
    ]);
  });

  it('is named in the text for the APIs of OpenAI, which have no field for it', async () => {
    expect(openaiResult(await sentWith('openai', denied))).toMatchObject({
      type: 'function_call_output',
      output: '{"error":{"status":"denied","reason":"No"}}',
    });
    expect(chatResult(await sentWith('chat', failed))).toEqual({
      role: 'tool',
      tool_call_id: 'call_1',
      content: 'Error: It broke',
    });
  });

  it('is not claimed for a result', async () => {
    const result = { content: 'blue' };
    expect(anthropicResult(await sentWith('anthropic', result))).not.toHaveProperty('is_error');
    expect(googleParts(await sentWith('google', result))).toMatchObject([
      { functionResponse: { response: { content: 'blue' } } },
    ]);
    expect(chatResult(await sentWith('chat', result))).toMatchObject({ content: 'blue' });
  });
});

describe('an image in a result', () => {
  const image = { type: 'image', mediaType: 'image/png', data: 'aGk=' } as const;
  const shown: Result = { content: [{ type: 'text', text: 'A chart' }, image] };

  it('is an image block for Anthropic', async () => {
    expect(anthropicResult(await sentWith('anthropic', shown))).toMatchObject({
      type: 'tool_result',
      content: [
        { type: 'text', text: 'A chart' },
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'aGk=' } },
      ],
    });
  });

  it('is an input_image for OpenAI', async () => {
    expect(openaiResult(await sentWith('openai', shown))).toMatchObject({
      type: 'function_call_output',
      output: [
        { type: 'input_text', text: 'A chart' },
        { type: 'input_image', image_url: 'data:image/png;base64,aGk=' },
      ],
    });
  });

  it('is a part of the function response for Gemini 3, and a part beside it before', async () => {
    const inlineData = { mimeType: 'image/png', data: 'aGk=' };
    expect(googleParts(await sentWith('google', shown))).toMatchObject([
      { functionResponse: { response: { content: 'A chart' }, parts: [{ inlineData }] } },
    ]);
    const before = googleParts(await sentWith('google', shown, 'gemini-2.5-flash'));
    expect(before?.slice(0, 2)).toMatchObject([
      { functionResponse: { response: { content: 'A chart' } } },
      { inlineData },
    ]);
  });

  it('has a text beside it, even if the tool returned none', async () => {
    const before = await sentWith('google', { content: [image] }, 'gemini-2.5-flash');
    expect(googleParts(before)?.[0]).toMatchObject({
      functionResponse: { response: { content: '(no output)' } },
    });
  });

  it('is left out for Chat Completions, and the model reads so', async () => {
    expect(chatResult(await sentWith('chat', shown))).toEqual({
      role: 'tool',
      tool_call_id: 'call_1',
      content:
        'A chart\n[The attachment (image/png) was left out: the provider’s API does not accept it here]',
    });
  });
});

describe('a file in a result that a provider cannot read', () => {
  it('is named in the text', async () => {
    const audio = {
      type: 'file',
      mediaType: 'audio/wav',
      data: 'aGk=',
      filename: 'a.wav',
    } as const;
    const note =
      '[The attachment a.wav (audio/wav) was left out: the provider’s API does not accept it here]';
    expect(anthropicResult(await sentWith('anthropic', { content: [audio] }))).toMatchObject({
      content: note,
    });
    expect(openaiResult(await sentWith('openai', { content: [audio] }))).toMatchObject({
      output: note,
    });
    expect(googleParts(await sentWith('google', { content: [audio] }))).toMatchObject([
      { functionResponse: { parts: [{ inlineData: { mimeType: 'audio/wav' } }] } },
    ]);
  });
});
