import { expect, test } from 'vitest';
import { RelayApiError } from '@relay/sdk';
import { CliError, failureOf, usageError } from '../src/errors.ts';

test.each([
  [401, 'unauthorized', 4],
  [403, 'scope_required', 4],
  [404, 'not_found', 3],
  [410, 'result_gone', 3],
  [409, 'approval_conflict', 5],
  [422, 'idempotency_mismatch', 5],
  [400, 'invalid_request', 2],
  [413, 'payload_too_large', 2],
  [500, 'internal', 1],
  [503, 'storage_failed', 1],
] as const)('status %i %s exits with %i', (status, code, exit) => {
  expect(failureOf(new RelayApiError(code, 'No', { status }))).toMatchObject({
    error: 'No',
    code,
    exit,
  });
});

test('several invalid fields are all listed, and one by the message of the server', () => {
  const details = [
    { path: 'name', message: 'Too long' },
    { path: 'scopes', message: 'Required' },
  ];
  const errorWith = (issues: typeof details) =>
    new RelayApiError('invalid_request', 'The name is too long', { status: 400, details: issues });
  expect(failureOf(errorWith(details)).error).toBe('name: Too long; scopes: Required');
  expect(failureOf(errorWith(details.slice(0, 1))).error).toBe('The name is too long');
});

test('an issue with the model suggests --model', () => {
  const details = [{ path: 'model', message: 'Required' }];
  const error = new RelayApiError('invalid_request', 'model is required', { status: 400, details });
  expect(failureOf(error).hint).toContain('--model');
  const other = [{ path: 'message', message: 'Required' }];
  const wrong = new RelayApiError('invalid_request', 'No', { status: 400, details: other });
  expect(failureOf(wrong).hint).toBeUndefined();
});

test('an unreachable server is reported with the reason and a hint', () => {
  const url = 'http://x:4000/v1/runs?limit=20';
  const failedRequest = { url, reason: 'ECONNREFUSED', timedOut: false };
  const error = new RelayApiError('network_error', 'GET http://x:4000 failed', { failedRequest });
  expect(failureOf(error)).toMatchObject({
    error: 'No response from http://x:4000: ECONNREFUSED',
    exit: 6,
    hint: expect.stringContaining('relay serve'),
  });
  const late = new RelayApiError('network_error', 'GET http://x:4000 failed: timeout', {});
  expect(failureOf(late).error).toBe(late.message);
});

test('an error of the CLI keeps its message, code and hint', () => {
  expect(failureOf(usageError('No', 'do'))).toEqual({
    error: 'No',
    code: 'usage',
    exit: 2,
    hint: 'do',
  });
  expect(failureOf(new CliError('x', 'No'))).toEqual({ error: 'No', code: 'x', exit: 1 });
});

test('any other error is a failure with its own code', () => {
  const missing = Object.assign(new Error('no such file'), { code: 'ENOENT' });
  expect(failureOf(missing)).toMatchObject({ code: 'enoent', exit: 1 });
  expect(failureOf('odd')).toEqual({ error: 'odd', code: 'internal', exit: 1 });
});
