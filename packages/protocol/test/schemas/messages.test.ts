import { describe, expect, it } from 'vitest';
import { attachmentOf, messageSchema, textOf } from '../../src/schemas/messages.ts';

const call = { id: 'call_1', type: 'function', function: { name: 'bash', arguments: '{}' } };

describe('message', () => {
  it.each([
    [{ role: 'system', content: 'Be brief.' }],
    [{ role: 'user', content: '' }],
    [{ role: 'user', content: [{ type: 'text', text: 'What is this?' }] }],
    [{ role: 'user', content: [{ type: 'image', mediaType: 'image/png', data: 'iVBOR' }] }],
    [{ role: 'user', content: [{ type: 'image', url: 'https://example.com/a.png?x=1' }] }],
    [{ role: 'user', content: [{ type: 'image', url: 'data:image/png;base64,aGk=' }] }],
    [
      {
        role: 'user',
        content: [{ type: 'file', mediaType: 'text/csv', data: 'YSxi', filename: 'a.csv' }],
      },
    ],
    [
      {
        role: 'assistant',
        content: 'Hm',
        providerData: {
          provider: 'acme',
          model: 'm',
          parts: [{ type: 'reasoning', text: 'x', metadata: { acme: { signature: 's' } } }],
        },
      },
    ],
    [{ role: 'assistant', content: 'Hello' }],
    [{ role: 'assistant', content: null, tool_calls: [call] }],
    [{ role: 'tool', tool_call_id: 'call_1', content: 'done' }],
  ])('accepts %j', (message) => {
    expect(messageSchema.parse(message)).toEqual(message);
  });

  it('defaults the type of a tool call to function', () => {
    const { type: _, ...short } = call;
    expect(messageSchema.parse({ role: 'assistant', content: null, tool_calls: [short] })).toEqual({
      role: 'assistant',
      content: null,
      tool_calls: [call],
    });
  });

  it.each([
    [{ type: 'image', mediaType: 'image/png', data: '<svg>' }],
    [{ type: 'image', mediaType: 'application/pdf', data: 'aGk=' }],
    [{ type: 'image', mediaType: 'image/png', data: 'aGk=', url: 'https://example.com' }],
    [{ type: 'image', mediaType: 'image/png' }],
    [{ type: 'image', mediaType: 'png', data: 'aGk=' }],
    [{ type: 'image', url: 'http://example.com/a.png' }],
    [{ type: 'image', url: 'https://user:pw@example.com/a.png' }],
    [{ type: 'image', url: 'https://' }],
    [{ type: 'image', url: 'data:image/png,plain' }],
    [{ type: 'file', url: 'data:text/html;base64,<b>' }],
    [{ type: 'file', mediaType: 'application/pdf', data: 'aGk=', filename: '' }],
  ])('rejects the part %j', (part) => {
    expect(messageSchema.safeParse({ role: 'user', content: [part] }).success).toBe(false);
  });

  it('may not have an attachment of more than ten megabytes', () => {
    const data = 'a'.repeat(10 * 1024 * 1024 + 1);
    const part = { type: 'file', mediaType: 'application/pdf', data };
    expect(messageSchema.safeParse({ role: 'user', content: [part] }).success).toBe(false);
  });

  it('resolves its attachments', () => {
    expect(attachmentOf({ type: 'image', mediaType: 'image/png', data: 'aGk=' })).toEqual({
      kind: 'data',
      mediaType: 'image/png',
      base64: 'aGk=',
    });
    expect(attachmentOf({ type: 'image', url: 'data:image/gif;base64,aGk=' })).toEqual({
      kind: 'data',
      mediaType: 'image/gif',
      base64: 'aGk=',
    });
    expect(attachmentOf({ type: 'file', url: 'https://example.com/a' })).toEqual({
      kind: 'url',
      mediaType: undefined,
      url: 'https://example.com/a',
    });
  });

  it.each([
    ['an unknown role', { role: 'developer', content: 'x' }],
    ['no role', { content: 'x' }],
    ['no content', { role: 'user' }],
    ['a user message without content', { role: 'user', content: null }],
    ['a content that is a number', { role: 'user', content: 5 }],
    ['a key that is unknown', { role: 'user', content: 'x', name: 'ann' }],
    ['a part of an unknown type', { role: 'user', content: [{ type: 'video', data: '' }] }],
    [
      'a part with a key that is unknown',
      { role: 'user', content: [{ type: 'text', text: '', x: 1 }] },
    ],
    ['an image without a media type', { role: 'user', content: [{ type: 'image', data: '' }] }],
    ['tool calls of a user', { role: 'user', content: 'x', tool_calls: [call] }],
    [
      'a call whose arguments are an object',
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ ...call, function: { name: 'bash', arguments: {} } }],
      },
    ],
    [
      'a call without a name',
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ ...call, function: { name: '', arguments: '{}' } }],
      },
    ],
    ['a result that answers no call', { role: 'tool', content: 'done' }],
    ['a result with an empty call id', { role: 'tool', tool_call_id: '', content: 'done' }],
  ])('is rejected with %s', (_what, message) => {
    expect(messageSchema.safeParse(message).success).toBe(false);
  });
});

describe('textOf', () => {
  it('joins the text parts in order, and ignores images and null', () => {
    expect(textOf('hello')).toBe('hello');
    expect(textOf(null)).toBe('');
    expect(
      textOf([
        { type: 'text', text: 'a' },
        { type: 'image', mediaType: 'image/png', data: 'xyz' },
        { type: 'text', text: 'b' },
      ]),
    ).toBe('ab');
  });
});
