/** 004: the status of a session, as the state machine reports it. */
import { decideSession, newSession, sessionInputs, type SessionState, statusOf } from '@relay/core';
import { agentStatuses } from '@relay/protocol';
import { describe, expect, test } from 'vitest';
import { verifies } from './verifies.ts';

describe('the status of a session', () => {
  test('is reported by an event whenever it changes, with the status before it', () => {
    verifies('004:status:by-events', '004:event:previous-status');
    const found = new Map<string, SessionState>([[JSON.stringify(newSession), newSession]]);
    const reported = new Set<string>([statusOf(newSession)]);
    for (const before of found.values()) {
      for (const type of sessionInputs) {
        const decision = decideSession(before, { type, sessionId: 's1' });
        if (decision.kind !== 'accepted') continue;
        const [previousStatus, status] = [statusOf(before), statusOf(decision.state)];
        const changes = decision.events.filter((event) => event.type === 'status.changed');
        expect(changes).toEqual(
          status === previousStatus ? [] : [{ type: 'status.changed', status, previousStatus }],
        );
        for (const change of changes) reported.add(change.status);
        found.set(JSON.stringify(decision.state), decision.state);
      }
    }
    expect(reported).toEqual(new Set(agentStatuses));
  });
});
