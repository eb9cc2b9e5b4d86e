import { RelayError, type SessionEvent, type StoredSessionEvent } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import { emptySessionFold, foldSession, type SessionFold } from '../../src/sessions/state.ts';

const at = '2026-03-01T10:00:00.000Z';
const starting: SessionEvent = { type: 'status.changed', status: 'starting' };
const idle: SessionEvent = { type: 'status.changed', status: 'idle', previousStatus: 'starting' };

function placed(events: readonly SessionEvent[], from = 1): StoredSessionEvent[] {
  return events.map((event, index) => ({ ...event, seq: from + index, at }));
}

function fold(...events: readonly SessionEvent[]): SessionFold {
  return placed(events).reduce(foldSession, emptySessionFold);
}

describe('the journal of a session', () => {
  it('shows its status, its totals of usage and its end', () => {
    const released = {
      type: 'status.changed',
      status: 'released',
      previousStatus: 'idle',
    } as const;
    expect(
      fold(
        starting,
        idle,
        { type: 'usage.updated', tokens: 10, costUsd: 0.1 },
        { type: 'usage.updated', tokens: 30 },
        { type: 'log', level: 'info', message: 'done' },
        released,
        { type: 'session.released', sessionId: 's1' },
      ),
    ).toEqual({
      seq: 7,
      status: 'released',
      usage: { tokens: 30, costUsd: 0.1 },
      isReleased: true,
    });
  });

  it.each<[string, readonly SessionEvent[]]>([
    ['a first status that names one before it', [idle]],
    [
      'a status that does not follow the one before it',
      [starting, { ...idle, previousStatus: 'active' }],
    ],
    ['a status without the one before it', [starting, { type: 'status.changed', status: 'idle' }]],
    ['the same status again', [starting, { ...starting, previousStatus: 'starting' }]],
    [
      'a release that no status shows',
      [starting, idle, { type: 'session.released', sessionId: 's1' }],
    ],
    [
      'anything after its release',
      [
        starting,
        { type: 'status.changed', status: 'released', previousStatus: 'starting' },
        { type: 'session.released', sessionId: 's1' },
        { type: 'log', level: 'info', message: 'still here' },
      ],
    ],
    [
      'a status after released',
      [
        starting,
        { type: 'status.changed', status: 'released', previousStatus: 'starting' },
        { type: 'status.changed', status: 'idle', previousStatus: 'released' },
      ],
    ],
  ])('is corrupt with %s', (_what, events) => {
    const before = fold(...events.slice(0, -1));
    const [last] = placed(events.slice(-1), events.length);
    if (last === undefined) throw new Error('There is always an event');
    expect(() => foldSession(before, last)).toThrow(RelayError);
    expect(() => foldSession(before, last)).toThrow(/contradicts itself/);
  });

  it('is corrupt with a gap or a repeat', () => {
    const [first, , third] = placed([starting, idle, { type: 'message.sent', messageId: 'm1' }]);
    if (first === undefined || third === undefined) throw new Error('There are three events');
    const before = foldSession(emptySessionFold, first);
    expect(() => foldSession(before, third)).toThrow(/contradicts itself/);
    expect(() => foldSession(before, first)).toThrow(/contradicts itself/);
  });
});
