import type { Message } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import { SafeNames } from '../../src/provider-request.ts';
import { promptOf, type PromptOptions } from '../../src/ai-sdk/prompt.ts';

function prompt(messages: readonly Message[], more: Partial<PromptOptions> = {}) {
  return promptOf(messages, {
    provider: 'acme',
    model: 'm',
    names: new SafeNames([]),
    ids: new SafeNames([]),
    systemAnywhere: false,
    resultMedia: /^image\//,
    withoutMetadata: false,
    ...more,
  });
}

const user = (content: string): Message => ({ role: 'user', content });
const text = (value: string) => ({ type: 'text', text: value });
const call = (id: string, args = '{}', name = 'look') =>
  ({ id, type: 'function', function: { name, arguments: args } }) as const;

describe('a prompt', () => {
  it('starts with system messages, and sends later ones as user messages', () => {
    const messages: Message[] = [
      { role: 'system', content: 'Be brief.' },
      user('Hi'),
      { role: 'system', content: 'Answer now.' },
    ];
    expect(prompt(messages)).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: [text('Hi'), text('<system>\nAnswer now.\n</system>')] },
    ]);
    expect(prompt(messages, { systemAnywhere: true })[2]).toEqual({
      role: 'system',
      content: 'Answer now.',
    });
  });

  it('omits empty messages', () => {
    expect(
      prompt([
        { role: 'system', content: ' ' },
        user(''),
        user('Hi'),
        { role: 'assistant', content: '' },
        { role: 'assistant', content: null, tool_calls: [] },
        { role: 'user', content: [{ type: 'text', text: '' }] },
      ]),
    ).toEqual([{ role: 'user', content: [text('Hi')] }]);
  });

  it('merges consecutive messages of one role', () => {
    expect(
      prompt([
        user('a'),
        user('b'),
        { role: 'assistant', content: 'c' },
        { role: 'assistant', content: 'd' },
      ]),
    ).toEqual([
      { role: 'user', content: [text('a'), text('b')] },
      { role: 'assistant', content: [text('c'), text('d')] },
    ]);
  });

  it('groups all results of a turn, each with the name of its tool', () => {
    const [, , results] = prompt([
      user('Hi'),
      { role: 'assistant', content: null, tool_calls: [call('a'), call('b', '{}', 'pay')] },
      { role: 'tool', tool_call_id: 'a', content: 'blue' },
      { role: 'tool', tool_call_id: 'b', content: '' },
      { role: 'tool', tool_call_id: 'nobody', content: '{"x":1}' },
    ]);
    expect(results).toEqual({
      role: 'tool',
      content: [
        result('a', 'look', 'blue'),
        result('b', 'pay', '(no output)'),
        result('nobody', 'tool', '{"x":1}'),
      ],
    });
  });

  const result = (toolCallId: string, toolName: string, value: string) => ({
    type: 'tool-result',
    toolCallId,
    toolName,
    output: { type: 'text', value },
  });

  it.each([
    ['{"a":1}', { a: 1 }],
    ['not json', {}],
    ['[1]', {}],
    ['null', {}],
    ['', {}],
  ])('calls with an object, whatever was written: %s', (args, input) => {
    const [message] = prompt([{ role: 'assistant', content: null, tool_calls: [call('a', args)] }]);
    expect(message?.content).toMatchObject([{ type: 'tool-call', input }]);
  });

  it('maps ids and names consistently to ones that every provider accepts', () => {
    const [called, answered] = prompt([
      {
        role: 'assistant',
        content: null,
        tool_calls: [call('call~2', '{}', '3d.render'), call('call_2', '{}', '_3d_render')],
      },
      { role: 'tool', tool_call_id: 'call~2', content: 'x' },
    ]);
    expect(called?.content).toMatchObject([
      { toolCallId: 'call_2', toolName: '_3d_render' },
      { toolCallId: 'call_2_2', toolName: '_3d_render_2' },
    ]);
    expect(answered?.content).toMatchObject([{ toolCallId: 'call_2', toolName: '_3d_render' }]);
  });

  it('includes images and files', () => {
    const [message] = prompt([
      {
        role: 'user',
        content: [
          { type: 'image', mediaType: 'image/png', data: 'aGk=' },
          { type: 'image', url: 'https://example.com/cat?size=9' },
          { type: 'file', url: 'https://example.com/a.pdf', filename: 'a.pdf' },
          { type: 'file', mediaType: 'application/json', data: 'e30=' },
        ],
      },
    ]);
    expect(message?.content).toEqual([
      { type: 'file', mediaType: 'image/png', data: { type: 'data', data: 'aGk=' } },
      {
        type: 'file',
        mediaType: 'image/jpeg',
        data: { type: 'url', url: new URL('https://example.com/cat?size=9') },
      },
      {
        type: 'file',
        mediaType: 'application/pdf',
        filename: 'a.pdf',
        data: { type: 'url', url: new URL('https://example.com/a.pdf') },
      },
      text('<file name="file">\n{}\n</file>'),
    ]);
  });

  it('includes an image from a tool', () => {
    const [message] = prompt([
      {
        role: 'tool',
        tool_call_id: 'a',
        content: [
          { type: 'text', text: 'Here' },
          { type: 'image', mediaType: 'image/png', data: 'aGk=' },
        ],
      },
    ]);
    expect(message?.content).toMatchObject([
      { output: { type: 'content', value: [text('Here'), { type: 'file' }] } },
    ]);
  });
});

describe('an answer with provider metadata', () => {
  const marked: Message = {
    role: 'assistant',
    content: 'I look. Done.',
    tool_calls: [call('a'), call('b')],
    providerData: {
      provider: 'acme',
      model: 'm',
      parts: [
        { type: 'reasoning', text: 'Hm', metadata: { acme: { signature: 's' } } },
        { type: 'text', chars: 7 },
        { type: 'call', nth: 1, metadata: { acme: { mark: 1 } } },
        { type: 'call', nth: 1 },
        { type: 'call', nth: 7 },
      ],
    },
  };

  it('keeps its order, and content without metadata follows', () => {
    expect(prompt([marked])[0]?.content).toMatchObject([
      { type: 'reasoning', text: 'Hm', providerOptions: { acme: { signature: 's' } } },
      text('I look.'),
      { type: 'tool-call', toolCallId: 'b', providerOptions: { acme: { mark: 1 } } },
      text(' Done.'),
      { type: 'tool-call', toolCallId: 'a' },
    ]);
  });

  it.each([{ provider: 'other' }, { model: 'other' }, { withoutMetadata: true }])(
    'loses them for %j',
    (more) => {
      expect(prompt([marked], more)[0]?.content).toMatchObject([
        text('I look. Done.'),
        { type: 'tool-call', toolCallId: 'a' },
        { type: 'tool-call', toolCallId: 'b' },
      ]);
    },
  );
});
