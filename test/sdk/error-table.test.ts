import { expect, test } from 'vitest';
import { type ErrorCode, errorTable } from '@relay/protocol';
import { RelayApiError } from '@relay/sdk';

test('the SDK agrees with the error table on which errors are retryable', () => {
  const actual = Object.keys(errorTable).map((code) => {
    const { status } = errorTable[code as ErrorCode];
    return [code, new RelayApiError(code as ErrorCode, 'x', { status }).retryable];
  });
  const table = Object.entries(errorTable).map(([code, { retryable }]) => [code, retryable]);
  expect(actual).toEqual(table);
});
