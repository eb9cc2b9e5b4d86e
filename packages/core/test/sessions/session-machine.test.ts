import { type AgentStatus, agentStatuses, type SessionEvent } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import {
  decideSession,
  decideSessionAll,
  inputsOfStatus,
  sessionCreated,
  type SessionInput,
  type SessionInputName,
  sessionInputs,
  sessionTable,
} from '../../src/sessions/session-machine.ts';
import { newSession, type SessionState, statusOf } from '../../src/sessions/state.ts';

const sessionId = 's1';

function after(...inputs: readonly SessionInputName[]): SessionState {
  return inputs.reduce((state, type) => accepted(state, { type, sessionId }).state, newSession);
}

function accepted(
  state: SessionState,
  input: SessionInput,
): { events: readonly SessionEvent[]; state: SessionState } {
  const decision = decideSession(state, input);
  if (decision.kind !== 'accepted') throw new Error(`${input.type} is ${decision.kind}`);
  return decision;
}

function eventsOf(state: SessionState, input: SessionInput): readonly SessionEvent[] {
  return accepted(state, input).events;
}

/** Every state that inputs lead to. */
function reachable(): SessionState[] {
  const found = new Map([[JSON.stringify(newSession), newSession]]);
  for (const state of found.values()) {
    for (const type of sessionInputs) {
      const decision = decideSession(state, { type, sessionId });
      if (decision.kind === 'accepted') found.set(JSON.stringify(decision.state), decision.state);
    }
  }
  return [...found.values()];
}

describe('the table of a session', () => {
  it('is total: every status says what each input makes of it', () => {
    expect(Object.keys(sessionTable).toSorted()).toEqual(agentStatuses.toSorted());
    for (const status of agentStatuses) {
      expect(Object.keys(sessionTable[status]).toSorted()).toEqual(sessionInputs.toSorted());
    }
  });

  it('lists exactly the statuses that each input leads to, in every state that can be reached', () => {
    const seen = new Map<string, Set<AgentStatus>>();
    const states = reachable();
    for (const state of states) {
      for (const type of sessionInputs) {
        const cell = `${statusOf(state)} ${type}`;
        const next = seen.get(cell) ?? new Set();
        seen.set(cell, next);
        const decision = decideSession(state, { type, sessionId });
        if (decision.kind === 'same') next.add(statusOf(state));
        if (decision.kind === 'accepted') next.add(statusOf(decision.state));
      }
    }
    expect(new Set(states.map(statusOf))).toEqual(new Set(agentStatuses));
    for (const status of agentStatuses) {
      for (const type of sessionInputs) {
        const cell = `${status} ${type}`;
        expect([...(seen.get(cell) ?? [])].toSorted(), cell).toEqual(
          sessionTable[status][type].toSorted(),
        );
      }
    }
  });

  it('refuses with a reason, and changes nothing', () => {
    expect(decideSession(newSession, { type: 'pause', sessionId })).toEqual({
      kind: 'refused',
      reason: 'A session that is starting cannot pause',
    });
  });

  it('has only repeats after the release', () => {
    const released = after('release', 'finish');
    for (const type of sessionInputs) {
      const repeats = ['settle', 'release', 'finish'].includes(type);
      expect(decideSession(released, { type, sessionId }).kind, type).toBe(
        repeats ? 'same' : 'refused',
      );
    }
  });
});

describe('the status of a session', () => {
  it('shows its end first, then its connection, then a pause, then its turn', () => {
    const parts = { lifecycle: 'open', turn: 'active', connection: 'reachable' } as const;
    expect(statusOf(parts)).toBe('active');
    expect(statusOf({ ...parts, turn: 'none' })).toBe('idle');
    expect(statusOf({ ...parts, lifecycle: 'pausing' })).toBe('active');
    expect(statusOf({ ...parts, lifecycle: 'paused' })).toBe('paused');
    const unreachable = { ...parts, connection: 'unreachable' } as const;
    for (const lifecycle of ['starting', 'open', 'pausing', 'paused'] as const) {
      expect(statusOf({ ...unreachable, lifecycle })).toBe('offline');
    }
    for (const lifecycle of ['releasing', 'released', 'failed'] as const) {
      expect(statusOf({ ...unreachable, lifecycle })).toBe(lifecycle);
    }
  });

  it('is back after the connection is, whatever was lost', () => {
    for (const inputs of [
      [],
      ['start'],
      ['start', 'work'],
      ['start', 'wait'],
      ['start', 'block'],
      ['start', 'pause'],
    ] as const) {
      const state = after(...inputs);
      expect(statusOf(after(...inputs, 'lose'))).toBe('offline');
      expect(after(...inputs, 'lose', 'reach')).toEqual(state);
    }
  });
});

describe('the events of a session', () => {
  it('begin with its first status, and with the session that it was forked from', () => {
    const first = { type: 'status.changed', status: 'starting' };
    expect(sessionCreated(sessionId)).toEqual([first]);
    expect(sessionCreated(sessionId, 's0')).toEqual([
      { type: 'session.forked', sessionId, parentSessionId: 's0' },
      first,
    ]);
  });

  it('say that it started', () => {
    expect(eventsOf(newSession, { type: 'start', sessionId })).toEqual([
      { type: 'session.started', sessionId },
      { type: 'status.changed', status: 'idle', previousStatus: 'starting' },
    ]);
  });

  it('carry the reason of a status, and that it was inferred', () => {
    const input = {
      type: 'wait',
      sessionId,
      reason: 'approval open',
      fidelity: 'inferred',
    } as const;
    expect(eventsOf(after('start', 'work'), input)).toEqual([
      {
        type: 'status.changed',
        status: 'waiting',
        previousStatus: 'active',
        reason: 'approval open',
        fidelity: 'inferred',
      },
    ]);
  });

  it('have the error of a turn that failed, and the session is idle', () => {
    const error = { error: 'The provider failed', code: 'provider_failed', retryable: true };
    expect(eventsOf(after('start', 'work'), { type: 'settle', sessionId, error })).toEqual([
      { type: 'error', ...error },
      { type: 'status.changed', status: 'idle', previousStatus: 'active' },
    ]);
  });

  it('end with session.released', () => {
    const release = { type: 'release', sessionId } as const;
    const finish = { type: 'finish', sessionId, reason: 'done' } as const;
    expect(decideSessionAll(after('start'), [release, finish])).toMatchObject({
      kind: 'accepted',
      events: [
        { type: 'status.changed', status: 'releasing', previousStatus: 'idle' },
        { type: 'status.changed', status: 'released', previousStatus: 'releasing' },
        { type: 'session.released', sessionId, reason: 'done' },
      ],
    });
  });

  it('do not show what a status hides', () => {
    const paused = after('start', 'pause');
    expect(accepted(paused, { type: 'work', sessionId })).toEqual({
      kind: 'accepted',
      events: [],
      state: { ...paused, turn: 'active' },
    });
  });
});

describe('a pause', () => {
  it('acts at once if nothing is working', () => {
    for (const inputs of [['start'], ['start', 'wait'], ['start', 'block']] as const) {
      expect(statusOf(after(...inputs, 'pause'))).toBe('paused');
    }
  });

  it('waits until the turn stops working', () => {
    const pausing = after('start', 'work', 'pause');
    expect(statusOf(pausing)).toBe('active');
    for (const type of ['hold', 'settle', 'wait', 'block'] as const) {
      const { state, events } = accepted(pausing, { type, sessionId });
      expect(statusOf(state)).toBe('paused');
      expect(events).toEqual([
        { type: 'status.changed', status: 'paused', previousStatus: 'active' },
      ]);
    }
  });

  it('is over after a resumption, which shows what the turn does by then', () => {
    const resumed = { type: 'session.resumed', sessionId };
    const input = { type: 'resume', sessionId } as const;
    expect(eventsOf(after('start', 'work', 'pause'), input)).toEqual([resumed]);
    for (const [type, status] of [
      ['work', 'active'],
      ['wait', 'waiting'],
      ['block', 'blocked'],
    ] as const) {
      expect(eventsOf(after('start', 'pause', type), input)).toEqual([
        resumed,
        { type: 'status.changed', status, previousStatus: 'paused' },
      ]);
    }
    expect(decideSession(after('start'), input)).toEqual({ kind: 'same' });
  });

  it('stays when the program attaches again', () => {
    expect(statusOf(after('start', 'pause', 'lose', 'attach'))).toBe('paused');
  });
});

describe('a new attach', () => {
  it('starts a session, and continues one that was lost or has failed without its turn', () => {
    const input = { type: 'attach', sessionId } as const;
    expect(eventsOf(newSession, input)[0]).toEqual({ type: 'session.started', sessionId });
    for (const inputs of [
      ['start', 'work', 'lose'],
      ['start', 'work', 'fail'],
      ['start', 'work'],
      ['start'],
    ] as const) {
      const { state, events } = accepted(after(...inputs), input);
      expect(events[0]).toEqual({ type: 'session.resumed', sessionId });
      expect(statusOf(state)).toBe('idle');
    }
  });
});

describe('a cancellation', () => {
  it('is a request while there is a turn, and nothing else', () => {
    const input = { type: 'cancel', sessionId } as const;
    const active = after('start', 'work');
    expect(decideSession(active, input)).toEqual({ kind: 'accepted', events: [], state: active });
    expect(decideSession(after('start'), input)).toEqual({ kind: 'same' });
    expect(decideSession(after('start', 'work', 'pause', 'hold'), input).kind).toBe('accepted');
  });
});

describe('a reported status', () => {
  it('leads to that status from every other that is not an end', () => {
    for (const before of [
      newSession,
      after('start'),
      after('start', 'work'),
      after('start', 'block'),
      after('start', 'wait', 'lose'),
      after('lose'),
    ]) {
      for (const reported of agentStatuses) {
        if (reported === 'starting') continue;
        const inputs = inputsOfStatus(before, reported).map((type) => ({ type, sessionId }));
        const decision = decideSessionAll(before, inputs);
        const state = decision.kind === 'accepted' ? decision.state : before;
        expect(decision.kind).not.toBe('refused');
        expect(statusOf(state), reported).toBe(reported);
      }
    }
  });

  it('is none for starting, which is the beginning of a session', () => {
    expect(inputsOfStatus(after('start'), 'starting')).toEqual([]);
  });
});
