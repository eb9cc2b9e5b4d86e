import { describe, expect, test } from 'vitest';
import { type MessageInput, RelayError, type RelayResponse } from '../src/index.ts';
import { readMessages, readResponse } from '../src/validation.ts';

function errorOf(messages: unknown): RelayError {
  try {
    readMessages(messages as MessageInput[]);
  } catch (error) {
    if (error instanceof RelayError) return error;
    throw error;
  }
  throw new Error('The messages were accepted');
}

describe('readMessages', () => {
  test('accepts every role, also as a plain string', () => {
    const role: string = 'user';
    const given = [
      { role: 'system', content: 'Be brief' },
      { role, content: 'Hello' },
      { role: 'assistant', content: 'Hi' },
    ];
    expect(readMessages(given)).toEqual(given);
  });

  test('accepts images, earlier calls and their results', () => {
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

  test('copies the list', () => {
    const given = [{ role: 'user', content: 'Hello' }];
    const read = readMessages(given);
    given[0] = { role: 'user', content: 'Changed' };
    expect(read).toEqual([{ role: 'user', content: 'Hello' }]);
  });

  test.each([[[]], [undefined], ['Hello'], [{ role: 'user', content: 'Hello' }]])(
    'rejects %j, which is not a list of messages',
    (given) => {
      expect(errorOf(given)).toMatchObject({
        code: 'invalid_request',
        details: [{ path: 'messages', message: 'At least one message is required' }],
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
  ])('rejects %j with the path of the field', (given, path) => {
    const error = errorOf(given);
    expect(error.code).toBe('invalid_request');
    expect(error.details?.[0]?.path).toMatch(new RegExp(`^${path.replaceAll(/[[\].]/g, '\\$&')}`));
    expect(error.message).toContain(path);
  });
});

describe('readResponse', () => {
  test.each<[RelayResponse, object]>([
    [{ outcome: 'rerun' }, { outcome: 'rerun', always: false, reason: null }],
    [
      { outcome: 'completed', output: { paid: true } },
      { outcome: 'completed', output: { paid: true }, always: false, reason: null },
    ],
    [
      { outcome: 'failed', reason: 'No' },
      { outcome: 'failed', always: false, reason: 'No' },
    ],
  ])('accepts the answer %j to an unknown outcome', (response, read) => {
    expect(readResponse(response, 'outcome')).toEqual(read);
  });

  test.each<[RelayResponse, object]>([
    [{ approved: true }, { approved: true, always: false, reason: null }],
    [
      { approved: true, always: true },
      { approved: true, always: true, reason: null },
    ],
    [
      { approved: true, always: false },
      { approved: true, always: false, reason: null },
    ],
    [{ approved: false }, { approved: false, always: false, reason: null }],
    [
      { approved: false, reason: 'No' },
      { approved: false, always: false, reason: 'No' },
    ],
    [
      { approved: true, reason: undefined },
      { approved: true, always: false, reason: null },
    ],
    [
      { approved: false, always: undefined },
      { approved: false, always: false, reason: null },
    ],
  ])('accepts %j', (response, read) => {
    expect(readResponse(response)).toEqual(read);
  });

  test.each([
    [undefined, 'approved'],
    [null, 'approved'],
    [{}, 'approved'],
    [true, 'approved'],
    ['yes', 'approved'],
    [{ approved: 'true' }, 'approved'],
    [{ approved: 1 }, 'approved'],
    [{ approved: null, reason: 'x' }, 'approved'],
    [{ approved: true, always: 'yes' }, 'always'],
    [{ approved: false, always: true }, 'always'],
    [{ approved: false, reason: 7 }, 'reason'],
    [{ approved: true, input: { command: 'edited' } }, 'input'],
    [{ approved: true, output: 'x' }, 'output'],
    [{ outcome: 'maybe' }, 'outcome'],
    [{ outcome: 'rerun', approved: true }, 'outcome'],
    [{ outcome: 'rerun', always: true }, 'always'],
  ])('rejects %j', (response, path) => {
    const read = () => readResponse(response as unknown as RelayResponse);
    expect(read).toThrow(RelayError);
    expect(read).toThrow(
      expect.objectContaining({
        code: 'invalid_request',
        details: [expect.objectContaining({ path })],
      }),
    );
  });
});
