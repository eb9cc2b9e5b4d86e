import type { StoredEvent } from '@relay/protocol';
import { expect } from 'vitest';

const settling = new Set(['tool.completed', 'tool.failed', 'tool.denied']);

/** What must be true of every journal of a run that is over, whatever happened to it. */
export function expectSoundJournal(events: readonly StoredEvent[]): void {
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
  expect(events.filter(({ type }) => type === 'run.ended')).toHaveLength(1);
  expect(events.at(-1)?.type).toBe('run.ended');
  expectEachCallSettledOnce(events);
  expectNoStartBeforeDecision(events);
}

function expectEachCallSettledOnce(events: readonly StoredEvent[]): void {
  const settled = new Map<string, number>();
  for (const event of events) {
    if (event.type === 'tool.called') settled.set(event.toolCallId, 0);
    if (settling.has(event.type) && 'toolCallId' in event) {
      settled.set(event.toolCallId, (settled.get(event.toolCallId) ?? Number.NaN) + 1);
    }
  }
  expect([...settled.values()].filter((times) => times !== 1)).toEqual([]);
}

/** A call that was asked about starts only after somebody approved it (E7). */
function expectNoStartBeforeDecision(events: readonly StoredEvent[]): void {
  const asked = new Set<string>();
  for (const event of events) {
    if (event.type === 'relay.raised') asked.add(event.toolCallId);
    if (event.type === 'relay.decided' && event.approved) asked.delete(event.toolCallId);
    if (event.type === 'tool.started') expect(asked).not.toContain(event.toolCallId);
  }
}
