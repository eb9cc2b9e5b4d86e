import type { JsonSchema, Message } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import { chatRequestBody } from '../../src/chat-completions/request.ts';
import { SafeNames } from '../../src/provider-request.ts';

function bodyFor(
  messages: readonly Message[],
  tools: Parameters<typeof chatRequestBody>[0]['tools'] = [],
) {
  return JSON.parse(chatRequestBody({ model: 'named', messages, tools }, 'gpt-x')) as Record<
    string,
    unknown
  >;
}

describe('the request', () => {
  it('asks for a stream with usage, under the name that the server knows', () => {
    expect(bodyFor([{ role: 'user', content: 'Hi' }])).toEqual({
      model: 'gpt-x',
      messages: [{ role: 'user', content: 'Hi' }],
      stream: true,
      stream_options: { include_usage: true },
    });
  });

  it('describes tools as functions with their schemas', () => {
    const inputSchema = { type: 'object', properties: { a: { type: 'number' } } };
    const body = bodyFor([], [{ name: 'add', description: 'Adds', inputSchema }]);
    expect(body['tools']).toEqual([
      { type: 'function', function: { name: 'add', description: 'Adds', parameters: inputSchema } },
    ]);
  });

  it('leaves out an empty list of tools', () => {
    expect(bodyFor([])).not.toHaveProperty('tools');
  });

  it('sends images as data URLs, at their position in the text', () => {
    const body = bodyFor([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is this?' },
          { type: 'image', mediaType: 'image/png', data: 'iVBORw0KGgo=' },
          { type: 'text', text: 'And why?' },
        ],
      },
    ]);
    expect(body['messages']).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is this?' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
          { type: 'text', text: 'And why?' },
        ],
      },
    ]);
  });

  it('keeps a conversation with tool calls and their results as it is', () => {
    const messages: Message[] = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: '2+2?' },
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: 'call_1', type: 'function', function: { name: 'add', arguments: '{"a":2}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'call_1', content: '4' },
      { role: 'assistant', content: 'Four.' },
    ];
    expect(bodyFor(messages)['messages']).toEqual(messages);
  });

  describe('with reasoning before a tool call', () => {
    const thoughtBy = (model: string, provider = 'chat-completions'): Message => ({
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c', type: 'function', function: { name: 'add', arguments: '{}' } }],
      providerData: { provider, model, parts: [{ type: 'reasoning', text: 'Hm.' }] },
    });
    const result: Message = { role: 'tool', tool_call_id: 'c', content: '4' };
    const hi: Message = { role: 'user', content: 'Hi' };
    const asking = (messages: Message[], omitReasoning = false) => {
      const body = chatRequestBody({ model: 'm', messages, tools: [] }, 'm', { omitReasoning });
      const sent = (JSON.parse(body) as { messages: Record<string, unknown>[] }).messages;
      expect(body).not.toContain('providerData');
      return sent.map((message) => message['reasoning_content']);
    };

    it('sends it back with the tool results', () => {
      const loop = [hi, thoughtBy('m'), result, thoughtBy('m'), result];
      expect(asking(loop)).toEqual([undefined, 'Hm.', undefined, 'Hm.', undefined]);
    });

    it('omits it after the next user message, for another model, and where it is refused', () => {
      const nothing = (messages: Message[], omitReasoning = false) =>
        expect(asking(messages, omitReasoning).filter((each) => each !== undefined)).toEqual([]);
      nothing([hi, thoughtBy('m'), result, hi]);
      nothing([hi, thoughtBy('other'), result]);
      nothing([hi, thoughtBy('m', 'anthropic'), result]);
      nothing([hi, thoughtBy('m'), result], true);
    });
  });

  it('sends only text where the API accepts no images, and says what was left out', () => {
    const parts = [
      { type: 'text' as const, text: 'seen' },
      { type: 'image' as const, mediaType: 'image/png', data: 'AAAA' },
    ];
    const content =
      'seen\n[The attachment (image/png) was left out: the provider’s API does not accept it here]';
    expect(
      bodyFor([
        { role: 'system', content: parts },
        { role: 'assistant', content: parts },
        { role: 'tool', tool_call_id: 'call_1', content: parts },
      ])['messages'],
    ).toEqual([
      { role: 'system', content },
      { role: 'assistant', content },
      { role: 'tool', tool_call_id: 'call_1', content },
    ]);
  });

  it('never sends an empty list of calls or an empty answer', () => {
    const hi: Message = { role: 'user', content: 'Hi' };
    const silent: Message = { role: 'assistant', content: null, tool_calls: [] };
    expect(bodyFor([silent, hi])['messages']).toEqual([hi]);
    expect(bodyFor([{ ...silent, content: 'Yes' }])['messages']).toEqual([
      { role: 'assistant', content: 'Yes' },
    ]);
  });

  it('sends images and files as data, as URLs or as text', () => {
    const [message] = bodyFor([
      {
        role: 'user',
        content: [
          { type: 'image', mediaType: 'image/png', data: 'aGk=' },
          { type: 'image', url: 'https://example.com/a.png' },
          { type: 'image', url: 'data:image/gif;base64,aGk=' },
          { type: 'file', mediaType: 'application/pdf', data: 'aGk=', filename: 'a.pdf' },
          { type: 'file', mediaType: 'text/csv', data: 'YSxi', filename: 'a".csv' },
        ],
      },
    ])['messages'] as { content: unknown }[];
    expect(message?.content).toEqual([
      { type: 'image_url', image_url: { url: 'data:image/png;base64,aGk=' } },
      { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
      { type: 'image_url', image_url: { url: 'data:image/gif;base64,aGk=' } },
      { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,aGk=' } },
      { type: 'text', text: '<file name="a_.csv">\na,b\n</file>' },
    ]);
  });

  it('sends the output schema by the API and in the prompt, strict if possible', () => {
    const loose = { type: 'object', properties: { city: { type: 'string' } } };
    const strict = { ...loose, required: ['city'], additionalProperties: false };
    const body = (outputSchema: JsonSchema, omitResponseFormat = false) =>
      JSON.parse(
        chatRequestBody({ model: 'm', messages: [], tools: [], outputSchema }, 'm', {
          omitResponseFormat,
        }),
      ) as Record<string, unknown>;
    expect(body(strict)['response_format']).toEqual({
      type: 'json_schema',
      json_schema: { name: 'answer', schema: strict, strict: true },
    });
    expect(body(loose)['response_format']).toMatchObject({ json_schema: { strict: false } });
    expect(body(loose)['messages']).toEqual([
      { role: 'system', content: expect.stringContaining(JSON.stringify(loose)) as string },
    ]);
    expect(body(loose, true)).not.toHaveProperty('response_format');
  });

  it('asks for reasoning only if the request does', () => {
    const request = { model: 'm', messages: [], tools: [] };
    expect(JSON.parse(chatRequestBody(request, 'm'))).not.toHaveProperty('reasoning_effort');
    expect(JSON.parse(chatRequestBody({ ...request, reasoning: 'low' }, 'm'))).toMatchObject({
      reasoning_effort: 'low',
    });
  });

  it('calls tools by names that the API accepts', () => {
    const long = `acme.tools/${'x'.repeat(80)}`;
    const names = new SafeNames([long]);
    const tool = { name: long, description: 'Does.', inputSchema: {} };
    const body = JSON.parse(
      chatRequestBody({ model: 'm', messages: [], tools: [tool] }, 'm', { names }),
    ) as { tools: { function: { name: string } }[] };
    const safeName = body.tools[0]?.function.name ?? '';
    expect(safeName).toMatch(/^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/);
    expect(names.original(safeName)).toBe(long);
  });
});
