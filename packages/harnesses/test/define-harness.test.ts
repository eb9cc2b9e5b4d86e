import type { HarnessSession } from '@relay/core';
import { type AgentSessionCapabilities, RelayError } from '@relay/protocol';
import { describe, expect, test } from 'vitest';
import { verifies } from '../../../test/conformance/verifies.ts';
import { checkSession, defineHarness } from '../src/index.ts';

const operations = ['release', 'pause', 'resume', 'fork', 'snapshot'] as const;
type Operation = (typeof operations)[number];

function sessionWith(
  declared: readonly Operation[],
  implemented: readonly Operation[],
  more: Partial<AgentSessionCapabilities> = {},
): HarnessSession {
  const methods = Object.fromEntries(implemented.map((each) => [each, () => Promise.resolve()]));
  const lifecycle = Object.fromEntries(declared.map((each) => [each, true]));
  return {
    identity: { handle: 'ada', name: 'Ada', kind: 'program' },
    capabilities: {
      messaging: { receive: true },
      delivery: { modes: ['immediate'] },
      events: { emits: ['status.changed'] },
      lifecycle: { release: false, ...lifecycle },
      ...more,
    },
    receiveMessage: () => Promise.resolve({ status: 'consumed' }),
    onEvent: () => () => undefined,
    ...methods,
  };
}

function refusalOf(session: HarnessSession): RelayError {
  try {
    checkSession('mine', 'ada', session);
  } catch (error) {
    if (error instanceof RelayError) return error;
  }
  throw new Error('The session was not refused');
}

describe('a session of a harness', () => {
  test.each(operations)('may declare and implement %s', (operation) => {
    verifies('004:shape:release-false-omits-method');
    expect(() => checkSession('mine', 'ada', sessionWith([operation], [operation]))).not.toThrow();
    expect(() => checkSession('mine', 'ada', sessionWith([], []))).not.toThrow();
  });

  test.each(operations)('is refused if it declares %s and does not implement it', (operation) => {
    verifies('004:shape:declare-implemented-only', '004:shape:release-needs-method');
    const { code, message, capability } = refusalOf(sessionWith([operation], []));
    expect(code).toBe('capability_missing');
    expect(message).toContain(`declares lifecycle.${operation} and has no ${operation}()`);
    expect(capability).toEqual({ path: `lifecycle.${operation}`, asked: true, offered: false });
  });

  test.each(operations)('is refused if it implements %s and does not declare it', (operation) => {
    const { code, message, capability } = refusalOf(sessionWith([], [operation]));
    expect(code).toBe('capability_missing');
    expect(message).toContain(`has ${operation}() and does not declare lifecycle.${operation}`);
    expect(capability).toEqual({ path: `lifecycle.${operation}`, asked: false, offered: true });
  });

  test.each([
    ['capabilities.delivery.queue', sessionWith([], [], { delivery: { modes: ['manual'] } })],
    [
      'identity.handle',
      { ...sessionWith([], []), identity: { handle: 'bob', name: 'B', kind: 'agent' } },
    ],
    [
      'identity.status',
      {
        ...sessionWith([], []),
        identity: { handle: 'ada', name: 'A', kind: 'agent', status: 'idle' },
      },
    ],
    ['receiveMessage', { ...sessionWith([], []), receiveMessage: undefined }],
    ['onEvent', { ...sessionWith([], []), onEvent: 'later' }],
    ['', undefined],
  ])('is refused with the path %j of what is invalid', (path, session) => {
    const { code, details } = refusalOf(session as HarnessSession);
    expect(code).toBe('harness_failed');
    expect(details?.map((issue) => issue.path)).toContain(path);
  });
});

describe('defineHarness', () => {
  const create = () => Promise.resolve(sessionWith([], []));

  test('returns the harness', () => {
    const harness = { name: 'mine', create };
    expect(defineHarness(harness)).toBe(harness);
  });

  test.each([
    [{ name: '', create }, /^name: Must be/],
    [{ name: 'Mine', create }, /^name: Must be/],
    [{ name: 'native', create }, /^name: Every server has a harness native/],
    [{ name: 'mine' }, /^create: Must be a function/],
    [{ name: 'mine', create, attach: true }, /^attach: Must be a function/],
    [{ name: 'mine', create, safeStates: ['offline'] }, /^safeStates: Must be a list/],
    [{ name: 'mine', create, safeStates: [] }, /^safeStates: Must be a list/],
  ])('throws what is wrong with %j', (harness, message) => {
    expect(() => defineHarness(harness as Parameters<typeof defineHarness>[0])).toThrow(message);
  });
});
