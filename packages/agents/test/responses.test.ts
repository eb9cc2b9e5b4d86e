import { describe, expect, test } from 'vitest';
import { RelayError, type RelayResponse } from '../src/index.ts';
import { readResponse } from '../src/responses.ts';

describe('an answer', () => {
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
  ])('can be %j', (response, read) => {
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
  ])('cannot be %j: nothing but true approves', (response, path) => {
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
