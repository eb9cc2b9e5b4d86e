import type { Message } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import { chatRequestBody } from './chat-request.ts';

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

  it('sends images as data URLs, in their place among the text', () => {
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

  it('sends text alone where the API takes no images', () => {
    const parts = [
      { type: 'text' as const, text: 'seen' },
      { type: 'image' as const, mediaType: 'image/png', data: 'AAAA' },
    ];
    expect(
      bodyFor([
        { role: 'system', content: parts },
        { role: 'assistant', content: parts },
        { role: 'tool', tool_call_id: 'call_1', content: parts },
      ])['messages'],
    ).toEqual([
      { role: 'system', content: 'seen' },
      { role: 'assistant', content: 'seen' },
      { role: 'tool', tool_call_id: 'call_1', content: 'seen' },
    ]);
  });

  it('never sends an empty list of calls, nor an answer that is null without calls', () => {
    expect(bodyFor([{ role: 'assistant', content: null, tool_calls: [] }])['messages']).toEqual([
      { role: 'assistant', content: '' },
    ]);
  });
});
