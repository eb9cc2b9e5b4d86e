import { describe, expect, test } from 'vitest';
import { RelayError } from '../src/index.ts';
import { type MessageInput, readMessages } from '../src/messages.ts';

function errorOf(messages: unknown): RelayError {
  try {
    readMessages(messages as MessageInput[]);
  } catch (error) {
    if (error instanceof RelayError) return error;
    throw error;
  }
  throw new Error('They were accepted');
}

describe('messages', () => {
  test('of every role are taken, with a role that TypeScript has widened', () => {
    const role: string = 'user';
    const given = [
      { role: 'system', content: 'Be brief' },
      { role, content: 'Hello' },
      { role: 'assistant', content: 'Hi' },
    ];
    expect(readMessages(given)).toEqual(given);
  });

  test('may hold images, earlier calls and their results', () => {
    const given: MessageInput[] = [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Look' },
          { type: 'image', mediaType: 'image/png', data: 'AAAA' },
        ],
      },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'bash', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'done' },
    ];
    expect(readMessages(given)).toEqual(given);
  });

  test('are copied: changing them later changes nothing', () => {
    const given = [{ role: 'user', content: 'Hello' }];
    const read = readMessages(given);
    given[0] = { role: 'user', content: 'Changed' };
    expect(read).toEqual([{ role: 'user', content: 'Hello' }]);
  });

  test.each([[[]], [undefined], ['Hello'], [{ role: 'user', content: 'Hello' }]])(
    'must be a list with something in it, not %j',
    (given) => {
      expect(errorOf(given)).toMatchObject({
        code: 'invalid_request',
        details: [{ path: 'messages', message: 'There must be at least one message' }],
      });
    },
  );

  test.each([
    [
      [
        { role: 'user', content: 'ok' },
        { role: 'robot', content: 'x' },
      ],
      'messages[1].role',
    ],
    [[{ role: 'user' }], 'messages[0].content'],
    [[{ role: 'user', content: 'x', extra: 1 }], 'messages[0].extra'],
    [[{ role: 'tool', content: 'x' }], 'messages[0].tool_call_id'],
    [[{ role: 'user', content: [{ type: 'sound' }] }], 'messages[0].content'],
    [['Hello'], 'messages[0]'],
  ])('%j are refused with the place of the mistake', (given, path) => {
    const error = errorOf(given);
    expect(error.code).toBe('invalid_request');
    expect(error.details?.[0]?.path).toMatch(new RegExp(`^${path.replaceAll(/[[\].]/g, '\\$&')}`));
    expect(error.message).toContain(path);
  });
});
