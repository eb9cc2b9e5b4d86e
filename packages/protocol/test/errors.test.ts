import { describe, expect, it } from 'vitest';
import { type ErrorCode, errorTable, RelayError } from '../src/errors.ts';

const rows = Object.entries(errorTable);
const codes = Object.keys(errorTable) as ErrorCode[];

describe('error table', () => {
  it.each(rows)('writes %s in snake case, with an HTTP error status', (code, kind) => {
    expect(code).toMatch(/^[a-z]+(_[a-z]+)*$/);
    expect(Number.isInteger(kind.status)).toBe(true);
    expect(kind.status).toBeGreaterThanOrEqual(400);
    expect(kind.status).toBeLessThan(600);
  });

  it.each(rows)('gives %s a unique title on one line', (code, { title }) => {
    expect(title).toMatch(/^[A-Z][^\n]{4,79}[^.\s]$/);
    expect(rows.filter(([, kind]) => kind.title === title).map(([name]) => name)).toEqual([code]);
  });

  it('marks as retryable only errors that are not caused by the request', () => {
    const retryable = rows.filter(([, kind]) => kind.retryable).map(([, kind]) => kind.status);
    expect(retryable.length).toBeGreaterThan(0);
    for (const status of retryable) expect([408, 429, 502, 503]).toContain(status);
  });

  it.each(['limit_reached', 'handoff_refused', 'guardrail_tripped', 'context_exceeded'] as const)(
    'marks %s as not retryable',
    (code) => {
      expect(errorTable[code].retryable).toBe(false);
    },
  );

  it.each([
    ['invalid_json', 400],
    ['invalid_request', 400],
    ['unknown_model', 400],
    ['unauthorized', 401],
    ['approve_scope_required', 403],
    ['session_not_found', 404],
    ['relay_not_found', 404],
    ['approval_conflict', 409],
    ['payload_too_large', 413],
    ['provider_failed', 502],
    ['unknown_agent', 400],
    ['limit_reached', 409],
    ['handoff_refused', 409],
    ['guardrail_tripped', 422],
    ['context_exceeded', 502],
    ['capability_missing', 409],
    ['workspace_missing', 409],
    ['not_a_boundary', 409],
    ['action_denied', 403],
    ['inbox_full', 429],
    ['event_undeclared', 422],
  ] as const)('answers %s with %i, as the documented surfaces do', (code, status) => {
    expect(new RelayError(code, 'x').status).toBe(status);
  });
});

describe('RelayError', () => {
  it.each(codes)('reads the status and the retryability of %s from the table', (code) => {
    const error = new RelayError(code, 'Something is wrong');
    expect({ status: error.status, retryable: error.retryable }).toEqual({
      status: errorTable[code].status,
      retryable: errorTable[code].retryable,
    });
  });

  it('has a body with the message and the code only', () => {
    const cause = new Error('password=hunter2');
    const body = new RelayError('storage_failed', 'The store is not responding', {
      cause,
    }).toBody();
    expect(body).toStrictEqual({ error: 'The store is not responding', code: 'storage_failed' });
    expect(JSON.stringify(body)).not.toContain('hunter2');
  });

  it('includes the details in its body', () => {
    const details = [{ path: 'messages.0.role', message: 'Unknown role' }];
    const body = new RelayError('invalid_request', 'The body is malformed', { details }).toBody();
    expect(body).toStrictEqual({
      error: 'The body is malformed',
      code: 'invalid_request',
      details: [{ path: 'messages.0.role', message: 'Unknown role' }],
    });
  });

  it('has the missing capability as the details of its body', () => {
    const capability = { path: 'lifecycle.pause', asked: true, offered: false } as const;
    const error = new RelayError('capability_missing', 'Cannot be paused', { capability });
    expect(error.toBody()).toStrictEqual({
      error: 'Cannot be paused',
      code: 'capability_missing',
      details: capability,
    });
  });

  it('is an Error with a name, a message and its cause', () => {
    const cause = new Error('below');
    const error = new RelayError('internal', 'Above', { cause });
    expect(error).toBeInstanceOf(Error);
    expect(error.name).toBe('RelayError');
    expect(error.message).toBe('Above');
    expect(error.cause).toBe(cause);
  });

  it('has no cause by default', () => {
    expect(Object.hasOwn(new RelayError('internal', 'Above'), 'cause')).toBe(false);
  });
});
