import { expect, test } from 'vitest';
import { type ErrorCode, errorTable } from '@relay/protocol';
import { RelayApiError } from '@relay/sdk';

test('the SDK knows of every error whether it is worth another try', () => {
  const told = Object.keys(errorTable).map((code) => {
    const { status } = errorTable[code as ErrorCode];
    return [code, new RelayApiError(code as ErrorCode, 'x', { status }).retryable];
  });
  const table = Object.entries(errorTable).map(([code, { retryable }]) => [code, retryable]);
  expect(told).toEqual(table);
});
