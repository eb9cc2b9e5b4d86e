import type { RunEvent, StoredEvent } from '@relay/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { eventsOf } from '../support/agent-events.ts';
import { evolve, evolveAll, initialState } from '../../src/run/state/state.ts';
import { emptyTranscript, foldEvents, foldTranscript } from '../../src/run/context/transcript.ts';

const agentId = 'root';

function say(text: string, of: { agentId: string; parentId?: string } = { agentId }): RunEvent {
  return { type: 'text.appended', ...of, textId: 't', text };
}

const child = { agentId: 'child', parentId: agentId };

/** A turn in which two agents speak in turns, with something else in between now and then. */
const middle = fc.array(
  fc.oneof(
    fc.string({ maxLength: 3 }).map((text) => say(text)),
    fc.string({ maxLength: 3 }).map((text) => say(text)),
    fc.string({ maxLength: 3 }).map((text) => say(text, child)),
    fc.constant<RunEvent>({ type: 'reasoning.appended', agentId, reasoningId: 'r', text: 'hm' }),
  ),
  { maxLength: 30 },
);

const opening: readonly RunEvent[] = [
  { type: 'run.started', progress: { partialOutput: '', toolsInvoked: [] } },
  { type: 'agent.started', agentId, name: 'assistant', model: 'm' },
  { type: 'turn.started', agentId, turn: 1, textId: 't', reasoningId: 'r' },
  eventsOf({ agentId }).called('c1'),
  eventsOf({ agentId }).start('c1'),
  eventsOf(child).spawnedBy('c1'),
  { type: 'turn.started', ...child, turn: 1, textId: 't', reasoningId: 'r' },
];

function placed(events: readonly RunEvent[]): StoredEvent[] {
  return events.map((event, index) => ({ ...event, seq: index + 1, at: '2026-01-01T00:00:00Z' }));
}

describe('the pieces of a text', () => {
  it('make the same state joined as one by one', () => {
    fc.assert(
      fc.property(middle, (said) => {
        const events = placed([...opening, ...said]);
        expect(evolveAll(initialState, events)).toEqual(events.reduce(evolve, initialState));
      }),
    );
  });

  it('make the same transcript joined as one by one', () => {
    const own = (event: RunEvent) => !('parentId' in event);
    const { completed, done } = eventsOf({ agentId });
    fc.assert(
      fc.property(middle, fc.boolean(), (said, ends) => {
        const events = [...opening, ...said, ...(ends ? [completed, done('c1')] : [])].filter(own);
        const oneByOne = events.reduce(foldTranscript, emptyTranscript);
        expect(foldEvents(emptyTranscript, events)).toEqual(oneByOne);
        expect(oneByOne.messages).toHaveLength(ends ? 2 : 0);
      }),
    );
  });

  it('are refused at the first missing event', () => {
    const events = placed([...opening, say('a'), say('b'), say('c')]);
    const gap = events.filter(({ seq }) => seq !== opening.length + 2);
    expect(() => evolveAll(initialState, gap)).toThrow(
      expect.objectContaining({ code: 'journal_corrupt' }),
    );
  });

  it('do not change the state before when one of them is refused', () => {
    const before = placed(opening).reduce(evolve, initialState);
    const ghost = { ...say('boo', { agentId: 'ghost' }), seq: opening.length + 1, at: '' };
    const copy = structuredClone(before);
    expect(() => evolveAll(before, [ghost])).toThrow('contradicts');
    expect(before).toEqual(copy);
  });
});
