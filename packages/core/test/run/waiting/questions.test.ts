import type { EventOf, RunEvent } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import { eventsOf, fold, runCreated, runStarted } from '../../support/agent-events.ts';
import { isWaitingForAnswer } from '../../../src/run/waiting/questions.ts';
import { initialState, type RunState } from '../../../src/run/state/state.ts';

const root = eventsOf({ agentId: 'root' });
const sub = eventsOf({ agentId: 'sub', parentId: 'root' });

const begun = fold(initialState, runCreated(), runStarted, root.started);
const called = fold(begun, root.turn, root.called('c1'), root.called('c2'), root.completed);

/** The first question that a call asks. */
function question(requested: RunEvent): RunEvent {
  const asked = { nth: 1, prompt: 'Which size?', schema: {} };
  return { ...(requested as EventOf<'approval.requested'>), kind: 'question', question: asked };
}

const asks = (toolCallId: string) => question(root.requested(toolCallId));
const held = (state: RunState) => isWaitingForAnswer(state, () => false);

describe('a run that waits for an answer', () => {
  it('when each of its tools has asked something', () => {
    const both = fold(called, root.start('c1'), asks('c1'), root.start('c2'));
    expect(held(both)).toBe(false);
    expect(held(fold(both, asks('c2')))).toBe(true);
    expect(held(fold(both, root.done('c2')))).toBe(true);
  });

  it('also where a sibling waits for consent or a client', () => {
    const asking = fold(called, root.start('c1'), asks('c1'));
    expect(held(asking)).toBe(false);
    expect(held(fold(asking, root.requested('c2')))).toBe(true);
    expect(held(fold(asking, root.start('c2', { via: 'client' })))).toBe(true);
  });

  it('not while another agent is at work', () => {
    const asking = fold(called, root.start('c1'), asks('c1'), root.start('c2', { via: 'agent' }));
    const spawned = fold(asking, sub.spawnedBy('c2'));
    expect(held(spawned)).toBe(false);
    const working = fold(spawned, sub.turn, sub.called('s1'), sub.completed, sub.start('s1'));
    expect(held(working)).toBe(false);
    expect(held(fold(working, question(sub.requested('s1'))))).toBe(true);
  });

  it('not for idempotent tools: they are suspended when they ask', () => {
    const asking = fold(called, root.start('c1'), asks('c1'), root.requested('c2'));
    expect(isWaitingForAnswer(asking, () => true)).toBe(false);
  });

  it('not before it has begun, between turns, or without a question', () => {
    for (const state of [initialState, begun, called, fold(called, root.requested('c1'))]) {
      expect(held(state)).toBe(false);
    }
    expect(held(fold(called, root.requested('c1'), root.requested('c2')))).toBe(false);
  });
});
